"""A leader that ZooKeeper elected is killed: the next in line goes on with the job, and the result is exact."""

from __future__ import annotations

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
