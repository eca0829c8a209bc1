"""Streams that Spark reads, and rows that Spark writes, through ``kill -9``: each record once."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.e2e.cluster import JOBS, Cluster
from tests.e2e.counts_run import QUICK_RESTART
from tests.e2e.pool import made_ready
from tests.e2e.waiting import HANG_LIMIT_S, wait_until
from tests.e2e.watching import JobWatch

LIMIT_S = 240
SLOW = pytest.mark.slow
"""What `test_spark_kafka` does with four sources at once, files and generated rows among them."""
FILE_ROWS = 500


class Run:
    """One job of ``jobs/spark_rows.py``."""

    def __init__(self, cluster: Cluster, directory: Path, **options: str) -> None:
        self.cluster = cluster
        self.input, self.output = directory / "input", directory / "output"
        self.checkpoints = directory / "checkpoints"
        self.seen = directory / "seen"
        self.input.mkdir()
        self.seen.mkdir()
        self._options = {"input": str(self.input), "seen": str(self.seen), "output": str(self.output), **options}
        self._files = 0

    def submit(
        self, parallelism: int = 2, restore: str | None = None, spark: Mapping[str, str] | None = None
    ) -> JobWatch:
        """``spark``: what the client's Spark needs to look at the source."""
        arguments = [f"--{name}={value}" for name, value in self._options.items()]
        settings = {"execution.checkpointing.dir": str(self.checkpoints), **QUICK_RESTART, **(spark or {})}
        return self.cluster.submit(
            JOBS / "spark_rows.py", *arguments, parallelism=parallelism, restore=restore, settings=settings
        )

    def add_files(self, count: int) -> int:
        """Under their names when they are whole. How many rows there are now."""
        for number in range(self._files, self._files + count):
            ids = range(number * FILE_ROWS, (number + 1) * FILE_ROWS)
            hidden = self.input / f".{number}"
            pq.write_table(pa.table({"id": list(ids), "part": [n % 2 for n in ids]}), hidden)
            hidden.rename(self.input / f"{number}.parquet")
        self._files += count
        return self._files * FILE_ROWS

    def ids(self) -> list[int]:
        """What readers of the output see."""
        return [number for number, _ in self.rows()]

    def rows(self) -> list[tuple[int, int]]:
        """With the part of each."""
        found: list[tuple[int, int]] = []
        for directory, inner, names in os.walk(self.output):
            inner[:] = [name for name in inner if not name.startswith((".", "_"))]
            is_written = self._options.get("sink") != "spark" or "_SUCCESS" in names
            for name in names:
                if is_written and name.endswith(".parquet") and not name.startswith("."):
                    table = pq.read_table(Path(directory, name), columns=["id", "part"])
                    found += zip(table["id"].to_pylist(), table["part"].to_pylist(), strict=True)
        return found

    def wait_rows(self, count: int) -> None:
        wait_until(lambda: len(self.ids()) >= count, LIMIT_S, f"{count} rows are in the output")

    def reader(self) -> psutil.Process:
        """The process that reads the stream."""
        (pid,) = (int(found.name) for found in self.seen.iterdir() if psutil.pid_exists(int(found.name)))
        return psutil.Process(pid)


def kill_source(run: Run, watch: JobWatch) -> float:
    moment = time.monotonic()
    run.reader().kill()
    return moment


def kill_task_manager(run: Run, watch: JobWatch) -> float:
    """The one whose Spark reads the stream."""
    return run.cluster.kill9(run.cluster.task_manager_of(watch, "rows", 0))


def killed(run: Run, watch: JobWatch, kill: Callable[[Run, JobWatch], float]) -> None:
    watch.wait_running()
    assert watch.last is not None
    restarts = watch.last.status.restarts
    moment = kill(run, watch)
    seen = watch.wait_for(lambda found: not found.is_running, HANG_LIMIT_S, "the loss is noticed", moment)
    watch.wait_running_again(restarts, seen.at, LIMIT_S)


@pytest.mark.parametrize("sink", [pytest.param("files", marks=SLOW), "spark"])
def test_each_row_of_files_that_come_is_there_once(cluster: Cluster, tmp_path: Path, sink: str) -> None:
    made_ready(cluster, 3)
    run = Run(cluster, tmp_path, source="files", sink=sink)
    run.add_files(3)
    watch = run.submit()
    run.wait_rows(1)
    run.add_files(12)
    killed(run, watch, kill_source)
    run.wait_rows(run.add_files(5))
    killed(run, watch, kill_task_manager)
    total = run.add_files(12)
    run.wait_rows(total)
    assert sorted(run.ids()) == list(range(total))
    cluster.cancel(watch)


def test_what_is_wrong_is_told_by_operator_and_epoch_and_nothing_is_lost(cluster: Cluster, tmp_path: Path) -> None:
    """A place that cannot be written, then a file of another type: the job goes on by itself when they are mended."""
    run = Run(cluster, tmp_path, source="files", sink="spark")
    run.output.write_text("in the way")
    run.add_files(2)
    watch = run.submit()
    wait_failure(
        watch,
        r"operator 'Sink: Spark sink': what checkpoints? .*\(epoch \d+ of tidegate-.*the write of epoch \d+ failed: ",
    )
    run.output.unlink()
    run.wait_rows(run.add_files(1))
    strange, mended = run.input / "strange.parquet", run.input / ".mended"
    pq.write_table(pa.table({"id": ["x"], "part": ["y"]}), mended)
    mended.rename(strange)
    wait_failure(watch, r"operator 'Source: rows': batch \d+ of the Spark stream, from .* to .*strange\.parquet")
    total = run.add_files(1)
    pq.write_table(pa.table({"id": [total], "part": [0]}), mended)
    mended.rename(strange)
    run.wait_rows(total + 1)
    assert sorted(run.ids()) == list(range(total + 1))
    cluster.cancel(watch)


def wait_failure(watch: JobWatch, pattern: str) -> None:
    """The job tells of a failure like this."""
    watch.wait_for(lambda found: bool(re.search(pattern, found.status.failure.message, re.S)), LIMIT_S, pattern)


@SLOW
@pytest.mark.parametrize("source", ["rate", "counting"])
def test_each_row_of_a_generated_stream_is_there_once(cluster: Cluster, tmp_path: Path, source: str) -> None:
    made_ready(cluster, 3)
    run = Run(cluster, tmp_path, source=source)
    watch = run.submit()
    run.wait_rows(1000)
    for kill in (kill_source, kill_task_manager):
        killed(run, watch, kill)
        run.wait_rows(len(run.ids()) + 1000)
    cluster.cancel(watch)
    ids = run.ids()
    assert len(set(ids)) == len(ids)
    first = 0 if source == "rate" else min(ids)
    before_the_last_batches = first + 1500
    assert set(range(first, before_the_last_batches)) <= set(ids)


def test_a_savepoint_is_restored_at_another_parallelism_and_an_older_one_too(cluster: Cluster, tmp_path: Path) -> None:
    run = Run(cluster, tmp_path, source="files")
    first = run.submit(parallelism=2)
    older_total = run.add_files(4)
    run.wait_rows(older_total)
    older = savepoint(run, first)
    total = run.add_files(11)
    run.wait_rows(total)
    newer = savepoint(run, first)
    cluster.cancel(first)
    second = run.submit(parallelism=1, restore=newer)
    total = run.add_files(2)
    run.wait_rows(total)
    assert sorted(run.ids()) == list(range(total))
    cluster.cancel(second)
    third = run.submit(parallelism=2, restore=older)
    run.wait_rows(total + total - older_total)
    assert sorted(run.ids()) == sorted([*range(total), *range(older_total, total)])
    cluster.cancel(third)


def savepoint(run: Run, watch: JobWatch) -> str:
    """Its directory."""
    target = run.checkpoints.parent / "savepoints"
    known = set(target.glob("*"))
    done = run.cluster.cli("savepoint", watch.job_id, str(target), "--jobmanager", run.cluster.address)
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = set(target.glob("*")) - known
    return str(made)
