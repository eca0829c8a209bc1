"""What a leader keeps of its jobs, where the store's answers get lost and other leaders come."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.aio.jobmanager.cluster import JOB, make_graph
from tidegate.aio.pool import Pool
from tidegate.coordination.port import Deposed, Unavailable
from tidegate.jobmanager.service.high_availability.attempt_notes import AttemptNotes
from tidegate.jobmanager.service.high_availability.job_store import JobStore
from tidegate.jobmanager.service.high_availability.kept_jobs import KeptJobs
from tidegate.model.errors import InvalidJob
from tidegate.model.ids import JobId
from tidegate.pb import jobmanager_pb2 as pb
from tidegate.wire.convert import graph_to_pb


class InMemory:
    """Entries. ``loses``: answers of so many changes, which are made all the same."""

    excludes_others = False

    def __init__(self, *, loses: int = 0, is_deposed: bool = False) -> None:
        self.held: dict[str, bytes] = {}
        self.loses = loses
        self._is_deposed = is_deposed

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
        self.held[name] = value
        self._answer()

    def delete(self, name: str) -> None:
        self.held = {one: value for one, value in self.held.items() if one != name and not one.startswith(f"{name}/")}
        self._answer()

    def _answer(self) -> None:
        if self.loses:
            self.loses -= 1
            raise Unavailable("the store did not answer")


def request() -> pb.SubmitJobRequest:
    return pb.SubmitJobRequest(graph=graph_to_pb(make_graph()))


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
    with pytest.raises(InvalidJob, match="was submitted before"):
        await kept(tmp_path, entries, request())
    assert len(submissions(tmp_path)) == 1


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
