"""Every aimed point, and everything that a leader can be cut off from; for `make soak`, which has the time for stops of 90 s."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.cluster import JOBS
from tests.e2e.counts_run import CountsRun
from tests.e2e.failover.cluster import FailoverCluster
from tests.e2e.failover.rounds import JOB_LIMIT_S, Feeding, Rounds
from tests.e2e.failover.strikes import (
    DURING_CHECKPOINTS,
    DURING_REQUESTS,
    STOP,
    in_background,
    path_in,
    savepoint,
    stop,
    stopping,
)
from tests.e2e.waiting import HANG_LIMIT_S, wait_until
from tests.servers.kafka_broker import KafkaBroker
from tests.servers.zookeeper_servers import ZooKeeperServers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600, method="signal")]

STOPPED_S = 90
DOORS = ("before-metadata", "before-pointer", "after-pointer", "between-confirms")


@contextmanager
def exact_in_the_end(cluster: FailoverCluster, broker: KafkaBroker, directory: Path, name: str) -> Iterator[Rounds]:
    """Both jobs run while the body strikes; then both are exact."""
    rounds = Rounds(cluster, broker, directory, name)
    with Feeding(rounds.feeder):
        rounds.ensure_jobs()
        yield rounds
        rounds.ensure_jobs()
    rounds.wait_all_read()
    rounds.end()


@pytest.mark.parametrize("door", DOORS)
def test_a_leader_is_killed_at_a_point_of_a_checkpoint(
    struck: FailoverCluster, broker: KafkaBroker, tmp_path: Path, door: str
) -> None:
    with exact_in_the_end(struck, broker, tmp_path, f"killed-{door}") as rounds:
        before = rounds.attempts()
        struck.at_door(door, struck.kill_leader)
        rounds.next_leader()
        struck.add_standby()
        assert rounds.attempts() == before, "nothing was restarted"


def test_leaders_are_stopped_at_every_point_for_longer_than_everything(
    struck: FailoverCluster, broker: KafkaBroker, tmp_path: Path
) -> None:
    """One after the other, each in the middle of its step. They go on long after others have led, are refused, and their clients were answered."""
    with (
        exact_in_the_end(struck, broker, tmp_path, "stopped-long") as rounds,
        stopping(struck, rounds, tmp_path) as stopped,
    ):
        before = rounds.attempts()
        for point in (*DURING_CHECKPOINTS, *DURING_REQUESTS):
            stopped.stop_at(point)
            struck.add_standby()
            rounds.ensure_jobs()
        threading.Event().wait(STOPPED_S)
        stopped.resume()
        rounds.ensure_jobs()
        assert rounds.attempts() == before, "nothing was restarted"


def test_a_leader_is_stopped_for_longer_than_everything_while_it_stops_a_job(
    struck: FailoverCluster, broker: KafkaBroker, tmp_path: Path
) -> None:
    with (
        exact_in_the_end(struck, broker, tmp_path, "stopped-stop") as rounds,
        stopping(struck, rounds, tmp_path) as stopped,
    ):
        stopped.stop_at(STOP)
        threading.Event().wait(STOPPED_S)
        [said] = stopped.resume()
        assert rounds.has_ended(rounds.kafka_job)
        rounds.start_kafka_job(restore=path_in(said))


@pytest.mark.parametrize("door", ["after-attempt", "between-deployments"])
def test_a_leader_is_killed_while_it_deploys(
    struck: FailoverCluster, broker: KafkaBroker, tmp_path: Path, door: str
) -> None:
    with exact_in_the_end(struck, broker, tmp_path, f"killed-{door}") as rounds:
        run = CountsRun(tmp_path / "deployed", seconds=8, rows=16_000, interval=300)
        rounds.files.append(run)
        arguments = ["run", "-d", "-p", "2", f"-Dexecution.checkpointing.dir={run.checkpoints}"]
        job = [str(JOBS / "counts.py"), *run.arguments]
        before = set(rounds.jobs())
        with in_background(struck, *arguments, *job):
            struck.at_door(door, struck.kill_leader)
            rounds.next_leader()
            struck.add_standby()
        (job_id,) = set(rounds.jobs()) - before
        struck.watch(job_id).wait_finished(JOB_LIMIT_S)


@pytest.mark.parametrize("door", ["before-plan", "after-plan"])
def test_a_leader_is_killed_while_a_job_is_submitted(
    struck: FailoverCluster, broker: KafkaBroker, tmp_path: Path, door: str
) -> None:
    """The client goes on with the next leader: the job runs once, whether it was kept before or not."""
    with exact_in_the_end(struck, broker, tmp_path, f"killed-{door}") as rounds:
        run = CountsRun(tmp_path / "submitted", seconds=8, rows=16_000, interval=300)
        rounds.files.append(run)
        arguments = ["run", "-d", "-p", "2", f"-Dexecution.checkpointing.dir={run.checkpoints}"]
        before = set(rounds.jobs())
        with in_background(struck, *arguments, str(JOBS / "counts.py"), *run.arguments) as client:
            struck.at_door(door, struck.kill_leader)
            rounds.next_leader()
            struck.add_standby()
            wait_until(lambda: client.poll() is not None, HANG_LIMIT_S, "the client has gone on")
            assert client.returncode == 0
        (job_id,) = set(rounds.jobs()) - before
        struck.watch(job_id).wait_finished(JOB_LIMIT_S)


def test_a_leader_is_killed_during_a_savepoint(struck: FailoverCluster, broker: KafkaBroker, tmp_path: Path) -> None:
    with exact_in_the_end(struck, broker, tmp_path, "killed-savepoint") as rounds:
        with in_background(struck, *savepoint(rounds, tmp_path / "savepoint")) as client:
            struck.at_door("before-metadata", struck.kill_leader, "savepoint")
            rounds.next_leader()
            struck.add_standby()
            said, _ = client.communicate(timeout=JOB_LIMIT_S)
        assert client.returncode == 0, said
        assert (Path(path_in(said)) / "_metadata").exists()


@pytest.mark.parametrize("door", ["before-metadata", "before-pointer", "after-pointer"])
def test_a_leader_is_killed_while_a_job_is_stopped(
    struck: FailoverCluster, broker: KafkaBroker, tmp_path: Path, door: str
) -> None:
    """The next leader stops it, and answers the command; the job goes on from the savepoint that it names."""
    with exact_in_the_end(struck, broker, tmp_path, f"killed-stop-{door}") as rounds:
        with in_background(struck, *stop(rounds, tmp_path / "savepoint")) as client:
            struck.at_door(door, struck.kill_leader, "savepoint")
            rounds.next_leader()
            struck.add_standby()
            said, _ = client.communicate(timeout=JOB_LIMIT_S)
        assert client.returncode == 0, said
        rounds.start_kafka_job(restore=path_in(said))


def test_zookeeper_loses_its_quorum_and_has_it_again(
    struck: FailoverCluster, broker: KafkaBroker, zookeeper: ZooKeeperServers, tmp_path: Path
) -> None:
    """Nothing is committed meanwhile, subtasks go on, and the next leader, the same or the other, goes on with them."""
    with exact_in_the_end(struck, broker, tmp_path, "quorum") as rounds:
        before = rounds.attempts()
        for number in (0, 1):
            zookeeper.kill9(number)
        leader = struck.leader
        wait_until(
            lambda: leader.says("the connection to the store of the cluster is suspended"),
            HANG_LIMIT_S,
            "the leader has noticed",
        )
        threading.Event().wait(5)
        for number in (0, 1):
            zookeeper.start(number)
        zookeeper.wait_serving()
        struck.find_leader()
        rounds.next_leader()
        assert rounds.attempts() == before, "nothing was restarted"


def cut_from_zookeeper(cluster: FailoverCluster, rounds: Rounds) -> None:
    cut = cluster.cut_from_zookeeper()
    rounds.next_leader()
    cluster.mend(cut)


def cut_from_task_managers(cluster: FailoverCluster, rounds: Rounds) -> None:
    """It leads on. Its TaskManagers do not come back within `tidegate.taskmanager.reconnect-timeout`: their subtasks count as lost, and are
    restarted where they were once it is reached again."""
    lost = "is lost: its connection broke"
    with cluster.without_task_managers():
        wait_until(lambda: cluster.leader.says(lost), HANG_LIMIT_S, "it misses them")
    cluster.wait_slots(2 * len(cluster.task_managers))


@pytest.mark.parametrize("cut", [cut_from_zookeeper, cut_from_task_managers])
def test_a_leader_is_cut_off(
    struck: FailoverCluster,
    broker: KafkaBroker,
    tmp_path: Path,
    cut: Callable[[FailoverCluster, Rounds], None],
) -> None:
    with exact_in_the_end(struck, broker, tmp_path, cut.__name__.replace("_", "-")) as rounds:
        cut(struck, rounds)
