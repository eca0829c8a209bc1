"""Patterns through ``kill -9`` of the TaskManager that looks for them: every match and every timed-out partial match once."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.cluster import JOBS, Cluster
from tests.e2e.counts_run import QUICK_RESTART
from tests.e2e.jobs.patterns import KEYS, STEP_MS, WITHIN_MS, is_end, is_start
from tests.e2e.waiting import wait_until

ROWS, RATE = 5_000, 500


def expected() -> list[str]:
    lines = []
    for start in filter(is_start, range(ROWS)):
        within = range(start + KEYS, min(ROWS, start + WITHIN_MS // STEP_MS), KEYS)
        ends = [number for number in within if is_end(number)]
        lines.append(f"{start} {ends[0]}" if ends else f"{start} timed out at {start * STEP_MS + WITHIN_MS}")
    return sorted(lines)


def test_every_match_is_found_once_although_a_process_is_killed(cluster: Cluster, run_directory: Path) -> None:
    output = run_directory / "output"
    watch = cluster.submit(
        JOBS / "patterns.py",
        f"--rows={ROWS}",
        f"--rate={RATE}",
        f"--output={output}",
        parallelism=2,
        settings={"execution.checkpointing.dir": str(run_directory / "checkpoints"), **QUICK_RESTART},
    )
    watch.wait_checkpoints(5)
    wait_until(lambda: any(output.rglob("part-*")), 60, "the first matches")
    killed = watch.wait_running()
    at = cluster.kill9(cluster.task_manager_of(watch, "pattern", 0))
    watch.wait_running_again(killed.status.restarts, at, 60)
    watch.wait_finished(120)
    files = [path for path in output.rglob("*") if path.is_file() and not path.name.startswith(".")]
    lines = sorted(line for path in files for line in path.read_text().splitlines())
    assert any("timed out" in line for line in lines)
    assert lines == expected()
