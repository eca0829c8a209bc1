"""A sink that writes files exactly once: a part file becomes visible under its final name only when its checkpoint is confirmed.

    in progress  .part-...inprogress   hidden name, written by one attempt
        │ barrier n: cut off; then closed and fsynced in the snapshot thread; its name is the committable
    pending      the same hidden name, listed in checkpoint n
        │ confirm(n), or recovery to n: one rename
    finished     part-<subtask>-<attempt's hash>-<number>.<suffix>, in a directory for its time if there are buckets

Hidden files lie in the output path itself, whatever the bucket. Final names are unique to an attempt, so nothing is
ever overwritten. Hidden names tell job, operator, subtask and the last checkpoint before the file was begun: a restored
attempt removes exactly what is newer than its checkpoint, also of the job from whose checkpoint it was started when that is over (``files/leftovers``).
A sink that ``replaces`` removes at its commit, in the directories that it replaces, what it did not write itself: its final names have the mark of job
and operator, and a committable ``[output path, "", directory/beginning of the names, 0]`` says so; one with ``directory/`` alone says that it is whole.
Follows Flink's ``FileSink`` with ``OnCheckpointRollingPolicy`` (every format rolls at a checkpoint here).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.fs as pafs

from tidegate.common.typeinfo import TypeInformation
from tidegate.connectors.base import Committer, Sink, SinkContext, SinkWriter
from tidegate.connectors.files.buckets import Buckets
from tidegate.connectors.files.encoders import (
    CheckedEncoder,
    CsvEncoderFactory,
    EncoderFactory,
    FileEncoder,
    JsonLinesEncoderFactory,
    ParquetEncoderFactory,
    TextEncoderFactory,
    opened,
)
from tidegate.connectors.files.file_system import (
    absolute,
    directory_entries,
    is_local,
    resolve,
    storage_errors,
    sync_directory,
    sync_file,
)
from tidegate.connectors.files.leftovers import WRITER, WriterLock, is_gone, is_newest, job_of
from tidegate.connectors.files.success_files import write_success_files
from tidegate.model.configuration import Configuration
from tidegate.model.errors import CorruptData, InvalidJob, SchemaMismatch
from tidegate.model.values import Committable, StateValue
from tidegate.records.batch import ArrowBatch, Batch

_STEM = r"\.(?P<stem>.+-(?P<subtask>\d{5,})-[0-9a-f]{8})"
_HIDDEN = re.compile(_STEM + r"-\d+")
_LOCK = re.compile(_STEM + r"\.(?P<mark>[0-9a-f]{12})" + re.escape(WRITER))
DEFAULT_PART_BYTES = 128 << 20
"""Flink's ``DefaultRollingPolicy``."""
DEFAULT_ROLLOVER_MS = 60_000
"""Flink's ``DefaultRollingPolicy``."""


@dataclass(frozen=True, slots=True)
class RollingPolicy:
    """When a part file is closed, besides at every checkpoint: by size or by age."""

    part_bytes: int = DEFAULT_PART_BYTES
    rollover_ms: int = DEFAULT_ROLLOVER_MS


class FileSink(Sink):
    """A sink of part files below one directory. ``buckets``: chooses a subdirectory for each row. ``replaces``: the files replace those of each
    directory that is written and of these, relative to the output path; for jobs that end; ``None``: they are added. ``success``: name of a file
    that marks the written directories, and those in ``whole``, as complete; for jobs that end."""

    commits_apart = True
    _buckets: Buckets | None = None
    """The class has a default because sinks pickled by an earlier version lack the attribute."""
    _replaces: Sequence[str] | None = None
    _success: str | None = None
    _whole: Sequence[str] = ()

    def __init__(
        self,
        path: str,
        encoder: EncoderFactory,
        rolling: RollingPolicy | None = None,
        prefix: str = "part",
        buckets: Buckets | None = None,
        replaces: Sequence[str] | None = None,
        success: str | None = None,
        whole: Sequence[str] = (),
    ) -> None:
        self._path = absolute(path)
        self._encoder = encoder
        self._rolling = rolling or RollingPolicy()
        self._prefix = prefix
        self._buckets = buckets
        self._replaces = replaces
        self._success = success
        self._whole = whole
        self.commits_together = success is not None

    @staticmethod
    def for_text(path: str, rolling: RollingPolicy | None = None) -> FileSink:
        """Writes ``str(record)``, one record a line."""
        return FileSink(path, TextEncoderFactory(), rolling)

    @staticmethod
    def for_csv(path: str, header: bool = True, delimiter: str = ",", rolling: RollingPolicy | None = None) -> FileSink:
        """Writes CSV files with a column for each column of the stream."""
        return FileSink(path, CsvEncoderFactory(header=header, delimiter=delimiter), rolling)

    @staticmethod
    def for_json_lines(path: str, rolling: RollingPolicy | None = None) -> FileSink:
        """Writes files with one JSON object per line."""
        return FileSink(path, JsonLinesEncoderFactory(), rolling)

    @staticmethod
    def for_parquet(path: str, rolling: RollingPolicy | None = None, **options: object) -> FileSink:
        """Writes Parquet files. ``options`` are passed to ``pyarrow.parquet.ParquetWriter``, such as ``compression="zstd"``."""
        return FileSink(path, ParquetEncoderFactory(options=options), rolling)

    def validate(self) -> None:
        """Raises ``InvalidJob`` when the output path is a file."""
        filesystem, inner = resolve(self._path)
        if filesystem.get_file_info(inner).type == pafs.FileType.File:
            raise InvalidJob(f"output path {self._path} is a file; give a directory")

    def validate_input(self, input_type: TypeInformation, configuration: Configuration) -> None:
        """Raises ``InvalidJob`` when the format cannot hold the columns of the stream."""
        try:
            schema = input_type.arrow_schema()
            opened(
                self._encoder,
                pa.BufferOutputStream(),
                schema if self._buckets is None else self._buckets.stored(schema),
            )
        except SchemaMismatch as error:
            raise InvalidJob(f"output path {self._path}: {error.message}") from error

    def make_writer(self, context: SinkContext, state: Sequence[StateValue], input_type: TypeInformation) -> SinkWriter:
        schema = input_type.arrow_schema()
        return FileWriter(
            self._path,
            self._encoder,
            self._rolling,
            self._prefix,
            context,
            schema,
            self._buckets,
            self._replaces,
            self._whole,
        )

    def make_committer(self, context: SinkContext) -> Committer:
        return FileCommitter(self._path, self._success)


def job_mark(job_id: str, operator_id: str) -> str:
    """Returns the mark of a job's operator in the names of its hidden files."""
    return hashlib.sha256(f"{job_id}/{operator_id}".encode()).hexdigest()[:12]


def lock_name(stem: str, mark: str) -> str:
    """Returns the name of the lock file that an attempt holds while it writes part files with that stem."""
    return f".{stem}.{mark}{WRITER}"


def lock_of(hidden: str) -> str:
    """Returns the name of the lock file of a hidden file's writer; empty for names of other writers."""
    found, begun = _HIDDEN.match(hidden), begun_in(hidden)
    return lock_name(found["stem"], begun[0]) if found and begun else ""


def tombstone_of(directory: str, final: str) -> str:
    """Returns the path of the empty file that marks a part file as aborted by hand (``tidegate txn abort``)."""
    return f"{directory}/.{final.replace('/', '.')}.aborted"


@dataclass(slots=True)
class _Part:
    """An open part file."""

    hidden: str
    final: str
    file: pa.NativeFile
    encoder: FileEncoder
    opened_at: float


class FileWriter(SinkWriter):
    """Writes the part files of one subtask, at most one open file for each directory."""

    works_on = "arrow"

    def __init__(
        self,
        path: str,
        encoder: EncoderFactory,
        rolling: RollingPolicy,
        prefix: str,
        context: SinkContext,
        schema: pa.Schema,
        buckets: Buckets | None = None,
        replaces: Sequence[str] | None = None,
        whole: Sequence[str] = (),
    ) -> None:
        self._path = path
        self._buckets = buckets
        self._filesystem, self._root = resolve(path)
        self._encoders = encoder
        self._rolling = rolling
        self._schema = schema if buckets is None else buckets.stored(schema)
        self._mark = job_mark(context.job_id, context.operator_id)
        attempt = hashlib.sha256(context.attempt.encode()).hexdigest()[:8]
        if replaces is not None:
            prefix = f"{prefix}-{self._mark}"
        self._prefix = prefix
        self._stem = f"{prefix}-{context.subtask_index:05d}-{attempt}"
        self._replaced = None if replaces is None else dict.fromkeys(replaces)
        """The directories whose files are replaced."""
        self._whole = [f"{bucket}/" for bucket in whole]
        """The directories that are whole without part files, too."""
        self._subtask = context.subtask_index
        self._since = context.restored_checkpoint_id or 0
        self._number = 0
        self._lock: WriterLock | None = None
        self._parts: dict[str, _Part] = {}
        """Those that are open, by their directories."""
        self._sealed: list[_Part] = []
        """Cut off by a barrier, and not closed yet by the snapshot thread."""
        self._closed: list[list[Committable]] = []
        self._places: dict[str, None] = {}
        """Directories of the part files that were opened since the last report."""
        with storage_errors("create the directory", self._root):
            self._filesystem.create_dir(self._root, recursive=True)

    def write(self, batch: Batch) -> None:
        """Appends a batch to the open part file, and closes the file when it is large or old enough."""
        assert isinstance(batch, ArrowBatch)
        if not len(batch):
            return
        if self._buckets is None:
            self._write("", batch.data)
            return
        for bucket, data in self._buckets.split(batch.data):
            if self._buckets.closes(bucket):
                for other in [one for one in self._parts if one != bucket]:
                    self._end(other)
            self._write(bucket, data)

    def _write(self, bucket: str, data: pa.RecordBatch) -> None:
        part = self._parts.get(bucket)
        with storage_errors("write", self._root if part is None else part.hidden):
            if part is None:
                part = self._parts[bucket] = self._open(bucket)
            part.encoder.write(data)
            age_ms = (time.monotonic() - part.opened_at) * 1000
            if part.file.tell() >= self._rolling.part_bytes or age_ms >= self._rolling.rollover_ms:
                self._end(bucket)

    def _end(self, bucket: str) -> None:
        part = self._parts.pop(bucket)
        with storage_errors("write", part.hidden):
            self._closed.append(self._close_part(part))

    def _open(self, bucket: str) -> _Part:
        name = f"{self._stem}-{self._number}{self._encoders.suffix}"
        final = f"{bucket}/{name}" if bucket else name
        hidden = f".{name}.{self._mark}.{self._subtask}.{self._since}.inprogress"
        self._number += 1
        self._places[bucket] = None
        if self._replaced is not None:
            self._replaced[bucket] = None
        opened_at = time.monotonic()
        if self._lock is None and is_local(self._filesystem):
            self._lock = WriterLock(f"{self._root}/{lock_name(self._stem, self._mark)}")
        file = self._filesystem.open_output_stream(f"{self._root}/{hidden}")
        encoder = CheckedEncoder(self._encoders, file, self._schema, f"{self._root}/{final}")
        return _Part(hidden, final, file, encoder, opened_at)

    def _close_part(self, part: _Part) -> list[Committable]:
        """Closes a part file and returns its committables, once it is durable."""
        part.encoder.finish()
        if not part.file.closed:
            part.file.close()
        if is_local(self._filesystem):
            sync_file(f"{self._root}/{part.hidden}")
        size = self._filesystem.get_file_info(f"{self._root}/{part.hidden}").size
        return [self._path, part.hidden, part.final, size]

    def take_places(self) -> Sequence[str]:
        """Returns the directories that were written, relative to the output path."""
        places, self._places = self._places, {}
        return list(places)

    def seal(self, checkpoint_id: int) -> list[Committable] | Callable[[], list[Committable]]:
        """Separates the part files at the barrier; encoding and syncing them is left to the returned function."""
        parts, closed = list(self._parts.values()), [*self._without_files(), *self._closed]
        self._parts, self._closed, self._places = {}, [], {}
        self._since = checkpoint_id
        if not parts and not closed:
            return []
        self._sealed += parts

        def close() -> list[Committable]:
            for part in parts:
                with storage_errors("write", part.hidden):
                    closed.append(self._close_part(part))
                self._sealed.remove(part)
            with storage_errors("write", self._root):
                if is_local(self._filesystem):
                    sync_directory(self._root)
            return closed

        return close

    def prepare_commit(self, checkpoint_id: int) -> list[Committable]:
        """Closes all part files. Committables are ``[directory, hidden name, final name, size in bytes]``."""
        sealed = self.seal(checkpoint_id)
        return sealed if isinstance(sealed, list) else sealed()

    def _without_files(self) -> list[list[Committable]]:
        """Returns the committables for directories: those whose files are replaced, and those that are complete."""
        replaced = [f"{bucket}/{self._prefix}-" if bucket else f"{self._prefix}-" for bucket in self._replaced or ()]
        return [[self._path, "", final, 0] for final in (*replaced, *self._whole)]

    def close(self) -> None:
        parts = [*self._sealed, *self._parts.values()]
        unlisted = [hidden for _, hidden, _, _ in self._closed]
        self._parts, self._sealed, self._closed = {}, [], []
        try:
            for part in parts:
                try:
                    part.encoder.finish()
                    part.file.close()
                finally:
                    self._filesystem.delete_file(f"{self._root}/{part.hidden}")
            for hidden in unlisted:
                self._filesystem.delete_file(f"{self._root}/{hidden}")
        finally:
            lock, self._lock = self._lock, None
            if lock is not None:
                lock.release(has_files=any(name.startswith(f".{self._stem}-") for name in os.listdir(self._root)))


class FileCommitter(Committer):
    """Renames pending files to their final names. ``success``: name of a file that is written to their directories when all are visible."""

    def __init__(self, path: str, success: str | None = None) -> None:
        self._path = path
        self._filesystem, self._root = resolve(path)
        self._success = success

    def commit(self, committables: Sequence[Committable]) -> None:
        touched: set[str] = set()
        for directory, hidden, final, size in committables:
            with storage_errors("commit", f"{directory}/{final}"):
                if not hidden and not final.endswith("/"):
                    _remove_others(directory, final)
                elif hidden and _commit_one(directory, hidden, final, size):
                    touched.update(_directories(directory, final))
        for directory in touched:
            filesystem, root = resolve(directory)
            if is_local(filesystem):
                sync_directory(root)
        if self._success is not None:
            places = dict.fromkeys(final.rpartition("/")[0] for _, _, final, _ in committables)
            write_success_files(self._path, self._success, places)

    def all_committed(self, committables: Sequence[Committable]) -> None:
        """Removes the lock files that writers left beside hidden files."""
        if is_local(self._filesystem):
            hidden_names = [hidden for _, hidden, _, _ in committables if hidden]
            for lock in dict.fromkeys(f"{self._root}/{lock_of(hidden)}" for hidden in hidden_names):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(lock)

    def abort_unknown(self, restored: Sequence[Committable], context: SinkContext) -> None:
        """Removes hidden files of earlier attempts of this job that were begun at or after the restored checkpoint, and of the job that wrote that
        checkpoint. Older files may belong to the restored committables of other subtasks."""
        newest = context.restored_checkpoint_id or 0
        keep = {hidden for _, hidden, _, _ in restored}
        own, before = job_mark(context.job_id, context.operator_id), self._mark_before(context)
        with storage_errors("clean", self._root):
            entries = directory_entries(self._filesystem, self._root)
            locks = {info.base_name: info.path for info in entries if info.base_name.endswith(WRITER)}
            over = {own: set(locks), before: {name for name, path in locks.items() if before and is_gone(path)}}
            for info in entries:
                begun = begun_in(info.base_name)
                if begun is None or info.base_name in keep:
                    continue
                mark, subtask, since = begun
                if since < newest or subtask % context.parallelism != context.subtask_index:
                    continue
                if mark == own or (mark == before and lock_of(info.base_name) in over[before]):
                    self._filesystem.delete_file(info.path)
            for mark, names in over.items():
                for name in names:
                    found = _LOCK.fullmatch(name)
                    if (
                        found
                        and found["mark"] == mark
                        and int(found["subtask"]) % context.parallelism == context.subtask_index
                    ):
                        self._filesystem.delete_file(locks[name])

    def _mark_before(self, context: SinkContext) -> str:
        """Returns the mark of the job from whose checkpoint this one was started; empty while that one may still need its files."""
        job_id = job_of(context.restored_location)
        if not job_id or job_id == context.job_id or not is_local(self._filesystem):
            return ""
        return job_mark(job_id, context.operator_id) if is_newest(context.restored_location) else ""


def _commit_one(directory: str, hidden: str, final: str, size: int) -> bool:
    """Renames a pending file in the directory where it was written, which may differ from the sink's. Returns whether the file exists: it may have been
    aborted by hand."""
    filesystem, root = resolve(directory)
    source, target = f"{root}/{hidden}", f"{root}/{final}"
    at_source, at_target = filesystem.get_file_info([source, target])
    if at_target.type == pafs.FileType.File and at_target.size == size:
        return True  # committed before: the answer got lost, or a restart came in between
    if at_source.type != pafs.FileType.File:
        if filesystem.get_file_info(tombstone_of(root, final)).type == pafs.FileType.File:
            return False
        raise CorruptData(
            f"pending file {source} of a completed checkpoint is gone, so {target} cannot be committed; restore a later "
            "checkpoint, or bring the file back"
        )
    if "/" in final:
        filesystem.create_dir(target.rpartition("/")[0], recursive=True)
    filesystem.move(source, target)
    return True


def _remove_others(directory: str, start: str) -> None:
    """Removes the files in a directory whose names do not begin with ``start``, except hidden ones (``.`` and ``_``), as Flink does."""
    filesystem, root = resolve(directory)
    bucket, _, own = f"{root}/{start}".rpartition("/")
    for info in filesystem.get_file_info(pafs.FileSelector(bucket, allow_not_found=True)):
        if not info.base_name.startswith((".", "_", own)):
            with contextlib.suppress(FileNotFoundError):
                (filesystem.delete_dir if info.type == pafs.FileType.Directory else filesystem.delete_file)(info.path)


def _directories(directory: str, final: str) -> list[str]:
    """Returns the directories from the output directory down to that of a final file."""
    parents = [parent for parent in final.split("/")[:-1] if parent]
    return [directory, *("/".join([directory, *parents[: i + 1]]) for i in range(len(parents)))]


def begun_in(name: str) -> tuple[str, int, int] | None:
    """Parses the name of a hidden file to (mark, subtask, last checkpoint before it); ``None`` for other files."""
    parts = name.split(".")
    if len(parts) < 5 or parts[-1] != "inprogress" or not (parts[-3].isdigit() and parts[-2].isdigit()):
        return None
    return parts[-4], int(parts[-3]), int(parts[-2])
