"""``MiniCluster``: a JobManager and TaskManagers for a test, as processes of their own that may be killed.

    with MiniCluster(taskmanagers=2, slots=2) as cluster, cluster.installed():
        client = env.execute_async("orders")              # submits to the cluster
        cluster.wait_for_checkpoints(client, 2)
        cluster.kill_taskmanager()
        client.get_job_execution_result().result()        # the job has recovered and finished

A TaskManager that was lost is replaced, as an operator would do by hand. (Flink: ``MiniClusterWithClientResource.java``.)
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TypeVar

import psutil

from tidegate.aio.working_directories import make_working_directory
from tidegate.cli.embedded.children import Child, end_processes
from tidegate.cli.embedded.local_cluster import FORCED_TO_LOOPBACK
from tidegate.cli.executor import ClusterExecutor
from tidegate.cli.options import client_at
from tidegate.common.job_client import JobClient
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ExternalError, Misuse
from tidegate.model.options import FileOptions

WAIT_TIMEOUT_S = 60.0
"""How long a test waits for a checkpoint or a state, in seconds. Chosen, not measured."""
_LOOK_S = 0.05
"""How often a condition is checked, in seconds. Chosen, not measured."""
T = TypeVar("T")


class MiniCluster:
    """A cluster for tests: a JobManager and TaskManagers as processes of their own that may be killed.

    ``configuration``: texts by key, for all processes. ``faults``: of the first TaskManager only, such as
    ``["kill@3"]`` (option ``tidegate.testing.faults``); its replacement has none.
    Raises ``ExternalError`` when a process does not start.
    """

    def __init__(
        self,
        taskmanagers: int = 1,
        slots: int = 2,
        configuration: Mapping[str, str] | None = None,
        faults: Sequence[str] = (),
    ) -> None:
        if taskmanagers < 1 or slots < 1:
            raise Misuse(
                f"MiniCluster: {taskmanagers} TaskManagers of {slots} slots cannot run anything; give at least 1 of each"
            )
        given = Configuration.from_strings(dict(configuration or {}))
        start_timeout_s = given.get(FileOptions.START_TIMEOUT) / 1000
        self._owned = make_working_directory("test", given)
        self.directory = self._owned.directory
        self._slots = slots
        self._configuration = {
            "execution.checkpointing.dir": str(self.directory / "checkpoints"),
            **(configuration or {}),
        }
        self._children: list[Child] = []
        self._task_managers: list[Child] = []
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._keeper: threading.Thread | None = None
        try:
            ports = self._start("jobmanager", ()).wait_ready(start_timeout_s)
            self.address = f"127.0.0.1:{ports['rpc_port']}"
            self.rest_url = f"http://127.0.0.1:{ports['rest_port']}"
            fault = [f"tidegate.testing.faults={';'.join(faults)}"] if faults else []
            self._task_managers = [self._task_manager(fault if n == 0 else []) for n in range(taskmanagers)]
            for task_manager in self._task_managers:
                task_manager.wait_ready(start_timeout_s)
            self._client = client_at(given, self.address)
            self.wait_until(lambda: len(self._client.cluster().task_managers) >= taskmanagers, "TaskManagers register")
        except BaseException:
            self.close()
            raise
        self._keeper = threading.Thread(target=self._replace_lost, name="mini-cluster", daemon=True)
        self._keeper.start()

    def __enter__(self) -> MiniCluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            error.add_note(self.logs())
        self.close()

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Makes ``env.execute()`` and ``env.execute_async()`` run on this cluster, inside the block."""
        from tidegate.datastream._graph.executor import installed

        with installed(ClusterExecutor(self._client, names_async=False)):
            yield

    def kill_taskmanager(self, index: int = 0) -> None:
        """Kills a TaskManager by SIGKILL. A new one starts in its place."""
        with self._lock:
            pid = self._task_managers[index].pid
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def kill_subtask(self, index: int = 0) -> None:
        """Kills a subtask process by SIGKILL: the ``index``-th of all TaskManagers. Raises ``Misuse`` when there is none."""
        found = self._subtask_pids()
        if index >= len(found):
            raise Misuse(
                f"MiniCluster: there are {len(found)} subtask processes, not {index + 1}; wait until the job runs"
            )
        with suppress(ProcessLookupError):
            os.kill(found[index], signal.SIGKILL)

    def completed_checkpoints(self, client: JobClient) -> int:
        """Returns how many checkpoints of the job have completed."""
        return self._client.status(str(client.get_job_id())).checkpoints_completed

    def restarts(self, client: JobClient) -> int:
        """Returns how often the job has restarted."""
        return self._client.status(str(client.get_job_id())).restarts

    def wait_for_checkpoints(self, client: JobClient, count: int) -> None:
        """Waits until the job has completed ``count`` checkpoints. Raises ``ExternalError`` after a minute."""
        self.wait_until(lambda: self.completed_checkpoints(client) >= count, f"{count} completed checkpoints")

    def wait_until(self, condition: Callable[[], T], what: str, timeout_s: float = WAIT_TIMEOUT_S) -> T:
        """Waits for the first true value of ``condition`` and returns it. Raises ``ExternalError``, which says what did not happen."""
        deadline = time.monotonic() + timeout_s
        while not (value := condition()):
            if time.monotonic() > deadline:
                raise ExternalError(f"MiniCluster: waited {timeout_s:g} s in vain for: {what}\n{self.logs()}")
            self._closing.wait(_LOOK_S)
        return value

    def logs(self, lines: int = 40) -> str:
        """Returns the last lines of the log of every process."""
        parts = []
        for log in sorted(self.directory.glob("*.log")):
            text = log.read_text(encoding="utf-8", errors="replace").splitlines()
            parts.append("\n".join([f"===== {log.name}", *text[-lines:]]))
        return "\n".join(parts)

    def close(self) -> None:
        """Stops all processes and removes their files. Idempotent."""
        self._closing.set()
        if self._keeper is not None:
            self._keeper.join()
        if hasattr(self, "_client"):
            self._client.close()
        end_processes(child.pid for child in reversed(self._children) if child.is_alive())
        self._owned.remove()

    def _subtask_pids(self) -> list[int]:
        found = []
        for task_manager in self._task_managers:
            with suppress(psutil.Error):
                for process in psutil.Process(task_manager.pid).children(recursive=True):
                    parent = process.parent()
                    if (
                        parent is not None
                        and parent.name() != "java"
                        and "tidegate.taskmanager.spark.daemon" in parent.cmdline()
                    ):
                        found.append(process.pid)
        return found

    def _replace_lost(self) -> None:
        while not self._closing.wait(_LOOK_S):
            for index, task_manager in enumerate(self._task_managers):
                if not task_manager.is_alive():
                    with self._lock:
                        self._task_managers[index] = self._task_manager([])

    def _task_manager(self, definitions: Sequence[str]) -> Child:
        return self._start("taskmanager", ("--slots", str(self._slots), "--jobmanager", self.address), definitions)

    def _start(self, command: str, options: Sequence[str], definitions: Sequence[str] = ()) -> Child:
        name = f"{command}-{len(self._children) + 1}"
        arguments = [command, *options, "--exit-with-parent", "--log-file", str(self.directory / f"{name}.log")]
        settings = [f"{key}={text}" for key, text in self._configuration.items()]
        child = Child(
            name,
            arguments,
            log=self.directory / f"{name}.log",
            inherited=[self._owned.descriptor],
            definitions=(*settings, *FORCED_TO_LOOPBACK, *definitions),
        )
        self._children.append(child)
        return child
