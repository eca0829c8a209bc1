"""The embedded cluster: one JobManager and one TaskManager with enough slots, for the length of a job.

python job.py            LocalClusterExecutor, found by name when nothing else is installed
tidegate run --local     the same, installed by the command
"""

from __future__ import annotations

import atexit
import threading
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import click

from tidegate.cli.client import JobManagerClient
from tidegate.cli.embedded.children import Child, end_processes
from tidegate.cli.embedded.own_files import EmbeddedFiles, tell_kept, tell_left_by_others
from tidegate.cli.executor import (
    SubmittedJob,
    restore_of,
    tell_late_records,
    tell_warnings,
    wait_attached,
    with_absolute_directories,
)
from tidegate.cli.options import load_configuration
from tidegate.cli.progress import Progress
from tidegate.common.job_execution_result import JobExecutionResult
from tidegate.model.accumulators import Accumulator
from tidegate.model.errors import ExternalError, TidegateError
from tidegate.model.graph import JobGraph
from tidegate.model.ids import BlobKey

START_TIMEOUT_S = 90.0
TASK_MANAGER_LIVES = 5
"""How many TaskManagers are started one after the other: a lost one is replaced, as an operator would do by hand."""

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


def slots_of(graph: JobGraph) -> int:
    """Slots that a job needs: the greatest parallelism of each slot-sharing group."""
    groups: defaultdict[str, int] = defaultdict(int)
    for vertex in graph.vertices:
        groups[vertex.slot_sharing_group] = max(groups[vertex.slot_sharing_group], vertex.parallelism)
    return sum(groups.values())


class LocalCluster:
    """Child processes on free loopback ports. `close` ends them and removes their files, but for checkpoints that a job retained."""

    def __init__(self, configuration: Mapping[str, str], slots: int) -> None:
        """Starts it. Raises the error that keeps a process from starting."""
        self._definitions = [f"{key}={text}" for key, text in configuration.items()]
        loaded = load_configuration(None, [*self._definitions, *FORCED_TO_LOOPBACK])
        self._own = EmbeddedFiles(loaded)
        tell_left_by_others(self._own.left_by_others)
        self._checkpoints = self._own.files.checkpoint_definitions(loaded)
        self._slots = slots
        self._children: list[Child] = []
        self._closing = threading.Event()
        self._keeper: threading.Thread | None = None
        try:
            job_manager = self._start("jobmanager", "JobManager")
            self.address = f"127.0.0.1:{job_manager.wait_ready(START_TIMEOUT_S)['rpc_port']}"
            task_manager = self._start_task_manager(1)
            task_manager.wait_ready(START_TIMEOUT_S)
        except BaseException as error:
            self.close(keep_logs=isinstance(error, ExternalError))
            raise
        self._keeper = threading.Thread(target=self._keep, args=(task_manager,), name="local-cluster", daemon=True)
        self._keeper.start()

    def close(self, *, keep_logs: bool = False) -> None:
        """End it; again: no-op."""
        self._closing.set()
        if self._keeper is not None:
            self._keeper.join()
        end_processes(child.pid for child in self._children if child.is_alive())
        tell_kept(self._own.end(keep_logs=keep_logs))

    def _start(self, command: str, name: str, *options: str) -> Child:
        files = self._own.files
        log = files.logs / f"{command}-{len(self._children)}.log"
        arguments = [command, *options, "--exit-with-parent", "--log-file", str(log)]
        for definition in (*self._definitions, *FORCED_TO_LOOPBACK, *self._checkpoints):
            arguments += ["-D", definition]
        child = Child(name, arguments, log=log, inherited=[self._own.claim.descriptor])
        self._children.append(child)
        return child

    def _start_task_manager(self, life: int) -> Child:
        name = f"local-{life}"
        options = ("--slots", str(self._slots), "--jobmanager", self.address, "-D", f"taskmanager.resource-id={name}")
        return self._start("taskmanager", "TaskManager", *options)

    def _keep(self, task_manager: Child) -> None:
        life = 1
        while not self._closing.wait(0.2):
            if not task_manager.is_alive() and life < TASK_MANAGER_LIVES:
                life += 1
                task_manager = self._start_task_manager(life)


class LocalClusterExecutor:
    """Every job gets a cluster of its own."""

    def __init__(self, restore_path: str = "", allow_non_restored_state: bool = False) -> None:
        self._restore_path = restore_path
        self._allow_non_restored_state = allow_non_restored_state
        self.submitted = 0

    def execute(self, graph: JobGraph, blobs: Mapping[BlobKey, bytes]) -> JobExecutionResult:
        """Run the job to its end. Raises its error when it does not finish."""
        cluster = LocalCluster(with_absolute_directories(graph).configuration, slots_of(graph))
        try:
            with JobManagerClient(cluster.address) as client:
                job = self._submit(client, graph, blobs)
                click.echo(f"Job has been submitted with JobID {job.job_id}", err=True)
                try:
                    result = wait_attached(job, graph)
                    click.echo(f"Job with JobID {job.job_id} has finished in {result.net_runtime_ms} ms", err=True)
                finally:
                    tell_late_records(job.last_status)
                return result
        finally:
            cluster.close()

    def execute_async(self, graph: JobGraph, blobs: Mapping[BlobKey, bytes]) -> LocalJob:
        """The cluster ends with the job, or with this process."""
        cluster = LocalCluster(with_absolute_directories(graph).configuration, slots_of(graph))
        client = JobManagerClient(cluster.address)
        try:
            job = self._submit(client, graph, blobs)
        except BaseException:
            client.close()
            cluster.close()
            raise
        return LocalJob(client, job, cluster)

    def _submit(self, client: JobManagerClient, graph: JobGraph, blobs: Mapping[BlobKey, bytes]) -> SubmittedJob:
        tell_warnings(graph)
        restore = restore_of(graph, self._restore_path, self._allow_non_restored_state)
        job_id = client.submit(with_absolute_directories(graph), blobs, *restore)
        self.submitted += 1
        return SubmittedJob(client, job_id, graph.name)


class LocalJob(SubmittedJob):
    """A job with its own cluster, which ends when the job was waited for."""

    def __init__(self, client: JobManagerClient, job: SubmittedJob, cluster: LocalCluster) -> None:
        super().__init__(client, job.job_id, job.name)
        self._cluster = cluster
        self._outcome: JobExecutionResult | BaseException | None = None
        self._waiting = threading.Lock()
        atexit.register(self._end)

    def wait(self, progress: Progress | None = None) -> JobExecutionResult:
        """Until the job is over. Raises its error when it did not finish."""
        with self._waiting:
            if self._outcome is None:
                try:
                    self._outcome = super().wait(progress)
                except TidegateError as error:
                    self._outcome = error
                finally:
                    self._end()
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        assert self._outcome is not None
        return self._outcome

    def accumulators(self) -> dict[str, Accumulator[Any, Any]]:
        outcome = self._outcome
        return dict(outcome.accumulators) if isinstance(outcome, JobExecutionResult) else super().accumulators()

    def _end(self) -> None:
        atexit.unregister(self._end)
        self._client.close()
        self._cluster.close()
