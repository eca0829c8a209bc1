"""Savepoints and stop, end to end, by the command line."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.counts_run import CountsRun
from tests.e2e.jobs import counts
from tests.e2e.waiting import wait_until
from tests.e2e.watching import JobWatch

NEVER_MS = 3_600_000
"""No periodic checkpoint commits anything: only savepoints, stops and the end do."""
END_LIMIT_S = 180


def taken_by(cluster: Cluster, *command: str) -> Path:
    done = cluster.cli(*command, "--jobmanager", cluster.address)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = re.findall(r"^Savepoint completed. Path: (.*)$", done.stdout, re.MULTILINE)
    assert (Path(path) / "_metadata").exists()
    return Path(path)


def finished(watch: JobWatch) -> None:
    watch.wait_for(lambda m: m.status.state == "FINISHED", END_LIMIT_S, "the job is FINISHED")


def wait_rows(run: CountsRun, role: str = "fast") -> None:
    """Some process of that part of the chain has noted its first row (in full: it may be writing)."""
    wait_until(
        lambda: any(note.stat().st_size for note in run.trace.glob(f"{role}-*.seen")), END_LIMIT_S, f"{role} sees rows"
    )


def hidden(run: CountsRun) -> list[str]:
    return [path.name for path in run.output.rglob(".*")]


def test_a_savepoint_is_moved_and_restored_at_another_parallelism_and_the_result_is_exact(
    cluster: Cluster, run_directory: Path
) -> None:
    run = CountsRun(run_directory, rows=20_000, seconds=20, slow_pause=0, disorder=counts.SPAN_MS, interval=NEVER_MS)
    watch = run.submit(cluster)
    wait_rows(run)
    wait_rows(run, "slow")
    path = taken_by(cluster, "savepoint", watch.job_id, str(run_directory / "savepoints"))
    cluster.cancel(watch)
    assert run.result() == []
    moved = run_directory / "moved"
    shutil.move(path, moved)
    finished(run.submit(cluster, parallelism=1, restore=str(moved)))
    run.assert_exact()
    assert all(rows > 0 for rows in (len(run.seen()), run.parsed.rows))
    later = [seen for seen in run.seen() if seen.role == "fast"][2:]
    assert min(seen.first_row for seen in later) > 0, "it began from the savepoint"
    done = cluster.cli("savepoint", "--dispose", str(moved), "--jobmanager", cluster.address)
    assert done.returncode == 0, done.stderr
    assert not moved.exists()


@pytest.mark.parametrize("style", ["records", "columns"])
def test_a_stopped_job_has_committed_its_output_and_continues_exactly(
    cluster: Cluster, run_directory: Path, style: str
) -> None:
    run = CountsRun(run_directory, rows=20_000, seconds=20, slow_pause=0, interval=NEVER_MS, style=style)
    watch = run.submit(cluster)
    wait_rows(run, "count")
    assert run.result() == [], "nothing is committed before"
    path = taken_by(cluster, "stop", watch.job_id, "-p", str(run_directory / "savepoints"))
    finished(watch)
    before = run.result()
    assert before
    assert hidden(run) == []
    assert set(before) <= set(counts.expected(*counts.sources(run.parsed))), "windows that were open did not fire"
    finished(run.submit(cluster, restore=str(path)))
    run.assert_exact()


def test_a_drained_job_fires_every_window(cluster: Cluster, run_directory: Path) -> None:
    run = CountsRun(run_directory, rows=20_000, seconds=20, slow_pause=0, interval=NEVER_MS, style="columns")
    watch = run.submit(cluster)
    wait_rows(run, "count")
    taken_by(cluster, "stop", "--drain", watch.job_id, "-p", str(run_directory / "savepoints"))
    finished(watch)
    read = sum(seen.last_row - seen.first_row + 1 for seen in run.seen() if seen.role in ("fast", "slow"))
    assert sum(rows for _, _, rows, _ in run.result()) == read < run.parsed.rows
    assert hidden(run) == []
