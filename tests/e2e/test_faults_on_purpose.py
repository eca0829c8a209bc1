"""`tidegate fault` against real processes: the job lives through all of them, and each is listed with what followed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.counts_run import CountsRun
from tests.e2e.pool import made_ready
from tests.e2e.waiting import HANG_LIMIT_S, wait_until
from tests.e2e.watching import JobWatch

SETTINGS = {"execution.checkpointing.timeout": "3 s", "execution.checkpointing.tolerable-failed-checkpoints": "100"}


@pytest.fixture
def allowing(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "cluster", {"tidegate.testing.allow-faults": "true"}) as cluster:
        made_ready(cluster, 3)
        yield cluster


def fault(cluster: Cluster, *arguments: str) -> str:
    """The output of `tidegate fault`, which succeeds."""
    done = cluster.cli("fault", arguments[0], "-m", cluster.address, *arguments[1:])
    assert done.returncode == 0, done.stderr
    return done.stdout


def _lives_on(watch: JobWatch, restarts: int) -> None:
    """It runs again, and has taken a checkpoint since."""
    assert watch.last is not None
    watch.wait_running_again(restarts, 0.0)
    watch.wait_checkpoints(watch.last.status.checkpoints_completed + 1)


def _lists(cluster: Cluster, text: str) -> None:
    wait_until(lambda: text in fault(cluster, "list"), HANG_LIMIT_S, f"{text!r} is listed")


def test_a_job_lives_through_faults_that_are_made_and_they_are_listed(allowing: Cluster, tmp_path: Path) -> None:
    """It has no end of its own: what is asked for takes as long as the machine needs."""
    run = CountsRun(tmp_path / "run", seconds=3_600, rows=3_600_000)
    watch = run.submit(allowing, settings=SETTINGS)
    watch.wait_running()
    watch.wait_checkpoints(1)
    assert watch.last is not None
    [vertex, *_] = [vertex for vertex in watch.last.status.vertices if vertex.parallelism == 2]
    fault(allowing, "kill-subtask", watch.job_id, vertex.vertex_id, "1")
    _lives_on(watch, 0)
    fault(allowing, "cut-channels", _a_task_manager(watch))
    _lives_on(watch, 1)
    fault(allowing, "kill-taskmanager", _a_task_manager(watch))
    _lives_on(watch, 2)
    fault(allowing, "full-state", "--for", "2 s")
    _lists(allowing, "no space left on device")
    fault(allowing, "drop-acknowledgements", _a_task_manager(watch))
    _lists(allowing, "expired")
    fault(allowing, "delay-channels", _a_task_manager(watch), "--delay", "100 ms", "--for", "1 s")
    fault(allowing, "delay-messages", _a_task_manager(watch), "--delay", "100 ms", "--for", "1 s")
    fault(allowing, "slow-state", "--delay", "50 ms", "--for", "1 s")
    fault(allowing, "slow-state", _a_task_manager(watch).upper(), "--delay", "50 ms", "--for", "1 s")
    fault(allowing, "skew-clock", _a_task_manager(watch), "--by", "-5 s", "--for", "1 s")
    watch.wait_checkpoints(watch.last.status.checkpoints_completed + 2)
    listed = fault(allowing, "list")
    assert listed.count("on purpose: ") == 10
    assert listed.count("running again: ") == 3, listed
    assert listed.count(" completed") >= 3, listed
    allowing.cancel(watch)
    [killed] = [process for process in allowing.task_managers if not process.is_alive()]
    allowing.kill9(killed)


def test_a_full_directory_of_one_taskmanager_fails_checkpoints_and_no_job(allowing: Cluster, tmp_path: Path) -> None:
    """State that is larger than what travels in an acknowledgement: here everything is."""
    run = CountsRun(tmp_path / "run", seconds=3_600, rows=3_600_000)
    files = {**SETTINGS, "execution.checkpointing.data-inline-threshold": "0 b"}
    watch = run.submit(allowing, settings=files)
    watch.wait_running()
    watch.wait_checkpoints(1)
    fault(allowing, "full-state", _a_task_manager(watch), "--for", "5 s")
    _lists(allowing, "no space left on device")
    assert watch.last is not None
    watch.wait_checkpoints(watch.last.status.checkpoints_completed + 1)
    assert watch.last.status.restarts == 0
    refused = allowing.cli("fault", "kill-executor", "-m", allowing.address, watch.job_id, "SOURCE")
    assert refused.returncode != 0
    allowing.cancel(watch)


def test_without_the_option_it_is_refused_in_one_sentence(cluster: Cluster) -> None:
    refused = cluster.cli("fault", "full-state", "-m", cluster.address)
    assert refused.returncode != 0
    assert "start the JobManager with --allow-faults" in refused.stderr
    assert "Traceback" not in refused.stderr


def _a_task_manager(watch: JobWatch) -> str:
    assert watch.last is not None
    running = [s for vertex in watch.last.status.vertices for s in vertex.subtasks if s.state == "RUNNING"]
    return str(running[0].task_manager_id)
