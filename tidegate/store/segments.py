"""Where subtasks write the state of a checkpoint, and read it from (``taskmanager/state/base.py``).

A segment of at most ``inline_threshold_bytes`` comes back inline and travels in the acknowledgement. Others become
files of the checkpoint's own directory, named ``<hint>-<attempt>-<n>``; nobody but this attempt writes that name. The
directory is made by the JobManager, never here: when it is gone, the checkpoint was aborted.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

import xxhash

from tidegate.model.checkpoint import StateHandle
from tidegate.model.errors import CorruptData, StorageError
from tidegate.store.files import Files, LocalFiles, Part
from tidegate.store.locations import is_memory, normalized, open_files, storage_error

MEMORY_STATE_MAX_BYTES = 5 << 20
"""Most bytes of one segment in the JobManager's memory (Flink: ``JobManagerCheckpointStorage.DEFAULT_MAX_STATE_SIZE``)."""

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_HINT_MAX = 48


class FileSegmentStore:
    """Files of one attempt in one checkpoint's directory. Thread-safe."""

    def __init__(self, files: Files, directory: str, attempt: str, inline_threshold_bytes: int) -> None:
        self._files = files
        self._directory = directory
        self._attempt = attempt
        self._inline_threshold_bytes = inline_threshold_bytes
        self._numbers = itertools.count()

    def write(self, name_hint: str, parts: Sequence[Part]) -> StateHandle:
        """The bytes of ``parts``, one behind the other; durable when this returns. Raises ``StorageError``."""
        size_bytes, checksum = _measure(parts)
        if size_bytes <= self._inline_threshold_bytes:
            return StateHandle(size_bytes, checksum, data=b"".join(parts))
        hint = _UNSAFE.sub("_", name_hint)[:_HINT_MAX] or "state"
        name = f"{hint}-{self._attempt}-{next(self._numbers)}"
        path = f"{self._directory}/{name}"
        try:
            self._files.write(path, parts)
        except FileNotFoundError:
            raise StorageError(f"cannot write {path}: its directory is gone; the checkpoint was aborted") from None
        except OSError as error:
            raise storage_error("write", path, error) from error
        return StateHandle(size_bytes, checksum, path=name)


class InlineSegmentStore:
    """Everything travels in the acknowledgement: there is no checkpoint directory."""

    def write(self, name_hint: str, parts: Sequence[Part]) -> StateHandle:
        """Raises ``StorageError`` for more than 5 MiB."""
        size_bytes, checksum = _measure(parts)
        if size_bytes > MEMORY_STATE_MAX_BYTES:
            raise StorageError(
                f"state {name_hint!r} has {size_bytes} bytes, more than the {MEMORY_STATE_MAX_BYTES} that the "
                "JobManager's memory takes; set execution.checkpointing.dir"
            )
        return StateHandle(size_bytes, checksum, data=b"".join(parts))


class FileSegmentSource:
    """State below one location. Thread-safe."""

    def __init__(self, location: str, local: LocalFiles | None = None) -> None:
        self._location = location
        self._local = local

    def read(self, handle: StateHandle) -> memoryview:
        """The bytes, size and checksum verified. Raises ``CorruptData`` naming the file, or ``StorageError``."""
        if handle.data is not None:
            return _verified(handle.data, handle, f"state inside the checkpoint {self._location}")
        absolute = "://" in handle.path or handle.path.startswith("/")
        place = handle.path if absolute else f"{self._location}/{handle.path}"
        try:
            files, path = open_files(place, self._local)
            content = files.read(path)
        except FileNotFoundError:
            raise CorruptData(f"state file {place} is missing; restore from another checkpoint") from None
        except OSError as error:
            raise storage_error("read state file", place, error) from error
        return _verified(content, handle, f"state file {place}")


def open_segment_store(
    location: str, attempt: str, checkpoint_id: int, inline_threshold_bytes: int, local: LocalFiles | None = None
) -> FileSegmentStore | InlineSegmentStore:
    """Where ``attempt`` writes its part of checkpoint ``checkpoint_id``. ``location``: ``CheckpointOptions.location``.

    Raises ``StorageError`` for a location that nothing here serves.
    """
    del checkpoint_id  # the location is the checkpoint's own
    if is_memory(location):
        return InlineSegmentStore()
    files, directory = open_files(location, local)
    return FileSegmentStore(files, directory, attempt, inline_threshold_bytes)


def open_segment_source(location: str, local: LocalFiles | None = None) -> FileSegmentSource:
    """Where restored state is read from. ``location``: ``TaskRestore.location``."""
    return FileSegmentSource(normalized(location), local)


def checksum_of(parts: Sequence[Part]) -> str:
    """xxh3-64 of the parts, one behind the other: 16 hex digits."""
    return _measure(parts)[1]


def _measure(parts: Sequence[Part]) -> tuple[int, str]:
    state, size_bytes = xxhash.xxh3_64(), 0
    for part in parts:
        state.update(part)
        size_bytes += memoryview(part).nbytes
    return size_bytes, state.hexdigest()


def _verified(content: bytes, handle: StateHandle, what: str) -> memoryview:
    if len(content) != handle.size_bytes:
        raise CorruptData(f"{what} has {len(content)} bytes instead of {handle.size_bytes}; it is cut off or replaced")
    found = xxhash.xxh3_64_hexdigest(content)
    if found != handle.checksum:
        raise CorruptData(f"{what} is damaged: its checksum is {found} instead of {handle.checksum}")
    return memoryview(content)
