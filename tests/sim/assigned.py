"""A model subtask of a source whose splits a coordinator hands out."""

from __future__ import annotations

from tests.sim.job import SOURCE
from tests.sim.model_subtask import ModelSubtask
from tests.sim.operators import AssignedSourceOperator, Operator
from tests.sim.splits import SplitRequests
from tidegate.model.coordinators.operator_events import OperatorEvent
from tidegate.model.ids import AttemptId


class AssignedSubtask(ModelSubtask):
    """Asks when it has nothing left, and is at its end when nothing is left for it."""

    splits: SplitRequests

    def _make_operator(self) -> Operator:
        source = AssignedSourceOperator(self.context.job, self.deployment)
        self.splits = SplitRequests(self.attempt, source.offsets, self._send)
        return source

    def out_of_rows(self) -> None:
        if self.splits.is_over:
            super().out_of_rows()
        else:
            self.splits.ask()

    def on_operator_event(self, event: OperatorEvent) -> None:
        self.splits.on_event(event)
        self.wake()


def deliver(task: ModelSubtask, event: OperatorEvent) -> None:
    """An event of a coordinator reaches its operator."""
    assert isinstance(task, AssignedSubtask), f"{task.attempt} has no coordinator: {event}"
    task.on_operator_event(event)


def kind_of(attempt: AttemptId, *, is_assigned: bool) -> type[ModelSubtask]:
    """The class of an attempt."""
    return AssignedSubtask if is_assigned and attempt.vertex_id == SOURCE else ModelSubtask
