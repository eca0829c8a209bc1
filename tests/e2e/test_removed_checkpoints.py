"""The checkpoint directory of a running job is removed, or a part of it: what else holds its state is gone on from, and where nothing does the failure
says what to choose. Flink 2.3 in the same scenarios: docs/adr/0015.

Each job has the default of ``execution.checkpointing.tolerable-failed-checkpoints``, 0.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.counts_run import CountsRun
from tests.e2e.waiting import wait_until
from tests.e2e.watching import JobWatch

LIMIT_S = 180
IN_FILES = {"execution.checkpointing.data-inline-threshold": "0"}
INCREMENTAL = {**IN_FILES, "state.backend.type": "rocksdb", "execution.checkpointing.incremental": "true"}
LOCAL = {"execution.checkpointing.local-backup.enabled": "true", "execution.state-recovery.from-local": "true"}
ONCE_AN_HOUR = 3_600_000


def take_checkpoint(cluster: Cluster, watch: JobWatch) -> None:
    done = cluster.cli("checkpoint", watch.job_id, "--jobmanager", cluster.address)
    assert done.returncode == 0, done.stdout + done.stderr


def started(cluster: Cluster, directory: Path, settings: dict[str, str], **options: int) -> tuple[CountsRun, JobWatch]:
    """A job whose sources wait in the middle, so that it does not end before it was looked at."""
    run = CountsRun(directory, held=True, rows=20_000, seconds=4, slow_pause=0, **options)
    watch = run.submit(cluster, settings=settings)
    wait_until(lambda: any(note.stat().st_size for note in run.trace.glob("count-*.seen")), LIMIT_S, "windows see rows")
    return run, watch


def finished_exactly(run: CountsRun, watch: JobWatch) -> None:
    run.release()
    watch.wait_finished(LIMIT_S)
    run.assert_exact()


def removed(place: Path) -> None:
    """Takes the directory away in one step: the job goes on writing and removing files there."""
    gone = place.with_name(f"{place.name}.gone")
    place.rename(gone)
    shutil.rmtree(gone)


def remove_all(home: Path) -> None:
    removed(home.parent)


def remove_job(home: Path) -> None:
    removed(home)


def remove_shared(home: Path) -> None:
    removed(home / "shared")


def remove_manifest(home: Path) -> None:
    (manifest,) = home.glob("chk-*/_metadata")
    manifest.unlink()


@pytest.mark.parametrize("remove", [remove_all, remove_manifest])
def test_inline_state_is_restored_from_the_memory_of_the_jobmanager(
    cluster: Cluster, run_directory: Path, remove: Callable[[Path], None]
) -> None:
    run, watch = started(cluster, run_directory, {}, interval=ONCE_AN_HOUR)
    take_checkpoint(cluster, watch)
    home = run.checkpoints / watch.job_id
    remove(home)
    run.subtasks()[0].kill()
    watch.wait_running_again(0, 0)
    assert cluster.checkpoints(watch.job_id).restored == 1
    take_checkpoint(cluster, watch)
    assert list(home.glob("chk-*/_metadata")), "the directory is made again"
    finished_exactly(run, watch)


@pytest.mark.parametrize("remove", [remove_job, remove_shared])
def test_incremental_checkpoints_go_on_from_a_full_one_and_no_subtask_restarts(
    cluster: Cluster, run_directory: Path, remove: Callable[[Path], None]
) -> None:
    """Without it each checkpoint after that would name files that are not there, and be complete."""
    run, watch = started(cluster, run_directory, {**INCREMENTAL, **LOCAL}, interval=300)
    watch.wait_checkpoints(2, LIMIT_S)
    remove(run.checkpoints / watch.job_id)
    told = cluster.checkpoints(watch.job_id)
    wait_until(
        lambda: cluster.checkpoints(watch.job_id).completed >= told.completed + 3, LIMIT_S, "checkpoints are complete"
    )
    assert watch.moments[-1].status.restarts == 0
    run.subtasks()[0].kill()
    watch.wait_running_again(0, 0)
    finished_exactly(run, watch)


def test_files_of_state_are_restored_from_local_copies(cluster: Cluster, run_directory: Path) -> None:
    """Splits of sources are dealt anew from those of all subtasks, wherever they ran: being small, they travel inline."""
    small_inline = {"execution.checkpointing.data-inline-threshold": "1 kb"}
    run, watch = started(cluster, run_directory, {**small_inline, **LOCAL}, interval=ONCE_AN_HOUR)
    take_checkpoint(cluster, watch)
    home = run.checkpoints / watch.job_id
    assert [file for file in home.glob("chk-1/*") if file.name != "_metadata"], "some state is in files"
    remove_all(home)
    run.subtasks()[0].kill()
    watch.wait_running_again(0, 0)
    finished_exactly(run, watch)


def test_where_nothing_is_left_the_job_says_what_to_choose(cluster: Cluster, run_directory: Path) -> None:
    run, watch = started(cluster, run_directory, IN_FILES, interval=ONCE_AN_HOUR)
    take_checkpoint(cluster, watch)
    savepoints = run_directory / "savepoints"
    done = cluster.cli("savepoint", watch.job_id, str(savepoints), "--jobmanager", cluster.address)
    assert done.returncode == 0, done.stdout + done.stderr
    (savepoint,) = savepoints.iterdir()
    remove_all(run.checkpoints / watch.job_id)
    run.subtasks()[0].kill()
    watch.wait_for(lambda m: m.status.state == "FAILED", LIMIT_S, "the job has failed")
    message = watch.moments[-1].status.failure.message
    assert "is missing" in message
    assert f"Intact ones are: {savepoint}. Start the job from one of them with run -s PATH" in message
    assert "chk-" not in message.partition("Intact ones are")[2], "what is gone is no choice"


def test_an_older_checkpoint_is_gone_on_from_where_the_user_allows_it(cluster: Cluster, run_directory: Path) -> None:
    allowed = {"tidegate.state-recovery.older-checkpoints": "true", "execution.checkpointing.num-retained": "3"}
    run, watch = started(cluster, run_directory, {**IN_FILES, **allowed}, interval=ONCE_AN_HOUR)
    for _ in range(2):
        take_checkpoint(cluster, watch)
    home = run.checkpoints / watch.job_id
    newest = max(home.glob("chk-*"), key=lambda place: int(place.name.removeprefix("chk-")))
    removed(newest)
    run.subtasks()[0].kill()
    watch.wait_running_again(1, 0)
    restored = [c.checkpoint_id for c in cluster.checkpoints(watch.job_id).checkpoints if c.restored]
    assert 1 in restored
    run.release()
    watch.wait_finished(LIMIT_S)
    missing = [line for line in run.differences() if line.startswith("missing")]
    assert missing == [], "rows may come twice, and none is lost"
