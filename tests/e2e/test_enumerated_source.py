"""A user's ``SplitEnumerator`` in a process of its own: exact whichever process dies, and at any parallelism."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from tests.e2e.cluster import JOBS, Cluster
from tests.e2e.counts_run import QUICK_RESTART
from tests.e2e.test_high_availability import _attempts_of, _next_job_manager
from tests.e2e.test_savepoints import finished, taken_by
from tests.e2e.test_split_assignment import lines_in
from tests.e2e.waiting import wait_until
from tests.e2e.watching import JobWatch

_JOB_LIMIT_S = 120
COUNT = 20_000
ENUMERATOR = "(enumerator)"


def numbers_in(directory: Path) -> list[int]:
    return sorted(int(line) for line in lines_in(directory).elements())


def process_of(cluster: Cluster, *, is_enumerator: bool) -> psutil.Process:
    """Returns a process of the job, all of whose subtasks run: that of the enumerator, or of a reader."""
    titles: dict[psutil.Process, str] = {}
    for process in cluster.subtask_processes():
        with contextlib.suppress(psutil.Error):  # an earlier attempt's, which is about to be gone
            titles[process] = " ".join(process.cmdline())
    subtasks = {process: title for process, title in titles.items() if title.startswith("tidegate subtask Source: ")}
    return next(process for process, title in subtasks.items() if (ENUMERATOR in title) == is_enumerator)


def runs_again(watch: JobWatch, kill: Callable[[], None]) -> None:
    """Kills something of the job, and waits until all of it runs after one more restart."""
    assert watch.last is not None
    restarts, killed_at = watch.last.status.restarts, time.monotonic()
    kill()
    watch.wait_running_again(restarts, killed_at)


def replace_task_manager(cluster: Cluster) -> None:
    cluster.kill9(cluster.task_managers[0])
    cluster.add_taskmanager()


def test_every_number_is_read_once_although_enumerator_reader_taskmanager_and_jobmanager_are_killed(
    surviving_cluster: Cluster, tmp_path: Path
) -> None:
    cluster = surviving_cluster
    output = tmp_path / "output"
    settings = {"execution.checkpointing.dir": str(tmp_path / "checkpoints"), **QUICK_RESTART}
    arguments = [f"--output={output}", f"--count={COUNT}", "--pause=0.003"]
    watch = cluster.submit(JOBS / "enumerated_numbers.py", *arguments, parallelism=3, settings=settings)
    watch.wait_running()
    watch.wait_checkpoints(2)
    for is_enumerator in (True, False):
        runs_again(watch, process_of(cluster, is_enumerator=is_enumerator).kill)
        assert watch.last is not None
        watch.wait_checkpoints(watch.last.status.checkpoints_completed + 1)
    assert watch.last is not None
    before = _attempts_of(watch)
    watch = _next_job_manager(cluster, watch.job_id)
    watch.wait_running()
    assert _attempts_of(watch) == before, "adopted, not restarted"
    watch.wait_checkpoints(2)
    runs_again(watch, lambda: replace_task_manager(cluster))
    watch.wait_finished(_JOB_LIMIT_S)
    assert numbers_in(output) == list(range(COUNT))


def test_a_drained_job_has_committed_what_was_read_and_hands_out_nothing_more(cluster: Cluster, tmp_path: Path) -> None:
    output = tmp_path / "output"
    watch = cluster.submit(
        JOBS / "enumerated_numbers.py", f"--output={output}", f"--count={COUNT}", "--pause=0.01", parallelism=2
    )
    watch.wait_running()
    wait_until(lambda: len(numbers_in(output)) > 0, 30, "something is committed")
    taken_by(cluster, "stop", "--drain", watch.job_id, "-p", str(tmp_path / "savepoints"))
    finished(watch)
    found = numbers_in(output)
    assert found == sorted(set(found))
    assert 0 < len(found) < COUNT


def test_a_job_is_stopped_and_goes_on_at_another_parallelism(cluster: Cluster, tmp_path: Path) -> None:
    output = tmp_path / "output"
    arguments = [f"--output={output}", f"--count={COUNT}"]
    watch = cluster.submit(JOBS / "enumerated_numbers.py", *arguments, "--pause=0.01", parallelism=2)
    watch.wait_running()
    watch.wait_checkpoints(1)
    path = taken_by(cluster, "stop", watch.job_id, "-p", str(tmp_path / "savepoints"))
    finished(watch)
    before = len(numbers_in(output))
    assert 0 < before < COUNT
    watch = cluster.submit(JOBS / "enumerated_numbers.py", *arguments, "--pause=0", parallelism=4, restore=str(path))
    finished(watch)
    wait_until(lambda: len(numbers_in(output)) >= COUNT, 30, "everything is committed")
    assert numbers_in(output) == list(range(COUNT))
