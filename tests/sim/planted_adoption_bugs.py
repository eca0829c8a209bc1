"""Bugs on purpose in what happens when a JobManager goes on with the subtasks of another one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from tests.sim.laws import Law
from tests.sim.plant import Plant, patched
from tests.sim.schedule import Mix
from tidegate.jobmanager.machines.events import TaskManagerRegistered, TaskStateChanged
from tidegate.jobmanager.machines.job import adoption
from tidegate.jobmanager.machines.job.adoption import Adoption
from tidegate.jobmanager.machines.scheduling.scheduler import Scheduler
from tidegate.model.states import ExecutionState
from tidegate.taskmanager.machines import slots, task_manager, tasks

OFTEN = Mix(jobmanager_crashes=4, aimed_at_jobmanager=0.5, high_availability=1.0, stops=0, cancels=0)

_note = Adoption.note
_close_adoption = Scheduler.close_adoption


def _adopts_what_has_failed(found: Adoption, event: Any) -> None:
    """One that had failed meanwhile counts as running."""
    if isinstance(event, TaskManagerRegistered):
        ran = tuple(
            replace(report, state=ExecutionState.RUNNING) if report.state is ExecutionState.FAILED else report
            for report in event.attempts
        )
        event = replace(event, attempts=ran)
    elif isinstance(event, TaskStateChanged) and event.state is ExecutionState.FAILED:
        event = replace(event, state=ExecutionState.RUNNING)
    _note(found, event)


def _frees_slots_of_adopted_subtasks(scheduler: Scheduler) -> None:
    _close_adoption(scheduler)
    for allocation_id in list(scheduler._resources.held_by(scheduler._job_id)):
        scheduler._resources.free(allocation_id, "planted")


@contextmanager
def _obeys(fence: Any) -> Iterator[None]:
    with (
        mock.patch.object(slots, "fence", fence),
        mock.patch.object(tasks, "fence", fence),
        mock.patch.object(task_manager, "fence", fence),
    ):
        yield


def _all_leaders_are_obeyed(generation: str, registered: str | None) -> Any:
    return None if registered is not None else _fence(generation, registered)


_fence: Any = slots.fence


OF_ADOPTION = (
    Plant(
        "what had failed meanwhile is adopted",
        frozenset({Law.ADOPTION}),
        patched(Adoption, "note", _adopts_what_has_failed),
        OFTEN,
    ),
    Plant(
        "an attempt that another one has followed is adopted",
        frozenset({Law.PUBLISHED, Law.FENCED, Law.ADOPTION}),
        patched(adoption, "is_earlier", lambda attempt, last: False),
        Mix(assigned=1.0, parallel=0.5),
        first_seed=300,
    ),
    Plant(
        "the slot of an adopted subtask is freed",
        frozenset({Law.ADOPTION}),
        patched(Scheduler, "close_adoption", _frees_slots_of_adopted_subtasks),
        OFTEN,
    ),
    Plant(
        "a confirmation of an earlier leader is obeyed",
        frozenset({Law.ADOPTION}),
        lambda: _obeys(_all_leaders_are_obeyed),
        OFTEN,
        first_seed=200,
    ),
)
