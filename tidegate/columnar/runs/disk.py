"""Runs of windows on disk: one uncompressed Arrow IPC file each, which is mapped, so that only what is used is read.

    write(rows) ─▶ <directory of the attempt>/windows-….arrow ─▶ a run ─▶ split(last): two runs of one file
                                                                  └─▶ read(): mapped while its rows are in use

A file is removed with the last run of it: frozen states hold their runs, so what a snapshot is still to write stays. They belong to no checkpoint:
that holds the rows themselves, and after a failure the directory goes with its attempt.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidegate.columnar.runs.memory import windows_of
from tidegate.model.errors import StorageError
from tidegate.model.storage_errors import kind_of, reason_of

WriteRun = Callable[[pa.RecordBatch], "FileRun"]
"""Writes sorted rows to a run on disk. Raises ``StorageError``."""


class _File:
    """A file with one batch, removed with the last reference to this object. It is mapped at the first read and stays so: what was read is in the
    system's cache, not in the process's memory, and opening it again takes longer than looking up a few rows."""

    def __init__(self, path: str, operator: str) -> None:
        self.path = path
        self.operator = operator
        self._rows: pa.RecordBatch | None = None
        weakref.finalize(self, _remove, path)

    def rows(self) -> pa.RecordBatch:
        if self._rows is None:
            self._rows = self._map()
        return self._rows

    def _map(self) -> pa.RecordBatch:
        try:
            with pa.memory_map(self.path) as source:
                return pa.ipc.open_file(source).get_batch(0)
        except (OSError, pa.ArrowInvalid) as error:
            reason = reason_of(error) if isinstance(error, OSError) else str(error)
            raise StorageError(
                f"operator '{self.operator}': cannot read the windows that were written to {self.path}: {reason}; nothing else may "
                "change that directory while the job runs"
            ) from error


@dataclass(frozen=True, slots=True)
class FileRun:
    """A run on disk: rows ``start`` to ``stop - 1`` of a file; ``first`` and ``last``: the lowest and highest number of their windows. ``row_bytes``:
    average bytes of a row in memory."""

    file: _File
    start: int
    stop: int
    first: int
    last: int
    row_bytes: float

    @property
    def num_rows(self) -> int:
        """Returns how many rows of the file are of this run."""
        return self.stop - self.start

    @property
    def nbytes(self) -> int:
        """Returns about how many bytes its rows take when they are read."""
        return int(self.num_rows * self.row_bytes)

    def read(self) -> pa.RecordBatch:
        """Returns its rows, sorted by window (column 0), as a view of the mapped file. Thread-safe. Raises ``StorageError``."""
        return self.file.rows().slice(self.start, self.num_rows)

    def split(self, last: int) -> tuple[FileRun | None, FileRun | None]:
        """Splits the run into windows up to number ``last`` and those after it, as runs of the same file; ``None`` where there are none. Raises
        ``StorageError``."""
        if last < self.first or last >= self.last:
            return (None, self) if last < self.first else (self, None)
        windows = windows_of(self.read())
        at = int(np.searchsorted(windows, last, side="right"))
        middle, file = self.start + at, self.file
        head = FileRun(file, self.start, middle, self.first, int(windows[at - 1]), self.row_bytes)
        return head, FileRun(file, middle, self.stop, int(windows[at]), self.last, self.row_bytes)


@dataclass(frozen=True, slots=True)
class SpillFiles:
    """Writes runs (rows sorted by window) to temporary files. ``directory``: the directory of the attempt; empty: the system's temporary directory."""

    operator: str
    directory: str

    def write(self, rows: pa.RecordBatch) -> FileRun:
        """Writes at least one row, sorted by window, to a file. Raises ``StorageError`` and then leaves no file."""
        path = ""
        try:
            handle, path = tempfile.mkstemp(prefix="windows-", suffix=".arrow", dir=self.directory or None)
            os.close(handle)
            with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
                writer.write_batch(rows)
        except OSError as error:
            _remove(path)
            reason = os.strerror(error.errno) if error.errno else str(error)  # Arrow puts more words around it
            raise kind_of(error)(
                f"operator '{self.operator}': {rows.nbytes} bytes of its windows cannot be written to "
                f"{self.directory or tempfile.gettempdir()}: {reason}; free space there, set io.tmp.dirs to another directory, or "
                "taskmanager.memory.managed.size to more. The job goes on from its last checkpoint"
            ) from error
        windows = windows_of(rows)
        whole = _File(path, self.operator)
        return FileRun(whole, 0, rows.num_rows, int(windows[0]), int(windows[-1]), rows.nbytes / rows.num_rows)


def _remove(path: str) -> None:
    with suppress(OSError):  # the directory may have gone before
        os.unlink(path)
