"""A real cluster for a benchmark: one JobManager and its TaskManagers, started by the CLI in a temporary directory."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import psutil

from tidegate.aio.settings import load_settings, variable_of
from tidegate.cli.options import client_at
from tidegate.pb import jobmanager_pb2 as pb

ROOT = Path(__file__).resolve().parent.parent
START_LIMIT_S = 180


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class BenchCluster:
    """Use it as a context manager. ``directory`` holds logs, checkpoints and results, and is removed at the end. Without ``slots`` there is no TaskManager
    at first. ``options``: of all processes; commands and the client have those about security, too."""

    def __init__(self, slots: int, options: Mapping[str, str] | None = None, *, task_managers: int = 1) -> None:
        """``slots``: of each of the ``task_managers``."""
        self._slots, self._task_managers = slots, task_managers if slots else 0
        self._options = dict(options or {})
        self._security = {
            variable_of(key): text
            for key, text in self._options.items()
            if key.startswith(("security.", "tidegate.security."))
        }
        self._processes: list[subprocess.Popen[bytes]] = []
        self._definitions: list[str] = []
        self._port = _free_port()
        self.rest_port = _free_port()
        self.directory = Path(tempfile.mkdtemp(prefix="tidegate-bench-"))
        self.client = client_at(load_settings(environment={**os.environ, **self._security}), f"127.0.0.1:{self._port}")

    def __enter__(self) -> BenchCluster:
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that clusters end with it
        common = {"jobmanager.rpc.port": str(self._port), "rest.port": str(self.rest_port), **self._options}
        common.setdefault("execution.checkpointing.dir", str(self.directory / "checkpoints"))
        self._definitions = [word for key, value in common.items() for word in ("-D", f"{key}={value}")]
        self._start("jobmanager", self._definitions)
        try:
            for _ in range(self._task_managers):
                self.start_task_manager(self._slots)
            self._wait_until_it_answers()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.close()
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            process.wait(30)
        if error is None:
            shutil.rmtree(self.directory, ignore_errors=True)
        else:
            print(f"logs are kept in {self.directory}", file=sys.stderr)

    def start_task_manager(self, slots: int) -> None:
        """Does not wait for it."""
        self._start("taskmanager", ["--slots", str(slots), *self._definitions])

    def run(self, job_file: str, *arguments: str) -> str:
        """Submit a job (``tidegate run -d``) and give its id."""
        address = ["--jobmanager", f"127.0.0.1:{self._port}"]
        command = [sys.executable, "-m", "tidegate.cli.main", "run", "-d", *address, str(ROOT / job_file), *arguments]
        environment = {**self._environment(), **self._security}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
        if done.returncode:
            raise RuntimeError(f"{job_file} was refused: {done.stderr.strip()}")
        return done.stdout.split()[-1]

    def wait(self, job_id: str) -> pb.JobStatus:
        """The last status of a job that must finish."""
        status = pb.JobStatus()
        for status in self.client.watch(job_id):  # noqa: B007  (the last one is wanted)
            pass
        if status.state != "FINISHED":
            raise RuntimeError(f"job {job_id} is {status.state}: {status.failure.message}")
        return status

    @property
    def job_manager_pid(self) -> int:
        return self._processes[0].pid

    @property
    def task_manager_pid(self) -> int:
        return self._processes[1].pid

    def memory(self) -> dict[str, float]:
        """Proportional set size by kind of process, in MiB (several subtasks are summed)."""
        found: dict[str, float] = {}
        names = ("JobManager", *("TaskManager" for _ in self._processes[1:]))
        for name, process in zip(names, self._processes, strict=True):
            root = psutil.Process(process.pid)
            for one in (root, *root.children(recursive=True)):
                with suppress(psutil.Error):  # one that has ended meanwhile
                    kind = name if one.pid == process.pid else "Spark JVM" if "java" in one.name() else "Python workers"
                    found[kind] = found.get(kind, 0.0) + _pss(one)
        return found

    def _start(self, kind: str, arguments: list[str]) -> None:
        with open(self.directory / f"{kind}.log", "ab") as log:
            command = [sys.executable, "-m", "tidegate.cli.main", kind, *arguments]
            environment = self._environment()
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.directory, env=environment)
        self._processes.append(process)

    def _environment(self) -> dict[str, str]:
        kept = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        return {**kept, "PYTHONPATH": str(ROOT)}

    def _wait_until_it_answers(self) -> None:
        """With the TaskManagers that it was to have."""
        limit = time.monotonic() + START_LIMIT_S
        while time.monotonic() < limit:
            try:
                if len(self.client.cluster(timeout_s=1).task_managers) >= self._task_managers:
                    return
            except Exception as error:  # noqa: BLE001  the JobManager may not listen yet
                last = error
            time.sleep(0.2)
        raise RuntimeError(f"the cluster did not start within {START_LIMIT_S} s, see {self.directory} ({last})")


def _pss(process: psutil.Process) -> float:
    try:
        info = process.memory_full_info()
    except psutil.Error:
        return 0.0
    return float(getattr(info, "pss", info.uss)) / 2**20
