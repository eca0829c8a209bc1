"""Flink beside the latency benchmark: the same job in Java (rivals/FlinkLatency.java) in one JVM with a local cluster."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tests.servers.flink_environment import flink_environment

SOURCE = Path(__file__).resolve().parent / "rivals" / "FlinkLatency.java"
OPENS = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.util", "java.lang", "java.time")]
START_S = 60
"""A JVM with a cluster is up within a few seconds."""


class FlinkLatency:
    """The job, compiled into ``directory``. Raises ``RuntimeError`` with what the compiler or a run said."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = os.pathsep.join([str(directory), f"{flink_environment().home}/lib/*"])
        self._runs = 0
        _done(["javac", "-cp", self._path, "-d", str(directory), str(SOURCE)], START_S)

    def latencies_ms(
        self, kind: str, rate: int, seconds: int, *, parallelism: int, keys: int, buffer_timeout_ms: int
    ) -> list[npt.NDArray[np.float64]]:
        """Of each subtask, in the order of the rows. ``kind``: ``map`` or ``reduce``."""
        self._runs += 1
        output = self._directory / f"run-{self._runs}"
        output.mkdir()
        numbers = [rate, seconds, parallelism, output, buffer_timeout_ms, keys]
        job = ["java", "-Xmx2g", "-XX:+UseG1GC", *OPENS, "-cp", self._path, "FlinkLatency", *map(str, numbers), kind]
        _done(job, START_S + 3 * seconds)
        return [np.loadtxt(file, ndmin=1) / 1000 for file in sorted(output.glob("latency-*.txt"))]


def _done(command: list[str], limit_s: float) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {(done.stderr or done.stdout)[-600:]}")
