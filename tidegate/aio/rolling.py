"""Rolls log files as Flink's log4j does: a full ``x.log`` is renamed to ``x.log.1``, ``x.log.1`` to ``x.log.2``, and the oldest is removed.

What user functions print goes to a process's standard output, which a daemon's parent has opened as a file: that one is renamed by
the daemon itself, and another one takes the place of its descriptors.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from tidegate.model.configuration import Configuration
from tidegate.model.options import FileOptions

_OUTPUTS = (1, 2)
"""The descriptors of standard output and error."""


@dataclass(frozen=True, slots=True)
class Rolling:
    """When log files are rolled. ``max_bytes``: a larger file is renamed (``tidegate.log.max-size``); ``keep``: how many old files are kept
    (``env.log.max``)."""

    max_bytes: int = 100 << 20
    keep: int = 10

    @staticmethod
    def of(configuration: Configuration) -> Rolling:
        return Rolling(configuration.get(FileOptions.LOG_MAX_SIZE), configuration.get(FileOptions.LOG_MAX))


class RollingOutput:
    """Rolls the standard output and error of this process, as far as they go to ``file``; does nothing when it is ``None``."""

    def __init__(self, file: Path | None, rolling: Rolling) -> None:
        self._file = file
        self._rolling = rolling

    def roll_when_full(self) -> None:
        """Rolls the file when it is full; called before each write. Raises ``OSError``: then the file is unchanged."""
        if self._file is None:
            return
        written = [number for number in _OUTPUTS if _is_file(number, self._file)]
        if written and os.fstat(written[0]).st_size >= self._rolling.max_bytes:
            shift(self._file, self._rolling.keep)
            fresh = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            for number in written:
                os.dup2(fresh, number)
            os.close(fresh)


def shift(file: Path, keep: int) -> None:
    """Renames ``file`` and its older ones by one number. Raises ``OSError``."""
    for age in range(keep, 0, -1):
        older = numbered(file, age - 1)
        if older.exists():
            older.replace(numbered(file, age))
    if keep == 0:
        file.unlink(missing_ok=True)


def numbered(file: Path, age: int) -> Path:
    """Returns the path of a rolled file: ``x.out.3`` for ``x.out`` and 3; the file itself for 0."""
    return file.with_name(f"{file.name}.{age}") if age else file


def _is_file(number: int, file: Path) -> bool:
    try:
        opened, named = os.fstat(number), file.stat()
    except OSError:
        return False
    return stat.S_ISREG(opened.st_mode) and (opened.st_dev, opened.st_ino) == (named.st_dev, named.st_ino)
