"""The systems that copy a topic in the Kafka benchmark: each is a context manager that gives the pid of what works.

tidegate   JobManager and TaskManager of ``benchmarks.cluster``; the TaskManager's processes count. In both modes of its sink
Flink      one JVM with a local cluster: PyFlink's Flink (installed by the tests, too) and the released Kafka connector
Spark      Structured Streaming in this installation's PySpark, with the Kafka package of the tests; at least once
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import psutil

from benchmarks.cluster import BenchCluster
from tests.servers.flink_environment import flink_environment
from tests.servers.jars import fetched

HERE = Path(__file__).resolve().parent
SPARK_KAFKA = HERE.parent / "tests" / "servers" / "spark_kafka" / "pom.xml"
OPENS = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.util", "java.lang", "java.time")]


class NotThere(Exception):
    """The system cannot be run here; says why."""


@contextlib.contextmanager
def tidegate(servers: str, source: str, sink: str, interval_ms: int, strategy: str = "") -> Iterator[int]:
    with BenchCluster(1) as cluster:
        job_id = cluster.run("benchmarks/rivals/kafka_job.py", servers, source, sink, str(interval_ms), strategy)
        try:
            yield cluster.task_manager_pid
        finally:
            cluster.client.cancel(job_id)
            for _ in cluster.client.watch(job_id):
                pass


def tidegate_open(servers: str, source: str, sink: str, interval_ms: int) -> AbstractContextManager[int]:
    """Into transactions that stay open until their checkpoint is confirmed, as Flink's."""
    return tidegate(servers, source, sink, interval_ms, "POOLING")


@contextlib.contextmanager
def flink(servers: str, source: str, sink: str, interval_ms: int) -> Iterator[int]:
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as directory:
        home = flink_environment().home
        path = os.pathsep.join([directory, f"{home}/lib/*", f"{fetched(HERE / 'rivals' / 'pom.xml', 'flink-kafka')}/*"])
        compiled = subprocess.run(
            ["javac", "-cp", path, "-d", directory, str(HERE / "rivals" / "FlinkCopy.java")],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        if compiled.returncode:
            raise NotThere(f"FlinkCopy.java was not compiled: {compiled.stderr[-500:]}")
        options = ["-Xmx2g", "-XX:+UseG1GC", *OPENS, "-cp", path]
        command = ["java", *options, "FlinkCopy", servers, source, sink, str(interval_ms)]
        with _running(command, Path(directory) / "flink.log") as pid:
            yield pid


@contextlib.contextmanager
def spark(servers: str, source: str, sink: str, interval_ms: int) -> Iterator[int]:
    """At least once; it publishes micro-batches."""
    try:
        jars = fetched(SPARK_KAFKA, "spark-kafka")
    except AssertionError as error:
        raise NotThere(str(error)) from error
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as directory:
        command = [sys.executable, str(HERE / "rivals" / "spark_copy.py"), ",".join(map(str, jars.glob("*.jar")))]
        command += [servers, source, sink, str(interval_ms), directory]
        with _running(command, Path(directory) / "spark.log") as pid:
            yield pid


@contextlib.contextmanager
def _running(command: list[str], log: Path) -> Iterator[int]:
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
    try:
        yield process.pid
    finally:
        family = [process.pid]
        with contextlib.suppress(psutil.Error):
            family += [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
        has_failed = process.poll() not in (None, 0)
        for pid in family:
            with contextlib.suppress(psutil.Error):
                psutil.Process(pid).kill()
        process.wait(30)
        if has_failed:
            raise NotThere(log.read_text(errors="replace")[-600:])
