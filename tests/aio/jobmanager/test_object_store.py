"""JobManagers whose leader is elected in a real bucket alone: who leads, who is refused, and which jobs the next one goes on with."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.aio.jobmanager.cluster import (
    JOB,
    FakeTaskManager,
    client_of,
    is_running,
    make_graph,
    put_blob,
    run_job,
    running_job_manager,
    submit,
    watch_until,
)
from tests.e2e.waiting import wait_until
from tests.servers.versitygw import BUCKET, VersityGateway
from tidegate.cli.main import main
from tidegate.cli.options import address_of
from tidegate.high_availability.object_store.bucket import Bucket, open_bucket
from tidegate.high_availability.object_store.conditions import check_conditions, full_check
from tidegate.high_availability.object_store.election import BucketElection, BucketSettings
from tidegate.high_availability.object_store.lease import Version
from tidegate.high_availability.object_store.retrieval import BucketRetrieval
from tidegate.high_availability.port import Deposed, encode_contact
from tidegate.jobmanager.service.app import Listening
from tidegate.jobmanager.service.process import serve
from tidegate.model.configuration import Configuration
from tidegate.model.errors import TidegateError, Unreachable
from tidegate.model.ids import JobId
from tidegate.model.leadership import Connected, Contact, ElectionEvent, Leader, LockAcquired, Lost, Suspended
from tidegate.pb import jobmanager_pb2 as pb

OTHER = "b" * 32
LEASE_MS, RENEW_MS = 2_000, 300


class Candidate:
    """A JobManager's side of an election, driven by hand."""

    def __init__(self, url: str, name: str) -> None:
        self.contact = Contact(name)
        self.election = BucketElection(BucketSettings(url, LEASE_MS, RENEW_MS))
        self._sent: queue.Queue[ElectionEvent] = queue.Queue()
        self.election.seek(self.contact, self._sent.put)

    def wait(self, kind: type[ElectionEvent]) -> ElectionEvent:
        while not isinstance(event := self._sent.get(timeout=60), kind):
            pass
        return event

    def get_in_line(self) -> None:
        connected = self.wait(Connected)
        assert isinstance(connected, Connected)
        self.election.wait_for_turn(connected.session)

    def wait_turn(self) -> int:
        acquired = self.wait(LockAcquired)
        assert isinstance(acquired, LockAcquired)
        return acquired.term


@contextmanager
def candidates(url: str, *names: str) -> Iterator[list[Candidate]]:
    found = [Candidate(url, name) for name in names]
    try:
        yield found
    finally:
        for candidate in found:
            candidate.election.close()


class Frozen:
    """A process that is stopped: its thread waits in the middle of a request, and goes on when it is let go."""

    def __init__(self, election: BucketElection, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_held, self._may_go = threading.Event(), threading.Event()
        held, write = election._bucket, Bucket.write

        def stopped(bucket: Bucket, name: str, content: bytes, expected: Version | None) -> Version | None:
            if bucket is held:
                self.is_held.set()
                assert self._may_go.wait(60)
            return write(bucket, name, content, expected)

        monkeypatch.setattr(Bucket, "write", stopped)
        assert self.is_held.wait(60)

    def let_go(self) -> None:
        self._may_go.set()


def test_one_writer_wins_each_round(bucket: str) -> None:
    """A thousand rounds, four writers: the server of these tests keeps conditions."""
    *_, tally = full_check(lambda: open_bucket(bucket, 10), 1_000, 4)
    assert not tally.broken
    assert (tally.rounds, tally.created[1], tally.replaced[1]) == (1_000, 1_000, 1_000)


def test_a_leader_that_was_stopped_for_longer_than_its_lease_changes_nothing(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with candidates(bucket, "one", "two") as (one, two):
        one.get_in_line()
        first = one.wait_turn()
        one.election.publish(first, Contact("one", "host:1", "host:2"))
        two.get_in_line()
        retrieval = BucketRetrieval(BucketSettings(bucket, LEASE_MS, RENEW_MS))
        assert retrieval.leader() == Leader(first, Contact("one", "host:1", "host:2"))
        entries = one.election.entries(first)
        assert entries.create("jobs/a/checkpoints/1", b"chk-1")
        assert entries.create("jobs/a/checkpoints/1", b"chk-1"), "the same again does no harm"
        assert not entries.create("jobs/a/checkpoints/1", b"another")
        entries.put("jobs/a/attempt", b"1")
        entries.put("jobs/a/attempt", b"2")
        entries.check_lead()
        assert entries.names("jobs/a") == ["attempt", "checkpoints"]
        frozen = Frozen(one.election, monkeypatch)
        second = two.wait_turn()
        assert second > first
        frozen.let_go()
        assert isinstance(one.wait(Lost), Lost)
        for change in (
            lambda: entries.create("jobs/a/checkpoints/2", b"chk-2"),
            lambda: entries.put("jobs/a/attempt", b"3"),
            lambda: entries.delete("jobs/a/checkpoints/1"),
            lambda: one.election.publish(first, Contact("one")),
            entries.check_lead,
        ):
            with pytest.raises(Deposed, match="leads no more"):
                change()
        assert retrieval.leader() is None, "the new leader has not said yet where it is"
        found = two.election.entries(second)
        assert found.get("jobs/a/attempt") == b"2"
        assert found.names("jobs/a/checkpoints") == ["1"]
        found.delete("jobs/a")
        assert found.names("jobs") == []
        one.get_in_line()
        two.election.give_up()
        assert one.wait_turn() > second
        retrieval.close()


def test_a_leader_whose_bucket_does_not_answer_pauses_and_goes_on(bucket: str, gateway: VersityGateway) -> None:
    with candidates(bucket, "one") as (one,):
        one.get_in_line()
        term = one.wait_turn()
        entries = one.election.entries(term)
        entries.put("jobs/a/attempt", b"1")
        gateway.kill9()
        try:
            assert isinstance(one.wait(Suspended), Suspended)
        finally:
            gateway.start()
        assert isinstance(one.wait(Connected), Connected)
        entries.put("jobs/a/attempt", b"2")
        assert entries.get("jobs/a/attempt") == b"2"


def test_a_leader_shows_who_waits_and_removes_what_killed_standbys_left(bucket: str, gateway: VersityGateway) -> None:
    standbys = gateway.root / BUCKET / bucket.rpartition("/")[2] / "standbys"
    place = open_bucket(bucket, 10)
    place.put("standbys/killed", encode_contact(Contact("killed")))
    long_ago = time.time() - 7_200
    os.utime(standbys / "killed", (long_ago, long_ago))
    with candidates(bucket, "one", "two") as (one, two):
        one.get_in_line()
        one.wait_turn()
        two.get_in_line()
        retrieval = BucketRetrieval(BucketSettings(bucket, LEASE_MS, RENEW_MS))
        wait_until(lambda: retrieval.standbys() == [Contact("two")], 60, "it is seen that two waits")
        wait_until(lambda: "killed" not in place.names("standbys"), 60, "what was left is removed")
    assert place.names("standbys") == {}


def kept_by(bucket: str, directory: Path) -> dict[str, str]:
    """Nothing is adopted: TaskManagers of these tests end with their JobManager."""
    return {
        "tidegate_jobmanager_loss__grace": "0 s",
        "high__availability_type": "object-store",
        "high__availability_storageDir": bucket,
        "execution_checkpointing_dir": str(directory / "checkpoints"),
        "tidegate_high__availability_object__store_lease__duration": f"{LEASE_MS} ms",
        "tidegate_high__availability_object__store_renew__interval": f"{RENEW_MS} ms",
    }


def configuration_of(settings: dict[str, str]) -> Configuration:
    return Configuration.from_strings(
        {key.replace("__", "-").replace("_", "."): text for key, text in settings.items()}
    )


async def test_the_next_leader_goes_on_with_the_job_from_its_last_checkpoint(
    bucket: str, gateway: VersityGateway, tmp_path: Path
) -> None:
    task_managers = [FakeTaskManager(name) for name in ("tm-1", "tm-2")]
    settings = kept_by(bucket, tmp_path)
    try:
        async with running_job_manager(**settings) as listening, client_of(listening) as client:
            for task_manager in task_managers:
                await task_manager.start(listening)
            await run_job(client)
            taken = await client.TriggerCheckpoint(pb.TriggerJobCheckpointRequest(job_id=JOB, wait_ms=20_000))
            assert not taken.HasField("error"), taken.error
            generation = (await client.GetCluster(pb.GetClusterRequest())).generation
        async with running_job_manager(**settings) as listening, client_of(listening) as client:
            for task_manager in task_managers:
                await task_manager.stop()
                await task_manager.start(listening)
            await watch_until(client, JOB, is_running, 60)
            checkpoints = await client.ListCheckpoints(pb.ListCheckpointsRequest(job_id=JOB))
            assert checkpoints.restored == 1
            assert (await client.GetCluster(pb.GetClusterRequest())).generation > generation
            await client.CancelJob(pb.JobRequest(job_id=JOB))
            await watch_until(client, JOB, lambda status: status.state == "CANCELED")
        async with running_job_manager(**settings) as listening, client_of(listening) as client:
            jobs = await client.ListJobs(pb.ListJobsRequest(include_terminal=True))
            assert [job.state for job in jobs.jobs] == ["CANCELED"], (
                "a job with a result never runs again: the archive has it"
            )
            await put_blob(client)
            answer = await submit(client, make_graph())
            assert not answer.HasField("error"), answer.error
    finally:
        for task_manager in task_managers:
            await task_manager.stop()
    folder = gateway.root / BUCKET / bucket.rpartition("/")[2] / "default"
    assert len(list((folder / "submissions").iterdir())) == 1, "of the last one, which has not ended"


async def test_a_process_that_was_deposed_stands_by_and_leads_again(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elections: list[BucketElection] = []
    seek = BucketElection.seek

    def recorded(self: BucketElection, contact: Contact, tell: Callable[[ElectionEvent], None]) -> None:
        elections.append(self)
        seek(self, contact, tell)

    monkeypatch.setattr(BucketElection, "seek", recorded)
    settings = {**kept_by(bucket, tmp_path), "jobmanager_rpc_port": "0", "rest_port": "0"}
    led: asyncio.Queue[Listening] = asyncio.Queue()
    process = asyncio.create_task(serve(configuration_of(settings), led.put_nowait))
    first = await asyncio.wait_for(led.get(), 60)
    frozen = await asyncio.to_thread(Frozen, elections[0], monkeypatch)

    def depose() -> None:
        with candidates(f"{bucket}/default", "other") as (other,):
            other.get_in_line()
            other.wait_turn()
            frozen.let_go()

    await asyncio.to_thread(depose)
    second = await asyncio.wait_for(led.get(), 60)
    assert first.term.is_over.is_set()
    assert second.term.number > first.term.number + 1
    assert not second.term.is_over.is_set()
    os.kill(os.getpid(), signal.SIGTERM)
    assert await asyncio.wait_for(process, 60) == 0


async def test_the_configuration_is_enough_for_a_client_to_find_the_leader(bucket: str, tmp_path: Path) -> None:
    settings = kept_by(bucket, tmp_path)
    configuration = configuration_of(settings)
    async with running_job_manager(**settings) as listening:
        found = await asyncio.to_thread(address_of, configuration, None)
        assert found == f"localhost:{listening.rpc_port}"
        assert await asyncio.to_thread(address_of, configuration, "host:1") == "localhost:6123", "-m is a definition"
    with pytest.raises(Unreachable, match="no JobManager leads this cluster"):
        await asyncio.to_thread(address_of, configuration, None)


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ({"high__availability_storageDir": "s3://nowhere/ha"}, "there is no such bucket; make it first"),
        ({"high__availability_storageDir": "/mnt/disk"}, "object-store needs s3://BUCKET/PATH or gs://BUCKET/PATH"),
        (
            {"tidegate_high__availability_object__store_renew__interval": "1 s"},
            "must be at most a third of tidegate.high-availability.object-store.lease-duration",
        ),
    ],
)
async def test_bad_settings_are_refused_at_the_start(
    bucket: str, tmp_path: Path, setting: dict[str, str], told: str
) -> None:
    with pytest.raises(TidegateError, match=told):
        async with running_job_manager(**{**kept_by(bucket, tmp_path), **setting}):
            pass


async def test_a_bucket_that_does_not_answer_is_named(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(TidegateError, match=f"cannot read {bucket}/default/ledger"):
        async with running_job_manager(**kept_by(bucket, tmp_path)):
            pass


def _put_at(gateway: VersityGateway, bucket: str, content: bytes) -> Path:
    ledger = open_bucket(f"{bucket}/default", 10)
    ledger.put("ledger", content)
    return gateway.root / BUCKET / bucket.rpartition("/")[2] / "default" / "ledger"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (
            b'{"format": 2, "written_by": "tidegate 9.1"}',
            "format 2, written by tidegate 9.1; this version .* knows format 1",
        ),
        (b"\x00\x01 nothing of ours", "is not a ledger of tidegate"),
        (b'{"format": 1, "term": "high"}', "is not a ledger of tidegate"),
    ],
)
async def test_a_ledger_that_cannot_be_read_is_refused_and_left_as_it_is(
    bucket: str, gateway: VersityGateway, tmp_path: Path, content: bytes, told: str
) -> None:
    path = _put_at(gateway, bucket, content)
    with pytest.raises(TidegateError, match=told):
        async with running_job_manager(**kept_by(bucket, tmp_path)):
            pass
    assert path.read_bytes() == content


async def test_one_damaged_job_keeps_no_other_from_going_on_and_is_left_alone(
    bucket: str, gateway: VersityGateway, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = kept_by(bucket, tmp_path)
    async with running_job_manager(**settings) as listening, client_of(listening) as client:
        await put_blob(client)
        for job_id in (JOB, OTHER):
            answer = await submit(client, dataclasses.replace(make_graph(), job_id=JobId(job_id)))
            assert not answer.HasField("error"), answer.error
    [damaged] = (gateway.root / BUCKET / bucket.rpartition("/")[2] / "default" / "submissions").glob(f"{JOB}-*")
    content = damaged.read_bytes()
    damaged.write_bytes(content[:-1] + b"\xff")
    async with running_job_manager(**settings) as listening, client_of(listening) as client:
        jobs = await client.ListJobs(pb.ListJobsRequest(include_terminal=True))
        assert [job.job_id for job in jobs.jobs] == [OTHER]
    assert "a job is not recovered, and its entry" in caplog.text
    assert f"submissions/{damaged.name}" in caplog.text
    damaged.write_bytes(content)
    async with running_job_manager(**settings) as listening, client_of(listening) as client:
        jobs = await client.ListJobs(pb.ListJobsRequest(include_terminal=True))
        assert {job.job_id for job in jobs.jobs} == {JOB, OTHER}


def test_the_command_tells_that_the_bucket_can_elect_leaders(bucket: str) -> None:
    result = CliRunner().invoke(main, ["ha", "check", bucket, "--rounds", "20"])
    assert result.exit_code == 0, result.output
    assert "20 rounds, 4 writers at a time: never did two create the object" in result.output


def test_what_was_probed_is_removed(bucket: str, gateway: VersityGateway) -> None:
    check_conditions(open_bucket(bucket, 10))
    folder = gateway.root / BUCKET / bucket.rpartition("/")[2]
    assert [path for path in folder.rglob("*") if path.is_file()] == []
