"""A cluster changes to the next version of tidegate while a job runs, without a savepoint."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.cluster import END_LIMIT_S, Cluster
from tests.e2e.counts_run import CountsRun
from tests.e2e.pool import made_ready
from tests.e2e.test_high_availability import kept_in
from tests.e2e.waiting import wait_until

_JOB_LIMIT_S = 120
NEXT = (
    "-c",
    "import sys, tidegate.wire.versions as versions; versions.VERSION = '9.9.9';"
    "import tidegate.cli.main; tidegate.cli.main.main(sys.argv[1:], prog_name='tidegate')",
)
"""The same code under another number: what is compared is the version of each process."""


def test_a_job_goes_on_under_the_next_version_and_its_result_is_exact(tmp_path: Path) -> None:
    """A JobManager of the next version stands by; the one before is ended. Its TaskManagers are refused and end, new ones are started, and the
    job goes on from its last checkpoint."""
    run = CountsRun(tmp_path / "run", seconds=10, rows=64_000)
    with Cluster(tmp_path / "cluster", kept_in(tmp_path / "ha")) as cluster:
        made_ready(cluster, 1)
        watch = run.submit(cluster, parallelism=2)
        watch.wait_running()
        watch.wait_checkpoints(2)
        leader, before = cluster.job_manager, list(cluster.task_managers)
        assert leader is not None
        standby = cluster.start_standby(entry=NEXT)
        wait_until(lambda: standby.says(f"standby: the JobManager with pid {leader.pid} leads"), 60, "it stands by")
        cluster.end(leader)
        cluster.wait_led()
        for process in before:
            process.wait_gone(END_LIMIT_S)
            assert process.says("the JobManager is tidegate 9.9.9"), process.tail()
            cluster.forget(process)
        cluster.add_taskmanager(2, entry=NEXT)
        watch = cluster.watch(watch.job_id)
        watch.wait_finished(_JOB_LIMIT_S)
        assert cluster.checkpoints(watch.job_id).restored == 1
        run.assert_exact()
