"""Windows end to end: sessions that are open at a savepoint merge in a job of another parallelism."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.e2e.cluster import JOBS, Cluster
from tests.e2e.counts_run import QUICK_RESTART
from tests.e2e.jobs.sessions import BLOCK, expected
from tests.e2e.test_savepoints import finished, taken_by

ROWS = 50 * BLOCK


def lines_of(output: Path) -> Counter[str]:
    files = [path for path in output.rglob("*") if path.is_file() and not path.name.startswith(".")]
    return Counter(line for path in files for line in path.read_text().splitlines())


def test_sessions_go_on_over_a_savepoint_with_other_subtasks(cluster: Cluster, run_directory: Path) -> None:
    output = run_directory / "output"
    arguments = ["--rows", str(ROWS), "--output", str(output)]
    settings = {"execution.checkpointing.dir": str(run_directory / "checkpoints"), **QUICK_RESTART}
    first = cluster.submit(JOBS / "sessions.py", *arguments, "--rate", "200", parallelism=2, settings=settings)
    first.wait_checkpoints(3)
    savepoint = taken_by(cluster, "stop", first.job_id, "-p", str(run_directory / "savepoints"))
    finished(first)
    shown = cluster.cli("state", "show", str(savepoint), "--operator", "sessions", "--name", "_merging_windows")
    assert shown.returncode == 0, shown.stderr
    assert "state_window_start" in shown.stdout
    assert lines_of(output) < expected(ROWS)

    second = cluster.submit(JOBS / "sessions.py", *arguments, parallelism=3, restore=str(savepoint), settings=settings)
    finished(second)
    assert lines_of(output) == expected(ROWS)
