"""The jobs of a cluster in a directory, each as it was submitted and with what its next life must know:

    blobs/<sha256>                    programs and files of jobs
    jobs/<job id>/submission          the request of the client, behind its checksum
    jobs/<job id>/attempt             the highest number that an attempt of any subtask had
    jobs/<job id>/savepoints/<n>      where snapshot n, a savepoint, was begun
    jobs/<job id>/result              the state in which the job ended: it never runs again (Flink's dirty JobResultStore entry)

A job whose result is written is removed as a whole after that, ``submission`` first; what a killed process left of that is removed by the
next one. All methods block for some milliseconds at most and raise ``StorageError``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tidegate.model.errors import CorruptData, StorageError, TidegateError
from tidegate.model.ids import CheckpointId, JobId, parse_job_id
from tidegate.model.states import JobState
from tidegate.pb import jobmanager_pb2 as pb
from tidegate.store.files import LocalFiles

_CHECKSUM_BYTES = hashlib.sha256().digest_size
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class StoredJob:
    """A job that has not ended. ``last_attempt`` is -1 when nothing of it was ever deployed; ``savepoints`` are those that were begun."""

    job_id: JobId
    request: pb.SubmitJobRequest
    last_attempt: int
    savepoints: tuple[tuple[CheckpointId, str], ...]


@dataclass(frozen=True, slots=True)
class UnreadableJob:
    """An entry that cannot be read. It is left as it is."""

    place: Path
    error: TidegateError


class Jobs(Protocol):
    """What the JobManager tells of its jobs as they go."""

    def add(self, job_id: JobId, request: pb.SubmitJobRequest) -> None: ...
    def note_attempt(self, job_id: JobId, attempt: int) -> None: ...
    def note_savepoint(self, job_id: JobId, checkpoint_id: CheckpointId, location: str) -> None: ...
    def end(self, job_id: JobId, state: JobState) -> None: ...
    def remove(self, job_id: JobId) -> None: ...


class NoJobStore:
    """Jobs end with their JobManager."""

    def add(self, job_id: JobId, request: pb.SubmitJobRequest) -> None:
        """Nothing is kept."""

    def note_attempt(self, job_id: JobId, attempt: int) -> None:
        """Nothing is kept."""

    def note_savepoint(self, job_id: JobId, checkpoint_id: CheckpointId, location: str) -> None:
        """Nothing is kept."""

    def end(self, job_id: JobId, state: JobState) -> None:
        """Nothing is kept."""

    def remove(self, job_id: JobId) -> None:
        """Nothing was kept."""


class JobStore:
    """The jobs below one directory, which belongs to this process as long as it leads."""

    def __init__(self, directory: Path, files: LocalFiles | None = None) -> None:
        self.directory = directory
        self._files = files or LocalFiles()
        self._attempts: dict[JobId, int] = {}

    @property
    def blobs(self) -> Path:
        return self.directory / "blobs"

    def add(self, job_id: JobId, request: pb.SubmitJobRequest) -> None:
        """The job is durable when this returns."""
        content = request.SerializeToString(deterministic=True)
        with _named("keep", self._of(job_id)):
            self._files.make_directory(str(self._of(job_id)))
            self._files.sync(str(self._of(job_id).parent))
            self._write(job_id, "submission", hashlib.sha256(content).digest() + content)

    def note_attempt(self, job_id: JobId, attempt: int) -> None:
        """Before an attempt of this number is deployed: names of files and transactions hold it, so it must not come again."""
        if attempt <= self._attempts.get(job_id, -1):
            return
        with _named("keep", self._of(job_id)):
            self._write(job_id, "attempt", str(attempt).encode("ascii"))
        self._attempts[job_id] = attempt

    def note_savepoint(self, job_id: JobId, checkpoint_id: CheckpointId, location: str) -> None:
        """Before a savepoint is triggered: it is in no directory that is looked through, and a job that was being stopped with it must go
        on from it once it is complete."""
        place = self._of(job_id) / "savepoints"
        with _named("keep", place):
            self._files.make_directory(str(place))
            self._files.write(str(place / str(checkpoint_id)), [location.encode("utf-8")])

    def end(self, job_id: JobId, state: JobState) -> None:
        """The job has a result: it does not run again, whatever happens from now on."""
        with _named("keep", self._of(job_id)):
            self._write(job_id, "result", state.value.encode("ascii"))

    def remove(self, job_id: JobId) -> None:
        """Forget a job that has a result."""
        with _named("remove", self._of(job_id)):
            self._files.delete(str(self._of(job_id) / "submission"))
            self._files.delete_tree(str(self._of(job_id)))
        self._attempts.pop(job_id, None)

    def jobs(self) -> Iterator[StoredJob | UnreadableJob]:
        """Those that have not ended, in the order of their submission. What has ended, or was never whole, is removed on the way."""
        root = self.directory / "jobs"
        with _named("list", root):
            names = self._files.directories(str(root))
        found = []
        for name in names:
            place = root / name
            try:
                job_id = parse_job_id(name)
                entries = self._files.sizes(str(place))
                if "result" in entries or "submission" not in entries:
                    self.remove(job_id)
                    continue
                found.append(((place / "submission").stat().st_mtime_ns, self._stored(job_id)))
            except TidegateError as error:
                yield UnreadableJob(place, error)
            except (OSError, ValueError) as error:
                yield UnreadableJob(place, StorageError(f"{place} cannot be read: {error}"))
        yield from (job for _, job in sorted(found, key=lambda one: one[0]))

    def _stored(self, job_id: JobId) -> StoredJob:
        place = self._of(job_id)
        content = self._files.read(str(place / "submission"))
        checksum, content = content[:_CHECKSUM_BYTES], content[_CHECKSUM_BYTES:]
        if hashlib.sha256(content).digest() != checksum:
            raise CorruptData(
                f"{place / 'submission'} is damaged: its checksum does not fit; submit the job again with run -s"
            )
        return StoredJob(
            job_id, pb.SubmitJobRequest.FromString(content), self._last_attempt(place), self._savepoints(place)
        )

    def _last_attempt(self, place: Path) -> int:
        try:
            text = self._files.read(str(place / "attempt"))
        except FileNotFoundError:
            return -1
        if not text.isdigit():
            raise CorruptData(
                f"{place / 'attempt'} is damaged: it is {text[:20]!r}, not a number; submit the job again with run -s"
            )
        return int(text)

    def _savepoints(self, place: Path) -> tuple[tuple[CheckpointId, str], ...]:
        below = place / "savepoints"
        names = [name for name in self._files.sizes(str(below)) if _NUMBER.fullmatch(name)]
        return tuple(
            (CheckpointId(number), self._files.read(str(below / str(number))).decode("utf-8"))
            for number in sorted(map(int, names))
        )

    def _of(self, job_id: JobId) -> Path:
        return self.directory / "jobs" / job_id

    def _write(self, job_id: JobId, name: str, content: bytes) -> None:
        self._files.write(str(self._of(job_id) / name), [content])


@contextmanager
def _named(what: str, place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"cannot {what} a job in {place}: {error.strerror or error}; see high-availability.storageDir"
        ) from error
