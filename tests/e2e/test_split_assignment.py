"""Splits that the coordinator of a file source hands out are read exactly once, whichever process dies, and at any parallelism."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path

from tests.e2e.cluster import JOBS, Cluster
from tests.e2e.counts_run import QUICK_RESTART
from tests.e2e.test_high_availability import _attempts_of, _next_job_manager
from tests.e2e.test_savepoints import finished, taken_by
from tests.e2e.waiting import wait_until

_JOB_LIMIT_S = 120
SEED = 20261125
FILES, LINES = 60, 400


def write_files(directory: Path) -> Counter[str]:
    """One of them is ten times as long as the others."""
    directory.mkdir()
    expected: Counter[str] = Counter()
    for number in range(FILES):
        lines = [f"{number}-{place}" for place in range(LINES * (10 if not number else 1))]
        (directory / f"{number:03}.txt").write_text("".join(f"{line}\n" for line in lines))
        expected.update(lines)
    return expected


def lines_in(directory: Path) -> Counter[str]:
    """What is committed."""
    files = [file for file in directory.rglob("[!.]*") if file.is_file()]
    return Counter(line for file in files for line in file.read_text().splitlines())


def test_splits_are_read_once_although_subtasks_and_the_jobmanager_are_killed(
    surviving_cluster: Cluster, tmp_path: Path
) -> None:
    """Subtasks are adopted with what they were handed since the last checkpoint; what a killed one was handed goes back, and to the
    next one that asks."""
    expected = write_files(tmp_path / "input")
    draw = random.Random(SEED)
    places = {"execution.checkpointing.dir": str(tmp_path / "checkpoints")}
    cluster = surviving_cluster
    arguments = [f"--input={tmp_path / 'input'}", f"--output={tmp_path / 'output'}"]
    settings = {**places, **QUICK_RESTART}
    watch = cluster.submit(JOBS / "file_lines.py", *arguments, parallelism=3, settings=settings)
    watch.wait_running()
    watch.wait_checkpoints(2)
    first = _attempts_of(watch)
    for _ in range(2):
        watch = _next_job_manager(cluster, watch.job_id)
        watch.wait_running()
        assert _attempts_of(watch) == first, "adopted, not restarted"
        watch.wait_checkpoints(2)
    for restarts in range(2):
        killed_at = time.monotonic()
        draw.choice(cluster.subtask_processes()).kill()
        watch.wait_running_again(restarts, killed_at)
        assert watch.last is not None
        watch.wait_checkpoints(watch.last.status.checkpoints_completed + 2)
    watch.wait_finished(_JOB_LIMIT_S)
    assert lines_in(tmp_path / "output") == expected


def test_a_job_is_stopped_while_splits_wait_and_goes_on_at_another_parallelism(
    cluster: Cluster, tmp_path: Path
) -> None:
    expected = write_files(tmp_path / "input")
    arguments = [f"--input={tmp_path / 'input'}", f"--output={tmp_path / 'output'}"]
    slowly = "--rate=200"  # a minute, in which it is stopped also on a busy machine
    watch = cluster.submit(JOBS / "file_lines.py", *arguments, slowly, parallelism=2)
    watch.wait_running()
    watch.wait_checkpoints(1)
    path = taken_by(cluster, "stop", watch.job_id, "-p", str(tmp_path / "savepoints"))
    finished(watch)
    before = lines_in(tmp_path / "output")
    assert 0 < before.total() < expected.total()
    watch = cluster.submit(JOBS / "file_lines.py", *arguments, "--rate=20000", parallelism=4, restore=str(path))
    finished(watch)
    wait_until(lambda: lines_in(tmp_path / "output").total() >= expected.total(), 30, "everything is committed")
    assert lines_in(tmp_path / "output") == expected
