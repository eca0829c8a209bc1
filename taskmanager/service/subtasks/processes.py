"""Starts and ends subtask processes as Spark jobs, for the task executor."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import threading
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Protocol

from tidegate.model.ids import AllocationId, AttemptId, JobId
from tidegate.taskmanager.machines.task_events import SubmittedTask
from tidegate.taskmanager.service.subtasks.slot_memory import SlotMemory
from tidegate.taskmanager.service.subtasks.tls import SubtaskTls
from tidegate.taskmanager.spark.deploy import OnEnd, SparkDeployer
from tidegate.taskmanager.spark.memory.limits import WorkerSettings
from tidegate.taskmanager.spark.session import Session
from tidegate.taskmanager.spark.stacks import read_by_signal
from tidegate.taskmanager.spark.submission import SparkSubmission, SubmittedQuery
from tidegate.taskmanager.spark.worker_exits import NOTED_WITHIN_S
from tidegate.taskmanager.state.files.local_copies import allocation_directory

BLOB_TIMEOUT_S = 60.0
"""Seconds for fetching the program of a query. Chosen, not measured: for a large program by a slow network."""


class FetchBlob(Protocol):
    """Fetches the content of a blob, on the loop."""

    def __call__(self, key: str) -> Coroutine[object, None, bytes]: ...


class SparkSubtasks:
    """Implements ``tidegate.taskmanager.service.task_executor.Deployer``. Each attempt gets a directory below ``directory`` if its process is on
    this machine.
    """

    def __init__(
        self,
        memory: SlotMemory,
        directory: Path,
        local_roots: Sequence[Path],
        fetch_blob: FetchBlob,
        cancellation_interval_ms: int = 30_000,
        tls: SubtaskTls | None = None,
        failures: Path | None = None,
    ) -> None:
        """Takes the resources of subtasks. ``local_roots``: disks for copies of state; an allocation has its own directory on one of them. ``failures``: the
        directory in which subtasks keep their failures for a replay.
        """
        self._failures = failures
        self._cancellation_interval_ms, self._tls = cancellation_interval_ms, tls
        self._memory = memory
        self._local_roots = local_roots
        self._fetch_blob = fetch_blob
        self._directory = directory
        self._deployer: SparkDeployer | None = None
        self._session: Session | None = None
        self._is_embedded = True
        self._listen = ""
        self._external_resources = "{}"
        self._holders: dict[JobId, set[AllocationId]] = {}
        """The slots of each job that stores its outputs, which are kept until the last of the slots is free."""
        self.bounds: dict[AllocationId, int] = {}
        """Memory in bytes of slots whose slot sharing group sets it. The others have an equal share of the TaskManager's."""

    def connect(self, session: Session, control_address: str, listen: str) -> None:
        """Takes the warm Spark session, before any attempt is started. ``listen``: where the data servers of subtasks listen."""
        self._deployer, self._session = SparkDeployer(session, control_address), session
        self._is_embedded, self._external_resources = session.is_embedded, session.external_resources
        self._listen = listen

    def start(self, task: SubmittedTask, token: str, on_end: OnEnd) -> None:
        assert self._deployer is not None
        directory = local_state = ""
        if self._is_embedded:
            place = self._place(task.attempt)
            place.mkdir(parents=True, exist_ok=True)
            directory, local_state = str(place), str(self._local_root(task.allocation_id))
        wanted = task.slot_resources
        if wanted is not None:
            self.bounds[task.allocation_id] = wanted.memory_bytes
        settings = WorkerSettings(
            listen=self._listen,
            directory=directory,
            slot_memory_bytes=wanted.memory_bytes if wanted else self._memory.process_bytes,
            managed_memory_bytes=(wanted.managed_bytes if wanted else 0) or self._memory.managed_bytes,
            network_memory_bytes=self._memory.network_bytes,
            local_state_dir=local_state,
            cancellation_interval_ms=self._cancellation_interval_ms,
            external_resources=self._external_resources,
            machine_bytes=self._memory.machine_bytes,
            reserve_bytes=self._memory.reserve_bytes,
            failures_dir="" if self._failures is None else str(self._failures),
        )
        if self._tls is not None:
            settings = self._tls.added_to(settings)
        submission = SparkSubmission(
            task.attempt,
            task.task_name,
            task.parallelism,
            token,
            settings.to_texts(),
            self._query_of(task),
            task.stored,
            wanted,
            self._memory.process_bytes,
        )
        if task.stored is not None:
            self._holders.setdefault(task.attempt.job_id, set()).add(task.allocation_id)
        self._deployer.submit(submission, on_end)

    def _query_of(self, task: SubmittedTask) -> SubmittedQuery | None:
        key, loop = task.spark_query, asyncio.get_running_loop()
        if key is None:
            return None

        def load() -> bytes:
            """Fetches the query. Called from the attempt's thread."""
            return asyncio.run_coroutine_threadsafe(self._fetch_blob(key), loop).result(BLOB_TIMEOUT_S)

        return SubmittedQuery(load, task.configuration, is_restored=task.restored_id is not None)

    def kill(self, attempt: AttemptId, pid: int, host: str) -> None:
        assert self._deployer is not None
        self._deployer.cancel(attempt, pid, host)

    def leaving(self) -> frozenset[AttemptId]:
        """Returns the attempts on executors that Spark is about to take away. Blocks; raises what py4j raises."""
        return frozenset() if self._deployer is None else self._deployer.leaving()

    def exit_status(self, pid: int, *, is_lost: bool) -> int | None:
        return None if self._session is None else self._session.take_exit(pid, NOTED_WITHIN_S if is_lost else 0.0)

    def stacks(self, attempt: AttemptId, pid: int) -> str:
        """Returns the stacks of the threads of a process on this machine, also if it cannot answer; empty if there are none. Blocks."""
        return read_by_signal(self._place(attempt), pid)

    def remove(self, attempt: AttemptId) -> None:
        with contextlib.suppress(OSError):
            shutil.rmtree(self._place(attempt))

    def release(self, allocation_id: AllocationId) -> None:
        self.bounds.pop(allocation_id, None)
        for job_id in [job_id for job_id, held in self._holders.items() if allocation_id in held]:
            self._holders[job_id].discard(allocation_id)
            if not self._holders[job_id] and self._deployer is not None:
                del self._holders[job_id]
                self._deployer.drop_outputs(job_id)
        copies = allocation_directory(self._local_root(allocation_id), allocation_id)
        if copies.exists():  # they may be large
            threading.Thread(target=shutil.rmtree, args=(copies, True), name="local-state-removal", daemon=True).start()

    def _local_root(self, allocation_id: AllocationId) -> Path:
        return self._local_roots[int(allocation_id[:8], 16) % len(self._local_roots)]

    def _place(self, attempt: AttemptId) -> Path:
        return self._directory / str(attempt)
