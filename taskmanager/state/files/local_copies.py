"""Local recovery: a second copy of the state files of one subtask, on the TaskManager's own disk.

    <working directory>/localState/aid_<allocation>/jid_<job>/vtx_<vertex>_sti_<subtask>/chk_<n>/<file name>

    written with checkpoint n ─▶ kept until a later one is confirmed, or n is aborted ─▶ read first by a successor in this slot

Laws. A copy is never required: a file that cannot be copied or read, or does not match its handle, is read from the checkpoint itself. A file that a checkpoint
refers to but did not write is linked from the copy of an older one. Inline state and savepoints have no copies. Copies are not synced to disk, since they are
used only if the machine has not failed.

Follows Flink's ``TaskLocalStateStoreImpl.java``; there a checkpoint is restored from its copy or not at all, here file by file.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import xxhash

from tidegate.model.checkpoint import StateHandle, SubtaskSnapshot
from tidegate.model.deployment import TaskDeployment
from tidegate.model.errors import CorruptData
from tidegate.model.ids import AllocationId, AttemptId
from tidegate.store.files import LocalFiles
from tidegate.store.verified_file import PartialFile, VerifiedFile
from tidegate.taskmanager.state.ports import PartialSource, SegmentSource, SegmentStore

_log = logging.getLogger("tidegate.taskmanager.state")
_CHECKPOINT = re.compile(r"chk_(\d+)")
_HELD_BYTES = 64 << 10
"""A local copy is created once a file has this many bytes, or is known to be a file: most small state is stored inline."""
_UNFINISHED = ".inprogress"


class LocalCopies:
    """The local copies of one subtask's state files. ``directory``: where they are kept. Except for the stores and sources that it makes, it is used from one
    thread at a time.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def begin(self, restored_id: int | None) -> None:
        """Begins an attempt: removes all copies except those of the checkpoint that it is restored from."""
        for checkpoint_id, path in self._kept():
            if checkpoint_id != restored_id:
                _remove(path)

    def store(self, inner: SegmentStore, checkpoint_id: int) -> SegmentStore:
        """Returns a store that writes to ``inner`` and into the copy of a checkpoint."""
        return _CopyingStore(inner, self._path(checkpoint_id))

    def source(self, inner: SegmentSource, checkpoint_id: int) -> LocalFirstSource:
        """Returns a source that reads the copy of a checkpoint, and what it lacks from ``inner``."""
        return LocalFirstSource(inner, self._path(checkpoint_id))

    def complete(self, checkpoint_id: int, snapshot: SubtaskSnapshot) -> None:
        """Completes the copy of a checkpoint that was written: links the files of older checkpoints that its snapshot names."""
        names = {_file_name(h) for operator in snapshot.operators.values() for h in operator.handles if h.data is None}
        path = self._path(checkpoint_id)
        older = [place for n, place in self._kept() if n < checkpoint_id]
        for name in sorted(name for name in names if not (path / name).exists()):
            found = next((place / name for place in older if (place / name).exists()), None)
            if found is not None:
                with contextlib.suppress(OSError):
                    path.mkdir(parents=True, exist_ok=True)
                    os.link(found, path / name)

    def on_confirmed(self, checkpoint_id: int) -> None:
        """Removes the copies of checkpoints that are older than the confirmed one."""
        for found, path in self._kept():
            if found < checkpoint_id:
                _remove(path)

    def on_aborted(self, checkpoint_id: int) -> None:
        _remove(self._path(checkpoint_id))

    def _path(self, checkpoint_id: int) -> Path:
        return self._directory / f"chk_{checkpoint_id}"

    def _kept(self) -> list[tuple[int, Path]]:
        """Returns the kept checkpoints with their directories, newest first."""
        try:
            names = os.listdir(self._directory)
        except OSError:
            return []
        found = [(int(match[1]), self._directory / name) for name in names if (match := _CHECKPOINT.fullmatch(name))]
        return sorted(found, reverse=True)


def open_copies(root: str, deployment: TaskDeployment) -> LocalCopies | None:
    """Opens the copies of checkpointed state that a subtask keeps on its machine (local recovery) for a new attempt; ``None`` when ``root`` is empty."""
    if not root:
        return None
    copies = LocalCopies(local_directory(Path(root), deployment.allocation_id, deployment.attempt))
    copies.begin(None if deployment.restore is None else int(deployment.restore.checkpoint_id))
    return copies


def local_directory(root: Path, allocation_id: AllocationId, attempt: AttemptId) -> Path:
    """Returns the directory of a subtask's local copies. It is below that of the slot's allocation (``allocation_directory``), with which it is removed."""
    job, subtask = f"jid_{attempt.job_id}", f"vtx_{attempt.vertex_id}_sti_{attempt.subtask}"
    return allocation_directory(root, allocation_id) / job / subtask


def allocation_directory(root: Path, allocation_id: AllocationId) -> Path:
    return root / "localState" / f"aid_{allocation_id}"


class LocalFirstSource:
    """Reads state files from their local copies, and from ``inner`` where there is none. ``local_reads`` and ``remote_reads`` count files."""

    def __init__(self, inner: SegmentSource, directory: Path) -> None:
        self._inner = inner
        self._directory = directory
        self.local_reads = 0
        self.remote_reads = 0

    def read(self, handle: StateHandle) -> memoryview:
        if handle.data is not None:
            return self._inner.read(handle)
        content = self._copy_of(handle)
        if content is not None:
            self.local_reads += 1
            return content
        self.remote_reads += 1
        return self._inner.read(handle)

    def open(self, handle: StateHandle, directory: str = "") -> PartialFile | None:
        """Opens the local copy of a file, or the file itself where there is none. A damaged block of the copy is read from the file."""
        if handle.data is not None or not isinstance(self._inner, PartialSource):
            return None
        path = self._directory / _file_name(handle)
        try:
            found = VerifiedFile(str(path), handle, f"local copy {path}", lambda: self._whole(handle, path))
        except FileNotFoundError:
            pass
        except (OSError, CorruptData) as error:
            _log.warning("local copy %s cannot be used (%s): read from the checkpoint instead", path, error)
        else:
            self.local_reads += 1
            return found
        self.remote_reads += 1
        return self._inner.open(handle, directory)

    def _whole(self, handle: StateHandle, path: Path) -> memoryview:
        _log.warning("local copy %s is damaged: read from the checkpoint instead", path)
        return self._inner.read(handle)

    def _copy_of(self, handle: StateHandle) -> memoryview | None:
        path = self._directory / _file_name(handle)
        try:
            content = LocalFiles().view(str(path))
        except FileNotFoundError:
            return None
        except OSError as error:
            _log.warning("local copy %s cannot be read (%s): read from the checkpoint instead", path, error.strerror)
            return None
        if len(content) != handle.size_bytes or xxhash.xxh3_64_hexdigest(content) != handle.checksum:
            _log.warning("local copy %s is damaged: read from the checkpoint instead", path)
            return None
        return content


class _CopyingStore:
    def __init__(self, inner: SegmentStore, directory: Path) -> None:
        self._inner = inner
        self._directory = directory

    @property
    def written_bytes(self) -> int:
        return self._inner.written_bytes

    @property
    def compresses(self) -> bool:
        return self._inner.compresses

    def write(self, name_hint: str, parts: Iterable[bytes | memoryview], *, is_shared: bool = False) -> StateHandle:
        copy = _Copy(self._directory / f"{os.urandom(8).hex()}{_UNFINISHED}")
        try:
            handle = self._inner.write(name_hint, copy.of(parts), is_shared=is_shared)
        except BaseException:
            copy.drop()
            raise
        if handle.data is None:
            copy.finish(self._directory / _file_name(handle))
        else:
            copy.drop()
        return handle


class _Copy:
    """The local copy of one file while it is written. An error ends the copy only, not the snapshot."""

    def __init__(self, unfinished: Path) -> None:
        self._unfinished = unfinished
        self._descriptor: int | None = None
        self._held: list[bytes | memoryview] = []
        self._held_bytes = 0
        self._has_failed = False

    def of(self, parts: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
        for part in parts:
            self._take(part)
            yield part

    def finish(self, path: Path) -> None:
        self._write_held()
        self._close()
        if not self._has_failed:
            try:
                os.replace(self._unfinished, path)
                return
            except OSError as error:
                self._fail(error)
        self.drop()

    def drop(self) -> None:
        self._close()
        with contextlib.suppress(OSError):
            self._unfinished.unlink()

    def _take(self, part: bytes | memoryview) -> None:
        if self._has_failed:
            return
        self._held.append(part)
        self._held_bytes += memoryview(part).nbytes
        if self._held_bytes > _HELD_BYTES:
            self._write_held()

    def _write_held(self) -> None:
        held, self._held, self._held_bytes = self._held, [], 0
        if self._has_failed:
            return
        try:
            if self._descriptor is None:
                self._unfinished.parent.mkdir(parents=True, exist_ok=True)
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
                self._descriptor = os.open(self._unfinished, flags, 0o600)
            for part in held:
                rest = memoryview(part).cast("B")
                while rest:
                    rest = rest[os.write(self._descriptor, rest) :]
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        self._has_failed = True
        _log.warning("no local copy in %s: %s", self._unfinished.parent, error.strerror or error)

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _file_name(handle: StateHandle) -> str:
    return handle.path.rsplit("/", 1)[-1]


def _remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
