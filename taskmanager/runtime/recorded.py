"""Variants of a subtask's chain, and of its operators' clock and timers, that record calls for a replay (``tidegate.taskmanager.recording``).

They replace the ordinary ones when an attempt is made with a recorder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tidegate.model.channel_events import UserEvent
from tidegate.model.checkpoint import CheckpointOptions, StateHandle
from tidegate.model.coordinators.operator_events import OperatorEvent
from tidegate.model.errors import ErrorInfo, TidegateError, UserError
from tidegate.model.ids import OperatorId
from tidegate.model.program import VertexProgram
from tidegate.records.batch import ArrowBatch, Batch, to_wire
from tidegate.taskmanager.operators.operator import Clock, OperatorContext, ProcessingTimers
from tidegate.taskmanager.recording.calls import RecordedKind
from tidegate.taskmanager.recording.recorder import Recorder
from tidegate.taskmanager.runtime.chain import Finishing, OperatorChain
from tidegate.taskmanager.runtime.conversion import BothShapes
from tidegate.taskmanager.runtime.environment import SubtaskEnvironment
from tidegate.taskmanager.runtime.outputs import ChainOutput
from tidegate.taskmanager.state.ports import FrozenState

SOURCES = ("source", "enumerated_source")
"""Kinds of operators that read records themselves."""
_NOT_REPLAYED = (*SOURCES, "sink", "committer")


class RecordedClock:
    """A ``Clock`` of operators that records their readings."""

    def __init__(self, clock: Clock, recorder: Recorder) -> None:
        self._clock = clock
        self._recorder = recorder
        self.monotonic_ms = clock.monotonic_ms

    def now_ms(self) -> int:
        now_ms = self._clock.now_ms()
        self._recorder.read(now_ms)
        return now_ms


class RecordedTimers:
    """The ``ProcessingTimers`` of operators, which record the firing of a timer as a call."""

    def __init__(self, timers: ProcessingTimers, recorder: Recorder) -> None:
        self._timers = timers
        self._recorder = recorder

    def schedule(self, at_ms: int, callback: Callable[[int], None]) -> object:
        recorder = self._recorder

        def recorded(due_ms: int) -> None:
            recorder.enter(RecordedKind.TIMER, due_ms)
            try:
                callback(due_ms)
            finally:
                recorder.leave()

        return self._timers.schedule(at_ms, recorded)

    def cancel(self, token: object) -> None:
        self._timers.cancel(token)


class RecordedChain(OperatorChain):
    """An operator chain that records each call before it is made."""

    def __init__(self, *args: Any, recorder: Recorder, clock: Clock, **named: Any) -> None:
        super().__init__(*args, **named)
        self._recorder = recorder
        self._now_ms = clock.now_ms

    def process(self, batch: ArrowBatch, edge: int) -> None:
        self._recorder.enter_with(RecordedKind.PROCESS, edge, to_wire(batch))
        try:
            super().process(batch, edge)
        finally:
            self._recorder.leave()

    def advance_watermark(self, timestamp_ms: int) -> None:
        self._recorder.enter(RecordedKind.WATERMARK, timestamp_ms)
        try:
            super().advance_watermark(timestamp_ms)
        finally:
            self._recorder.leave()
        self._recorder.place.watermark_ms = timestamp_ms

    def change_status(self, idle: bool) -> None:
        self._recorder.enter(RecordedKind.STATUS, int(idle))
        try:
            super().change_status(idle)
        finally:
            self._recorder.leave()
        self._recorder.place.is_idle = idle

    def end_input(self, input_index: int) -> None:
        self._recorder.enter(RecordedKind.END_INPUT, input_index)
        try:
            super().end_input(input_index)
        finally:
            self._recorder.leave()
        self._recorder.place.ended_inputs.append(input_index)

    def on_operator_event(self, event: OperatorEvent) -> None:
        self._recorder.enter(RecordedKind.COORDINATOR)
        try:
            super().on_operator_event(event)
        finally:
            self._recorder.leave()

    def on_user_event(self, event: UserEvent, edge: int) -> None:
        self._recorder.enter(RecordedKind.USER_EVENT, edge, 0, event.content)
        try:
            super().on_user_event(event, edge)
        finally:
            self._recorder.leave()

    def on_task_event(self, edge_id: int, payload: bytes) -> None:
        self._recorder.enter(RecordedKind.TASK_EVENT, edge_id, 0, payload)
        try:
            super().on_task_event(edge_id, payload)
        finally:
            self._recorder.leave()

    def finish(self) -> Finishing:
        self._recorder.enter(RecordedKind.FINISH)
        try:
            return super().finish()
        finally:
            self._recorder.leave()

    def suspend(self) -> None:
        self._recorder.enter(RecordedKind.SUSPEND)
        try:
            super().suspend()
        finally:
            self._recorder.leave()

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        self._recorder.enter(RecordedKind.PREPARE, checkpoint_id)
        try:
            super().prepare_snapshot(checkpoint_id)
        finally:
            self._recorder.leave()

    def freeze(
        self, checkpoint_id: int, timestamp_ms: int, options: CheckpointOptions | None = None
    ) -> list[tuple[OperatorId, FrozenState]]:
        self._recorder.enter(RecordedKind.FREEZE, checkpoint_id, timestamp_ms)
        try:
            frozen = super().freeze(checkpoint_id, timestamp_ms, options)
        finally:
            self._recorder.leave()
        self._recorder.frozen(checkpoint_id, options, self._now_ms())
        return frozen

    def notify_complete(self, checkpoint_id: int, before_each: Callable[[str], None]) -> None:
        self._recorder.enter(RecordedKind.COMPLETED, checkpoint_id)
        try:
            super().notify_complete(checkpoint_id, before_each)
        finally:
            self._recorder.leave()
        self._recorder.completed(checkpoint_id)

    def notify_aborted(self, checkpoint_id: int) -> None:
        self._recorder.enter(RecordedKind.ABORTED, checkpoint_id)
        try:
            super().notify_aborted(checkpoint_id)
        finally:
            self._recorder.leave()


class RecordedOutput:
    """The output of a source at the head of a chain, which records the emitted batches and events as the input of a replay. Implements
    ``tidegate.taskmanager.operators.operator.Output``.
    """

    def __init__(self, inner: ChainOutput, recorder: Recorder, type_info: Any, name: str) -> None:
        self._inner = inner
        self._recorder = recorder
        self._type_info = type_info
        self._name = name

    def emit(self, batch: Batch) -> None:
        shapes = BothShapes(batch, self._type_info, self._name)
        self._recorder.enter_with(RecordedKind.EMIT, 0, to_wire(shapes.columns()))
        try:
            self._inner.emit(batch)
        finally:
            self._recorder.leave()

    def emit_side(self, tag: str, batch: Batch) -> None:
        self._inner.emit_side(tag, batch)

    def emit_watermark(self, timestamp_ms: int) -> None:
        self._recorder.enter(RecordedKind.EMIT_WATERMARK, timestamp_ms)
        try:
            self._inner.emit_watermark(timestamp_ms)
        finally:
            self._recorder.leave()
        self._recorder.place.watermark_ms = timestamp_ms

    def emit_idle(self, idle: bool) -> None:
        self._recorder.enter(RecordedKind.EMIT_STATUS, int(idle))
        try:
            self._inner.emit_idle(idle)
        finally:
            self._recorder.leave()

    def emit_event(self, event: UserEvent) -> None:
        self._recorder.enter(RecordedKind.EMIT_EVENT, 0, 0, event.content)
        try:
            self._inner.emit_event(event)
        finally:
            self._recorder.leave()


def record_contexts(
    contexts: Sequence[OperatorContext], program: VertexProgram, head_output: ChainOutput, recorder: Recorder
) -> None:
    """Gives operators a clock and timers that are recorded, except sources, sinks and committers, which a replay replaces. The output of a
    source at the head is recorded.
    """
    head = program.operators[0]
    if head.kind in SOURCES:
        contexts[0].output = RecordedOutput(head_output, recorder, head.output_type, head.name)
    for context, spec in zip(contexts, program.operators, strict=True):
        if spec.kind not in _NOT_REPLAYED:
            context.clock = RecordedClock(context.clock, recorder)
            context.timers = RecordedTimers(context.timers, recorder)


SendMail = Callable[[Callable[[], None]], None]


def recorded_mail(mail: SendMail | None, recorder: Recorder | None) -> SendMail | None:
    """Returns a function like ``mail`` that also records the calls when they are made; ``mail`` itself without a recorder."""
    if mail is None or recorder is None:
        return mail

    def recorded(call: Callable[[], None]) -> None:
        recorder.enter(RecordedKind.DEFERRED)
        try:
            call()
        finally:
            recorder.leave()

    return lambda call: mail(lambda: recorded(call))


def keep_failure(environment: SubtaskEnvironment, raised: UserError, info: ErrorInfo) -> None:
    """Keeps a failure with the recorded input before it, and adds to the details of ``raised`` how to replay it, or why it could not be kept."""
    keeper = environment.failures
    assert keeper is not None

    def read_state(location: str, handle: StateHandle) -> memoryview:
        return environment.open_segments(location).read(handle)

    try:
        raised.kept_failure = keeper.keep(info, environment.clock.now_ms(), read_state)
        kept = f"to run it again here, with the same records: tidegate replay {raised.kept_failure}"
    except TidegateError as error:
        kept = f"it was not kept for `tidegate replay`: {error.message}"
    except OSError as error:
        kept = f"it was not kept for `tidegate replay`: {error.filename}: {error.strerror}"
    raised.details = f"{raised.details.rstrip()}\n{kept}\n".lstrip()
