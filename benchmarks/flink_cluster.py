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
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.servers.flink_environment import FlinkEnvironment, flink_environment, is_installed

START_LIMIT_S = 120
MEMORY = "3g"


def has_flink() -> bool:
    """Whether one is there without an installation, and a Java to run it."""
    return is_installed() and shutil.which("java") is not None


class FlinkSession:
    """``flink_session.py`` in Flink's environment: one JVM submits all jobs, so that submitting is no part of what is timed."""

    def __init__(self, cluster: FlinkCluster, parallelism: int, interval_ms: int, variables: dict[str, str]) -> None:
        script = Path(__file__).resolve().parent / "flink_session.py"
        arguments = [str(cluster.rest_port), str(parallelism), str(interval_ms)]
        self._log_path = cluster.directory / f"session-{time.monotonic_ns()}.log"
        with self._log_path.open("wb") as log:
            self._process = subprocess.Popen(
                [str(cluster.environment.python), str(script), *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=variables,
                start_new_session=True,
                text=True,
            )

    def order(self, **what: Any) -> dict[str, Any]:
        """An order as ``flink_session`` describes it. Raises ``RuntimeError`` when Flink refuses it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("ANSWER "):
                told: dict[str, Any] = json.loads(line[7:])
                if "error" in told:
                    raise RuntimeError(f"Flink refused {what['query']}: {told['error']}")
                return told
        raise RuntimeError(f"the session of Flink ended: {self._log_path.read_text()[-2000:]}")

    def close(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)  # the JVM of the client too
        self._process.wait(60)


class FlinkCluster:
    """Use it as a context manager. ``directory`` holds logs and results, and is removed at the end."""

    def __init__(self, slots: int, options: dict[str, str] | None = None, jars: Sequence[Path] = ()) -> None:
        """``jars``: further ones of all its processes."""
        self._jars = tuple(jars)
        self.environment: FlinkEnvironment = flink_environment()
        self.directory = Path(tempfile.mkdtemp(prefix="flink-bench-"))
        with socket.socket() as probe, socket.socket() as other:
            probe.bind(("127.0.0.1", 0))
            other.bind(("127.0.0.1", 0))
            self.rest_port, rpc_port = probe.getsockname()[1], other.getsockname()[1]
        self.options = {
            "taskmanager.numberOfTaskSlots": str(slots),
            "taskmanager.memory.process.size": MEMORY,
            "execution.checkpointing.dir": f"file://{self.directory}/checkpoints",
            "restart-strategy.type": "none",
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
        self._sessions: list[FlinkSession] = []

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
        try:
            self._wait_for_slots()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for session in self._sessions:
            session.close()
        for process in reversed(self._processes):
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(60)
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def task_manager_pid(self) -> int:
        return self._processes[1].pid

    def _wait_for_slots(self) -> None:
        limit = time.monotonic() + START_LIMIT_S
        while time.monotonic() < limit:
            try:
                if self.rest("/overview")["slots-available"]:
                    return
            except (OSError, KeyError):
                pass  # it does not listen yet
            time.sleep(0.3)
        raise RuntimeError(f"Flink did not start within {START_LIMIT_S} s")

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

    def session(self, parallelism: int, interval_ms: int) -> FlinkSession:
        """A process that submits SQL; it ends with the cluster."""
        made = FlinkSession(self, parallelism, interval_ms, self._variables())
        self._sessions.append(made)
        return made

    def wait(self, job_id: str, limit_s: float = 900) -> dict[str, int]:
        """When the job was in which state, ms since the epoch. It must finish."""
        limit = time.monotonic() + limit_s
        while time.monotonic() < limit:
            told = self.rest(f"/jobs/{job_id}")
            if told["state"] == "FINISHED":
                return dict(told["timestamps"])
            if told["state"] in ("FAILED", "CANCELED"):
                raise RuntimeError(f"job {job_id} {told['state']}: {self._causes(job_id)}")
            time.sleep(0.2)
        raise RuntimeError(f"job {job_id} did not finish within {limit_s} s")

    def checkpoints_ms(self, job_id: str) -> list[float]:
        """End to end durations of the completed checkpoints that it remembers: from trigger to the last acknowledgement."""
        history = self.rest(f"/jobs/{job_id}/checkpoints")["history"]
        return [float(one["end_to_end_duration"]) for one in history if one["status"] == "COMPLETED"]

    def _causes(self, job_id: str) -> str:
        """The lines of Flink's stack traces that say something."""
        entries = self.rest(f"/jobs/{job_id}/exceptions")["exceptionHistory"]["entries"]
        lines = [line for entry in entries for line in entry["stacktrace"].splitlines()]
        return "\n".join(line for line in lines if not line.startswith(("\tat ", "\t...")))[-3000:]

    def _variables(self) -> dict[str, str]:
        return {
            **self.environment.variables(),
            "FLINK_CONF_DIR": str(self.directory / "conf"),
            "FLINK_LOG_DIR": str(self.directory),
            "FLINK_PID_DIR": str(self.directory),
            "FLINK_LIB_DIR": str(self._libraries()),
        }

    def _libraries(self) -> Path:
        """Flink's, and PyFlink's beside them: on Java 17 its thread mode starts once in each class loader, so it must not be a job's."""
        found = self.directory / "lib"
        if not found.exists():
            found.mkdir()
            home = self.environment.home
            for jar in (*(home / "lib").glob("*.jar"), *(home / "opt").glob("flink-python*.jar"), *self._jars):
                (found / jar.name).symlink_to(jar)
        return found
