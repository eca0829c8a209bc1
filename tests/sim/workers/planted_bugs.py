"""Bugs on purpose in what starts and stops TaskManagers, each with the laws that may catch it."""

from __future__ import annotations

from tests.sim.laws import Law
from tests.sim.plant import Plant, patched
from tidegate.jobmanager.machines.resources.task_managers import RegisteredTaskManager, ResourceManager
from tidegate.jobmanager.machines.resources.threshold_meter import ThresholdMeter
from tidegate.jobmanager.machines.resources.workers import Worker, Workers, WorkerState
from tidegate.model.ids import TaskManagerId

_on_timer = Workers.on_timer


def _only_what_is_there(self: Worker) -> bool:
    del self
    return False


def _never_gives_up(self: Workers, kind: str, worker_id: TaskManagerId) -> str | None:
    return _on_timer(self, kind, worker_id) if kind == "idle" else None


def _stays_coming(self: Workers, worker_id: TaskManagerId, detail: str) -> str | None:
    worker = self._workers.get(worker_id)
    if worker is not None and worker.state is not WorkerState.STARTING:
        del self._workers[worker_id]
    del detail
    return None


PLANTS = (
    Plant(
        "two starts for one need", frozenset({Law.NEEDED}), patched(Worker, "is_coming", property(_only_what_is_there))
    ),
    Plant(
        "a stop of a busy worker",
        frozenset({Law.IN_USE}),
        patched(RegisteredTaskManager, "is_empty", property(lambda self: True)),
    ),
    Plant("a storm after a crash loop", frozenset({Law.PAUSE}), patched(ThresholdMeter, "is_exceeded", False)),
    Plant("a start that hangs is waited for", frozenset({Law.ENOUGH}), patched(Workers, "on_timer", _never_gives_up)),
    Plant(
        "a start that failed still counts",
        frozenset({Law.PAUSE, Law.ENOUGH}),
        patched(Workers, "on_ended", _stays_coming),
    ),
    Plant(
        "a job is placed on what stops",
        frozenset({Law.ENOUGH, Law.IN_USE}),
        patched(ResourceManager, "drain", lambda self, worker_id: None),
    ),
    Plant(
        "what is lost stays",
        frozenset({Law.NEEDED, Law.ENOUGH}),
        patched(Workers, "on_lost", lambda self, worker_id: None),
    ),
    Plant(
        "the minimum and the redundancy are forgotten",
        frozenset({Law.ENOUGH}),
        patched(Workers, "is_wanted", lambda self, worker: False),
    ),
    Plant("idle ones are kept", frozenset({Law.ENOUGH}), patched(Worker, "rest", lambda worker, *, is_idle: None)),
)
