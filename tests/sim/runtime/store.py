"""Checkpoint storage of a simulated world: the real segment store over files in memory, which fails when the schedule says so."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable

import xxhash

from tidegate.model.checkpoint import CheckpointOptions, StateHandle
from tidegate.model.errors import CorruptData
from tidegate.model.ids import AttemptId
from tidegate.store.files import MemoryFiles, Part
from tidegate.store.segments import FileSegmentStore, SegmentForm
from tidegate.taskmanager.state.ports import SegmentStore

CHECKPOINTS = "/sim"
SHARED = f"{CHECKPOINTS}/shared"
_INLINE_BYTES = 64


class FailingFiles(MemoryFiles):
    def __init__(self, fails: Callable[[], bool]) -> None:
        super().__init__()
        self._fails = fails

    def write_new(self, path: str, parts: Iterable[Part]) -> None:
        if self._fails():
            raise OSError(errno.ENOSPC, "the schedule says that the disk is full", path)
        super().write_new(path, parts)


class SimStore:
    def __init__(self, fails: Callable[[], bool]) -> None:
        self._files = FailingFiles(fails)

    def open(self, options: CheckpointOptions, attempt: AttemptId, checkpoint_id: int) -> SegmentStore:
        return FileSegmentStore(
            self._files,
            options.location,
            str(attempt),
            checkpoint_id,
            SegmentForm(_INLINE_BYTES),
            options.shared_location,
        )

    def source(self, location: str) -> SimSource:
        return SimSource(self._files, location)


class SimSource:
    def __init__(self, files: MemoryFiles, location: str) -> None:
        self._files = files
        self._location = location

    def read(self, handle: StateHandle) -> memoryview:
        path = handle.path if handle.path.startswith("/") else f"{self._location}/{handle.path}"
        content = handle.data if handle.data is not None else self._files.read(path)
        if xxhash.xxh3_64_hexdigest(content) != handle.checksum:
            raise CorruptData(f"{path} is damaged")
        return memoryview(content)
