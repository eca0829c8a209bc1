"""Writes and reads the state segments of subtasks in checkpoints (``taskmanager/state/ports.py``).

A segment of at most ``inline_threshold_bytes`` comes back inline and travels in the acknowledgement. Others become
files of the checkpoint's own directory, named ``<hint>-<attempt>-<n>``; only this attempt writes that name. The
directory is made by the JobManager, never here: when it is gone, the checkpoint was aborted. Files that later checkpoints
may name too go to the job's ``shared/`` as ``<hint>-<attempt>-<checkpoint>-<random>``, a name that is never used again
and that says of which checkpoint it is garbage when that was aborted.

Parts are taken one by one, and measured on their way: state is never in memory a second time.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import secrets
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import xxhash

from tidegate.model.checkpoint import StateHandle
from tidegate.model.errors import ON_DAMAGE, CheckpointFilesMissing, CorruptData, StateTooLarge
from tidegate.store.fetched_file import REQUESTS, FetchedFile, RangedFiles
from tidegate.store.files import Files, LocalFiles, NotAFile, Part
from tidegate.store.locations import is_local, is_memory, normalized, open_files, storage_error, unreadable
from tidegate.store.state_files import place_of
from tidegate.store.verified_file import BLOCK_BYTES, BlockChecksums, PartialFile, VerifiedFile

MEMORY_STATE_MAX_BYTES = 5 << 20
"""The most bytes of one segment in the JobManager's memory (Flink: ``JobManagerCheckpointStorage.DEFAULT_MAX_STATE_SIZE``)."""

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_HINT_MAX = 48
"""The most characters of the descriptive part of a file's name, so that names stay far below 255 bytes."""


@dataclass(frozen=True, slots=True)
class SegmentForm:
    """A job's settings of its state files: which segments are inline, whether files are compressed, and the size of the write buffer."""

    inline_threshold_bytes: int
    compresses: bool = False
    write_buffer_bytes: int = 0


class FileSegmentStore:
    """Writes the segments of one attempt into one checkpoint's directory, and into ``shared``, its URI or path, if there is one. Thread-safe."""

    def __init__(
        self,
        files: Files,
        directory: str,
        attempt: str,
        checkpoint_id: int,
        form: SegmentForm,
        shared: str = "",
    ) -> None:
        self.written_bytes = 0
        """Bytes written so far, to files and inline."""
        self.compresses = form.compresses
        """Whether the writers of files are to compress them."""
        self._files = files
        self._directory = directory
        self._shared = shared
        self._attempt = attempt
        self._checkpoint_id = checkpoint_id
        self._form = form
        self._numbers = itertools.count()

    def write(self, name_hint: str, parts: Iterable[Part], *, is_shared: bool = False) -> StateHandle:
        """Writes ``parts`` as one segment, durable when this method returns, except the file's name, which the JobManager syncs before it writes
        ``_metadata``. ``is_shared``: later checkpoints may reference the file too. Raises ``StorageError``."""
        measured = _Measured(parts)
        head = measured.take(self._form.inline_threshold_bytes)
        if measured.is_over:
            self.written_bytes += measured.size_bytes
            return StateHandle(measured.size_bytes, measured.checksum, data=b"".join(head))
        is_shared = is_shared and bool(self._shared)
        hint = _UNSAFE.sub("_", name_hint)[:_HINT_MAX] or "state"
        ending = f"{self._checkpoint_id}-{secrets.token_hex(8)}" if is_shared else str(next(self._numbers))
        name = f"{hint}-{self._attempt}-{ending}"
        path = f"{open_files(self._shared)[1] if is_shared else self._directory}/{name}"
        try:
            self._files.write_new(path, gathered(itertools.chain(head, measured), self._form.write_buffer_bytes))
        except (FileNotFoundError, NotADirectoryError):
            raise CheckpointFilesMissing(
                f"cannot write {path}: its directory is gone; the checkpoint was aborted, or the directory was removed"
            ) from None
        except OSError as error:
            raise storage_error("write", path, error) from error
        self.written_bytes += measured.size_bytes
        handle_path = f"{self._shared}/{name}" if is_shared else name
        return StateHandle(
            measured.size_bytes,
            measured.checksum,
            path=handle_path,
            is_shared=is_shared,
            block_checksums=measured.blocks.digests(),
        )


class InlineSegmentStore:
    """Keeps all segments inline in the acknowledgement, for checkpoints without a directory."""

    def __init__(self, *, compresses: bool = False) -> None:
        self.written_bytes = 0
        self.compresses = compresses

    def write(self, name_hint: str, parts: Iterable[Part], *, is_shared: bool = False) -> StateHandle:
        """Returns ``parts`` as an inline segment. Raises ``StateTooLarge`` for more than 5 MiB."""
        del is_shared  # there are no files
        measured = _Measured(parts)
        held = measured.take(MEMORY_STATE_MAX_BYTES)
        if not measured.is_over:
            raise StateTooLarge(
                f"state {name_hint!r} has more than the {MEMORY_STATE_MAX_BYTES} bytes that the JobManager's memory "
                "takes; set execution.checkpointing.dir"
            )
        self.written_bytes += measured.size_bytes
        return StateHandle(measured.size_bytes, measured.checksum, data=b"".join(held))


class FileSegmentSource:
    """Reads the state segments of a snapshot. Thread-safe."""

    def __init__(self, location: str, local: LocalFiles | None = None) -> None:
        self._location = location
        self._local = local
        self._requests = ThreadPoolExecutor(REQUESTS, "state-request")
        """Threads are made when there is something to do."""
        self._directories: dict[str, tuple[Files, str]] = {}
        """Those in object stores: one client is used for all files of each."""

    def read(self, handle: StateHandle) -> memoryview:
        """Reads a segment and verifies its size and checksum. Raises ``CorruptData`` naming the file, or ``StorageError``."""
        if handle.data is not None:
            return _verified(handle.data, handle, f"state inside the checkpoint {self._location}")
        place = place_of(handle, self._location)
        with _named(place):
            files, path = open_files(place, self._local)
            content = files.view(path)
        return _verified(content, handle, f"state file {place}")

    def open(self, handle: StateHandle, directory: str = "") -> PartialFile | None:
        """Opens a segment's file for reading verified parts; ``None`` where that is impossible: inline state, empty files, and files in object stores
        that an older version wrote. ``directory``: where fetched parts of objects are kept. Raises ``CorruptData`` naming the file, or
        ``StorageError``."""
        place = place_of(handle, self._location)
        if handle.data is not None or not handle.size_bytes or is_memory(place):
            return None
        if is_local(place):
            with _named(place):
                return VerifiedFile(normalized(place), handle, f"state file {place}")
        if handle.size_bytes > BLOCK_BYTES and not handle.block_checksums:
            return None
        above, name = place.rsplit("/", 1)
        if above not in self._directories:
            self._directories[above] = open_files(above)
        files, path = self._directories[above]
        if not isinstance(files, RangedFiles):
            return None
        with _named(place):
            reader = files.ranges(f"{path}/{name}")
        return FetchedFile(reader, handle, place, directory, self._requests)


def open_segment_store(
    location: str,
    attempt: str,
    checkpoint_id: int,
    inline_threshold_bytes: int,
    local: LocalFiles | None = None,
    shared_location: str = "",
    *,
    compresses: bool = False,
    write_buffer_bytes: int = 0,
) -> FileSegmentStore | InlineSegmentStore:
    """Creates the store into which ``attempt`` writes its segments of checkpoint ``checkpoint_id``. ``location``, ``shared_location``: those of
    ``CheckpointOptions``; ``write_buffer_bytes``: smaller pieces of files are buffered up to this size.

    Raises ``StorageError`` for a location that nothing here serves.
    """
    if is_memory(location):
        return InlineSegmentStore(compresses=compresses)
    files, directory = open_files(location, local)
    form = SegmentForm(inline_threshold_bytes, compresses, write_buffer_bytes)
    return FileSegmentStore(files, directory, attempt, checkpoint_id, form, shared_location)


def open_segment_source(location: str, local: LocalFiles | None = None) -> FileSegmentSource:
    """Creates the source of restored state. ``location``: ``TaskRestore.location``."""
    return FileSegmentSource(normalized(location), local)


_SHARED_NAME = re.compile(r".+-[0-9a-f]{32}_[0-9a-f]{32}_\d+_\d+-\d+-[0-9a-f]{16}(\.inprogress)?")


def is_shared_name(name: str) -> bool:
    """Tells whether a name has the form of a checkpoint's file in ``shared``: hint, attempt, checkpoint, and a number."""
    return _SHARED_NAME.fullmatch(name) is not None


def written_by(names: Iterable[str], job_id: str, checkpoint_id: int) -> list[str]:
    """Returns those of the names of shared files that this checkpoint of the job wrote, completely or not."""
    pattern = re.compile(rf".*-{job_id}_[0-9a-f]{{32}}_\d+_\d+-{checkpoint_id}-[0-9a-f]{{16}}(\.inprogress)?")
    return sorted(name for name in names if pattern.fullmatch(name))


def gathered(parts: Iterable[Part], buffer_bytes: int) -> Iterator[Part]:
    """Yields the same bytes in fewer parts: smaller parts are buffered until the buffer is full, larger ones are passed without a copy (Flink:
    ``FsCheckpointStateOutputStream``)."""
    waiting = bytearray()
    for part in parts:
        size_bytes = memoryview(part).nbytes
        if waiting and len(waiting) + size_bytes > buffer_bytes:
            yield bytes(waiting)
            waiting.clear()
        if size_bytes >= buffer_bytes:
            yield part
        else:
            waiting += part
    if waiting:
        yield bytes(waiting)


class _Measured:
    """An iterator of parts that counts and hashes their bytes."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self.size_bytes = 0
        self.is_over = False
        """All parts were taken."""
        self._parts = iter(parts)
        self._hash = xxhash.xxh3_64()
        self.blocks = BlockChecksums()

    @property
    def checksum(self) -> str:
        return self._hash.hexdigest()

    def take(self, limit_bytes: int) -> list[Part]:
        """Reads parts of the content until their size exceeds ``limit_bytes``, or until none is left; returns them."""
        taken = []
        for part in self:
            taken.append(part)
            if self.size_bytes > limit_bytes:
                break
        return taken

    def __iter__(self) -> Iterator[Part]:
        for part in self._parts:
            self.size_bytes += memoryview(part).nbytes
            self._hash.update(part)
            self.blocks.add(part)
            yield part
        self.is_over = True


@contextlib.contextmanager
def _named(place: str) -> Iterator[None]:
    """Converts the system's errors of a file to errors that name it."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise CorruptData(f"state file {place} is missing; {ON_DAMAGE}") from None
    except NotAFile as error:
        raise CorruptData(f"state file {place} cannot be read: {error.strerror}; {ON_DAMAGE}") from None
    except OSError as error:
        raise unreadable("state file", place, error) from error


def _verified(content: bytes | memoryview, handle: StateHandle, what: str) -> memoryview:
    if len(content) != handle.size_bytes:
        how = "ends at byte" if len(content) < handle.size_bytes else "is too long: it has bytes up to"
        raise CorruptData(f"{what} {how} {len(content)}, expected {handle.size_bytes} bytes; {ON_DAMAGE}")
    found = xxhash.xxh3_64_hexdigest(content)
    if found != handle.checksum:
        raise CorruptData(f"{what} is damaged: its checksum is {found} instead of {handle.checksum}; {ON_DAMAGE}")
    return memoryview(content)
