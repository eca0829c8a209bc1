"""The job store of a cluster: each job as it was submitted, and what the next JobManager must know about it.

    execution-plans/<job id>                   where the request of the client is, and its checksum
    jobs/<job id>/attempt                      the last numbers of attempts: what of all regions, and of which region a higher one
    jobs/<job id>/checkpoint_id_counter        the highest id that a checkpoint may have
    jobs/<job id>/checkpoints/<n>              where completed checkpoint n is: the pointer, which makes it one
    jobs/<job id>/savepoints/<n>               where snapshot n, a savepoint, was begun
    jobs/<job id>/asked/cancel │ <request id>  what a client has asked for and is not finished: a cancellation, a savepoint, a stop
    jobs/<job id>/asked/rescale                the bounds within which its vertices are to run, from now on
    jobs/<job id>/shape                        the numbers of subtasks that it has instead of those of its submission
    job-results/<job id>                       the state in which the job ended: it never runs again (Flink's dirty JobResultStore entry)
    ended/<job id>                             when a removed job ended, and of which submission it was, for a client that was not answered
    listed                                     briefly, to verify that this process still leads after it listed the files of jobs
    <storageDir>/submissions/<job id>-<random> the request
    <storageDir>/pasts/<job id>                the job's history under earlier JobManagers, for display; it may be some seconds old
    <storageDir>/blobs/<sha256>-<term>         programs and files of jobs

A job whose result is written is removed as a whole after that, its result last; what a killed process left of that is removed by the
next one. All methods block and raise ``StorageError``; those that change something are idempotent.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec
from google.protobuf.message import DecodeError

from tidegate.high_availability.port import Deposed, Entries, Unavailable
from tidegate.jobmanager.machines.events import ClientRequest, JobCancelRequested, RescaleRequested, SnapshotRequested
from tidegate.jobmanager.machines.views import JobHistory
from tidegate.model.errors import CorruptData, StorageError, TidegateError
from tidegate.model.ids import CheckpointId, JobId, parse_job_id
from tidegate.model.leadership.noted_attempts import NotedAttempts, parse_noted_attempts
from tidegate.model.rescaling.shape import Shape
from tidegate.model.states import JobState
from tidegate.model.storage_errors import reason_of
from tidegate.pb import jobmanager_pb2 as pb
from tidegate.store.files import Files
from tidegate.store.locations import open_files
from tidegate.wire.unreadable import UNREADABLE

PLANS, JOBS, RESULTS, SUBMISSIONS, HISTORIES = "execution-plans", "jobs", "job-results", "submissions", "pasts"
ENDED = "ended"
ENDED_KEPT_MS = 600_000
"""How long an ended submission is refused. Chosen: several times as long as a client waits for an answer and for the next JobManager, two minutes."""
LISTED = "listed"
_KINDS: Mapping[str, type[ClientRequest]] = {"cancel": JobCancelRequested, "rescale": RescaleRequested}
"""Requests that are stored under a fixed name; snapshots are stored under their ids."""
ID_BLOCK = 16
"""How many checkpoint ids are reserved with one write. A new leader skips those that were not used."""
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """The entry of a job: where its request is stored. ``file`` is relative to the storage directory."""

    file: str
    sha256: str
    submitted_ms: int
    submission_id: str = ""
    """The client's; empty from clients that send none."""


@dataclass(frozen=True, slots=True)
class _EndedJob:
    """A job that was removed, and of which submission it was."""

    at_ms: int
    submission_id: str

    @staticmethod
    def read(content: bytes) -> _EndedJob:
        """Decodes an entry. A damaged one is that of no submission, and old."""
        try:
            return msgspec.json.decode(content, type=_EndedJob)
        except msgspec.MsgspecError:
            return _EndedJob(0, "")


@dataclass(frozen=True, slots=True)
class StoredJob:
    """A stored job that has not ended.

    ``attempts``: the last ones of its regions; ``savepoints``: those that were started; ``pointers``: locations of completed checkpoints;
    ``last_id``: the highest id that a checkpoint may have, ``None`` when only the directories tell; ``shape``: ``None`` for a job with its
    submitted parallelism.
    """

    job_id: JobId
    request: pb.SubmitJobRequest
    attempts: NotedAttempts
    savepoints: tuple[tuple[CheckpointId, str], ...]
    pointers: tuple[tuple[CheckpointId, str], ...]
    last_id: CheckpointId | None
    history: JobHistory | None = None
    requests: tuple[ClientRequest, ...] = ()
    shape: Shape | None = None


@dataclass(frozen=True, slots=True)
class UnreadableJob:
    """An entry that cannot be read; it is left as it is."""

    place: str
    error: TidegateError


class JobStore:
    """Reads and writes the jobs of a cluster. ``directory``: ``high-availability.storageDir`` with the name of the cluster, a path or URI."""

    def __init__(self, directory: str, entries: Entries, wall_clock_ms: Callable[[], int] | None = None) -> None:
        self.directory = directory
        self._entries = entries
        self._now_ms = wall_clock_ms or (lambda: int(time.time() * 1000))
        self._attempts: dict[JobId, NotedAttempts] = {}
        self._unanswered: set[str] = set()
        """Files of jobs whose acceptance the store did not answer, so that they may be accepted."""
        self._reserved: dict[JobId, int] = {}
        self._pointed: dict[JobId, set[CheckpointId]] = {}
        self._ended: dict[JobId, int] = {}
        """Removed jobs whose submissions are still refused, with the time in ms at which they were removed; the oldest first."""
        self._without_result: set[JobId] = set()
        """Jobs that have ended and whose results are not stored, so that the next leader goes on with them."""

    # ---- a job's life ------------------------------------------------------------------------------------------------

    def plan(self, job_id: JobId, request: pb.SubmitJobRequest) -> tuple[StoredPlan, bytes]:
        """Returns a new entry for a job, and the content of its file. Call it once per submission, so that adding it is idempotent."""
        content = request.SerializeToString(deterministic=True)
        file = f"{SUBMISSIONS}/{job_id}-{secrets.token_hex(6)}"
        return StoredPlan(file, hashlib.sha256(content).hexdigest(), self._now_ms(), request.submission_id), content

    def add(self, job_id: JobId, plan: StoredPlan, content: bytes) -> bool:
        """Stores a job durably; returns ``False`` when another leader has accepted a job of this id, or this submission, whose job may have ended."""
        ended = self._entries.get(f"{ENDED}/{job_id}")
        if ended is not None and plan.submission_id and _EndedJob.read(ended).submission_id == plan.submission_id:
            return False
        with self._file(plan.file, "keep") as (files, path):
            files.make_directory(path.rpartition("/")[0])
            files.write(path, [content])
        try:
            is_ours = self._entries.create(f"{PLANS}/{job_id}", msgspec.json.encode(plan))
        except Unavailable:
            self._unanswered.add(plan.file)
            raise
        except Deposed:
            if plan.file not in self._unanswered:  # otherwise the next leader may have it, or removes it
                self._delete_file(plan.file)
            raise
        if not is_ours:
            self._delete_file(plan.file)
        return is_ours

    def note_attempts(self, job_id: JobId, attempts: Mapping[int | None, int]) -> None:
        """Stores attempt numbers by region, before the attempts are deployed.

        Names of files and transactions contain the numbers, so they must not be reused; and no earlier attempt of the region may be
        adopted from now on.
        """
        known = self._attempts.get(job_id, NotedAttempts())
        noted = known.noting(attempts)
        if noted != known:
            self._entries.put(f"{JOBS}/{job_id}/attempt", str(noted).encode("ascii"))
            self._attempts[job_id] = self._attempts.get(job_id, NotedAttempts()).noting(attempts)

    def is_noted(self, job_id: JobId, region: int | None, attempt: int) -> bool:
        """Tells whether this attempt number of the region, or a later one, is stored."""
        return self._attempts.get(job_id, NotedAttempts()).covers(region, attempt)

    def reserve_id(self, job_id: JobId, checkpoint_id: CheckpointId) -> None:
        """Reserves a checkpoint id before anything of the checkpoint is written, since a deposed leader may still be writing it."""
        if self._entries.excludes_others or checkpoint_id <= self._reserved.get(job_id, 0):
            return
        last = checkpoint_id + ID_BLOCK - 1
        self._entries.put(f"{JOBS}/{job_id}/checkpoint_id_counter", str(last).encode("ascii"))
        self._reserved[job_id] = last

    def note_savepoint(self, job_id: JobId, checkpoint_id: CheckpointId, location: str) -> None:
        """Stores the location of a savepoint before it is triggered: recovery does not look through its directory."""
        self._entries.put(f"{JOBS}/{job_id}/savepoints/{checkpoint_id}", location.encode("utf-8"))

    def note_request(self, request: ClientRequest) -> None:
        """Stores a client's request before it is started, so that the next leader finishes it."""
        own = next((name for name, kind in _KINDS.items() if isinstance(request, kind)), "")
        name = request.request_id if isinstance(request, SnapshotRequested) else own
        self._entries.put(f"{JOBS}/{request.job_id}/asked/{name}", msgspec.json.encode(request))

    def forget_request(self, job_id: JobId, request_id: str) -> None:
        """Removes a request that is done, of a job that has not ended."""
        self._entries.delete(f"{JOBS}/{job_id}/asked/{request_id}")

    def note_shape(self, job_id: JobId, shape: Shape) -> None:
        """Stores the parallelism of a job before anything of it is deployed, for this leader and later ones."""
        self._entries.put(f"{JOBS}/{job_id}/shape", msgspec.json.encode(shape))

    def point(self, job_id: JobId, checkpoint_id: CheckpointId, location: str) -> None:
        """Writes the pointer of a checkpoint, which completes it under this leader and later ones. Its ``_metadata`` must be durable."""
        name = _pointer(job_id, checkpoint_id)
        if not self._entries.create(name, location.encode("utf-8")):
            raise CorruptData(f"{name} in the job store names another checkpoint than {location}; nothing was changed")
        self._pointed.setdefault(job_id, set()).add(checkpoint_id)

    def unpoint(self, job_id: JobId, checkpoint_id: CheckpointId) -> None:
        """Deletes the pointer of a completed checkpoint before its files, so that no leader restores it. No-op without a pointer.

        Raises ``StorageError`` for an ended job whose result could not be stored: the next leader goes on from the checkpoint.
        """
        if job_id in self._without_result:
            raise StorageError(f"checkpoint {checkpoint_id} is kept, because the end of its job could not be stored")
        if checkpoint_id in self._pointed.get(job_id, ()):
            self._entries.delete(_pointer(job_id, checkpoint_id))
            self._pointed[job_id].discard(checkpoint_id)

    def keep_history(self, job_id: JobId, history: JobHistory) -> None:
        """Replaces the stored history of a job. It is not fenced: a write of a deposed leader does no harm."""
        with self._file(f"{HISTORIES}/{job_id}", "keep the history of") as (files, path):
            files.make_directory(path.rpartition("/")[0])
            files.write(path, [msgspec.msgpack.encode(history)])

    def end(self, job_id: JobId, state: JobState) -> None:
        """Stores the result of a job: it never runs again."""
        self._without_result.add(job_id)
        self._entries.put(f"{RESULTS}/{job_id}", state.value.encode("ascii"))
        self._without_result.discard(job_id)

    def remove(self, job_id: JobId) -> None:
        """Removes a job that has a result. Raises ``StorageError`` for one whose result could not be stored."""
        if job_id in self._without_result:
            raise StorageError("the job is kept, because its end could not be stored")
        plan = self._plan_of(job_id)
        if plan is not None and plan.submission_id:
            ended = _EndedJob(self._now_ms(), plan.submission_id)
            self._entries.put(f"{ENDED}/{job_id}", msgspec.json.encode(ended))
            self._ended[job_id] = ended.at_ms
        self._entries.delete(f"{JOBS}/{job_id}")
        self._entries.delete(f"{PLANS}/{job_id}")
        if plan is not None:
            self._delete_file(plan.file)
        self._delete_file(f"{HISTORIES}/{job_id}")
        self._entries.delete(f"{RESULTS}/{job_id}")
        for known in (self._attempts, self._reserved, self._pointed):
            known.pop(job_id, None)
        self._forget_ended()

    # ---- the next leader ---------------------------------------------------------------------------------------------

    def jobs(self) -> Iterator[StoredJob | UnreadableJob]:
        """Yields jobs that have not ended, in the order of their submission; removes what is left of ended and never accepted ones.

        Raises ``Unavailable`` and ``Deposed``, which concern the store and not a single job.
        """
        ended = set(self._entries.names(RESULTS))
        for name in ended:
            self.remove(JobId(name))
        self._look_for_ended()
        self._remove_unnamed()
        found = []
        for name in self._entries.names(PLANS):
            place = f"{PLANS}/{name}"
            try:
                job_id = parse_job_id(name)
                content = self._entries.get(place)
                if content is not None and name not in ended:
                    plan = self._read_plan(place, content)
                    found.append((plan.submitted_ms, self._stored(job_id, plan)))
            except (Unavailable, Deposed):
                raise
            except TidegateError as error:
                yield UnreadableJob(f"{self.directory}/{place}", error)
            except ValueError as error:
                yield UnreadableJob(f"{self.directory}/{place}", CorruptData(f"{place}: {error}"))
        yield from (job for _, job in sorted(found, key=lambda one: one[0]))

    def _look_for_ended(self) -> None:
        """Reads the ended submissions of earlier leaders, and removes those that need not be known any longer."""
        found = {}
        for name in self._entries.names(ENDED):
            content = self._entries.get(f"{ENDED}/{name}")
            found[JobId(name)] = 0 if content is None else _EndedJob.read(content).at_ms
        self._ended = dict(sorted(found.items(), key=lambda one: one[1]))
        self._forget_ended()

    def _forget_ended(self) -> None:
        for job_id, at_ms in list(self._ended.items()):
            if self._now_ms() - at_ms < ENDED_KEPT_MS:
                break
            self._entries.delete(f"{ENDED}/{job_id}")
            del self._ended[job_id]

    def _plan_of(self, job_id: JobId) -> StoredPlan | None:
        """Returns the entry of a job; ``None`` without one, or for a damaged one, whose file is removed with those that no entry names."""
        content = self._entries.get(f"{PLANS}/{job_id}")
        try:
            return None if content is None else self._read_plan(f"{PLANS}/{job_id}", content)
        except CorruptData:
            return None

    def _remove_unnamed(self) -> None:
        """Removes submissions that killed leaders did not accept; none while an entry cannot be read, since it may name any of them."""
        found = [f"{SUBMISSIONS}/{name}" for name in self._names_in(SUBMISSIONS)]
        histories = self._names_in(HISTORIES)
        named = set()
        for name in self._entries.names(PLANS):
            place = f"{PLANS}/{name}"
            content = self._entries.get(place)
            try:
                named.add(self._read_plan(place, content).file if content is not None else "")
            except CorruptData:
                return
        jobs = self._entries.names(PLANS)
        unnamed = [file for file in found if file not in named]
        unnamed += [f"{HISTORIES}/{name}" for name in histories if name not in jobs]
        if unnamed:
            # Refused if another JobManager leads: a file that no entry names yet may belong to its jobs.
            self._entries.put(LISTED, b"")
            for file in unnamed:
                self._delete_file(file)
            self._entries.delete(LISTED)

    def _stored(self, job_id: JobId, plan: StoredPlan) -> StoredJob:
        with self._file(plan.file, "read") as (files, path):
            content = files.read(path)
        if hashlib.sha256(content).hexdigest() != plan.sha256:
            raise CorruptData(
                f"{self.directory}/{plan.file} is damaged: its checksum does not match; submit the job again with run -s"
            )
        try:
            request = pb.SubmitJobRequest.FromString(content)
        except DecodeError as error:
            raise CorruptData(f"{self.directory}/{plan.file} cannot be read: {error}") from None
        below = f"{JOBS}/{job_id}"
        last_id = self._number(f"{below}/checkpoint_id_counter")
        pointers = self._places(f"{below}/checkpoints")
        self._attempts[job_id] = self._noted_attempts(f"{below}/attempt")
        self._pointed[job_id] = {number for number, _ in pointers}
        return StoredJob(
            job_id,
            request,
            self._attempts[job_id],
            self._places(f"{below}/savepoints"),
            pointers,
            None if last_id is None else CheckpointId(last_id),
            self._history(job_id),
            tuple(self._requests(below)),
            self._shape(f"{below}/shape"),
        )

    def _read_plan(self, place: str, content: bytes) -> StoredPlan:
        try:
            return msgspec.json.decode(content, type=StoredPlan)
        except UNREADABLE as error:
            raise CorruptData(
                f"{self.directory}/{place} is damaged: {error}; submit the job again with run -s"
            ) from None

    def _history(self, job_id: JobId) -> JobHistory | None:
        """Returns the stored history of a job; ``None`` when there is none or it cannot be read: the job goes on without it."""
        try:
            with self._file(f"{HISTORIES}/{job_id}", "read the history of") as (files, path):
                return msgspec.msgpack.decode(files.read(path), type=JobHistory)
        except (StorageError, *UNREADABLE):
            return None

    def _requests(self, below: str) -> Iterator[ClientRequest]:
        for name in self._entries.names(f"{below}/asked"):
            content = self._entries.get(f"{below}/asked/{name}")
            try:
                if content is not None:
                    yield msgspec.json.decode(content, type=_KINDS.get(name, SnapshotRequested))
            except UNREADABLE as error:
                place = f"{self.directory}/{below}/asked/{name}"
                raise CorruptData(f"{place} is damaged: {error}; submit the job again with run -s") from None

    def _shape(self, name: str) -> Shape | None:
        content = self._entries.get(name)
        try:
            return None if content is None else msgspec.json.decode(content, type=Shape)
        except UNREADABLE as error:
            message = f"{self.directory}/{name} is damaged: {error}; submit the job again with run -s"
            raise CorruptData(message) from None

    def _noted_attempts(self, name: str) -> NotedAttempts:
        text = self._entries.get(name)
        try:
            return NotedAttempts() if text is None else parse_noted_attempts(text.decode("utf-8", "replace"))
        except CorruptData as error:
            message = f"{self.directory}/{name} is damaged: {error.message}; submit the job again with run -s"
            raise CorruptData(message) from None

    def _number(self, name: str) -> int | None:
        text = self._entries.get(name)
        if text is not None and not text.isdigit():
            raise CorruptData(
                f"{self.directory}/{name} is damaged: it is {text[:20]!r}, not a number; submit the job again with run -s"
            )
        return None if text is None else int(text)

    def _places(self, below: str) -> tuple[tuple[CheckpointId, str], ...]:
        numbers = sorted((int(name), name) for name in self._entries.names(below) if _NUMBER.fullmatch(name))
        found = ((CheckpointId(number), self._entries.get(f"{below}/{name}")) for number, name in numbers)
        return tuple((number, content.decode("utf-8", "replace")) for number, content in found if content is not None)

    # ---- files -------------------------------------------------------------------------------------------------------

    @contextmanager
    def _file(self, name: str, what: str) -> Iterator[tuple[Files, str]]:
        place = f"{self.directory}/{name}"
        try:
            yield open_files(place)
        except OSError as error:
            raise StorageError(
                f"cannot {what} a job in {place}: {reason_of(error)}; see high-availability.storageDir"
            ) from error

    def _names_in(self, folder: str) -> list[str]:
        with self._file(folder, "look for") as (files, path):
            return list(files.sizes(path))

    def _delete_file(self, name: str) -> None:
        with self._file(name, "remove") as (files, path):
            files.delete(path)


def _pointer(job_id: JobId, checkpoint_id: CheckpointId) -> str:
    """Returns the name of a checkpoint's pointer. As in Flink ids have nineteen digits, so that names sort like numbers."""
    return f"{JOBS}/{job_id}/checkpoints/{checkpoint_id:019d}"
