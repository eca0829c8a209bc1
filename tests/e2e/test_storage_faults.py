"""Storage that fails under real processes: the job goes on, or refuses by the file's name; nothing visible is lost or doubled."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.e2e.cluster import JOBS, Cluster
from tests.e2e.counts_run import CountsRun
from tests.e2e.jobs import counts
from tests.e2e.waiting import wait_until
from tests.e2e.watching import JobWatch

LIMIT_S = 180
IN_FILES = {"execution.checkpointing.data-inline-threshold": "0"}


def completed(cluster: Cluster, watch: JobWatch) -> int:
    return int(cluster.checkpoints(watch.job_id).completed)


def wait_completed(cluster: Cluster, watch: JobWatch, count: int) -> None:
    wait_until(lambda: completed(cluster, watch) >= count, LIMIT_S, f"{count} checkpoints are complete")


def flip(file: Path) -> None:
    """One bit in the middle: the size stays."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def test_while_nothing_can_be_written_checkpoints_fail_and_the_job_goes_on_exactly(
    cluster: Cluster, run_directory: Path
) -> None:
    run = CountsRun(run_directory, rows=20_000, seconds=8, slow_pause=0, interval=200)
    tolerant = {"execution.checkpointing.tolerable-failed-checkpoints": "100000"}
    watch = run.submit(cluster, settings={**tolerant, **IN_FILES})
    wait_completed(cluster, watch, 2)
    home = run.checkpoints / watch.job_id
    away = home.rename(home.with_name("away"))
    home.write_text("a file is in the way of all directories")
    failed = cluster.checkpoints(watch.job_id).failed
    wait_until(lambda: cluster.checkpoints(watch.job_id).failed >= failed + 2, LIMIT_S, "two checkpoints fail")
    home.unlink()
    away.rename(home)
    wait_completed(cluster, watch, completed(cluster, watch) + 1)
    watch.wait_for(lambda m: m.status.state == "FINISHED", LIMIT_S, "the job is FINISHED")
    run.assert_exact()
    assert cluster.checkpoints(watch.job_id).restored == 0, "no failure was one of the job"


@pytest.fixture
def stopped(cluster: Cluster, run_directory: Path) -> tuple[CountsRun, Path]:
    """A job that was stopped with a savepoint whose state is in files."""
    run = CountsRun(run_directory, rows=20_000, seconds=6, slow_pause=0, interval=3_600_000)
    watch = run.submit(cluster, settings=IN_FILES)
    wait_until(lambda: any(note.stat().st_size for note in run.trace.glob("count-*.seen")), LIMIT_S, "windows see rows")
    target = str(run_directory / "savepoints")
    done = cluster.cli("stop", watch.job_id, "-p", target, "--jobmanager", cluster.address)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = re.findall(r"^Savepoint completed. Path: (.*)$", done.stdout, re.MULTILINE)
    watch.wait_for(lambda m: m.status.state == "FINISHED", LIMIT_S, "the job is FINISHED")
    return run, Path(path)


def refused(cluster: Cluster, run: CountsRun, path: Path) -> str:
    """What ``run -s`` says, in the foreground."""
    done = cluster.cli(
        *("run", "--jobmanager", cluster.address, "-p", "2", "-s", str(path)), str(JOBS / "counts.py"), *run.arguments
    )
    assert done.returncode != 0, done.stdout
    return done.stdout + done.stderr


def test_a_damaged_savepoint_is_refused_by_the_name_of_its_file_and_the_whole_one_continues_exactly(
    cluster: Cluster, stopped: tuple[CountsRun, Path]
) -> None:
    run, savepoint = stopped
    before = run.result()
    segment = max((f for f in savepoint.iterdir() if f.name != "_metadata"), key=lambda f: f.stat().st_size).name

    def damaged(name: str) -> Path:
        return Path(shutil.copytree(savepoint, savepoint.with_name(name)))

    without = damaged("without")
    (without / segment).unlink()
    told = refused(cluster, run, without)
    assert f"without/{segment}" in told
    assert "missing" in told
    metadata = damaged("metadata")
    flip(metadata / "_metadata")
    assert "metadata/_metadata" in refused(cluster, run, metadata)
    flipped = damaged("flipped")
    flip(flipped / segment)
    told = refused(cluster, run, flipped)
    assert f"flipped/{segment} is damaged" in told
    assert run.result() == before, "nothing of it was published"
    watch = run.submit(cluster, restore=str(savepoint))
    watch.wait_for(lambda m: m.status.state == "FINISHED", LIMIT_S, "the job is FINISHED")
    run.assert_exact()


def test_a_running_job_whose_state_is_damaged_when_it_has_to_restore_fails_by_its_name_and_removes_nothing(
    cluster: Cluster, run_directory: Path
) -> None:
    run = CountsRun(run_directory, rows=20_000, seconds=20, slow_pause=0, interval=3_600_000)
    watch = run.submit(cluster, settings=IN_FILES)
    wait_until(lambda: any(note.stat().st_size for note in run.trace.glob("count-*.seen")), LIMIT_S, "windows see rows")
    done = cluster.cli("checkpoint", watch.job_id, "--jobmanager", cluster.address)
    assert done.returncode == 0, done.stdout + done.stderr
    (place,) = (run.checkpoints / watch.job_id).glob("chk-*")
    segments = [f for f in place.iterdir() if f.name != "_metadata"]
    for segment in segments:
        flip(segment)
    visible = run.result()
    run.subtasks()[0].kill()
    watch.wait_for(lambda m: m.status.state == "FAILED", LIMIT_S, "the job has failed")
    assert watch.last is not None
    assert "is damaged" in watch.last.status.failure.message
    assert any(segment.name in watch.last.status.failure.message for segment in segments)
    assert (place / "_metadata").exists()
    assert set(run.result()) <= set(counts.expected(*counts.sources(run.parsed)))
    assert set(visible) <= set(run.result()), "what was published stays"
