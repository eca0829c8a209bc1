"""One TaskManager that the JobManager started: every state meets everything that may become of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import FunctionType

import pytest

from tests.pairs import answer, assert_every_pair, cells
from tidegate.jobmanager.machines.command_buffer import CommandBuffer
from tidegate.jobmanager.machines.commands import Command, Log
from tidegate.jobmanager.machines.events import ReportedSlot, TaskManagerRegistered
from tidegate.jobmanager.machines.resources.task_managers import ResourceManager
from tidegate.jobmanager.machines.resources.workers import IDLE, REGISTRATION, Need, Workers, WorkerState
from tidegate.jobmanager.machines.settings import ClusterSettings, SupplySettings
from tidegate.model.ids import TaskManagerId


class Supply:
    """The machine with what it decides about; the worker is the first that it starts."""

    def __init__(self) -> None:
        settings = SupplySettings(max_failures_per_minute=0.0)
        self.buffer = CommandBuffer()
        self.resources = ResourceManager(ClusterSettings(workers=settings), self.buffer)
        self.workers = Workers(settings, self.resources, self.buffer)
        self.worker_id = TaskManagerId(f"{settings.family}-1")

    def ordered(self) -> list[Command]:
        """The commands of this step, without what is only written to the log."""
        return [command for command in self.buffer.take() if not isinstance(command, Log)]


Step = Callable[[Supply], Iterable[object]]


def needs(slots: int) -> Step:
    def step(it: Supply) -> Iterable[object]:
        it.workers.reconcile(Need(slots))
        return it.ordered()

    return step


def opens(*found: TaskManagerId) -> Step:
    def step(it: Supply) -> Iterable[object]:
        it.workers.on_found(found)
        return it.ordered()

    return step


def registers(it: Supply) -> Iterable[object]:
    it.resources.register(TaskManagerRegistered(it.worker_id, "session", "here:1", "here", (ReportedSlot(0, None),)))
    it.workers.on_registered(it.worker_id)
    return it.ordered()


def is_lost(it: Supply) -> Iterable[object]:
    it.resources.lose(it.worker_id, "silent")
    it.workers.on_lost(it.worker_id)
    return it.ordered()


def ends(it: Supply) -> Iterable[object]:
    said = it.workers.on_ended(it.worker_id, "exit code 1")
    return [*it.ordered(), *([Failure(said)] if said else [])]


def fires(kind: str) -> Step:
    def step(it: Supply) -> Iterable[object]:
        said = it.workers.on_timer(kind, it.worker_id)
        return [*it.ordered(), *([Failure(said)] if said else [])]

    return step


class Failure:
    """Why jobs that wait may wait in vain, as they show it."""

    def __init__(self, text: str) -> None:
        self.text = text


EVENTS: dict[str, Step] = {
    "it is found running": lambda it: opens(it.worker_id)(it),
    "it registers": registers,
    "it is lost": is_lost,
    "its process ends": ends,
    "it has not registered in time": fires(REGISTRATION),
    "it was idle for long": fires(IDLE),
    "a job needs a slot": needs(1),
    "no job needs any": needs(0),
}


def supply(*steps: Step) -> Supply:
    found = Supply()
    for step in (opens(), *steps):
        step(found)
        found.workers.check_invariants()
    return found


STATES: dict[str, Callable[[], Supply]] = {
    "NONE": supply,
    "STARTING": lambda: supply(needs(1)),
    "RECOVERED": lambda: supply(EVENTS["it is found running"]),
    "REGISTERED": lambda: supply(needs(1), registers),
    "IDLE": lambda: supply(needs(1), registers, needs(0)),
    "STOPPING": lambda: supply(needs(1), registers, needs(0), fires(IDLE)),
}
TABLE = """
event                         | NONE                               | STARTING                                   | RECOVERED                            | REGISTERED                                           | IDLE                                                              | STOPPING
it is found running           | StartTimer ▸ RECOVERED             | ·                                          | ·                                    | ·                                                    | ·                                                                 | ·
it registers                  | StartTimer ▸ REGISTERED            | StartTimer, CancelTimer ▸ REGISTERED       | StartTimer, CancelTimer ▸ REGISTERED | StartTimer                                           | StartTimer                                                        | StartTimer, StopWorker
it is lost                    | KeyError                           | KeyError                                   | KeyError                             | CancelTimer, CloseTaskManager, StopWorker ▸ STOPPING | CancelTimer, CloseTaskManager, CancelTimer, StopWorker ▸ STOPPING | CancelTimer, CloseTaskManager
its process ends              | ·                                  | CancelTimer, StartTimer, Failure ▸ NONE    | CancelTimer ▸ NONE                   | ▸ NONE                                               | CancelTimer ▸ NONE                                                | ▸ NONE
it has not registered in time | ·                                  | StopWorker, StartTimer, Failure ▸ STOPPING | StopWorker ▸ STOPPING                | ·                                                    | ·                                                                 | ·
it was idle for long          | ·                                  | ·                                          | ·                                    | ·                                                    | CancelTimer, StopWorker ▸ STOPPING                                | ·
a job needs a slot            | StartTimer, StartWorker ▸ STARTING | ·                                          | ·                                    | ·                                                    | CancelTimer ▸ REGISTERED                                          | StartTimer, StartWorker
no job needs any              | ·                                  | ·                                          | ·                                    | StartTimer ▸ IDLE                                    | ·                                                                 | ·
"""


def state_of(found: Supply) -> str:
    for worker in found.workers:
        if worker.worker_id == found.worker_id:
            return "IDLE" if worker.is_idle else worker.state.value
    return "NONE"


@pytest.mark.parametrize(("state", "event", "expected"), cells(TABLE))
def test_everything_in_every_state(state: str, event: str, expected: str) -> None:
    found = STATES[state]()
    assert state_of(found) == state
    assert answer(lambda: EVENTS[event](found), lambda: state_of(found)) == expected
    found.workers.check_invariants()


def test_every_state_meets_everything() -> None:
    assert_every_pair(TABLE, STATES, EVENTS, FunctionType)
    assert STATES.keys() == {*(state.value for state in WorkerState), "NONE", "IDLE"}
