"""JobManagers that real ZooKeeper servers elect: who leads, who is refused, and which jobs the next one goes on with."""

from __future__ import annotations

import asyncio
import os
import queue
import secrets
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

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
from tests.servers.zookeeper_servers import ZooKeeperServers
from tidegate.cli.options import address_of
from tidegate.high_availability.port import Deposed
from tidegate.high_availability.zookeeper import ZooKeeperElection, ZooKeeperRetrieval, ZooKeeperSettings
from tidegate.jobmanager.service.app import Listening
from tidegate.jobmanager.service.process import serve
from tidegate.model.configuration import Configuration
from tidegate.model.errors import TidegateError, Unreachable
from tidegate.model.leadership import Connected, Contact, ElectionEvent, Leader, LockAcquired, Lost
from tidegate.pb import jobmanager_pb2 as pb


class Candidate:
    """A JobManager's side of an election, driven by hand."""

    def __init__(self, settings: ZooKeeperSettings, name: str) -> None:
        self.contact = Contact(name)
        self.election = ZooKeeperElection(settings)
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
def candidates(settings: ZooKeeperSettings, *names: str) -> Iterator[list[Candidate]]:
    found = [Candidate(settings, name) for name in names]
    try:
        yield found
    finally:
        for candidate in found:
            candidate.election.close()


def settings_for(zookeeper: ZooKeeperServers) -> ZooKeeperSettings:
    return ZooKeeperSettings(zookeeper.quorum, f"/flink/{secrets.token_hex(4)}")


def expire(election: ZooKeeperElection) -> None:
    """Ends its session, as the servers do with one that they have not heard of for too long."""
    client = election._client
    twin = KazooClient(hosts=",".join(f"{host}:{port}" for host, port in client.hosts), client_id=client.client_id)
    twin.start(60)
    twin.stop()
    twin.close()


def test_a_leader_whose_session_is_over_changes_nothing_and_the_next_term_is_higher(
    zookeeper: ZooKeeperServers,
) -> None:
    settings = settings_for(zookeeper)
    with candidates(settings, "one", "two") as (one, two), closing(ZooKeeperRetrieval(settings)) as retrieval:
        one.get_in_line()
        first = one.wait_turn()
        one.election.publish(first, Contact("one", "host:1", "host:2"))
        two.get_in_line()
        assert retrieval.leader() == Leader(first, Contact("one", "host:1", "host:2"))
        entries = one.election.entries(first)
        assert entries.create("jobs/a/checkpoints/1", b"chk-1")
        assert entries.create("jobs/a/checkpoints/1", b"chk-1"), "the same again does no harm"
        assert not entries.create("jobs/a/checkpoints/1", b"another")
        entries.put("jobs/a/attempt", b"1")
        entries.put("jobs/a/attempt", b"2")
        entries.check_lead()
        assert entries.names("jobs/a") == ["attempt", "checkpoints"]
        expire(one.election)
        second = two.wait_turn()
        assert second > first
        assert isinstance(one.wait(Lost), Lost)
        for change in (
            lambda: entries.create("jobs/a/checkpoints/2", b"chk-2"),
            lambda: entries.put("jobs/a/attempt", b"3"),
            lambda: entries.delete("jobs/a/checkpoints/1"),
            lambda: one.election.publish(first, Contact("one")),
            entries.check_lead,
        ):
            with pytest.raises(
                Deposed, match="another JobManager leads|the session of this JobManager with ZooKeeper has ended"
            ):
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


def kept_by(zookeeper: ZooKeeperServers, directory: Path) -> dict[str, str]:
    """Nothing is adopted: TaskManagers of these tests end with their JobManager."""
    return {
        "tidegate_jobmanager_loss__grace": "0 s",
        "high__availability_type": "zookeeper",
        "high__availability_zookeeper_quorum": zookeeper.quorum,
        "high__availability_storageDir": str(directory / "ha"),
        "high__availability_cluster__id": directory.name,
        "execution_checkpointing_dir": str(directory / "checkpoints"),
    }


async def test_the_next_leader_goes_on_with_the_job_from_its_last_checkpoint(
    zookeeper: ZooKeeperServers, tmp_path: Path
) -> None:
    task_managers = [FakeTaskManager(name) for name in ("tm-1", "tm-2")]
    settings = kept_by(zookeeper, tmp_path)
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


async def test_a_process_that_was_deposed_stands_by_and_leads_again(
    zookeeper: ZooKeeperServers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elections: list[ZooKeeperElection] = []
    seek = ZooKeeperElection.seek

    def recorded(self: ZooKeeperElection, contact: Contact, tell: Callable[[ElectionEvent], None]) -> None:
        elections.append(self)
        seek(self, contact, tell)

    monkeypatch.setattr(ZooKeeperElection, "seek", recorded)
    settings = {**kept_by(zookeeper, tmp_path), "jobmanager_rpc_port": "0", "rest_port": "0"}
    options = {key.replace("__", "-").replace("_", "."): text for key, text in settings.items()}
    led: asyncio.Queue[Listening] = asyncio.Queue()
    process = asyncio.create_task(serve(Configuration.from_strings(options), led.put_nowait))
    first = await asyncio.wait_for(led.get(), 60)
    await asyncio.to_thread(expire, elections[0])
    second = await asyncio.wait_for(led.get(), 60)
    assert first.term.is_over.is_set()
    assert second.term.number > first.term.number
    assert not second.term.is_over.is_set()
    os.kill(os.getpid(), signal.SIGTERM)
    assert await asyncio.wait_for(process, 60) == 0


async def test_the_configuration_is_enough_for_a_client_to_find_the_leader(
    zookeeper: ZooKeeperServers, tmp_path: Path
) -> None:
    settings = kept_by(zookeeper, tmp_path)
    options = {key.replace("__", "-").replace("_", "."): text for key, text in settings.items()}
    configuration = Configuration.from_strings(options)
    async with running_job_manager(**settings) as listening:
        found = await asyncio.to_thread(address_of, configuration, None)
        assert found == f"localhost:{listening.rpc_port}"
        assert await asyncio.to_thread(address_of, configuration, "host:1") == "localhost:6123", "-m is a definition"
    with pytest.raises(Unreachable, match="no JobManager leads this cluster"):
        await asyncio.to_thread(address_of, configuration, None)


OWNED = {
    "high__availability_zookeeper_client_acl": "creator",
    "high__availability_zookeeper_client_authorization": "digest:'one:first word'",
}
ANOTHER = {**OWNED, "high__availability_zookeeper_client_authorization": "digest:two:second word"}


async def test_nodes_of_a_creator_are_for_that_user_alone(zookeeper: ZooKeeperServers, tmp_path: Path) -> None:
    settings = kept_by(zookeeper, tmp_path)
    settings["high__availability_zookeeper_path_root"] = f"/flink-{secrets.token_hex(4)}"
    root = settings["high__availability_zookeeper_path_root"]
    async with running_job_manager(**settings, **OWNED), _asking(zookeeper) as stranger:
        owned = await asyncio.to_thread(_with_digest, zookeeper, "one:first word", root)
        assert len(owned) > 5
        for path in owned:
            with pytest.raises(NoAuthError):
                await asyncio.to_thread(stranger.get, path)
        for other in (settings, {**settings, **ANOTHER}):
            refused = r"ZooKeeper does not let this user make and list .*/leader/latch: another one made the node"
            with pytest.raises(TidegateError, match=refused):
                async with running_job_manager(**other):
                    pass
            client = Configuration.from_strings(
                {key.replace("__", "-").replace("_", "."): text for key, text in other.items()}
            )
            with pytest.raises(TidegateError, match=r"does not let this user read who leads.*client\.authorization"):
                await asyncio.to_thread(address_of, client, None)
    async with running_job_manager(**settings, **OWNED):
        pass  # the next one with the same name and password goes on


@asynccontextmanager
async def _asking(zookeeper: ZooKeeperServers) -> AsyncIterator[KazooClient]:
    client = KazooClient(zookeeper.quorum)
    await asyncio.to_thread(client.start, 60)
    try:
        yield client
    finally:
        await asyncio.to_thread(client.stop)
        client.close()


def _with_digest(zookeeper: ZooKeeperServers, digest: str, root: str) -> list[str]:
    """Returns the paths of all nodes below a root, with itself."""
    client = KazooClient(zookeeper.quorum, auth_data=[("digest", digest)])
    client.start(60)
    try:
        found = [root]
        for path in found:
            found += [f"{path}/{child}" for child in client.get_children(path)]
        return found
    finally:
        client.stop()
        client.close()


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        (
            {
                "high__availability_zookeeper_quorum": "127.0.0.1:1",
                "high__availability_zookeeper_client_connection__timeout": "1 s",
            },
            "no ZooKeeper server at 127.0.0.1:1 answered within 1 s",
        ),
        (
            {"high__availability_storageDir": "/proc/nothing"},
            "set high-availability.storageDir to a directory that can be written",
        ),
        ({"high__availability_storageDir": "s3://bucket/ha"}, "mount"),
        (
            {"high__availability_zookeeper_client_acl": "creator"},
            r"high-availability\.zookeeper\.client\.authorization is not set, .* digest:user:password",
        ),
        (
            {"high__availability_zookeeper_client_authorization": "sasl:one:secret"},
            "SASL among them, are not supported",
        ),
        (
            {"high__availability_zookeeper_client_authorization": "digest:one"},
            "has the scheme 'digest' or lacks a part",
        ),
    ],
)
async def test_bad_settings_are_refused_at_the_start(
    zookeeper: ZooKeeperServers, tmp_path: Path, setting: dict[str, str], told: str
) -> None:
    with pytest.raises(TidegateError, match=told):
        async with running_job_manager(**{**kept_by(zookeeper, tmp_path), **setting}):
            pass
