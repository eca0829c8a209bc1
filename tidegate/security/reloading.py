"""A value that is read from files, and again when they change: certificates are renewed while their process runs."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeAlias, TypeVar

from tidegate.model.errors import ConfigurationError

T = TypeVar("T")
_Version: TypeAlias = tuple[tuple[int, int, int, int] | None, ...]


class Reloaded(Generic[T]):
    """A value that ``read`` makes of files, reread when they change: when they are rewritten, replaced, or when a link leads elsewhere. While ``read``
    fails, the last good value stays, and ``on_problem`` is called once for each version of the files. Thread-safe."""

    def __init__(
        self, paths: Sequence[Path], read: Callable[[], T], on_problem: Callable[[ConfigurationError], None]
    ) -> None:
        """Reads the files for the first time. Raises what ``read`` raises."""
        self._paths, self._read, self._on_problem = tuple(paths), read, on_problem
        self._lock = threading.Lock()
        self._version = self._seen()
        self._value = read()

    def get(self) -> T:
        with self._lock:
            version = self._seen()
            if version != self._version:
                self._version = version
                try:
                    self._value = self._read()
                except ConfigurationError as error:
                    self._on_problem(error)
            return self._value

    def _seen(self) -> _Version:
        return tuple(_version_of(path) for path in self._paths)


def _version_of(path: Path) -> tuple[int, int, int, int] | None:
    """Returns device, inode, time of change and size of the file at a path; ``None`` without a file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size
