"""What a TaskManager looks at: its JVM, the executors of its cluster, and the memory of its slots."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tidegate.aio.process import Shutdown
from tidegate.model.errors import ErrorInfo, ExternalError, NoResourceAvailable
from tidegate.model.ids import AttemptId, JobId, VertexId
from tidegate.taskmanager.machines.memory.shortage import MemoryPool, Overrun
from tidegate.taskmanager.machines.task_events import TaskFailed
from tidegate.taskmanager.service import watches
from tidegate.taskmanager.service.subtasks.slot_memory import SlotMemory
from tidegate.taskmanager.service.watches import end_process, watch
from tidegate.taskmanager.spark.deploy import error_of_job
from tidegate.taskmanager.spark.memory.machine import MachineMemory
from tidegate.taskmanager.spark.submission import SparkSubmission

ATTEMPT = AttemptId(JobId("a" * 32), VertexId("b" * 32), 0, 0)


class Standing:
    """Stands in for the Spark session, its subtasks and the task executor."""

    def __init__(self) -> None:
        self.alive = True
        self.is_embedded = True
        self.looks = 0
        self.bounds: dict[str, int] = {}
        self.has_left = asyncio.Event()
        self.posted: asyncio.Queue[Any] = asyncio.Queue()

    @property
    def leaving(self) -> Any:
        """What a look at the subtasks finds; the first look fails."""
        return self._look

    @leaving.setter
    def leaving(self, attempts: frozenset[AttemptId]) -> None:
        assert attempts == {ATTEMPT}
        self.has_left.set()

    def _look(self) -> frozenset[AttemptId]:
        self.looks += 1
        if self.looks == 1:
            raise OSError("the JVM is busy")
        return frozenset({ATTEMPT})

    def is_alive(self) -> bool:
        return self.alive

    def local_pids(self) -> dict[str, dict[AttemptId, int]]:
        return {"slot": {ATTEMPT: 1}}

    def task_name(self, attempt: AttemptId) -> str:
        return "map"

    def post(self, event: Any) -> None:
        self.posted.put_nowait(event)


@pytest.fixture
def standing(monkeypatch: pytest.MonkeyPatch) -> Standing:
    monkeypatch.setattr(watches, "JVM_INTERVAL_S", 0.01)
    return Standing()


async def test_a_task_manager_ends_with_its_jvm(standing: Any) -> None:
    shutdown = Shutdown()
    stop = watch(standing, standing, standing, SlotMemory(), lambda error: end_process(shutdown, error))
    standing.alive = False
    await asyncio.wait_for(shutdown.wait(), 10)
    assert shutdown.exit_code == 1
    assert "the JVM of this TaskManager ended by itself" in shutdown.reason
    stop()


async def test_what_runs_on_an_executor_that_goes_is_known_although_a_look_fails(
    standing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watches, "EXECUTORS_INTERVAL_S", 0.01)
    standing.is_embedded = False
    stop = watch(standing, standing, standing, SlotMemory(), lambda error: None)
    await asyncio.wait_for(standing.has_left.wait(), 10)
    assert standing.looks >= 2
    stop()


async def test_what_needs_too_much_memory_fails_by_force(standing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    error = ErrorInfo.of(ExternalError("too much"))
    monkeypatch.setattr(
        watches, "decide_overrun", lambda pids, bound, bounds, name: [(ATTEMPT, error)] if bound == 100 else []
    )
    stop = watch(standing, standing, standing, SlotMemory(100), lambda error: None)
    assert await asyncio.wait_for(standing.posted.get(), 10) == TaskFailed(ATTEMPT, error, by_force=True)
    stop()


async def test_what_fills_its_machine_fails_by_force_and_says_why(
    standing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = MemoryPool("the machine", "MemTotal of /proc/meminfo", 8 << 30, 0)
    monkeypatch.setattr(
        MachineMemory, "look", lambda self, own: Overrun(own[0], 6 << 30, 1, pool, 1 << 28, "give it more")
    )
    stop = watch(standing, standing, standing, SlotMemory(), lambda error: None)
    event = await asyncio.wait_for(standing.posted.get(), 10)
    assert (event.attempt, event.by_force) == (ATTEMPT, True)
    assert "map was ended before the machine ran out of memory: it has 6144 MiB; of 8192 MiB" in event.error.message
    stop()


async def test_subtasks_on_executors_look_at_their_machines_themselves(
    standing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[object] = []
    monkeypatch.setattr(MachineMemory, "look", lambda self, own: looks.append(own))
    monkeypatch.setattr(watches, "EXECUTORS_INTERVAL_S", 0.01)
    standing.is_embedded = False
    stop = watch(standing, standing, standing, SlotMemory(), lambda error: None)
    await asyncio.wait_for(standing.has_left.wait(), 10)
    assert not looks
    stop()


def test_what_spark_says_becomes_one_line() -> None:
    submission = SparkSubmission(ATTEMPT, "map", 2, "token")
    text = "An error occurred\n: org.apache.spark.SparkException: Job aborted\n\tat org.apache.X\nCaused by: java.io.EOFException: gone"
    info = error_of_job(RuntimeError(text), submission, jvm_is_alive=True)
    assert info.code == "subtask-lost"
    assert info.message == "the Spark job of map (1/2)#0 failed: Caused by: java.io.EOFException: gone"
    assert info.details == text
    assert (
        "the JVM of this TaskManager ended" in error_of_job(RuntimeError(text), submission, jvm_is_alive=False).message
    )
    ours = error_of_job(NoResourceAvailable("no core"), submission, jvm_is_alive=True)
    assert (ours.code, ours.message, ours.origin) == ("no-resource-available", "no core", "map (1/2)#0")
