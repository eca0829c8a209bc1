"""A leader that ZooKeeper elected is killed: the next in line goes on with the job, and the result is exact."""

from __future__ import annotations

import time
from pathlib import Path

from tests.e2e.cluster import Cluster
from tests.e2e.conftest import ensure_taskmanagers
from tests.e2e.counts_run import CountsRun
from tests.e2e.waiting import wait_until
from tests.servers.zookeeper_servers import ZooKeeperServers

_JOB_LIMIT_S = 240


def test_a_standby_that_zookeeper_elects_goes_on_with_the_job(tmp_path: Path, zookeeper: ZooKeeperServers) -> None:
    """Both are configured alike, also their ports: the standby opens them once it leads, so that TaskManagers find it
    there. The job is not submitted again."""
    settings = {
        "high-availability.type": "zookeeper",
        "high-availability.zookeeper.quorum": zookeeper.quorum,
        "high-availability.storageDir": str(tmp_path / "ha"),
    }
    run = CountsRun(tmp_path / "run", seconds=10, rows=80_000)
    with Cluster(tmp_path / "cluster", settings) as cluster:
        ensure_taskmanagers(cluster, 1)
        leader = cluster.job_manager
        assert leader is not None
        standby = cluster.start_standby()
        wait_until(lambda: standby.says("standby: another JobManager leads the cluster"), 120, "it stands by")
        watch = run.submit(cluster)
        watch.wait_checkpoints(3)
        killed_at = cluster.kill9(leader)
        cluster.wait_led()
        print(f"the standby leads {time.monotonic() - killed_at:.2f} s after the kill")
        watch = cluster.watch(watch.job_id)
        watch.wait_finished(_JOB_LIMIT_S)
        run.assert_exact()
        wait_until(lambda: not list((tmp_path / "ha" / "default" / "submissions").iterdir()), 60, "nothing is left")
        assert list((tmp_path / "ha" / "default" / "blobs").iterdir()) == []
