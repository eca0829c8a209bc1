"""Bounded jobs run stage by stage over Spark's shuffle: in fewer slots than they have subtasks, and again only where something failed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.e2e.cluster import JOBS, Cluster
from tests.e2e.counts_run import QUICK_RESTART
from tests.e2e.jobs import stages
from tests.e2e.waiting import HANG_LIMIT_S, wait_until
from tests.e2e.watching import JobWatch

NUMBERS = 20_000
LIMIT_S = 180


def submit(cluster: Cluster, directory: Path, parallelism: int, *more: str, **settings: str) -> JobWatch:
    arguments = [f"--numbers={NUMBERS}", f"--output={directory / 'output'}", *more]
    return cluster.submit(JOBS / "stages.py", *arguments, parallelism=parallelism, settings=settings)


def result(directory: Path) -> list[str]:
    files = [p for p in (directory / "output").rglob("*") if p.is_file() and not p.name.startswith(".")]
    return sorted(line for path in files for line in path.read_text().splitlines())


def test_nine_subtasks_of_each_stage_finish_on_two_slots(cluster: Cluster, run_directory: Path) -> None:
    watch = submit(cluster, run_directory, 9)
    over = watch.wait_finished(LIMIT_S)
    assert result(run_directory) == stages.expected(NUMBERS)
    vertices = over.status.vertices
    assert [len(vertex.subtasks) for vertex in vertices] == [9, 9, 9, 1], "the last one commits"
    places = {subtask.task_manager_id for vertex in vertices for subtask in vertex.subtasks}
    assert len(places) == 1, "Spark's shuffle is one TaskManager's"
    running = [sum(s.state == "RUNNING" for v in m.status.vertices for s in v.subtasks) for m in watch.moments]
    assert 1 <= max(running) <= 2


def test_a_killed_subtask_runs_again_alone(cluster: Cluster, run_directory: Path) -> None:
    held = run_directory / "held"
    watch = submit(cluster, run_directory, 3, f"--held={held}", **QUICK_RESTART)
    wait_until(held.exists, HANG_LIMIT_S, "a subtask of the second stage is held")
    os.kill(int(held.read_text()), signal.SIGKILL)
    over = watch.wait_finished(LIMIT_S)
    assert result(run_directory) == stages.expected(NUMBERS)
    assert over.status.restarts == 1
    attempts = {v.name: [s.attempt for s in v.subtasks] for v in over.status.vertices}
    again = {name: numbers for name, numbers in attempts.items() if any(numbers)}
    assert list(again.values()) == [[0, 1, 0]], attempts
    assert "sums" in next(iter(again))
