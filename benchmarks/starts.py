"""What it costs to start many subtasks: seconds, and processor time by process, beside Spark that starts as many Python workers.

    python -m benchmarks.starts [--subtasks 32,64,128] [--rounds 3]

A job of two vertices, with an exchange by key between them, is submitted to a warm cluster: one JobManager and one TaskManager. Measured is from then until
all subtasks run. Spark runs a job of as many partitions, each in a fresh worker (``spark.python.worker.reuse: false``, as tidegate has it) that does nothing:
until all have begun. In turns.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.cluster import BenchCluster

RESULTS = Path(__file__).resolve().parent / "results"
JOB = "benchmarks/starts_job.py"
SPARK_JOB = Path(__file__).resolve().parent / "starts_spark.py"
VERTICES = 2
SETTLE_S = 8.0
"""A TaskManager rehearses the loss of a worker three seconds after it has registered."""
LIMIT_S = 300.0
KINDS = ("JobManager", "TaskManager", "JVM", "Python daemon", "subtasks")


@dataclass(frozen=True, slots=True)
class Start:
    """Of so many subtasks together: seconds until all run, and processor seconds by kind of process."""

    subtasks: int
    seconds: float
    cpu_s: Mapping[str, float]

    @property
    def cpu_ms_each(self) -> float:
        return sum(self.cpu_s.values()) / self.subtasks * 1000


def cpu_seconds(root: int, name: str) -> dict[str, float]:
    """Of a process, which is called ``name``, and of all below it, by kind; without those that have ended."""
    found = dict.fromkeys(KINDS, 0.0)
    process = psutil.Process(root)
    family = [process, *process.children(recursive=True)]
    jvms = {one.pid for one in family if _is_java(one)}
    for one in family:
        with suppress(psutil.Error):  # one that has ended meanwhile
            times = one.cpu_times()
            kind = name if one.pid == root else "JVM" if one.pid in jvms else "subtasks"
            found["Python daemon" if one.ppid() in jvms else kind] += times.user + times.system
    return found


def _is_java(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return "java" in process.name()
    return False


def start_subtasks(subtasks: int) -> Start:
    """Of tidegate."""
    parallelism = subtasks // VERTICES
    with BenchCluster(parallelism) as cluster:
        time.sleep(SETTLE_S)
        before, began = _of_cluster(cluster), time.monotonic()
        job_id = cluster.run(JOB, str(parallelism))
        for status in cluster.client.watch(job_id):
            running = sum(vertex.task_counts.get("RUNNING", 0) for vertex in status.vertices)
            if status.state == "RUNNING" and running == subtasks:
                seconds, after = time.monotonic() - began, _of_cluster(cluster)
                return Start(subtasks, seconds, {kind: after[kind] - before[kind] for kind in KINDS})
    raise RuntimeError("the job ended before it ran")


def _of_cluster(cluster: BenchCluster) -> dict[str, float]:
    job_manager = cpu_seconds(cluster.job_manager_pid, "JobManager")
    task_manager = cpu_seconds(cluster.task_manager_pid, "TaskManager")
    return {kind: job_manager[kind] + task_manager[kind] for kind in KINDS}


def start_workers(partitions: int) -> Start:
    """Of Spark alone."""
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as directory:
        command = [sys.executable, str(SPARK_JOB), directory, str(partitions)]
        quiet = {"stderr": subprocess.DEVNULL, "env": {**os.environ, "PYSPARK_PYTHON": sys.executable}}
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **quiet)  # type: ignore[call-overload]
        try:
            assert process.stdout.readline() == "ready\n", "Spark did not start"
            before, began = cpu_seconds(process.pid, "TaskManager"), time.monotonic()
            process.stdin.write("begin\n")
            process.stdin.flush()
            while len(list(Path(directory).glob("worker-*"))) < partitions:
                if time.monotonic() - began > LIMIT_S:
                    raise RuntimeError(f"Spark did not start {partitions} workers within {LIMIT_S:g} s")
                time.sleep(0.02)
            seconds, after = time.monotonic() - began, cpu_seconds(process.pid, "TaskManager")
            Path(directory, "end").touch()
            process.wait(60)
        finally:
            process.kill()
            process.wait()
    return Start(partitions, seconds, {kind: after[kind] - before[kind] for kind in KINDS})


def report(console: Console, results: Path, sizes: list[int], rounds: int) -> None:
    """Prints a table and writes ``starts.json``."""
    found: list[dict[str, object]] = []
    table = Table("subtasks", "", "s", "CPU ms each", *(f"{kind}" for kind in KINDS), title="starts")
    for size in sizes:
        ours, sparks = [], []
        for _ in range(rounds):
            ours.append(start_subtasks(size))
            sparks.append(start_workers(size))
        for name, starts in (("tidegate", ours), ("Spark", sparks)):
            seconds = statistics.median(start.seconds for start in starts)
            each = statistics.median(start.cpu_ms_each for start in starts)
            parts = [statistics.median(start.cpu_s[kind] / size * 1000 for start in starts) for kind in KINDS]
            table.add_row(str(size), name, f"{seconds:.2f}", f"{each:.0f}", *(f"{part:.1f}" for part in parts))
            found += [{"of": name, **asdict(start)} for start in starts]
        ratio = statistics.median(our.cpu_ms_each / spark.cpu_ms_each for our, spark in zip(ours, sparks, strict=True))
        table.add_row(str(size), "ratio", "", f"{ratio:.2f}")
    console.print(table)
    results.mkdir(exist_ok=True)
    (results / "starts.json").write_text(json.dumps(found, indent=1))


@click.command(help=__doc__)
@click.option("--subtasks", default="32,64,128", show_default=True, help="How many, by comma.")
@click.option("--rounds", default=3, show_default=True)
def main(subtasks: str, rounds: int) -> None:
    report(Console(), RESULTS, [int(text) for text in subtasks.split(",")], rounds)


if __name__ == "__main__":
    main()
