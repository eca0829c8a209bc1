"""Prefaulting of memory by a background thread: a page fault costs as much as what a restore writes to the page.

    array ─▶ a thread: madvise(MADV_POPULATE_WRITE), step by step from the first byte on

Law: content is never touched, so it may be written meanwhile. Where the kernel does not know the call (Linux before 5.14), or
refuses it, pages come when they are written, as always.
"""

from __future__ import annotations

import ctypes
import mmap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tidegate.columnar.numpy_column import NumpyColumn

Populate = Callable[[int, int], bool]
"""Populates a range, given address and size in bytes, both of whole pages; returns whether it worked."""

_POPULATE_WRITE = 23
_STEP_BYTES = 2 << 20
"""The step of populating, a huge page: with larger steps, threads that map files meanwhile wait for longer."""
_MIN_BYTES = 64 << 20
"""The smallest size for which a thread is started."""


def _madvise(address: int, size_bytes: int) -> bool:
    return bool(_LIBC.madvise(ctypes.c_void_p(address), ctypes.c_size_t(size_bytes), _POPULATE_WRITE) == 0)


_LIBC = ctypes.CDLL(None)  # its calls let other threads run


@contextmanager
def populated(array: NumpyColumn, items: int, populate: Populate = _madvise) -> Iterator[None]:
    """Populates the first ``items`` of the array in a background thread while the block runs. The thread has ended afterwards."""
    begin = -(-array.ctypes.data // mmap.PAGESIZE) * mmap.PAGESIZE
    end = (array.ctypes.data + min(items, len(array)) * array.itemsize) // mmap.PAGESIZE * mmap.PAGESIZE
    if end - begin < _MIN_BYTES:
        yield
        return
    is_over = threading.Event()

    def run() -> None:
        for at in range(begin, end, _STEP_BYTES):
            if is_over.is_set() or not populate(at, min(_STEP_BYTES, end - at)):
                return

    thread = threading.Thread(target=run, name="state-memory", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
