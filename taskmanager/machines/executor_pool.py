"""Decides how many executors are requested from a Spark cluster, which worker gets which executor, and which executors are released.

    declared ──▶ WAITING ──an executor is there──▶ OPEN ──not declared any longer, or its executor is gone──▶ CLOSING ──closed──▶ (gone) or ENDED
                    └──not declared any longer──▶ (gone)                                                            with what ended it

The JobManager declares the complete set of wanted workers each time: repeating a declaration changes nothing, and a new JobManager does not have to know
earlier declarations.

Laws:
1. As many executors are requested as there are declared workers that have not ended.
2. An executor serves one worker for its whole life, and is not reused for another.
3. An executor on which a task runs is never released, since Spark may have placed a task of another worker there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from tidegate.model.ids import TaskManagerId


@dataclass(frozen=True, slots=True)
class SparkExecutor:
    """An executor that Spark has. ``tasks``: the number of tasks that run on it."""

    executor_id: str
    host: str
    cores: int
    tasks: int = 0


@dataclass(frozen=True, slots=True)
class RequestTotal:
    """Requests this total number of executors from Spark."""

    executors: int


@dataclass(frozen=True, slots=True)
class OpenWorker:
    """Starts a TaskManager whose subtasks run on this executor. ``on_closed`` follows when it has ended or could not be started."""

    worker_id: TaskManagerId
    executor: SparkExecutor


@dataclass(frozen=True, slots=True)
class CloseWorker:
    """Stops a TaskManager on an executor. ``on_closed`` follows when it has ended."""

    worker_id: TaskManagerId


@dataclass(frozen=True, slots=True)
class KillExecutor:
    """Gives an executor back to Spark."""

    executor_id: str


PoolCommand: TypeAlias = RequestTotal | OpenWorker | CloseWorker | KillExecutor


class HostedState(Enum):
    """The states of a declared worker."""

    WAITING = "WAITING"
    """The worker waits for an executor."""
    OPEN = "OPEN"
    CLOSING = "CLOSING"
    ENDED = "ENDED"
    """The worker has ended. It is kept until it is not in the declaration, so that its end is reported."""


@dataclass(slots=True)
class Hosted:
    """A declared worker: a TaskManager on a Spark executor. ``detail``: the reason of its end."""

    worker_id: TaskManagerId
    state: HostedState = HostedState.WAITING
    executor_id: str = ""
    detail: str = ""

    def open(self, executor_id: str) -> None:
        self.state, self.executor_id = HostedState.OPEN, executor_id

    def close(self, detail: str) -> None:
        self.state, self.detail = HostedState.CLOSING, detail

    def end(self, detail: str) -> None:
        self.state, self.detail = HostedState.ENDED, self.detail or detail


class ExecutorPool:
    """Assigns Spark executors to the declared workers. Every method returns the commands to carry out, in their order."""

    def __init__(self) -> None:
        self._workers: dict[TaskManagerId, Hosted] = {}
        self._declared: frozenset[TaskManagerId] = frozenset()
        self._seen: dict[str, SparkExecutor] = {}
        self._used: set[str] = set()
        """Executors that have or had a worker; no other worker gets them."""
        self._ended: dict[str, str] = {}
        """Why an executor has ended, for those that are still listed or whose worker is closing."""
        self._total = 0

    def workers(self) -> Sequence[Hosted]:
        """Returns the workers that are declared or not closed yet."""
        return tuple(self._workers.values())

    # ---- what happens ------------------------------------------------------------------------------------------------

    def on_declared(self, worker_ids: Collection[TaskManagerId]) -> Sequence[PoolCommand]:
        """Takes the complete set of workers that are wanted. Others are closed."""
        self._declared = frozenset(worker_ids)
        commands: list[PoolCommand] = []
        for worker in list(self._workers.values()):
            if worker.worker_id in self._declared:
                continue
            if worker.state is HostedState.OPEN:
                worker.close("it was given back")
                commands.append(CloseWorker(worker.worker_id))
            elif worker.state is not HostedState.CLOSING:
                del self._workers[worker.worker_id]
        for worker_id in worker_ids:
            if worker_id not in self._workers:
                self._workers[worker_id] = Hosted(worker_id)
        return [*commands, *self._settled()]

    def on_seen(self, executors: Iterable[SparkExecutor]) -> Sequence[PoolCommand]:
        """Takes the executors that Spark has at this moment."""
        self._seen = {executor.executor_id: executor for executor in executors}
        self._used &= self._seen.keys() | {worker.executor_id for worker in self._workers.values()}
        commands: list[PoolCommand] = []
        for worker in self._workers.values():
            if worker.state is HostedState.OPEN and worker.executor_id not in self._seen:
                why = self._ended.pop(worker.executor_id, "")
                worker.close(f"Spark lost its executor {worker.executor_id}{': ' if why else ''}{why}")
                commands.append(CloseWorker(worker.worker_id))
        return [*commands, *self._settled()]

    def on_executor_ended(self, executor_id: str, detail: str) -> Sequence[PoolCommand]:
        """Notes that an executor's process is gone. If it was never seen, it did not start, and the worker that has waited longest ends with that reason."""
        if executor_id in self._seen or executor_id in self._used:
            self._ended[executor_id] = detail
            return []
        for worker in self._workers.values():
            if worker.state is HostedState.WAITING:
                worker.end(f"executor {executor_id} did not start: {detail}")
                return self._settled()
        return []

    def on_closed(self, worker_id: TaskManagerId, detail: str) -> Sequence[PoolCommand]:
        """Notes that a worker has ended or could not be started. ``detail`` says why, unless it was ordered to close."""
        worker = self._workers.get(worker_id)
        if worker is None or worker.state in (HostedState.WAITING, HostedState.ENDED):
            return []
        if worker_id in self._declared:
            worker.end(detail)
        else:
            del self._workers[worker_id]
        return self._settled()

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when workers and executors contradict each other. To be called between two calls of other methods."""
        holding = [w.executor_id for w in self._workers.values() if w.state in (HostedState.OPEN, HostedState.CLOSING)]
        assert len(holding) == len(set(holding)), f"an executor has two workers: {holding}"
        assert set(holding) <= self._used, f"a worker is on an executor that counts as free: {holding}, {self._used}"
        assert self._total == self._wanted(), f"{self._total} executors were asked for, and {self._wanted()} are wanted"

    # ---- decisions ---------------------------------------------------------------------------------------------------

    def _wanted(self) -> int:
        return sum(worker.state in (HostedState.WAITING, HostedState.OPEN) for worker in self._workers.values())

    def _settled(self) -> list[PoolCommand]:
        """Requests the executors that are wanted, assigns free ones to waiting workers, and gives back those that no worker needs."""
        commands: list[PoolCommand] = []
        if self._wanted() != self._total:
            self._total = self._wanted()
            commands.append(RequestTotal(self._total))
        free = [executor for executor in self._seen.values() if executor.executor_id not in self._used]
        waiting = [worker for worker in self._workers.values() if worker.state is HostedState.WAITING]
        for worker, executor in zip(waiting, free, strict=False):
            worker.open(executor.executor_id)
            self._used.add(executor.executor_id)
            commands.append(OpenWorker(worker.worker_id, executor))
        held = {w.executor_id for w in self._workers.values() if w.state in (HostedState.OPEN, HostedState.CLOSING)}
        for executor in self._seen.values():
            if executor.executor_id not in held and executor.tasks == 0:
                self._used.add(executor.executor_id)  # it is seen until it is gone
                commands.append(KillExecutor(executor.executor_id))
        return commands
