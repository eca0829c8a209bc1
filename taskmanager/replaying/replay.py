"""Replays a failure: the chain of the subtask is made from its checkpoint, and gets the calls that it got.

    failure ─▶ program, state ─▶ chain ─▶ call after call ─▶ the same exception?  └─▶ what differs from the recording is named

The last call is the one that failed: its records go in one by one, so that the one at which it fails is known.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tidegate.model.channel_events import NO_WATERMARK, UserEvent
from tidegate.model.errors import ErrorInfo, InvalidJob, TidegateError
from tidegate.model.options import ShownRecord
from tidegate.model.program import InputSpec, OperatorSpec, VertexProgram
from tidegate.model.values import Record
from tidegate.records.batch import ArrowBatch, from_wire
from tidegate.records.record_codec import decode
from tidegate.taskmanager.operators.operator import Operator
from tidegate.taskmanager.recording.calls import RecordedCall, RecordedKind, SegmentStart
from tidegate.taskmanager.recording.failures import Failure, KeptState, read_deployment
from tidegate.taskmanager.recording.segment_files import read_segment
from tidegate.taskmanager.replaying.chance import AskedForChance
from tidegate.taskmanager.replaying.surroundings import (
    Outputs,
    ParkedSink,
    PrintedPartition,
    RecordedSource,
    ReplayClock,
    ReplayTimers,
    same_text,
)
from tidegate.taskmanager.runtime.assembly import AssembledChain, ChainParts, assemble_chain
from tidegate.taskmanager.runtime.environment import RuntimeSettings, SubtaskEnvironment
from tidegate.taskmanager.runtime.failures import failure_info, show_record
from tidegate.taskmanager.runtime.measuring.subtask_metrics import TaskCounters
from tidegate.taskmanager.runtime.operator_factory import make_operator
from tidegate.taskmanager.runtime.recorded import SOURCES
from tidegate.wire.user_events import adopt_user_events

LAST_OUTPUTS = 5
"""Records of the output that are shown before a failure. Chosen: they fit a screen."""
MOST_DIFFERENCES = 5
"""Differences between a recording and its replay that are shown. Chosen: the first ones are the cause of the others."""
_REFUSED: Mapping[str, str] = {
    "async_batches": "it calls coroutines, whose answers are not recorded",
    "async_wait": "it calls coroutines, whose answers are not recorded",
    "committer": "it commits what a sink has written",
}
_OF_CHECKPOINTS = (RecordedKind.FREEZE, RecordedKind.COMPLETED, RecordedKind.ABORTED)
"""Calls in which a backend whose state was restored asks for the time otherwise than one that went on."""


@dataclass(frozen=True, slots=True)
class Step:
    """One record at the head of the chain, before it is processed. ``number`` counts from the checkpoint, from 1."""

    number: int
    value: Record
    batch: ArrowBatch
    input_index: int
    program: VertexProgram
    chain: AssembledChain


class Observer(Protocol):
    """Observes a replay, record by record."""

    def wants(self, number: int) -> bool:
        """Returns whether it observes this record. Observed records are processed one at a time, the others in their recorded batches."""

    def process(self, step: Step, call: Callable[[], None]) -> None:
        """Processes the record by ``call()``, which must be called once."""


@dataclass(slots=True)
class ReplayOutcome:
    """The result of a replay."""

    reproduced: bool = False
    """Whether it ended with the exception of the original, in the same call."""
    raised: BaseException | None = None
    error: ErrorInfo | None = None
    """``None``: it did not fail."""
    at: str = ""
    """Describes the call in which it failed, for people."""
    record: int | None = None
    """Number of the record at which it failed; ``None``: not at a record, or not at one alone."""
    value: Record = None
    records: int = 0
    outputs: Outputs = field(default_factory=lambda: Outputs(LAST_OUTPUTS))
    differences: list[str] = field(default_factory=list)
    """Descriptions of the differences between the recording and the replay."""
    chance: list[str] = field(default_factory=list)
    """Descriptions of calls of user code to the system clock and to random generators."""

    @property
    def shown_value(self) -> str:
        """Returns the beginning of the record at which it failed; empty if it failed at none."""
        return "" if self.record is None else show_record(self.value)

    @property
    def shown_outputs(self) -> list[str]:
        """Returns the last few emitted records as texts, each with the name of its operator or sink."""
        return [f"{place}: {show_record(record)}" for place, record in self.outputs.last]

    @property
    def user_error(self) -> BaseException | None:
        """Returns the exception as user code raised it."""
        raised = self.raised
        while isinstance(raised, TidegateError) and raised.__cause__ is not None:
            raised = raised.__cause__
        return raised


def refusal(program: VertexProgram) -> str:
    """Returns the reason why a program cannot be replayed; empty: it can."""
    for spec in program.operators:
        if spec.kind in _REFUSED:
            return f"operator '{spec.name}' cannot be replayed: {_REFUSED[spec.kind]}"
        if spec.options.batch_inputs:
            return f"operator '{spec.name}' cannot be replayed: it is of a job in BATCH mode, which is not recorded"
    return ""


class FailureReplay:
    """Replays a kept failure once. ``program``: the kept one, or a changed one with the same operators. ``directory``: for temporary files.

    ``observer``: gets each record that it wants. ``exact``: compares the replay with the recording; ``False`` for a changed program. ``examine``: is called
    after the failure, while all operators are still open.
    """

    def __init__(
        self,
        failure: Failure,
        program: VertexProgram,
        directory: Path,
        *,
        observer: Observer | None = None,
        exact: bool = True,
        examine: Callable[[ReplayOutcome], None] | None = None,
    ) -> None:
        """Raises ``InvalidJob`` for what cannot be replayed, ``CorruptData``."""
        if reason := failure.refused or refusal(program):
            raise InvalidJob(f"{failure.failure_id}: {reason}")
        self._failure = failure
        self._deployment = read_deployment(failure)
        self._program = program
        self._directory = directory
        self._observer = observer
        self._exact = exact
        self._examine = examine
        self._clock, self._timers = ReplayClock(), ReplayTimers()
        self._counters = TaskCounters()
        self._deferred: deque[Callable[[], None]] = deque()
        self._chance = AskedForChance()
        self.outcome = ReplayOutcome()
        self._source: RecordedSource | None = None
        self._is_compared = True
        """Whether the clock readings of the current call are compared: not those of a timer that only loaded restored state, which the replay may not have."""
        self._operators: list[Operator] = []
        """The operators of the chain that are not replaced in a replay."""
        self._assembled: AssembledChain | None = None

    @property
    def assembled(self) -> AssembledChain:
        assert self._assembled is not None
        return self._assembled

    def run(self) -> ReplayOutcome:
        """Runs from the checkpoint to the failure, or to the end of the recording, and returns the result.

        Raises ``CorruptData`` for a damaged recording, and the errors of restoring and opening the operators.
        """
        adopt_user_events(self._program.events)
        calls = self._calls()
        start = next(calls)
        assert isinstance(start, SegmentStart)
        self._clock.set(start.now_ms)
        self._assembled = self._assemble()
        chain = self._assembled.chain
        try:
            chain.setup(self._assembled.contexts)
            chain.open()
            self._catch_up(start)
            self._counters.records_out = start.emitted_before
            self._run(calls)
        finally:
            self.outcome.chance = self._chance.found
            chain.close()
        return self.outcome

    def _calls(self) -> Iterator[SegmentStart | RecordedCall]:
        """Yields the start of the first segment, then the calls of all segments in order. Raises ``InvalidJob`` when nothing was recorded."""
        for place, name in enumerate(self._failure.segments):
            start, calls = read_segment(self._failure.folder / "segments" / Path(name).name)
            if place == 0:
                yield start
            yield from calls
        if not self._failure.segments:
            raise InvalidJob(f"{self._failure.failure_id}: no input of this failure was recorded")

    def _run(self, calls: Iterator[SegmentStart | RecordedCall]) -> None:
        call = next(calls, None)
        while isinstance(call, RecordedCall):
            following = next(calls, None)
            if not self._replay(call, is_last=following is None):
                return
            call = following
        if self._exact:
            self._differs("the replay came to the end of the recording and did not fail")

    def _replay(self, call: RecordedCall, *, is_last: bool) -> bool:
        """Makes a recorded call and compares it with the recording. Returns whether the replay continues, which it does not after an exception."""
        outcome = self.outcome
        self._clock.begin(call.readings)
        self._is_compared = True
        try:
            with self._chance.watching():
                self._make(call, one_by_one=is_last)
        except Exception as raised:  # noqa: BLE001  it is what the replay is for
            outcome.raised = raised
            outcome.error = failure_info(raised, self._failure.label, self._shown())
            outcome.at = outcome.at or _words(call)
            is_same = same_text(outcome.error.message, self._failure.message)
            outcome.reproduced = is_last and is_same
            if self._exact and not is_last:
                self._differs(f"it failed earlier than the original: {outcome.at}")
            if self._exact and not is_same:
                self._differs(f"it failed otherwise; the original: {self._failure.message}")
            if self._examine is not None:
                self._examine(outcome)
            return False
        finally:
            self._clock.end()
        if self._exact and call.has_ended and not is_last:
            self._compare(call)
        return True

    def _compare(self, call: RecordedCall) -> None:
        emitted, clock = self._counters.records_out, self._clock
        if emitted != call.emitted:
            self._differs(
                f"{_words(call)}, up to record {self.outcome.records}: {call.emitted} records had left the subtask, in the replay {emitted}"
            )
            self._counters.records_out = call.emitted  # a later call is compared by itself
        if not self._is_compared or self._observer is not None or call.kind in _OF_CHECKPOINTS:
            return
        if clock.reads != clock.given:
            self._differs(
                f"{_words(call)}, up to record {self.outcome.records}: the clock was asked {clock.given} times, in the replay {clock.reads} times"
            )

    def _differs(self, text: str) -> None:
        if len(self.outcome.differences) < MOST_DIFFERENCES:
            self.outcome.differences.append(text)

    def _make(self, call: RecordedCall, *, one_by_one: bool) -> None:
        chain = self.assembled.chain
        match call.kind:
            case RecordedKind.PROCESS | RecordedKind.EMIT:
                assert call.batch is not None
                self._process(call, from_wire(call.batch), one_by_one=one_by_one)
            case RecordedKind.WATERMARK:
                chain.advance_watermark(call.first)
            case RecordedKind.STATUS:
                chain.change_status(bool(call.first))
            case RecordedKind.END_INPUT:
                chain.end_input(call.first)
            case RecordedKind.USER_EVENT:
                chain.on_user_event(UserEvent(call.body), call.first)
            case RecordedKind.TASK_EVENT:
                chain.on_task_event(call.first, call.body)
            case RecordedKind.FINISH:
                chain.finish()
            case RecordedKind.SUSPEND:
                chain.suspend()
            case RecordedKind.PREPARE:
                chain.prepare_snapshot(call.first)
            case RecordedKind.FREEZE:
                for _, state in chain.freeze(call.first, call.second):
                    state.release()
            case RecordedKind.COMPLETED:
                chain.notify_complete(call.first, lambda _: None)
            case RecordedKind.ABORTED:
                chain.notify_aborted(call.first)
            case RecordedKind.TIMER:
                self._is_compared = self._timers.fire(call.first)
            case RecordedKind.DEFERRED:
                if self._deferred:
                    self._deferred.popleft()()
            case RecordedKind.EMIT_WATERMARK:
                self.assembled.head_output.emit_watermark(call.first)
            case RecordedKind.EMIT_STATUS:
                self.assembled.head_output.emit_idle(bool(call.first))
            case RecordedKind.EMIT_EVENT:
                self.assembled.head_output.emit_event(UserEvent(call.body))
            case _:
                pass  # events of a coordinator are for sources, which are not replayed

    def _process(self, call: RecordedCall, batch: ArrowBatch, *, one_by_one: bool) -> None:
        rows, outcome = len(batch), self.outcome
        before = outcome.records
        looked_at = {
            row for row in range(rows) if self._observer is not None and self._observer.wants(before + row + 1)
        }
        alone = one_by_one and self._works_on_records()
        place = 0
        while place < rows:
            if alone or place in looked_at:
                stop = place + 1
            else:
                stop = next((row for row in range(place, rows) if row in looked_at), rows)
            part = batch if stop - place == rows else batch.slice(place, stop)
            outcome.records = before + stop
            try:
                self._process_part(call, part, before + place + 1, is_observed=place in looked_at)
            except Exception:
                outcome.at = _at(before + place + 1, before + stop)
                if stop == place + 1:
                    outcome.record, outcome.value = before + stop, self._value(call, part)
                raise
            place = stop

    def _process_part(self, call: RecordedCall, part: ArrowBatch, number: int, *, is_observed: bool) -> None:
        def make() -> None:
            if call.kind is RecordedKind.PROCESS:
                self.assembled.chain.process(part, call.first)
            else:
                self.assembled.head_output.emit(part)

        if self._observer is None or not is_observed:
            make()
            return
        index = self._program.inputs[0].input_index if self._program.inputs else 0
        if call.kind is RecordedKind.PROCESS:
            index = self._input(call.first).input_index
        self._observer.process(Step(number, self._value(call, part), part, index, self._program, self.assembled), make)

    def _works_on_records(self) -> bool:
        """Returns whether all operators process single records, so that a batch can be split without changing what functions get."""
        return all(operator.works_on_records() for operator in self._operators)

    def _value(self, call: RecordedCall, part: ArrowBatch) -> Record:
        head = self._program.operators[0]
        type_info = self._input(call.first).type_info if call.kind is RecordedKind.PROCESS else head.output_type
        return decode(type_info, part.data, head.name)[0]

    def _input(self, edge: int) -> InputSpec:
        edge_id = self._deployment.inputs[edge].edge_id
        return next(spec for spec in self._program.inputs if spec.edge_id == edge_id)

    def _catch_up(self, start: SegmentStart) -> None:
        """Restores the watermark, idleness and ended inputs of the recording's start, which no checkpoint contains."""
        chain = self.assembled.chain
        if start.watermark_ms != NO_WATERMARK:
            if self._source is None:
                chain.advance_watermark(start.watermark_ms)
            else:
                self.assembled.head_output.emit_watermark(start.watermark_ms)
        if start.is_idle and self._source is None:
            chain.change_status(True)
        for index in start.ended_inputs:
            chain.end_input(index)

    def _assemble(self) -> AssembledChain:
        failure, outputs = self._failure, self.outcome.outputs
        specs = {spec.edge_id: spec for spec in self._program.outputs}
        partitions = {
            output.edge_id: PrintedPartition(
                specs[output.edge_id], outputs, self._program.operators[specs[output.edge_id].operator].name
            )
            for output in self._deployment.outputs
            if output.edge_id in specs
        }
        environment = SubtaskEnvironment(listen="", temp_dir=str(self._directory), clock=self._clock)
        parts = ChainParts(
            deployment=self._deployment,
            environment=environment,
            clock=self._clock,
            timers=self._timers,
            counters=self._counters,
            segments=KeptState(failure.folder),
            run_async=_at_once,
            mail=self._deferred.append,
            send_task_event=lambda event, index: None,
            make=self._make_operator,
        )
        return assemble_chain(self._program, partitions, parts)

    def _make_operator(self, spec: OperatorSpec) -> Operator:
        if spec.kind in SOURCES:
            self._source = RecordedSource()
            return self._source
        if spec.kind == "sink":
            return ParkedSink(spec.name, self.outcome.outputs)
        made = make_operator(spec)
        self._operators.append(made)
        return made

    def _shown(self) -> ShownRecord:
        return RuntimeSettings.of(self._deployment.configuration).shown_record


def _at_once(work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
    work()
    done(None)


def _at(first: int, last: int) -> str:
    return f"at record {first}" if first == last else f"at one of the records {first} to {last}"


_WORDS = {
    RecordedKind.WATERMARK: "at the watermark {}",
    RecordedKind.EMIT_WATERMARK: "at the watermark {}",
    RecordedKind.TIMER: "at the timer in processing time of {}",
    RecordedKind.PREPARE: "before the snapshot of checkpoint {}",
    RecordedKind.FREEZE: "at the snapshot of checkpoint {}",
    RecordedKind.COMPLETED: "when checkpoint {} was complete",
    RecordedKind.ABORTED: "when checkpoint {} was given up",
    RecordedKind.FINISH: "at the end of the data",
    RecordedKind.SUSPEND: "when the job was stopped",
    RecordedKind.END_INPUT: "at the end of input {}",
    RecordedKind.USER_EVENT: "at a user event",
    RecordedKind.TASK_EVENT: "at an event against the stream",
    RecordedKind.EMIT_EVENT: "at a user event",
    RecordedKind.DEFERRED: "at an event against the stream",
}


def _words(call: RecordedCall) -> str:
    if call.batch is not None:
        return f"in a batch of {call.batch.num_rows} records"
    return _WORDS.get(call.kind, f"in the call {call.kind.name}").format(call.first)
