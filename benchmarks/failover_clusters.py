"""Two clusters of two JobManagers and some TaskManagers, elected by the same ZooKeeper: tidegate's, and Flink's. Both answer Flink's REST."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from benchmarks.cluster import ROOT, START_LIMIT_S
from benchmarks.waiting import wait_until
from tests.servers.flink_environment import flink_environment

ANSWER_S = 2.0
"""A standby of Flink may wait for the old leader: another request finds the next one."""
PARALLELISM = 2
_JOB_ID = re.compile(r"\b[0-9a-f]{32}\b")
_PORT = re.compile(r":(\d+)")
"""In the id of a TaskManager, in both systems."""


class HighlyAvailable(ABC):
    """A context manager. ``leader`` and ``standby`` are REST ports."""

    name = ""

    def __init__(self, quorum: str, options: dict[str, str]) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="failover-"))
        self.beats = self.directory / "beats"
        self.beats.mkdir()
        self.options = {
            "high-availability.type": "zookeeper",
            "high-availability.zookeeper.quorum": quorum,
            "high-availability.storageDir": f"{self.directory}/ha",
            "high-availability.cluster-id": self.directory.name,
            "execution.checkpointing.dir": f"{self.directory}/checkpoints",
            "taskmanager.numberOfTaskSlots": "1",
            **options,
        }
        self.leader = self.standby = 0
        self._job_managers: dict[int, subprocess.Popen[bytes]] = {}
        self._task_managers: list[subprocess.Popen[bytes]] = []
        self._started = 0

    def __enter__(self) -> HighlyAvailable:
        self.leader = self._start_job_manager()
        self.wait(lambda: self.rest(self.leader, "/overview") is not None, "the first JobManager leads")
        self.standby = self._start_job_manager()
        for _ in range(PARALLELISM):
            self.add_task_manager()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        processes = [*self._task_managers, *self._job_managers.values()]
        for process in processes:
            _signal(process, signal.SIGTERM)
        for process in processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                _signal(process, signal.SIGKILL)
        if error is None:
            shutil.rmtree(self.directory, ignore_errors=True)
        else:
            print(f"logs are kept in {self.directory}", file=sys.stderr)

    # --- strikes -------------------------------------------------------------------------------------

    def kill_leader(self) -> None:
        """``leader`` is the other one from here on."""
        process = self._job_managers.pop(self.leader)
        _signal(process, signal.SIGKILL)
        process.wait(10)
        self.leader, self.standby = self.standby, 0

    def kill_task_manager(self, job_id: str) -> None:
        """One that runs a subtask; a spare one must be there."""
        vertex = self.rest(self.leader, f"/jobs/{job_id}")["vertices"][0]["id"]
        places = self.rest(self.leader, f"/jobs/{job_id}/vertices/{vertex}/taskmanagers")["taskmanagers"]
        port = int(_PORT.findall(places[0]["taskmanager-id"])[0])
        process = next(process for process in self._task_managers if port in _ports(process))
        self._task_managers.remove(process)
        _signal(process, signal.SIGKILL)
        process.wait(10)

    def add_standby(self) -> None:
        self.standby = self._start_job_manager()
        self.wait(lambda: self.rest(self.standby, "/overview") is not None, "the standby answers")

    def add_task_manager(self) -> None:
        """Until it is registered."""
        self._task_managers.append(self._start_task_manager())
        count = len(self._task_managers)

        def registered() -> bool:
            told = self.rest(self.leader, "/overview")
            return told is not None and told["taskmanagers"] >= count

        self.wait(registered, "the TaskManager is registered")

    # --- what is asked -------------------------------------------------------------------------------

    def rest(self, port: int, path: str) -> Any:
        """``None`` where there is no answer, or an error."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=ANSWER_S) as answer:
                return json.loads(answer.read())
        except (OSError, urllib.error.HTTPError, ValueError):
            return None

    def wait(self, condition: Callable[[], bool], what: str) -> float:
        """The moment."""
        return wait_until(condition, f"{self.name}: {what}; see {self.directory}", START_LIMIT_S)

    @abstractmethod
    def submit(self) -> str:
        """The id of the job, which runs."""

    @abstractmethod
    def _start_job_manager(self) -> int: ...

    @abstractmethod
    def _start_task_manager(self) -> subprocess.Popen[bytes]: ...

    def _start(self, kind: str, command: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
        self._started += 1
        with open(self.directory / f"{kind}-{self._started}.log", "wb") as log:
            return subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.directory, env=environment,
                start_new_session=True,
            )  # fmt: skip

    def _run(self, command: list[str], environment: dict[str, str]) -> str:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=180)
        found = _JOB_ID.findall(done.stdout)
        if done.returncode or not found:
            raise RuntimeError(f"{command} failed: {done.stdout[-1000:]}{done.stderr[-2000:]}")
        return str(found[-1])


class Tidegate(HighlyAvailable):
    name = "tidegate"

    def submit(self) -> str:
        command = [sys.executable, "-m", "tidegate.cli.main", "run", "-d", *self._definitions()]
        job = [str(ROOT / "benchmarks/failover_job.py"), "tidegate", str(self.beats), str(PARALLELISM)]
        return self._run([*command, *job, self.options["execution.checkpointing.interval"]], self._environment())

    def _start_job_manager(self) -> int:
        port, rest = free_port(), free_port()
        own = ["-D", f"jobmanager.rpc.port={port}", "-D", f"rest.port={rest}"]
        self._job_managers[rest] = self._start("jobmanager", self._command("jobmanager", *own), self._environment())
        return rest

    def _start_task_manager(self) -> subprocess.Popen[bytes]:
        return self._start("taskmanager", self._command("taskmanager"), self._environment())

    def _command(self, kind: str, *own: str) -> list[str]:
        return [sys.executable, "-m", "tidegate.cli.main", kind, *own, *self._definitions()]

    def _definitions(self) -> list[str]:
        return [word for key, value in self.options.items() for word in ("-D", f"{key}={value}")]

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(ROOT)}


class Flink(HighlyAvailable):
    name = "Flink 2.3"

    def __init__(self, quorum: str, options: dict[str, str]) -> None:
        super().__init__(quorum, options)
        for key in ("high-availability.storageDir", "execution.checkpointing.dir"):
            self.options[key] = f"file://{self.options[key]}"
        self._flink = flink_environment()
        self._libraries = self.directory / "lib"
        self._libraries.mkdir()
        for jar in (*(self._flink.home / "lib").glob("*.jar"), *(self._flink.home / "opt").glob("flink-python*.jar")):
            (self._libraries / jar.name).symlink_to(jar)

    def submit(self) -> str:
        command = [
            str(self._flink.home / "bin" / "flink"),
            "run",
            "-d",
            "-py",
            str(ROOT / "benchmarks/failover_job.py"),
        ]
        job = ["pyflink", str(self.beats), str(PARALLELISM), self.options["execution.checkpointing.interval"]]
        return self._run([*command, *job], self._environment({}))

    def _start_job_manager(self) -> int:
        rest = free_port()
        environment = self._environment({"rest.port": str(rest), "rest.bind-port": str(rest)})
        self._job_managers[rest] = self._start("jobmanager", self._command("jobmanager"), environment)
        return rest

    def _start_task_manager(self) -> subprocess.Popen[bytes]:
        return self._start("taskmanager", self._command("taskmanager"), self._environment({}))

    def _command(self, kind: str) -> list[str]:
        return [str(self._flink.home / "bin" / f"{kind}.sh"), "start-foreground"]

    def _environment(self, own: dict[str, str]) -> dict[str, str]:
        """With a configuration directory of its own."""
        place = Path(tempfile.mkdtemp(prefix="conf-", dir=self.directory))
        shutil.copytree(self._flink.home / "conf", place, dirs_exist_ok=True)
        python = str(self._flink.python)
        fixed = {
            "python.executable": python,
            "python.client.executable": python,
            "python.execution-mode": "process",  # in threads, PyFlink 2.3 does not know the index of a subtask
            "taskmanager.memory.process.size": "1536m",
            "jobmanager.memory.process.size": "1200m",
        }
        with (place / "config.yaml").open("a") as file:
            file.writelines(f"\n{key}: {value}" for key, value in {**fixed, **self.options, **own}.items())
        return {
            **self._flink.variables(),
            "FLINK_CONF_DIR": str(place),
            "FLINK_LOG_DIR": str(self.directory),
            "FLINK_PID_DIR": str(place),
            "FLINK_LIB_DIR": str(self._libraries),
        }


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _ports(process: subprocess.Popen[bytes]) -> set[int]:
    """On which the process or a child of it listens."""
    whole = psutil.Process(process.pid)
    connections = [one for each in (whole, *whole.children(recursive=True)) for one in each.net_connections("tcp")]
    return {one.laddr.port for one in connections if one.status == psutil.CONN_LISTEN}


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    if process.poll() is None:
        process.send_signal(number)
