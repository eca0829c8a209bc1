"""What a leader keeps of its jobs, where the store's answers get lost and other leaders come."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.aio.jobmanager.cluster import JOB, make_graph
from tidegate.aio.pool import Pool
from tidegate.high_availability.port import Deposed, Unavailable
from tidegate.jobmanager.machines.events import JobCancelRequested, RescaleRequested, SnapshotRequested
from tidegate.jobmanager.service.high_availability.attempt_notes import AttemptNotes
from tidegate.jobmanager.service.high_availability.election import Term
from tidegate.jobmanager.service.high_availability.job_store import ENDED_KEPT_MS, JobStore, StoredJob, UnreadableJob
from tidegate.jobmanager.service.high_availability.kept_jobs import KeptJobs
from tidegate.model.checkpoint import SnapshotType
from tidegate.model.errors import DuplicateJob, StorageError
from tidegate.model.ids import CheckpointId, JobId
from tidegate.model.rescaling.bounds import ParallelismBounds
from tidegate.model.rescaling.shape import Shape
from tidegate.model.states import JobState
from tidegate.pb import jobmanager_pb2 as pb
from tidegate.wire.convert import graph_to_pb


class InMemory:
    """Entries. ``loses``: answers of so many changes, which are made all the same."""

    excludes_others = False

    def __init__(self, *, loses: int = 0, is_deposed: bool = False) -> None:
        self.held: dict[str, bytes] = {}
        self.loses = loses
        self._is_deposed = is_deposed
        self.is_full = False

    def get(self, name: str) -> bytes | None:
        return self.held.get(name)

    def names(self, below: str) -> list[str]:
        inside = [name.removeprefix(f"{below}/") for name in self.held if name.startswith(f"{below}/")]
        return sorted({name.partition("/")[0] for name in inside})

    def create(self, name: str, value: bytes) -> bool:
        if self._is_deposed:
            raise Deposed("another JobManager leads")
        found = self.held.setdefault(name, value)
        self._answer()
        return found == value

    def put(self, name: str, value: bytes) -> None:
        if self._is_deposed:
            raise Deposed("another JobManager leads")
        if self.is_full:
            raise StorageError("no space left")
        self.held[name] = value
        self._answer()

    def delete(self, name: str) -> None:
        self.held = {one: value for one, value in self.held.items() if one != name and not one.startswith(f"{name}/")}
        self._answer()

    def check_lead(self) -> None:
        if self._is_deposed:
            raise Deposed("another JobManager leads")
        self._answer()

    def _answer(self) -> None:
        if self.loses:
            self.loses -= 1
            raise Unavailable("the store did not answer")


def request(submission_id: str = "") -> pb.SubmitJobRequest:
    return pb.SubmitJobRequest(graph=graph_to_pb(make_graph()), submission_id=submission_id)


def submissions(directory: Path) -> list[str]:
    return sorted(path.name for path in (directory / "submissions").glob("*"))


async def kept(directory: Path, entries: InMemory, *requests: pb.SubmitJobRequest) -> None:
    pool = Pool(1, "store")
    jobs = KeptJobs(JobStore(str(directory), entries), pool, lambda reason: None)
    try:
        for one in requests:
            await jobs.add(JobId(JOB), one)
    finally:
        pool.close()


async def test_a_job_whose_acceptance_was_not_answered_is_kept_once(tmp_path: Path) -> None:
    """The change is made again: the job that is there is this very one, and no other leader's."""
    entries = InMemory(loses=2)
    await kept(tmp_path, entries, request())
    [stored] = JobStore(str(tmp_path), entries).jobs()
    assert getattr(stored, "job_id", None) == JOB
    assert len(submissions(tmp_path)) == 1


async def test_a_job_that_another_leader_accepted_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    entries = InMemory()
    await kept(tmp_path, entries, request())
    with pytest.raises(DuplicateJob, match="was submitted before"):
        await kept(tmp_path, entries, request())
    assert len(submissions(tmp_path)) == 1


async def test_a_submission_whose_job_has_ended_is_refused_for_a_while_and_another_one_of_the_id_is_not(
    tmp_path: Path,
) -> None:
    """The leader that accepted it was lost before it answered, the next one ran the job to its end, and a third one is asked again."""
    entries, now_ms, first, second = InMemory(), 1_000, request("first"), request("second")
    job, other = JobId(JOB), JobId("b" * 32)

    def store() -> JobStore:
        return JobStore(str(tmp_path), entries, lambda: now_ms)

    def is_accepted(one: JobStore, asked: pb.SubmitJobRequest) -> bool:
        return one.add(job, *one.plan(job, asked))

    def end(one: JobStore, job_id: JobId) -> None:
        one.end(job_id, JobState.FINISHED)
        one.remove(job_id)

    assert is_accepted(store(), first)
    end(store(), job)
    third = store()
    assert list(third.jobs()) == []
    assert not is_accepted(third, first)
    assert is_accepted(third, second), "as in Flink the id of a job that has ended is free"
    end(third, job)
    assert not is_accepted(third, second)
    now_ms += ENDED_KEPT_MS
    assert third.add(other, *third.plan(other, request("third")))
    end(third, other)
    assert list(entries.held) == [f"ended/{other}"]
    now_ms += ENDED_KEPT_MS
    assert list(store().jobs()) == []
    assert list(entries.held) == []
    assert submissions(tmp_path) == []


async def test_a_job_whose_end_cannot_be_stored_keeps_its_checkpoints(tmp_path: Path) -> None:
    """So that the next leader goes on from them, and not from the start."""
    entries, job = InMemory(), JobId(JOB)
    await kept(tmp_path, entries, request())
    store = JobStore(str(tmp_path), entries)
    store.point(job, CheckpointId(7), "/chk-7")
    entries.is_full = True
    with pytest.raises(StorageError, match="no space left"):
        store.end(job, JobState.FINISHED)
    entries.is_full = False
    with pytest.raises(StorageError, match="checkpoint 7 is kept, because the end of its job could not be stored"):
        store.unpoint(job, CheckpointId(7))
    with pytest.raises(StorageError, match="the job is kept, because its end could not be stored"):
        store.remove(job)
    [stored] = JobStore(str(tmp_path), entries).jobs()
    assert getattr(stored, "pointers", None) == ((7, "/chk-7"),)
    store.end(job, JobState.FINISHED)
    store.remove(job)
    assert list(entries.held) == []


async def test_a_leader_that_was_deposed_removes_no_file_of_a_job_that_another_one_is_accepting(tmp_path: Path) -> None:
    (tmp_path / "submissions").mkdir()
    (tmp_path / "submissions" / f"{JOB}-012345abcdef").write_bytes(b"its entry is written next")
    with pytest.raises(Deposed):
        list(JobStore(str(tmp_path), InMemory(is_deposed=True)).jobs())
    assert len(submissions(tmp_path)) == 1
    assert list(JobStore(str(tmp_path), InMemory()).jobs()) == []
    assert submissions(tmp_path) == []


async def test_a_job_of_a_leader_that_was_deposed_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(Deposed):
        await kept(tmp_path, InMemory(is_deposed=True), request())
    assert submissions(tmp_path) == []


async def test_a_job_whose_acceptance_was_not_answered_before_the_lead_was_lost_keeps_its_file(tmp_path: Path) -> None:
    """It may have been accepted: then the next leader goes on with it."""

    class DeposedBehindIt(InMemory):
        def create(self, name: str, value: bytes) -> bool:
            try:
                return super().create(name, value)
            finally:
                self._is_deposed = True

    entries = DeposedBehindIt(loses=1)
    with pytest.raises(Deposed):
        await kept(tmp_path, entries, request())
    [stored] = JobStore(str(tmp_path), entries).jobs()
    assert getattr(stored, "job_id", None) == JOB


async def test_the_next_leader_removes_submissions_that_nothing_names(tmp_path: Path) -> None:
    """Their JobManager was killed before it could accept them."""
    entries = InMemory()
    await kept(tmp_path, entries, request())
    [accepted] = submissions(tmp_path)
    for stray in (f"{JOB}-000000000000", f"{'b' * 32}-000000000000"):
        (tmp_path / "submissions" / stray).write_bytes(b"half of it")
    list(JobStore(str(tmp_path), entries).jobs())
    assert submissions(tmp_path) == [accepted]


async def test_nothing_is_removed_while_an_entry_cannot_be_read(tmp_path: Path) -> None:
    """It may name any of them."""
    entries = InMemory()
    await kept(tmp_path, entries, request())
    entries.held[f"execution-plans/{JOB}"] += b"damaged"
    list(JobStore(str(tmp_path), entries).jobs())
    assert len(submissions(tmp_path)) == 1


async def test_a_result_beside_a_damaged_entry_is_cleaned_up_and_keeps_no_other_job(tmp_path: Path) -> None:
    """The process died between the result and the removal of the job, and its entry cannot be read."""
    entries, other = InMemory(), "b" * 32
    await kept(tmp_path, entries, request())
    entries.held[f"execution-plans/{other}"] = entries.held[f"execution-plans/{JOB}"]
    entries.held[f"execution-plans/{JOB}"] = b"damaged"
    entries.held[f"job-results/{JOB}"] = b"FINISHED"
    [stored] = JobStore(str(tmp_path), entries).jobs()
    assert getattr(stored, "job_id", None) == other
    assert list(entries.held) == [f"execution-plans/{other}"]


async def test_what_a_client_asked_for_is_kept_until_it_is_over(tmp_path: Path) -> None:
    entries, stop = InMemory(), SnapshotRequested(JobId(JOB), "5" * 32, SnapshotType.TERMINATE, "/savepoints")
    await kept(tmp_path, entries, request())
    store = JobStore(str(tmp_path), entries)
    for asked in (stop, JobCancelRequested(JobId(JOB))):
        store.note_request(asked)
    [stored] = JobStore(str(tmp_path), entries).jobs()
    assert isinstance(stored, StoredJob)
    assert set(stored.requests) == {stop, JobCancelRequested(JobId(JOB))}
    store.forget_request(JobId(JOB), stop.request_id)
    [stored] = JobStore(str(tmp_path), entries).jobs()
    assert isinstance(stored, StoredJob)
    assert stored.requests == (JobCancelRequested(JobId(JOB)),)


async def test_a_damaged_request_of_a_client_leaves_its_job_alone(tmp_path: Path) -> None:
    entries = InMemory()
    await kept(tmp_path, entries, request())
    entries.held[f"jobs/{JOB}/asked/{'5' * 32}"] = b"half of it"
    [stored] = JobStore(str(tmp_path), entries).jobs()
    assert isinstance(stored, UnreadableJob)
    assert f"asked/{'5' * 32} is damaged" in stored.error.message


class Silent(InMemory):
    """Does not answer a read of an entry, so many times."""

    reads_lost = 1

    def get(self, name: str) -> bytes | None:
        if name.endswith("/attempt") and self.reads_lost:
            self.reads_lost -= 1
            raise Unavailable("the store did not answer")
        return super().get(name)


async def test_a_store_that_is_silent_while_jobs_are_read_is_asked_again_and_no_job_is_left_out(tmp_path: Path) -> None:
    entries, term = Silent(), Term(1)
    await kept(tmp_path, entries, request())
    pool = Pool(1, "store")
    try:
        found = await term.answered(lambda: pool.submit(lambda: list(JobStore(str(tmp_path), entries).jobs())))
    finally:
        pool.close()
    assert [getattr(job, "job_id", None) for job in found] == [JOB]


async def test_nobody_asks_a_silent_store_once_another_leads() -> None:
    term = Term(1)

    async def ask() -> None:
        term.end("its session is over")
        raise Unavailable("the store did not answer")

    with pytest.raises(Deposed, match="its session is over"):
        await term.answered(ask)


async def test_attempts_of_one_event_are_noted_with_one_write() -> None:
    """And of the next one with another."""
    entries, pool = InMemory(), Pool(1, "store")
    notes = AttemptNotes(KeptJobs(JobStore("/nowhere", entries), pool, lambda reason: None))
    try:
        first = [
            notes.permit_for(JobId(JOB), region, attempt) for region, attempt in ((None, 0), (1, 1), (3, 2), (1, 1))
        ]
        assert len(set(first)) == 1
        assert first[0] is not None
        await first[0]
        assert entries.held[f"jobs/{JOB}/attempt"] == b"0 1:1 3:2"
        assert notes.permit_for(JobId(JOB), 0, 0) is None, "all regions were noted with it"
        assert notes.permit_for(JobId(JOB), 3, 1) is None
        second = notes.permit_for(JobId(JOB), 0, 1)
        assert second is not None, "that of another region says nothing"
        await second
        assert entries.held[f"jobs/{JOB}/attempt"] == b"0 0:1 1:1 3:2"
    finally:
        pool.close()


async def test_the_shape_of_a_job_and_the_bounds_that_were_asked_for_are_kept_as_long_as_the_job(
    tmp_path: Path,
) -> None:
    entries, vertex = InMemory(), make_graph().vertices[0].vertex_id
    await kept(tmp_path, entries, request())
    store = JobStore(str(tmp_path), entries)
    [stored] = store.jobs()
    assert getattr(stored, "shape", "unreadable") is None
    wanted = [RescaleRequested(JobId(JOB), {vertex: ParallelismBounds(1, upper)}) for upper in (4, 2)]
    for asked in wanted:
        store.note_request(asked)
    store.note_shape(JobId(JOB), Shape({vertex: 2}, 7))
    [stored] = store.jobs()
    assert getattr(stored, "requests", None) == (wanted[-1],), "the last one counts"
    assert getattr(stored, "shape", None) == Shape({vertex: 2}, 7)
    entries.held[f"jobs/{JOB}/shape"] = b"2"
    [damaged] = store.jobs()
    assert isinstance(damaged, UnreadableJob)
    assert "is damaged" in damaged.error.message
    store.end(JobId(JOB), JobState.FINISHED)
    assert list(store.jobs()) == []
    assert list(entries.held) == []
