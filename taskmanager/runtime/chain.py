"""The operators of one subtask: a tree with the head at its root, driven by the mailbox loop.

Order of calls (``tidegate.taskmanager.operators.operator``): calls that may emit go from the head to the leaves; ``open`` goes from the leaves to the
head, so that records of the head reach opened operators. ``close`` is called for every operator that was set up, even if others fail. A chain whose
operators had all finished in the restored checkpoint is one ``FinishedOperator``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import ClassVar, Literal, Protocol, runtime_checkable

from tidegate.model.channel_events import UserEvent
from tidegate.model.checkpoint import CheckpointOptions
from tidegate.model.coordinators.operator_events import OperatorEvent
from tidegate.model.errors import InternalError
from tidegate.model.ids import OperatorId
from tidegate.model.program import InputSpec, OperatorSpec
from tidegate.records.batch import ArrowBatch, Batch
from tidegate.taskmanager.operators.operator import Ending, Operator, OperatorContext
from tidegate.taskmanager.operators.rows.selectors import KeyFunction
from tidegate.taskmanager.runtime.conversion import BothShapes
from tidegate.taskmanager.runtime.events.task_events import HEAD, TaskEventDispatcher
from tidegate.taskmanager.runtime.failures import TaskInterrupted
from tidegate.taskmanager.runtime.measuring.operator_times import OperatorTimes
from tidegate.taskmanager.state.ports import FrozenState

OpenKeys = tuple[KeyFunction, OperatorContext]
"""The key function of an output, and the context with which it is opened: that of the operator that emits to this output."""

NO_CHECKPOINT = 0
"""The id that stands for no checkpoint. Ids of checkpoints begin with 1."""


class Finishing(Enum):
    """How far the operators of a chain have finished at the end of data."""

    WORKING = "WORKING"
    """Something was emitted: ``finish`` has to be called again."""
    WAITING = "WAITING"
    """Elements are in flight: ``finish`` has to be called again after a mail."""
    DONE = "DONE"


@runtime_checkable
class SourceHead(Protocol):
    """The methods that the head of a source vertex offers besides those of an operator (``SourceOperator``)."""

    def poll_next(self, max_records: int) -> bool:
        """Reads and emits at most ``max_records`` records. Returns whether there were any."""

    def is_finished(self) -> bool: ...


class _TimedSource:
    """Measures the polls of a source head as its busy time."""

    def __init__(self, head: SourceHead, times: OperatorTimes) -> None:
        self._head = head
        self._times = times

    def poll_next(self, max_records: int) -> bool:
        before = self._times.enter(HEAD)
        has_more = self._head.poll_next(max_records)
        self._times.leave(before)
        return has_more

    def is_finished(self) -> bool:
        return self._head.is_finished()


class FinishedOperator(Operator):
    """Replaces a chain whose operators had all finished in the restored checkpoint: it passes watermarks on, and has no state."""

    works_on: ClassVar[Literal["records", "arrow", "any"]] = "any"

    def process(self, batch: Batch, input_index: int) -> None:
        raise InternalError(
            f"{len(batch)} records reached {self.context.task_name}, which had finished when it was restored"
        )

    def poll_next(self, max_records: int) -> bool:
        return False

    def is_finished(self) -> bool:
        return True


class OperatorChain:
    """The operators of one subtask: ``operators`` in the order of the chain, head first, and ``specs`` in the same order. They are already connected to their
    outputs.
    """

    def __init__(
        self,
        operators: Sequence[Operator],
        specs: Sequence[OperatorSpec],
        inputs: Sequence[InputSpec],
        *,
        keys: Sequence[OpenKeys] = (),
        task_events: TaskEventDispatcher | None = None,
        times: OperatorTimes | None = None,
    ) -> None:
        """Connects the operators, head first. ``keys``: key functions of outputs that are keyed by a function of one record. ``task_events``: ``None`` for a
        chain that had finished. ``times``: counts the busy time of the operators; ``None``: it is not measured.
        """
        self._operators = list(operators)
        self._times = OperatorTimes(len(self._operators), lambda: 0.0) if times is None else times
        self._specs = list(specs)
        self._head = self._operators[0]
        self._inputs = list(inputs)
        self._set_up: list[Operator] = []
        self._task_events = task_events
        self._keys = list(keys)
        self._open_keys: list[KeyFunction] = []
        self._finished = 0
        """The number of operators that have finished, counted from the head."""

    @property
    def source(self) -> SourceHead | None:
        return _TimedSource(self._head, self._times) if isinstance(self._head, SourceHead) else None

    @property
    def head(self) -> Operator:
        """Returns the first operator, which gets the chain's input."""
        return self._head

    @property
    def is_columnar(self) -> bool:
        """Whether no operator works on single records, so that whole batches are processed at once. Known once the chain is open."""
        return not self._keys and not any(operator.works_on_records() for operator in self._operators)

    @property
    def takes_reports(self) -> bool:
        """Whether the head's input consists of a sink's reports to its committer, which arrive after the end of data too."""
        return self._head.takes_reports()

    @property
    def slice_records(self) -> int | None:
        """The most records that all operators of the chain accept at once; ``None``: not limited."""
        limits = [operator.slice_records for operator in self._operators]
        return min((limit for limit in limits if limit is not None), default=None)

    @property
    def timers_fired(self) -> int:
        return sum(operator.timers_fired for operator in self._operators)

    def setup(self, contexts: Sequence[OperatorContext]) -> None:
        for operator, context in zip(self._operators, contexts, strict=True):
            self._set_up.append(operator)
            operator.setup(context)

    def open(self) -> None:
        for function, context in self._keys:
            self._open_keys.append(function)
            function.open(context)
        for operator in reversed(self._operators):
            operator.open()

    def process(self, batch: ArrowBatch, edge: int) -> None:
        """Processes a batch that arrived on an incoming edge. ``edge``: index of the edge in ``TaskDeployment.inputs``."""
        spec = self._inputs[edge]
        before = self._times.enter(HEAD)
        shapes = BothShapes(batch, spec.type_info, self._specs[0].name)
        self._head.process(shapes.wanted_by(self._head.works_on), spec.input_index)
        self._times.leave(before)

    def advance_watermark(self, timestamp_ms: int) -> None:
        before = self._times.enter(HEAD)
        self._head.on_watermark(timestamp_ms)
        self._times.leave(before)

    def change_status(self, idle: bool) -> None:
        self._head.on_idle(idle)

    def end_input(self, input_index: int) -> None:
        before = self._times.enter(HEAD)
        self._head.end_input(input_index)
        self._times.leave(before)

    def on_operator_event(self, event: OperatorEvent) -> None:
        """Delivers an event of a coordinator to its operator. Raises ``InternalError`` when the chain has no such operator."""
        for operator, spec in zip(self._operators, self._specs, strict=True):
            if spec.operator_id == event.operator_id:
                operator.on_operator_event(event)
                return
        raise InternalError(
            f"an event of a coordinator is for operator {event.operator_id}, which is not among those of this subtask: "
            f"{', '.join(spec.operator_id for spec in self._specs)}"
        )

    def on_user_event(self, event: UserEvent, edge: int) -> None:
        before = self._times.enter(HEAD)
        self._head.on_user_event(event, self._inputs[edge].input_index)
        self._times.leave(before)

    def on_task_event(self, edge_id: int, payload: bytes) -> None:
        """Delivers an event that a consumer of this outgoing edge sent upstream."""
        if self._task_events is not None:
            self._task_events.on_arrived(edge_id, payload)

    def finish(self) -> Finishing:
        """Finishes the operators at the end of data, from the head on; each emits what it still holds. Must be called until it returns DONE."""
        while self._finished < len(self._operators):
            operator, before = self._operators[self._finished], self._times.enter(self._finished)
            is_waited_for = operator.ending() is Ending.IN_FLIGHT
            emitted = is_waited_for and operator.emit_some()
            if not is_waited_for:
                self._finish(operator)
            self._times.leave(before)
            if is_waited_for:
                return Finishing.WORKING if emitted else Finishing.WAITING
        return Finishing.DONE

    def _finish(self, operator: Operator) -> None:
        if self._finished:
            operator.end_input(0)
        operator.finish()
        operator.context.has_ended = True
        self._finished += 1

    def suspend(self) -> None:
        """Ends the chain of a job that is stopped without draining: emits what operators hold for the sake of larger batches, and finishes none of them."""
        self.flush()
        for operator in self._operators:
            operator.suspend()
            operator.context.has_ended = True

    def flush(self) -> None:
        """Emits what operators hold for the sake of larger batches."""
        self.prepare_snapshot(NO_CHECKPOINT)

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        for position, operator in enumerate(self._operators):
            before = self._times.enter(position)
            operator.prepare_snapshot(checkpoint_id)
            self._times.leave(before)

    def freeze(
        self, checkpoint_id: int, timestamp_ms: int, options: CheckpointOptions | None = None
    ) -> list[tuple[OperatorId, FrozenState]]:
        """Freezes the state of every operator for a checkpoint. The caller must release each state; if this raises, they are already released."""
        frozen: list[tuple[OperatorId, FrozenState]] = []
        try:
            for position, (operator, spec) in enumerate(zip(self._operators, self._specs, strict=True)):
                operator.context.checkpoint_timestamp_ms = timestamp_ms
                operator.context.checkpoint_options = options
                before = self._times.enter(position)
                try:
                    state = operator.freeze(checkpoint_id)
                finally:
                    self._times.leave(before)
                if state is not None:
                    frozen.append((spec.operator_id, state))
        except BaseException:
            for _, state in frozen:
                state.release()
            raise
        return frozen

    def notify_complete(self, checkpoint_id: int, before_each: Callable[[str], None]) -> None:
        for position, (operator, spec) in enumerate(zip(self._operators, self._specs, strict=True)):
            before_each(spec.name)
            before = self._times.enter(position)
            operator.notify_checkpoint_complete(checkpoint_id)
            self._times.leave(before)

    def notify_aborted(self, checkpoint_id: int) -> None:
        for operator in self._operators:
            operator.notify_checkpoint_aborted(checkpoint_id)

    def has_room(self) -> bool:
        """Tells whether the chain accepts further input. Behind channels an operator that waits for a barrier gets the input in front of it: it would wait
        for ever. A source is triggered without any.
        """
        return all(op.has_room() or (bool(self._inputs) and op.waits_for_barrier()) for op in self._operators)

    def ending(self) -> Ending:
        """Returns what the end of the subtask waits for, once its data has ended. After a stop without draining, elements in flight do not count: they are in
        the snapshot.
        """
        endings = (operator.ending() for operator in self._operators)
        return min((ending for ending in endings if ending is not Ending.IN_FLIGHT), default=Ending.DONE)

    def close(self) -> list[BaseException]:
        """Closes every operator that was set up, even if others fail. Returns the errors."""
        errors: list[BaseException] = []
        closing: list[Operator | KeyFunction] = [*self._open_keys, *self._set_up]
        self._open_keys, self._set_up = [], []
        while closing:
            try:
                closing.pop().close()
            except TaskInterrupted:
                raise
            except BaseException as error:  # noqa: BLE001  user functions among them, which may raise a KeyboardInterrupt
                errors.append(error)
        return errors
