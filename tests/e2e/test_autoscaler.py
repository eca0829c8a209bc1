"""`tidegate autoscale` beside a cluster: a job follows a load that changes, by metrics and requirements of the REST API alone."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster import ENTRY, JOBS, Cluster, Proc
from tests.e2e.counts_run import QUICK_RESTART
from tests.e2e.waiting import HANG_LIMIT_S, wait_until
from tests.e2e.watching import JobWatch

PAUSE_MS = 4.0
"""A subtask works off a little less than 250 records per second."""
CALM, BUSY = 40, 400
_LIMIT_S = 180
KEYS = {
    "job.autoscaler.enabled": "true",
    "job.autoscaler.stabilization.interval": "2 s",
    "job.autoscaler.metrics.window": "4 s",
    "job.autoscaler.scale-down.interval": "3 s",
    "job.autoscaler.catch-up.duration": "60 s",
    "job.autoscaler.restart.time": "1 s",
    "job.autoscaler.vertex.max-parallelism": "3",
}
ADAPTIVE = {
    "jobmanager.scheduler": "adaptive",
    "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": "0 s",
    "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout": "0 s",
}


@contextlib.contextmanager
def autoscaler(cluster: Cluster, *definitions: str) -> Iterator[Proc]:
    tmp = cluster.tmp / "autoscaler"
    tmp.mkdir()
    options = ["-Dautoscaler.standalone.control-loop.interval=500 ms", *definitions]
    command = [sys.executable, *ENTRY, "autoscale", "--jobmanager", cluster.address, *options]
    process = Proc("autoscaler", command, cluster.directory, tmp, {})
    try:
        yield process
    finally:
        process.popen.terminate()
        print(process.tail())
        assert process.popen.wait(HANG_LIMIT_S) == 0


def parallelism_of(watch: JobWatch, name: str) -> int:
    assert watch.last is not None
    [vertex] = [v for v in watch.last.status.vertices if name in v.name]
    return vertex.parallelism if vertex.task_counts.get("RUNNING", 0) == vertex.parallelism else 0


def test_a_job_is_scaled_up_and_down_under_a_load_that_changes(tmp_path: Path) -> None:
    rate = tmp_path / "rate"
    rate.write_text(str(CALM))
    with Cluster(tmp_path / "cluster") as cluster:
        cluster.add_taskmanager(3)
        cluster.wait_slots(3)
        settings = {**QUICK_RESTART, **ADAPTIVE, **KEYS}
        settings["execution.checkpointing.dir"] = str(tmp_path / "checkpoints")
        arguments = [f"--rate={rate}", f"--pause={PAUSE_MS}"]
        watch = cluster.submit(JOBS / "changing_load.py", *arguments, parallelism=1, settings=settings)
        watch.wait_running()
        with autoscaler(cluster) as process:
            rate.write_text(str(BUSY))
            watch.wait_for(lambda _: parallelism_of(watch, "work") >= 2, _LIMIT_S, "the work has more subtasks")
            assert parallelism_of(watch, "arrivals") == 1, "reading is no work"
            rate.write_text(str(CALM))
            watch.wait_for(lambda _: parallelism_of(watch, "work") == 1, _LIMIT_S, "the work has one subtask again")
            assert process.says("parallelism 1 -> ")
        cluster.cancel(watch)


def test_a_job_that_does_not_ask_for_it_is_left_alone_and_a_cluster_that_is_not_there_is_waited_for(
    tmp_path: Path,
) -> None:
    with (
        Cluster(tmp_path / "cluster") as cluster,
        autoscaler(cluster, "-Dautoscaler.standalone.fetcher.flink-cluster.port=1") as process,
    ):
        wait_until(
            lambda: process.says("no answer from http://127.0.0.1:1"), HANG_LIMIT_S, "it says who does not answer"
        )
        assert process.popen.poll() is None


@pytest.mark.parametrize(
    ("definition", "said"),
    [
        ("job.autoscaler.utilization.target=1.7", "job.autoscaler.utilization.target"),
        ("job.autoscaler.utilization.min=0.9", "not between job.autoscaler.utilization.min (0.9)"),
        ("job.autoscaler.vertex.min-parallelism=300", "job.autoscaler.vertex.max-parallelism is 200"),
        ("job.autoscaler.utilisation.target=0.5", "job.autoscaler.utilization.target"),
    ],
)
def test_bad_input_is_one_error(tmp_path: Path, definition: str, said: str) -> None:
    harness = Cluster(tmp_path / "cluster")
    done = harness.cli("autoscale", f"-D{definition}")
    assert done.returncode != 0
    assert said in done.stderr
    assert "Traceback" not in done.stderr
