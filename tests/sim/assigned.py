"""A model subtask of a source whose splits a coordinator hands out, some of them only after it has found them."""

from __future__ import annotations

from tests.sim.job import SOURCE
from tests.sim.model_subtask import ModelSubtask
from tests.sim.operators import AssignedSourceOperator, Operator
from tests.sim.splits import SplitRequests
from tidegate.model.coordinators.operator_events import ANY_READER, DISCOVERING_SUBTASK, OperatorEvent
from tidegate.model.errors import ErrorInfo, InternalError
from tidegate.model.ids import AttemptId
from tidegate.taskmanager.machines import subtask as lifecycle

LOOKS_EVERY_MS = (5, 60)
FIRST_LISTING_MS = (5, 500)
"""It may take longer than the next checkpoint."""


class AssignedSubtask(ModelSubtask):
    """Asks when it has nothing left, and is at its end when nothing is left for it."""

    splits: SplitRequests

    def _make_operator(self) -> Operator:
        source = AssignedSourceOperator(self.context.job, self.deployment)
        self.splits = SplitRequests(self.attempt, source.offsets, self._send)
        self._restored = source.all_restored
        return source

    def start(self) -> None:
        super().start()
        if self.context.job.is_discovered and self.attempt.subtask == DISCOVERING_SUBTASK and not self.is_gone:
            self.splits.ask_what_is_known()

    def out_of_rows(self) -> None:
        if self.splits.is_over:
            super().out_of_rows()
        else:
            self.splits.ask()

    def on_operator_event(self, event: OperatorEvent) -> None:
        if event.number > self.splits.heard + 1:
            self.fail(ErrorInfo.of(InternalError("an event of its coordinator is missing")))
            return
        was_told = self.splits.known is not None
        self.splits.on_event(event)
        if self.splits.known is not None and not was_told:
            self.splits.known |= self._restored
            self.context.world.later(self.context.world.between(*FIRST_LISTING_MS), self._look)
        self.wake()

    def _look(self) -> None:
        """For splits that have appeared since."""
        job, known, world = self.context.job, self.splits.known, self.context.world
        assert known is not None
        if self.is_gone or self.lifecycle.state is not lifecycle.LifecycleState.RUNNING:
            return
        for split, at_ms in enumerate(job.arrivals_ms):
            if at_ms <= world.now_ms and split not in known:
                self.splits.found(split, split % self.deployment.parallelism if job.names_readers else ANY_READER)
        world.later(world.between(*LOOKS_EVERY_MS), self._look)


def deliver(task: ModelSubtask, event: OperatorEvent) -> None:
    """An event of a coordinator reaches its operator."""
    assert isinstance(task, AssignedSubtask), f"{task.attempt} has no coordinator: {event}"
    task.on_operator_event(event)


def kind_of(attempt: AttemptId, *, is_assigned: bool) -> type[ModelSubtask]:
    """The class of an attempt."""
    return AssignedSubtask if is_assigned and attempt.vertex_id == SOURCE else ModelSubtask
