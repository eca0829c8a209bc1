"""A ``TwoPhaseCommitSinkFunction`` whose processes are killed, at every point of its commit and with a whole TaskManager."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from examples.sqlite_sink import connect
from tests.e2e.cluster import JOBS, Cluster
from tests.e2e.counts_run import QUICK_RESTART
from tests.e2e.jobs.rows_into_sqlite import POINTS
from tests.e2e.waiting import wait_until

ROWS, RATE = 4_000, 250


def test_a_sink_function_is_exact_wherever_it_dies(cluster: Cluster, run_directory: Path) -> None:
    database, trace = run_directory / "rows.db", run_directory / "trace"
    trace.mkdir()
    arguments = {"rows": ROWS, "rate": RATE, "database": database, "trace": trace}
    watch = cluster.submit(
        JOBS / "rows_into_sqlite.py",
        *[f"--{name}={value}" for name, value in arguments.items()],
        parallelism=2,
        settings={"execution.checkpointing.dir": str(run_directory / "checkpoints"), **QUICK_RESTART},
    )
    wait_until(lambda: all((trace / point).exists() for point in POINTS), 90, "it died at every point")
    died = watch.wait_running_again(len(POINTS) - 1, 0.0, 60)
    cluster.kill9(cluster.task_manager_of(watch, "rows", 0))
    watch.wait_running_again(died.status.restarts, died.at, 60)
    watch.wait_finished(120)
    with closing(connect(str(database))) as connection:
        found = sorted(int(value) for (value,) in connection.execute("SELECT value FROM visible"))
        left = connection.execute(
            "SELECT id, status FROM transactions WHERE status IN ('open', 'pre-committed')"
        ).fetchall()
    assert found == list(range(ROWS))
    assert left == []
