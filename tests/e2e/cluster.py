"""A cluster of real processes for a test: ``python -m tidegate.cli.main jobmanager | taskmanager`` in a temporary directory.

Laws of the harness:
1. Every process carries a mark in its environment, which its JVM, daemon and subtasks inherit: so nothing that was left
   behind, whoever its parent is, goes unseen.
2. Each process has a temporary directory of its own; unless it was killed with SIGKILL, that must be empty when it ends.
3. A failure shows the ends of all logs.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import grpc
import psutil

from tests.accounting import STARTS
from tests.e2e.all_on import security_of
from tests.e2e.waiting import HANG_LIMIT_S, wait_until
from tests.e2e.watching import CALL_LIMIT_S, JobWatch
from tests.ports import free_port
from tidegate.aio.https import https_client, rest_url
from tidegate.aio.settings import variable_of
from tidegate.aio.transports import transport_of
from tidegate.model.configuration import Configuration
from tidegate.pb import jobmanager_pb2 as pb
from tidegate.pb import jobmanager_pb2_grpc as rpc

REPOSITORY = Path(__file__).parents[2]
JOBS = Path(__file__).parent / "jobs"
MARK = "E2E_MARK"
"""Not TIDEGATE_...: those are options."""
DAEMON = "tidegate.taskmanager.spark.daemon"
ENTRY = ("-m", "tidegate.cli.main")
START_LIMIT_S = 180
END_LIMIT_S = HANG_LIMIT_S
"""For a signal to end a process and its children: a limit against hanging, not a figure (those are printed)."""
CLI_LIMIT_S = 180
CLOCKS_DIFFER_S = 10
"""So much the kernel's clock of a process's beginning may be behind this process's clock."""
_JOB_ID = re.compile(r"\b[0-9a-f]{32}\b")
_LOG_TAIL_LINES = 60


class Proc:
    """One started process, with a mark, a log and a temporary directory of its own."""

    def __init__(
        self, name: str, command: Sequence[str], directory: Path, tmp: Path, environment: Mapping[str, str]
    ) -> None:
        self.name = name
        self.mark = f"{name}-{secrets.token_hex(6)}"
        self.tmp = tmp
        self.log = directory / f"{name}.log"
        self.was_killed = False
        self._began = time.time() - CLOCKS_DIFFER_S
        STARTS[name.rstrip("-0123456789")] += 1
        env = {**os.environ, **environment, MARK: self.mark, "TMPDIR": str(self.tmp)}
        with self.log.open("ab") as log:
            self.popen = subprocess.Popen(
                command,
                cwd=directory,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self.popen.pid

    def is_alive(self) -> bool:
        return self.popen.poll() is None

    def family(self) -> list[psutil.Process]:
        """Every living process that carries the mark, this one included."""
        return marked(self.mark, self._began)

    def subtasks(self) -> list[psutil.Process]:
        """The Spark workers of a TaskManager: children of Spark's Python daemon."""
        found = []
        for process in self.family():
            with contextlib.suppress(psutil.Error):
                parent = process.parent()
                if parent is not None and parent.name() != "java" and DAEMON in parent.cmdline():
                    found.append(process)
        return found

    def send(self, number: signal.Signals, to_group: bool = False) -> None:
        if to_group:
            os.killpg(self.pid, number)
        else:
            self.popen.send_signal(number)

    def kill9(self) -> float:
        """SIGKILL. Returns the moment."""
        self.was_killed = True
        moment = time.monotonic()
        self.popen.kill()
        self.popen.wait(CALL_LIMIT_S)
        return moment

    def wait_gone(self, limit_s: float) -> None:
        """The process and all that carries its mark."""
        try:
            self.popen.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} (pid {self.pid}) still runs after {limit_s:g} s") from None
        wait_until(lambda: not self.family(), limit_s, f"no process of {self.name} is left: {self.described()}")

    def described(self) -> list[str]:
        lines = []
        for process in self.family():
            with contextlib.suppress(psutil.Error):
                lines.append(f"{process.pid} {' '.join(process.cmdline())[:120]}")
        return lines

    def leftovers(self) -> list[str]:
        """Files in its temporary directory."""
        return sorted(str(path.relative_to(self.tmp)) for path in self.tmp.rglob("*"))

    def says(self, text: str) -> bool:
        """Whether its log holds the text."""
        return text in self._said()

    def _said(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""

    def tail(self) -> str:
        text = self._said()
        return "\n".join(text.splitlines()[-_LOG_TAIL_LINES:])


def marked(mark: str, since: float = 0.0) -> list[psutil.Process]:
    """Living processes with this mark (zombies are dead). Those that began before ``since`` (seconds of the epoch) cannot have it: to
    read the environment of every process of the machine takes long."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if (
                process.create_time() >= since
                and process.environ().get(MARK) == mark
                and process.status() != psutil.STATUS_ZOMBIE
            ):
                found.append(process)
    return found


class Cluster:
    """A JobManager and the TaskManagers that a test adds. A context manager; ``settings`` are given to all with ``-D``."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        security = security_of(directory / "security")
        self.token = security.token
        self.settings = {**security.settings, **(settings or {})}
        self._transport = transport_of(Configuration.from_strings(self.settings))
        self.of_clients = security.of_commands | {
            variable_of(key): text
            for key, text in self.settings.items()
            if key.startswith(("security.", "tidegate.security."))
        }
        """For the environment of commands."""
        self.tmp = Path(tempfile.mkdtemp(prefix="tg-"))  # short: paths of Unix sockets are limited
        self.port = free_port()
        self.rest_port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.job_manager: Proc | None = None
        self._standby: Proc | None = None
        self._standby_ports = (self.port, self.rest_port)
        self.task_managers: list[Proc] = []
        self._ended: list[Proc] = []
        self._watches: list[JobWatch] = []
        self._earlier: dict[JobWatch, list[psutil.Process]] = {}
        """Subtasks of other jobs that were there when a job was submitted."""
        self._started = 0
        self._channel: grpc.Channel | None = None
        directory.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Cluster:
        try:
            if self.job_manager is None:
                self.start_job_manager()
        except BaseException:
            self._end_by_force()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            try:
                self.stop()
            except AssertionError as failed:
                failed.add_note(self.logs())
                raise
            finally:
                self._end_by_force()
        else:
            error.add_note(self.logs())
            self._end_by_force()

    # --- processes -----------------------------------------------------------------------------------

    def start_job_manager(self, *extra: str, entry: Sequence[str] = ENTRY) -> Proc:
        """Start it (again) on the cluster's ports, and wait until it answers. ``entry`` may be a test's own wrapper."""
        self._start_job_manager("jobmanager", *extra, entry=entry)
        return self.wait_led()

    def start_standby(self, *, elsewhere: bool = False, entry: Sequence[str] = ENTRY) -> Proc:
        """Another JobManager, for the same ports unless ``elsewhere``; ``wait_led`` once the leader is gone."""
        before, ports = self.job_manager, (self.port, self.rest_port)
        self.port, self.rest_port = self._standby_ports = (free_port(), free_port()) if elsewhere else ports
        standby = self._start_job_manager("standby", entry=entry)
        self.port, self.rest_port = ports
        self.job_manager, self._standby = before, standby
        return standby

    def _start_job_manager(self, name: str, *extra: str, entry: Sequence[str] = ENTRY) -> Proc:
        args = [*entry, "jobmanager", "--host", "127.0.0.1", "--rpc-port", str(self.port)]
        args += ["--rest-port", str(self.rest_port), *extra]
        self.job_manager = self._start(name, args)
        return self.job_manager

    def wait_led(self) -> Proc:
        """Until the JobManager answers, the standby where the leader is gone."""
        if self.job_manager is None:
            self.job_manager, self._standby = self._standby, None
            self.port, self.rest_port = self._standby_ports
            self.address = f"127.0.0.1:{self.port}"
        process = self.job_manager
        assert process is not None
        self._channel = self._transport.open_blocking_channel(
            self.address, (("grpc.use_local_subchannel_pool", 1), ("grpc.max_reconnect_backoff_ms", 200))
        )
        self.stub = rpc.JobManagerClientServiceStub(self._channel)

        def answers() -> bool:
            assert process.is_alive(), f"the JobManager ended with {process.popen.returncode}:\n{process.tail()}"
            try:
                return bool(self.stub.GetCluster(pb.GetClusterRequest(), timeout=2).generation)
            except grpc.RpcError:
                return False

        wait_until(answers, START_LIMIT_S, "the JobManager answers")
        return process

    def add_taskmanager(self, slots: int = 2, *extra: str, entry: Sequence[str] = ENTRY) -> Proc:
        """Start one; ``wait_slots`` waits until it is registered."""
        asks_store = self.settings.get("high-availability.type") in ("zookeeper", "object-store")
        place = [] if asks_store else ["--jobmanager", self.address]
        process = self._start("taskmanager", [*entry, "taskmanager", "--slots", str(slots), *place, *extra])
        self.task_managers.append(process)
        return process

    def wait_slots(self, count: int, limit_s: float = START_LIMIT_S) -> None:
        """At least so many slots are registered, by living TaskManagers."""

        def registered() -> bool:
            for process in self.task_managers:
                assert process.is_alive(), f"{process.name} ended with {process.popen.returncode}:\n{process.tail()}"
            known = self.cluster_status().task_managers
            return sum(len(task_manager.slots) for task_manager in known) >= count

        wait_until(registered, limit_s, f"{count} slots are registered")

    def kill9(self, process: Proc) -> float:
        """SIGKILL to a TaskManager or the JobManager. Returns the moment."""
        moment = process.kill9()
        self.forget(process)
        return moment

    def end(self, process: Proc, number: signal.Signals = signal.SIGTERM, to_group: bool = False) -> None:
        """End a process in order; nothing of it may be left in time, neither processes nor files."""
        process.send(number, to_group)
        process.wait_gone(END_LIMIT_S)
        self.forget(process)
        assert process.leftovers() == [], f"{process.name} left files behind"

    def stop(self) -> None:
        """End everything in order."""
        self._close_watches()
        for process in [*self.task_managers, *([self.job_manager] if self.job_manager else [])]:
            process.send(signal.SIGTERM)
        for process in [*self.task_managers, *([self.job_manager] if self.job_manager else [])]:
            process.wait_gone(END_LIMIT_S)
            self.forget(process)
        for process in self._ended:
            assert process.family() == [], f"processes of {process.name} are left: {process.described()}"
            assert process.was_killed or process.leftovers() == [], f"{process.name} left files: {process.leftovers()}"

    @property
    def rest_url(self) -> str:
        """The address of the JobManager's REST port, with a slash at its end."""
        return f"{rest_url(Configuration.from_strings(self.settings), '127.0.0.1', self.rest_port)}/"

    def ask_rest(self, path: str) -> Any:
        """The JSON that it answers, to a user where there are any."""
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        request = urllib.request.Request(self.rest_url + path, headers=headers)
        tls = https_client(Configuration.from_strings(self.settings))
        with urllib.request.urlopen(request, timeout=CALL_LIMIT_S, context=tls) as answer:
            return json.load(answer)

    # --- jobs ----------------------------------------------------------------------------------------

    def cli(self, *args: str, limit_s: float = CLI_LIMIT_S, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the CLI in the cluster's directory."""
        return run_cli(*args, directory=self.directory, limit_s=limit_s, **{**self.of_clients, **environment})

    def submit(
        self,
        job_file: Path | str,
        *args: str,
        parallelism: int | None = None,
        restore: str | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> JobWatch:
        """Submit detached through the CLI, and watch the job."""
        command = ["run", "--detached", "--jobmanager", self.address]
        if parallelism is not None:
            command += ["-p", str(parallelism)]
        if restore is not None:
            command += ["-s", restore]
        command += [f"-D{key}={value}" for key, value in (settings or {}).items()]
        earlier = self.subtask_processes()
        done = self.cli(*command, str(job_file), *args)
        assert done.returncode == 0, f"run failed with {done.returncode}:\n{done.stdout}\n{done.stderr}\n{self.logs()}"
        ids = _JOB_ID.findall(done.stdout)
        assert ids, f"run printed no job id:\n{done.stdout}\n{done.stderr}"
        watch = self.watch(ids[-1])
        self._earlier[watch] = earlier
        return watch

    def watch(self, job_id: str) -> JobWatch:
        watch = JobWatch(self.stub, job_id)
        self._watches.append(watch)
        return watch

    def checkpoints(self, job_id: str) -> Any:
        return self.stub.ListCheckpoints(pb.ListCheckpointsRequest(job_id=job_id), timeout=CALL_LIMIT_S)

    def cancel(self, watch: JobWatch, limit_s: float = HANG_LIMIT_S) -> None:
        self.stub.CancelJob(pb.JobRequest(job_id=watch.job_id), timeout=CALL_LIMIT_S)
        watch.wait_for(lambda m: m.status.state == "CANCELED", limit_s, "the job is CANCELED")

    def cluster_status(self) -> Any:
        return self.stub.GetCluster(pb.GetClusterRequest(), timeout=CALL_LIMIT_S)

    def task_manager_of(self, watch: JobWatch, vertex: str, subtask: int) -> Proc:
        """The process that runs a subtask, of the vertex whose name contains ``vertex``."""
        assert watch.last is not None
        (found,) = (v for v in watch.last.status.vertices if vertex in v.name)
        owner = found.subtasks[subtask].task_manager_id
        (pid,) = (t.pid for t in self.cluster_status().task_managers if t.task_manager_id == owner)
        (process,) = (p for p in self.task_managers if p.pid == pid)
        return process

    def subtask_of(self, watch: JobWatch, vertex: str, subtask: int) -> psutil.Process:
        """The first subtask of the job in the process that runs the given one. Those of an earlier job may be about to end in it, so what was there when the
        job was submitted does not count."""
        processes = self.task_manager_of(watch, vertex, subtask).subtasks()
        own = [process for process in processes if process not in self._earlier[watch]]
        assert own, f"no subtask of {watch.job_id} is left: the job is {watch.summary()}"
        return own[0]

    def subtask_processes(self) -> list[psutil.Process]:
        return [process for task_manager in self.task_managers for process in task_manager.subtasks()]

    def logs(self) -> str:
        processes = [*self._ended, *self.task_managers, *([self.job_manager] if self.job_manager else [])]
        return "\n".join(f"===== {process.name} (pid {process.pid})\n{process.tail()}" for process in processes)

    # --- inside --------------------------------------------------------------------------------------

    def _start(self, kind: str, args: list[str]) -> Proc:
        self._started += 1
        name = f"{kind}-{self._started}"
        tmp = self.tmp / name
        tmp.mkdir()
        options = [f"-D{key}={value}" for key, value in {"io.tmp.dirs": str(tmp), **self.settings}.items()]
        behind = next(place for place, one in enumerate(args, 1) if one in ("jobmanager", "taskmanager"))
        command = [
            sys.executable,
            *args[:behind],
            *options,
            *args[behind:],
        ]  # what stands behind a program is the program's
        return Proc(name, command, self.directory, tmp, {"PYTHONPATH": str(REPOSITORY)})

    def forget(self, process: Proc) -> None:
        self._ended.append(process)
        process.was_killed = process.was_killed or process.popen.returncode == -signal.SIGKILL
        if process is self.job_manager:
            self.job_manager = None
            if self._channel is not None:
                self._channel.close()
                self._channel = None
        else:
            self.task_managers.remove(process)

    def _close_watches(self) -> None:
        for watch in self._watches:
            watch.close()
        self._watches.clear()
        self._earlier.clear()

    def _end_by_force(self) -> None:
        self._close_watches()
        if self._channel is not None:
            self._channel.close()
        for process in [*self._ended, *self.task_managers, *([self.job_manager] if self.job_manager else [])]:
            for member in process.family():
                with contextlib.suppress(psutil.Error):
                    member.kill()
            process.popen.wait(CALL_LIMIT_S)
        shutil.rmtree(self.tmp, ignore_errors=True)


def run_cli(
    *args: str, directory: Path, limit_s: float = CLI_LIMIT_S, **environment: str
) -> subprocess.CompletedProcess[str]:
    """``tidegate args``, to its end, with its output."""
    STARTS["client"] += 1
    return subprocess.run(
        [sys.executable, "-m", "tidegate.cli.main", *args],
        cwd=directory,
        env={**os.environ, "COLUMNS": "200", **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )
