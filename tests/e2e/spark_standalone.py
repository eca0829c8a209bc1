"""A Spark standalone cluster on this machine, started from the installed pyspark: one master, some workers."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyspark

from tests.accounting import STARTS
from tests.e2e.waiting import wait_until

HOME = Path(pyspark.__file__).parent
START_LIMIT_S = 120
_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = "Successfully registered with master"


class Standalone:
    """``url`` for ``spark.master``; ``workers`` are the processes, to be killed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.url = ""
        self.workers: list[subprocess.Popen[bytes]] = []

    def log(self, name: str) -> Path:
        return self.directory / f"{name}.log"

    def start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_JAVA_OPTS": f"-XX:-UsePerfData -Djava.io.tmpdir={self.directory}",
            "SPARK_LAUNCHER_OPTS": "-XX:-UsePerfData",
            "SPARK_DAEMON_MEMORY": "256m",
        }
        STARTS["Spark daemon"] += 1
        with self.log(name).open("wb") as log:
            return subprocess.Popen(
                [str(HOME / "bin" / "spark-class"), *arguments],
                cwd=self.directory,
                env=environment,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def wait_for(self, name: str, pattern: re.Pattern[str]) -> re.Match[str]:
        """The first match in a program's log."""

        def found() -> re.Match[str] | None:
            return pattern.search(self.log(name).read_text(encoding="utf-8", errors="replace"))

        match = wait_until(found, START_LIMIT_S, f"{self.log(name)} says {pattern.pattern!r}")
        assert match is not None
        return match


@contextlib.contextmanager
def standalone(directory: Path, workers: int = 2, cores: int = 2) -> Iterator[Standalone]:
    """A running cluster with all its workers registered."""
    directory.mkdir(parents=True, exist_ok=True)
    cluster = Standalone(directory)
    processes: list[subprocess.Popen[bytes]] = []
    try:
        processes.append(
            cluster.start(
                "master",
                *("org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"),
            )
        )
        cluster.url = cluster.wait_for("master", _MASTER)[1]
        for number in range(workers):
            work = directory / f"work-{number}"
            worker = cluster.start(
                f"worker-{number}",
                *("org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--webui-port", "0"),
                *("--cores", str(cores), "--memory", "1g", "--work-dir", str(work), cluster.url),
            )
            processes.append(worker)
            cluster.workers.append(worker)
        for number in range(workers):
            cluster.wait_for(f"worker-{number}", re.compile(_REGISTERED))
        yield cluster
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
