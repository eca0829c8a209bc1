"""An embedded cluster: one JobManager, and TaskManagers with the slots that its jobs need, as child processes on loopback."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from tidegate.cli.embedded.children import Child, end_processes
from tidegate.cli.embedded.own_files import EmbeddedFiles, tell_kept, tell_left_by_others
from tidegate.cli.options import client_at, load_configuration
from tidegate.model.errors import ExternalError, TidegateError
from tidegate.model.options import FileOptions

TASK_MANAGER_LIVES = 5
"""How many TaskManagers are started one after the other for a job: a lost one is replaced, as an operator would do by hand."""

FORCED_TO_LOOPBACK = (
    "jobmanager.rpc.address=127.0.0.1",
    "jobmanager.bind-host=127.0.0.1",
    "jobmanager.rpc.bind-port=0",
    "rest.bind-address=127.0.0.1",
    "rest.port=0",
    "taskmanager.bind-host=127.0.0.1",
    "taskmanager.host=127.0.0.1",
    "taskmanager.rpc.port=0",
)


@dataclass(slots=True)
class _TaskManager:
    child: Child
    slots: int


class LocalCluster:
    """A cluster of child processes on free loopback ports. `close` stops them and removes their files, except for retained checkpoints."""

    def __init__(self, definitions: Sequence[str], slots: int) -> None:
        """Starts the cluster. Raises the error that keeps a process from starting."""
        self._definitions = definitions
        loaded = load_configuration(None, [*definitions, *FORCED_TO_LOOPBACK])
        self.configuration = loaded
        """The configuration with which its processes are started."""
        self._start_timeout_s = loaded.get(FileOptions.START_TIMEOUT) / 1000
        self._own = EmbeddedFiles(loaded)
        tell_left_by_others(self._own.left_by_others)
        self._checkpoints = self._own.files.checkpoint_definitions(loaded)
        self._children: list[Child] = []
        self._task_managers: list[_TaskManager] = []
        self._lives = TASK_MANAGER_LIVES
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._keeper: threading.Thread | None = None
        try:
            click.echo(
                f"Starting a cluster for this program; it ends with the program. Logs: {self._own.files.logs}", err=True
            )
            self._job_manager = self._start("jobmanager", "JobManager")
            self.address = f"127.0.0.1:{self._job_manager.wait_ready(self._start_timeout_s, _notice)['rpc_port']}"
            self.add_slots(slots)
        except BaseException as error:
            self.close(keep_logs=isinstance(error, ExternalError))
            raise
        self._keeper = threading.Thread(target=self._keep, name="local-cluster", daemon=True)
        self._keeper.start()

    @property
    def slots(self) -> int:
        """Returns the number of slots of all TaskManagers together."""
        return sum(task_manager.slots for task_manager in self._task_managers)

    def is_alive(self) -> bool:
        """Tells whether the cluster takes jobs: its only JobManager is alive."""
        return self._job_manager.is_alive()

    def has_jobs(self) -> bool:
        """Tells whether a job runs, or the JobManager does not say so."""
        try:
            with client_at(self.configuration, self.address) as client:
                return bool(client.list_jobs(include_terminal=False))
        except TidegateError:
            return True

    def add_slots(self, slots: int) -> None:
        """Starts a TaskManager with this many slots, none for 0; returns when it is ready. Raises the error that keeps it from starting."""
        self._lives = TASK_MANAGER_LIVES
        if slots > 0:
            with self._lock:
                task_manager = _TaskManager(self._start_task_manager(slots), slots)
            task_manager.child.wait_ready(self._start_timeout_s, _notice)
            with self._lock:
                self._task_managers.append(task_manager)

    @property
    def checkpoints(self) -> Path:
        """Returns the directory of checkpoints of jobs that name no other."""
        return self._own.files.checkpoints

    def settle(self) -> None:
        """Returns when what jobs have printed is on the terminal: at once, since its processes print there themselves."""

    def close(self, *, keep_logs: bool = False) -> list[Path]:
        """Stops the cluster; returns the checkpoints that stay, after printing them. Idempotent."""
        self._closing.set()
        if self._keeper is not None:
            self._keeper.join()
        end_processes(child.pid for child in self._children if child.is_alive())
        kept = self._own.end(keep_logs=keep_logs)
        tell_kept(kept)
        return kept

    def _start(self, command: str, name: str, *options: str) -> Child:
        files = self._own.files
        log = files.logs / f"{command}-{len(self._children)}.log"
        arguments = [command, *options, "--exit-with-parent", "--log-file", str(log)]
        definitions = (*self._definitions, *FORCED_TO_LOOPBACK, *self._checkpoints)
        child = Child(name, arguments, log=log, inherited=[self._own.owned.descriptor], definitions=definitions)
        self._children.append(child)
        return child

    def _start_task_manager(self, slots: int) -> Child:
        name = f"local-{len(self._children)}"
        options = ("--slots", str(slots), "--jobmanager", self.address, "-D", f"taskmanager.resource-id={name}")
        return self._start("taskmanager", "TaskManager", *options)

    def _keep(self) -> None:
        while not self._closing.wait(0.2):
            with self._lock:
                for task_manager in self._task_managers:
                    if not task_manager.child.is_alive() and self._lives > 1:
                        self._lives -= 1
                        _notice(
                            f"the TaskManager (pid {task_manager.child.pid}) {task_manager.child.end}; another one starts"
                        )
                        task_manager.child = self._start_task_manager(task_manager.slots)


def _notice(text: str) -> None:
    click.echo(text, err=True)
