"""A running Flink for a benchmark, of the apache-flink package in its own environment: one JobManager, one TaskManager."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.servers.flink_environment import FlinkEnvironment, flink_environment

START_LIMIT_S = 120
MEMORY = "3g"


class FlinkCluster:
    """Use it as a context manager. ``directory`` holds logs and results, and is removed at the end."""

    def __init__(self, slots: int, options: dict[str, str] | None = None) -> None:
        self.environment: FlinkEnvironment = flink_environment()
        self.directory = Path(tempfile.mkdtemp(prefix="flink-bench-"))
        with socket.socket() as probe, socket.socket() as other:
            probe.bind(("127.0.0.1", 0))
            other.bind(("127.0.0.1", 0))
            self.rest_port, rpc_port = probe.getsockname()[1], other.getsockname()[1]
        self.options = {
            "taskmanager.numberOfTaskSlots": str(slots),
            "taskmanager.memory.process.size": MEMORY,
            "execution.checkpointing.storage": "jobmanager",
            **(options or {}),
        }
        own = {
            "rest.port": str(self.rest_port),
            "rest.bind-port": str(self.rest_port),
            "jobmanager.rpc.port": str(rpc_port),
            "python.executable": str(self.environment.python),
            "python.client.executable": str(self.environment.python),
            **self.options,
        }
        shutil.copytree(self.environment.home / "conf", self.directory / "conf")
        with (self.directory / "conf" / "config.yaml").open("a") as file:
            file.writelines(f"\n{key}: {value}" for key, value in own.items())
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> FlinkCluster:
        for kind in ("jobmanager", "taskmanager"):
            with open(self.directory / f"{kind}.log", "wb") as log:
                self._processes.append(
                    subprocess.Popen(
                        [str(self.environment.home / "bin" / f"{kind}.sh"), "start-foreground"],
                        stdout=log,
                        stderr=log,
                        env=self._variables(),
                        start_new_session=True,
                    )
                )
        limit = time.monotonic() + START_LIMIT_S
        while time.monotonic() < limit:
            try:
                if self.rest("/overview")["slots-available"]:
                    return self
            except (OSError, KeyError):
                pass  # it does not listen yet
            time.sleep(0.3)
        self.__exit__(None, None, None)
        raise RuntimeError(f"Flink did not start within {START_LIMIT_S} s")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in reversed(self._processes):
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(60)
        shutil.rmtree(self.directory, ignore_errors=True)

    def rest(self, path: str) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.rest_port}{path}", timeout=10) as answer:
            return json.loads(answer.read())

    def run_python(self, script: Path, *arguments: str) -> str:
        """``flink run -py``; the id of the job that it submitted."""
        command = [str(self.environment.home / "bin" / "flink"), "run", "-d", "-py", str(script), *arguments]
        done = subprocess.run(command, env=self._variables(), capture_output=True, text=True, check=False, timeout=180)
        found = re.findall(r"JobID ([0-9a-f]{32})", done.stdout)
        if done.returncode or not found:
            raise RuntimeError(f"flink run of {script} failed: {done.stdout[-1000:]}{done.stderr[-2000:]}")
        return str(found[-1])

    def wait(self, job_id: str, limit_s: float = 900) -> dict[str, int]:
        """When the job was in which state, ms since the epoch. It must finish."""
        limit = time.monotonic() + limit_s
        while time.monotonic() < limit:
            told = self.rest(f"/jobs/{job_id}")
            if told["state"] == "FINISHED":
                return dict(told["timestamps"])
            if told["state"] in ("FAILED", "CANCELED"):
                raise RuntimeError(f"job {job_id} {told['state']}: {self.rest(f'/jobs/{job_id}/exceptions')}"[:3000])
            time.sleep(0.2)
        raise RuntimeError(f"job {job_id} did not finish within {limit_s} s")

    def _variables(self) -> dict[str, str]:
        return {
            **self.environment.variables(),
            "FLINK_CONF_DIR": str(self.directory / "conf"),
            "FLINK_LOG_DIR": str(self.directory),
            "FLINK_PID_DIR": str(self.directory),
        }
