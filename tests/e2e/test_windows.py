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


def test_files_whose_names_sort_against_time_are_counted_to_the_last_row(cluster: Cluster, run_directory: Path) -> None:
    for parallelism in (1, 2):
        directory = run_directory / f"p{parallelism}"
        directory.mkdir()
        arguments = ["-p", str(parallelism), str(JOBS / "backwards.py"), "--directory", str(directory)]
        done = cluster.cli("run", "--jobmanager", cluster.address, *arguments)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1] == "300000"
        assert "late record" not in done.stderr


def test_late_records_are_told_by_the_client_and_the_log(cluster: Cluster, run_directory: Path) -> None:
    job = [str(JOBS / "backwards.py"), "--behind", "--directory", str(run_directory)]
    done = cluster.cli("run", "--jobmanager", cluster.address, "-p", "1", *job)
    assert done.returncode == 0, done.stderr
    counted = int(done.stdout.splitlines()[-1])
    assert counted < 300_000
    line = f"{300_000 - counted:,} late records dropped at operator 'GlobalWindowAggregate'"
    assert line in done.stderr.splitlines()[-1]
    assert cluster.job_manager is not None
    assert cluster.job_manager.says(line)
