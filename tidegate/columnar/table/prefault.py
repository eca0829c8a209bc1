"""Memory that is about to be filled, taken from the kernel by another thread: a fresh page costs as much as what a restore writes there.

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
"""(address, size in bytes, both of whole pages) -> whether it worked."""

_POPULATE_WRITE = 23
_STEP_BYTES = 2 << 20
"""A huge page: with larger steps, who maps a file meanwhile waits for longer."""
_MIN_BYTES = 64 << 20
"""Below that no thread is worth it."""


def _madvise(address: int, size_bytes: int) -> bool:
    return bool(_LIBC.madvise(ctypes.c_void_p(address), ctypes.c_size_t(size_bytes), _POPULATE_WRITE) == 0)


_LIBC = ctypes.CDLL(None)  # its calls let other threads run


@contextmanager
def populated(array: NumpyColumn, items: int, populate: Populate = _madvise) -> Iterator[None]:
    """While the block runs, the first ``items`` of the array become memory. No thread is left behind."""
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
