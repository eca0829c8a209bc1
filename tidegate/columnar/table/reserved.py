"""Arrays reserved for the largest possible state. Pages that are touched take memory; with a budget, those beyond it are in a file.

    slots  0 ............ budget / bytes of a slot ........................ capacity
           anonymous memory │ a file of the attempt, mapped: the kernel writes it back, and takes its memory when it needs some

Laws: an array never moves, so that another thread may read it meanwhile. A place of the file has room on the disk before it is touched
(``ensure``), since the kernel would end the process where there is none. The file has no name: it goes with the process.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import tempfile
import weakref
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tidegate.columnar.numpy_column import NumpyColumn, NumpyType
from tidegate.model.errors import StorageError
from tidegate.model.storage_errors import kind_of

STEP_BYTES = 16 << 20
"""The step in which disk space is allocated: a call for each batch would cost more than the batch."""
_FIXED = 0x10
"""The value of ``MAP_FIXED`` on Linux and macOS, which Python's ``mmap`` lacks."""
_FAILED = ctypes.c_void_p(-1).value

_map = ctypes.CDLL(None, use_errno=True).mmap
_map.restype = ctypes.c_void_p
_map.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]


class InMemory:
    """Reserves arrays in memory without a budget."""

    @property
    def bytes_on_disk(self) -> int:
        """Returns 0: there are no files."""
        return 0

    def zeros(self, items: int, kind: NumpyType, per_slot: int = 1) -> NumpyColumn:
        """Reserves an array of zeros. ``per_slot``: how many of its items belong to one slot."""
        return np.zeros(items, kind)

    def ensure(self, array: NumpyColumn, items: int) -> None:
        """Makes the first ``items`` of an array usable. Raises ``StorageError`` when there is no space for them."""

    def moved(self, array: NumpyColumn, used: int, items: int, per_slot: int) -> NumpyColumn:
        """Returns a larger array with the first ``used`` items of one that is too short, which stays unchanged. Raises ``StorageError``."""
        larger = np.empty(items, array.dtype)
        larger[:used] = array[:used]
        return larger


@dataclass(slots=True)
class _Filed:
    """The part of an array that is in a file."""

    descriptor: int
    begin: int
    """The byte of the array where the file begins."""
    size: int
    """The bytes of the file, most of which are not allocated on the disk yet."""
    close: Callable[[], object]
    allocated: int = 0


class InMemoryAndFile:
    """Reserves arrays in memory up to a budget, and in files beyond it. ``slots``: how many are in memory. ``directory``: of the attempt; empty: the
    system's for temporary files."""

    def __init__(self, operator: str, slots: int, directory: str) -> None:
        self._operator = operator
        self._slots = slots
        self._directory = directory or tempfile.gettempdir()
        self._filed: dict[int, _Filed] = {}
        """By address of the array."""

    @property
    def bytes_on_disk(self) -> int:
        """Returns the bytes that the files take on the disk, of all arrays."""
        return sum(filed.allocated for filed in self._filed.values())

    def zeros(self, items: int, kind: NumpyType, per_slot: int = 1) -> NumpyColumn:
        """Reserves an array of zeros, with its end in a file. Raises ``StorageError``."""
        item_bytes = np.dtype(kind).itemsize
        size = _pages(max(1, items * item_bytes))
        reserved = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0))
        content = np.frombuffer(reserved, np.uint8)
        begin = _pages(self._slots * per_slot * item_bytes)
        if begin < size:
            address = content.ctypes.data
            self._filed[address] = self._backing_file(address, begin, size - begin)
        return content[: items * item_bytes].view(kind)

    def ensure(self, array: NumpyColumn, items: int) -> None:
        """Makes the first ``items`` of an array usable: allocates disk space for those in the file, in steps of ``STEP_BYTES``. Raises ``StorageError``
        when there is none, and then nothing has changed."""
        filed = self._filed.get(array.ctypes.data)
        if filed is None:
            return
        needed = items * array.itemsize - filed.begin
        if needed <= filed.allocated:
            return
        until = min(filed.size, -(-needed // STEP_BYTES) * STEP_BYTES)
        try:
            os.posix_fallocate(filed.descriptor, filed.allocated, until - filed.allocated)
        except OSError as error:
            raise kind_of(error)(
                f"operator '{self._operator}': {until - filed.allocated} more bytes of its keyed state do not fit into {self._directory}: "
                f"{os.strerror(error.errno or 0)}; free space there, set io.tmp.dirs to another directory, or taskmanager.memory.managed.size "
                "to more. The job goes on from its last checkpoint"
            ) from error
        filed.allocated = until

    def moved(self, array: NumpyColumn, used: int, items: int, per_slot: int) -> NumpyColumn:
        """Returns a larger copy of an array: with space for ``items`` values, of which the first ``used`` are copied from ``array``.
        Raises ``StorageError``.
        """
        larger = self.zeros(items, array.dtype, per_slot)
        self.ensure(larger, used)
        larger[:used] = array[:used]
        old = self._filed.pop(array.ctypes.data, None)
        if old is not None:
            old.close()  # the mapping, and with it the content, is there for as long as the array is
        return larger

    def _backing_file(self, address: int, begin: int, size: int) -> _Filed:
        """Maps a new file over an array's memory, from its byte ``begin`` on."""
        try:
            descriptor, path = tempfile.mkstemp(prefix="aggregates-", dir=self._directory)
            close = weakref.finalize(self, os.close, descriptor)
            os.unlink(path)
            os.truncate(descriptor, size)
        except OSError as error:
            raise kind_of(error)(
                f"operator '{self._operator}': its keyed state cannot be put into {self._directory}: {os.strerror(error.errno or 0)}; set "
                "io.tmp.dirs to another directory"
            ) from error
        found = _map(address + begin, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | _FIXED, descriptor, 0)
        if found == _FAILED:
            reason = os.strerror(ctypes.get_errno())
            raise StorageError(
                f"operator '{self._operator}': the file of its keyed state in {self._directory} cannot be mapped to memory: {reason}; set "
                "io.tmp.dirs to another directory"
            )
        return _Filed(descriptor, begin, size, close)


Reserved = InMemory | InMemoryAndFile


@dataclass(frozen=True, slots=True)
class RowMemory:
    """The memory limits of a state's rows. ``budget_bytes``: of memory; 0: unlimited. ``directory``: for what exceeds it; empty: the system's for
    temporary files. ``capacity``: the most rows; 0: as many as fit this machine's memory."""

    budget_bytes: int = 0
    directory: str = ""
    capacity: int = 0

    def reserved(self, operator: str, row_bytes: int) -> Reserved:
        """Returns the reservation for rows of ``row_bytes`` bytes: in memory up to the budget, in a file beyond it."""
        if not self.budget_bytes:
            return InMemory()
        return InMemoryAndFile(operator, self.budget_bytes // row_bytes, self.directory)


UNBOUNDED = RowMemory()


def _pages(size: int) -> int:
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
