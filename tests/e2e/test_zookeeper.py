"""A leader that ZooKeeper elected is killed: the next in line goes on with the job, and the result is exact."""

from __future__ import annotations

import signal
import socket
import time
from pathlib import Path

from tests.e2e.cluster import Cluster
from tests.e2e.counts_run import CountsRun
from tests.e2e.pool import made_ready
from tests.e2e.waiting import wait_until
from tests.e2e.watching import JobWatch
from tests.servers.zookeeper_servers import ZooKeeperServers

_JOB_LIMIT_S = 240


def attempts_of(watch: JobWatch) -> dict[tuple[str, int], int]:
    """The number of each subtask's attempt."""
    vertices = watch.moments[-1].status.vertices
    return {(vertex.name, subtask.index): subtask.attempt for vertex in vertices for subtask in vertex.subtasks}


def test_a_standby_at_another_address_adopts_the_job(tmp_path: Path, zookeeper: ZooKeeperServers) -> None:
    """As on another machine: TaskManagers ask ZooKeeper where it is. Subtasks go on, none is restarted, and the job is not submitted again."""
    settings = {
        "high-availability.type": "zookeeper",
        "high-availability.zookeeper.quorum": zookeeper.quorum,
        "high-availability.storageDir": str(tmp_path / "ha"),
    }
    run = CountsRun(tmp_path / "run", seconds=10, rows=80_000)
    with Cluster(tmp_path / "cluster", settings) as cluster:
        made_ready(cluster, 1)
        leader = cluster.job_manager
        assert leader is not None
        standby = cluster.start_standby(elsewhere=True)
        wait_until(lambda: standby.says("standby: another JobManager leads the cluster"), 120, "it stands by")
        watch = run.submit(cluster)
        watch.wait_checkpoints(3)
        before = attempts_of(watch)
        killed_at = cluster.kill9(leader)
        cluster.wait_led()
        print(f"the standby leads {time.monotonic() - killed_at:.2f} s after the kill")
        watch = cluster.watch(watch.job_id)
        watch.wait_running(_JOB_LIMIT_S)  # until then it is not known who goes on
        watch.wait_checkpoints(1)
        assert attempts_of(watch) == before, "nothing was restarted"
        assert watch.wait_finished(_JOB_LIMIT_S).status.restarts == 0
        run.assert_exact()
        wait_until(lambda: not list((tmp_path / "ha" / "default").glob("submissions/*")), 60, "no submission is left")
        wait_until(lambda: not list((tmp_path / "ha" / "default").glob("blobs/*")), 60, "no blob is left")


def test_a_leader_that_was_stopped_and_deposed_announces_nothing_when_it_goes_on(
    tmp_path: Path, zookeeper: ZooKeeperServers
) -> None:
    """Its timers say that TaskManagers are silent, and clients ask it for jobs: it asks ZooKeeper first, and leads no more."""
    settings = {
        "high-availability.type": "zookeeper",
        "high-availability.zookeeper.quorum": zookeeper.quorum,
        "high-availability.storageDir": str(tmp_path / "ha"),
        "heartbeat.interval": "1 s",
        "heartbeat.timeout": "5 s",
    }
    run = CountsRun(tmp_path / "run", held=True, seconds=6, rows=40_000)
    with Cluster(tmp_path / "cluster", settings) as cluster:
        made_ready(cluster, 1)
        leader, old_rest = cluster.job_manager, cluster.rest_port
        assert leader is not None
        standby = cluster.start_standby(elsewhere=True)
        wait_until(lambda: standby.says("standby: another JobManager leads the cluster"), 120, "it stands by")
        watch = run.submit(cluster)
        watch.wait_checkpoints(2)
        leader.send(signal.SIGSTOP)
        wait_until(lambda: standby.says("RECONCILING") and standby.says("is RUNNING"), 120, "the next one has the job")
        before = len(leader.log.read_text())
        with socket.create_connection(("127.0.0.1", old_rest)) as asking:
            asking.sendall(b"GET /jobs/overview HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            leader.send(signal.SIGCONT)
            asking.settimeout(60)
            answer = b"".join(iter(lambda: asking.recv(65536), b""))
        assert b"RUNNING" not in answer, "what it knew of the job"
        wait_until(
            lambda: "is no longer the leader" in leader.log.read_text()[before:], 60, "it knows that it was deposed"
        )
        wait_until(lambda: "shutting down" in leader.log.read_text()[before:], 60, "it has ended its term")
        said = leader.log.read_text()[before:]
        assert "restarting" not in said, said
        assert "is lost" not in said, said
        run.release()
        cluster.kill9(leader)
        cluster.wait_led()
        watch = cluster.watch(watch.job_id)
        assert watch.wait_finished(_JOB_LIMIT_S).status.restarts == 0
        run.assert_exact()
