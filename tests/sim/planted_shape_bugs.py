"""Bugs on purpose in the way to another shape (``test_planted_bugs.py``)."""

from __future__ import annotations

from collections.abc import Iterable

from tests.sim.laws import Law
from tests.sim.plant import Plant, patched
from tests.sim.schedule import Mix
from tidegate.jobmanager.machines.job.rescaling import JobNow, RescalePhase, Rescaling, ShapeStep
from tidegate.jobmanager.machines.restore.state_assignment import OperatorPlan
from tidegate.jobmanager.machines.scheduling.execution_graph import ExecutionGraph
from tidegate.model.checkpoint import SegmentHandle
from tidegate.model.graph import JobGraph

OFTEN = Mix(parallel=0.0, rescales=6, stops=0, cancels=0)

_step = Rescaling.step


def _does_not_wait_for_the_store(rescaling: Rescaling, now: JobNow) -> ShapeStep:
    step = _step(rescaling, now)
    if rescaling.phase is not RescalePhase.WRITING:
        return step
    rescaling.phase = RescalePhase.CHANGING
    return ShapeStep.CANCEL


_reshape = ExecutionGraph.reshape


def _numbers_go_on_as_before(graph: ExecutionGraph, job: JobGraph, first_attempt: int, now_ms: int) -> None:
    """Those of the new shape are numbers that the old one may have, too."""
    highest = max(execution.attempt.attempt for execution in graph)
    _reshape(graph, job, min(first_attempt, highest), now_ms)


def _keyed_state_of_the_same_number(plan: OperatorPlan, index: int) -> Iterable[SegmentHandle]:
    """The handles of the old parallelism: the subtask of that number had other key groups."""
    snapshot = plan.state.subtasks.get(index)
    return snapshot.keyed if snapshot else ()


OF_SHAPES = (
    Plant(
        "deploys before the store has the shape",
        frozenset({Law.SHAPE}),
        patched(Rescaling, "step", _does_not_wait_for_the_store),
        OFTEN,
    ),
    Plant(
        "restores with the handles of the old parallelism",
        frozenset({Law.OUTPUT, Law.PUBLISHED}),
        patched(OperatorPlan, "segments", _keyed_state_of_the_same_number),
        OFTEN,
    ),
    Plant(
        "attempts of the new shape have numbers of the old one",
        frozenset({Law.OUTPUT, Law.PUBLISHED, Law.FENCED, Law.SHAPE}),
        patched(ExecutionGraph, "reshape", _numbers_go_on_as_before),
        OFTEN,
    ),
)
