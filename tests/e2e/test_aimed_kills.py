"""Kills at named points of the checkpoint protocol, the ones where a mistake would lose or repeat records.

    trigger ─▶ before barrier ─▶ barrier sent ─▶ acks ... between acks ... last ack ─▶ │ _metadata │ ─▶ confirm ─▶ during commit

In a subtask a probe of the job kills at the point itself; at the JobManager's two points its write of ``_metadata`` is held
until the kill is done. And one bug is planted, to prove that the test can fail.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.counts_run import CountsRun, assert_restored, kill_plan
from tests.e2e.pool import made_ready
from tests.e2e.waiting import HANG_LIMIT_S, wait_until
from tests.e2e.watching import JobWatch

JOB_LIMIT_S = 200
IN_SUBTASKS = [
    ("before-barrier", "slow", "subtask"),
    ("barrier-received", "count", "subtask"),
    ("frozen", "count", "subtask"),
    ("before-ack", "fast", "subtask"),
    ("after-ack", "slow", "subtask"),
    ("before-commit", "count", "subtask"),
    ("during-commit", "count", "subtask"),
    ("after-commit", "count", "subtask"),
]
IN_TASK_MANAGERS = [
    ("barrier-sent", "fast", "taskmanager"),
    ("after-ack", "count", "taskmanager"),
    ("during-commit", "count", "taskmanager"),
]


@pytest.mark.parametrize("style", ["records", "columns"])
def test_a_subtask_may_die_at_any_point_of_a_checkpoint(cluster: Cluster, tmp_path: Path, style: str) -> None:
    run = CountsRun(tmp_path, style=style, seconds=12, rows=60_000, interval=300, kills=kill_plan(IN_SUBTASKS))
    watch = run.submit(cluster)
    watch.wait_finished(JOB_LIMIT_S)
    assert [(k["point"], k["role"], k["victim"]) for k in run.kills_done()] == IN_SUBTASKS
    run.assert_exact()
    assert_restored(cluster, watch, len(IN_SUBTASKS))


def test_a_taskmanager_may_die_at_any_point_of_a_checkpoint(cluster: Cluster, tmp_path: Path) -> None:
    made_ready(cluster, 2 + len(IN_TASK_MANAGERS))
    run = CountsRun(tmp_path, seconds=12, rows=60_000, kills=kill_plan(IN_TASK_MANAGERS))
    watch = run.submit(cluster)
    watch.wait_finished(JOB_LIMIT_S)
    assert [(k["point"], k["role"], k["victim"]) for k in run.kills_done()] == IN_TASK_MANAGERS
    run.assert_exact()
    assert_restored(cluster, watch, len(IN_TASK_MANAGERS))


def test_without_alignment_the_result_would_be_wrong(cluster: Cluster, tmp_path: Path) -> None:
    """The planted bug: barriers are counted but hold nothing back, as for at-least-once."""
    kills = kill_plan([("after-commit", "count", "subtask")] * 3)
    run = CountsRun(tmp_path, seconds=8, rows=80_000, kills=kills, plant="no-alignment")
    watch = run.submit(cluster)
    watch.wait_finished(JOB_LIMIT_S)
    assert len(run.kills_done()) == 3
    differences = run.differences()
    assert differences, "records behind the barrier went into the snapshot, and yet nothing was counted twice"


@pytest.fixture
def held_cluster(tmp_path: Path) -> Iterator[Cluster]:
    doors = tmp_path / "doors"
    doors.mkdir()
    os.environ["E2E_HOLD"] = str(doors)
    cluster = Cluster(tmp_path / "cluster")
    try:
        cluster.start_job_manager(entry=(str(Path(__file__).with_name("held_jobmanager.py")),))
        with cluster:
            made_ready(cluster, 3)
            yield cluster
    finally:
        del os.environ["E2E_HOLD"]


def test_kills_around_the_point_of_no_return(held_cluster: Cluster, tmp_path: Path) -> None:
    """Between the last acknowledgement and ``_metadata``, and between ``_metadata`` and the confirm: a subtask each time, then
    a TaskManager each time."""
    cluster, doors = held_cluster, tmp_path / "doors"
    run = CountsRun(tmp_path / "run", seconds=16, rows=80_000)
    watch = run.submit(cluster)
    watch.wait_checkpoints(2)
    held_ids = []
    for victim in ("subtask", "taskmanager"):
        for door in ("before", "after"):
            assert watch.last is not None
            since, restarts = watch.last.at, watch.last.status.restarts
            (doors / door).touch()
            (held,) = wait_until(
                lambda: list(doors.glob("held-*")), HANG_LIMIT_S, f"a checkpoint is held {door} its _metadata"
            )
            _kill_one(cluster, run, watch, victim)
            watch.wait_for(lambda m: not m.is_running, HANG_LIMIT_S, "the kill was noticed", since)
            (doors / door).unlink()
            held_ids.append(int(held.name.removeprefix("held-chk-")))
            held.unlink()
            running = watch.wait_running_again(restarts, since)
            completed = running.status.checkpoints_completed
            watch.wait_checkpoints(completed + 2)
    watch.wait_finished(JOB_LIMIT_S)
    print(f"held: {held_ids}")
    run.assert_exact()
    assert_restored(cluster, watch, 4)


def _kill_one(cluster: Cluster, run: CountsRun, watch: JobWatch, victim: str) -> None:
    if victim == "subtask":
        run.subtasks()[0].kill()
    else:
        cluster.kill9(cluster.task_manager_of(watch, "Sink", 0))
