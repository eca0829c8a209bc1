"""``OperatorHarness``: a piece of a job, run in the test's own thread, with time and checkpoints in the test's hands.

    push ─▶ operator ─▶ operator ─▶ output, side outputs, watermarks
              └ state: snapshot() ─▶ HarnessSnapshot ─▶ the ``restore`` of another harness

It builds the piece as ``env.execute`` would, and runs the operators of the runtime, each as one subtask that has all key
groups; exchanges between them are calls. (Flink: ``KeyedOneInputStreamOperatorTestHarness.java`` and its siblings.)
"""

from __future__ import annotations

import queue
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType

from tidegate.aio.async_calls import AsyncCalls
from tidegate.common.typeinfo import TypeInformation
from tidegate.datastream import DataStream, OutputTag, StreamExecutionEnvironment
from tidegate.datastream._graph.job_graph_builder import BuiltJob
from tidegate.model.channel_events import UserEvent
from tidegate.model.checkpoint import OperatorSnapshot, RestoredOperator
from tidegate.model.errors import InvalidJob, Misuse
from tidegate.model.ids import AttemptId, JobId, OperatorId, VertexId
from tidegate.model.program import OperatorSpec
from tidegate.model.values import Json, Record
from tidegate.model.whole_numbers import whole_number
from tidegate.records.batch import Batch, RecordsBatch
from tidegate.records.record_copy import record_copy, reuses_objects
from tidegate.taskmanager.harness.environment import Counts, HandClock, HandTimers, MemoryStore
from tidegate.taskmanager.machines.watermarks import AdvanceWatermark, WatermarkArrived, WatermarkValve
from tidegate.taskmanager.operators.operator import BackgroundCalls, Coordination, Ending, Operator, OperatorContext
from tidegate.taskmanager.runtime.conversion import BothShapes
from tidegate.taskmanager.runtime.operator_factory import make_operator
from tidegate.taskmanager.runtime.outputs import ChainOutput, serve
from tidegate.taskmanager.state.ports import OperatorRestore
from tidegate.wire.user_events import user_event, value_of

MAX_PARALLELISM = 128
ASYNC_TIMEOUT_S = 60.0
"""Seconds to wait for asynchronous results. Chosen, not measured: a test whose coroutine takes longer has failed."""
_JOB, _VERTEX = JobId("0" * 32), VertexId("1" * 32)


@dataclass(frozen=True, slots=True)
class HarnessSnapshot:
    """The state of every operator, by its id. It is restored by operators with the same ``uid`` or place in the graph."""

    checkpoint_id: int
    operators: Mapping[OperatorId, OperatorSnapshot]


@dataclass
class _Collected:
    """The end of the tested piece of a job: stores what arrives."""

    takes_records = True

    values: list[Record] = field(default_factory=list)
    timestamps: list[int | None] = field(default_factory=list)
    watermarks: list[int] = field(default_factory=list)
    events: list[object] = field(default_factory=list)

    def accept(self, batch: BothShapes) -> None:
        records = batch.checked_records()
        self.values += records.values
        self.timestamps += records.timestamps or [None] * len(records)

    def watermark(self, timestamp_ms: int) -> None:
        self.watermarks.append(timestamp_ms)

    def idle(self, idle: bool) -> None:
        """Ignores idleness, as no operator follows."""

    def event(self, event: UserEvent) -> None:
        self.events.append(value_of(event))


class _SideKeeping(ChainOutput):
    """An output that also stores its side outputs, wherever they go."""

    def __init__(self, spec: OperatorSpec, sides: dict[str, list[Record]], *, reuses_objects: bool) -> None:
        super().__init__(spec.name, spec.output_type, reuses_objects=reuses_objects)
        self._kept = sides

    def emit_side(self, tag: str, batch: Batch) -> None:
        rows = self.side_copies.all(batch.values) if isinstance(batch, RecordsBatch) else batch.data.to_pylist()
        self._kept.setdefault(tag, []).extend(rows)
        super().emit_side(tag, batch)


class _Input:
    """An input of an operator. With several inputs event time is the lowest of them (``StatusWatermarkValve``)."""

    def __init__(self, operator: Operator, valve: WatermarkValve, channel: int, index: int) -> None:
        self._operator, self._valve, self._channel, self._index = operator, valve, channel, index
        self.takes_records = operator.works_on != "arrow"

    def accept(self, batch: BothShapes) -> None:
        self._operator.process(batch.wanted_by(self._operator.works_on), self._index)

    def watermark(self, timestamp_ms: int) -> None:
        for command in self._valve.on(WatermarkArrived(self._channel, timestamp_ms), now_ms=0):
            if isinstance(command, AdvanceWatermark):
                self._operator.on_watermark(command.timestamp_ms)

    def idle(self, idle: bool) -> None:
        self._operator.on_idle(idle)

    def event(self, event: UserEvent) -> None:
        self._operator.on_user_event(event, self._index)


class OperatorHarness:
    """Runs a piece of a job for a test, in the test's own thread.

    ``piece`` takes one stream for each of ``input_types``, and returns the stream whose records are tested::

        with OperatorHarness(lambda s: s.key_by(itemgetter(0)).process(Count(), Types.LONG()), Types.TUPLE([...])) as h:
            h.push(("a", 1), timestamp=1_000)
            h.push_watermark(5_000)
            assert h.take() == [1]

    Raises what ``env.execute`` would raise while it builds the job, and what user functions raise. ``restore``: a snapshot
    to start from. ``configuration``: texts by key, such as ``{"state.backend.type": "rocksdb"}``.
    """

    def __init__(
        self,
        piece: Callable[..., DataStream],
        *input_types: TypeInformation,
        restore: HarnessSnapshot | None = None,
        configuration: Mapping[str, str] | None = None,
        processing_time: int = 0,
    ) -> None:
        if not input_types:
            raise Misuse(
                "OperatorHarness: after the function that builds the stream, give the type of each of its inputs"
            )
        self._types = input_types
        self._configuration = dict(configuration or {})
        self._reuses = reuses_objects(self._configuration)
        self._clock = HandClock(_whole("processing_time", processing_time))
        self._timers = HandTimers(self._clock)
        self._counts = Counts()
        self._end = _Collected()
        self._taken = 0
        self._task_events: list[object] = []
        self._sides: dict[str, list[Record]] = {}
        self._operators: dict[OperatorId, Operator] = {}
        self._entries: list[list[_Input | _Collected]] = [[] for _ in input_types]
        self._last_checkpoint_id = restore.checkpoint_id if restore else 0
        self._is_closed = False
        self._mails: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._assemble(_built(piece, input_types), restore)
        for operator in reversed(self._operators.values()):
            operator.open()

    def __enter__(self) -> OperatorHarness:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- what goes in ---------------------------------------------------------------------------------

    def push(self, record: Record, timestamp: int | None = None, input: int = 0) -> None:
        """Processes one record, with its event time in ms."""
        self.push_all([record], None if timestamp is None else [timestamp], input)

    def push_all(self, records: Iterable[Record], timestamps: Iterable[int] | None = None, input: int = 0) -> None:
        """Processes several records as one batch."""
        copies = record_copy(self._types[input], f"input {input}", reuses_objects=self._reuses)
        values = [copies.copy(record) for record in records]
        stamps: list[int | None] | None = None
        if timestamps is not None:
            stamps = [None if ms is None else _whole("push", ms) for ms in timestamps]
        batch = BothShapes(RecordsBatch(values, stamps), self._types[input], f"input {input}")
        if self._entries[input]:
            serve(self._entries[input], batch, copies)

    def push_watermark(self, timestamp: int, input: int = 0) -> None:
        """Advances the event time of an input to ``timestamp`` (ms): timers and windows up to there fire. Raises ``InvalidJob`` for what is no whole number, as
        ``push`` does.
        """
        watermark = _whole("push_watermark", timestamp)
        for entry in self._entries[input]:
            entry.watermark(watermark)

    def push_event(self, event: object, input: int = 0) -> None:
        """Sends an event downstream, of a registered type."""
        for entry in self._entries[input]:
            entry.event(user_event(event))

    def push_task_event(self, event: object) -> None:
        """Sends an event upstream from the end of the tested operators: the last function that listens takes it."""
        sent = user_event(event)
        for operator in reversed(self._operators.values()):
            if operator.on_task_event(sent):
                return

    def advance_processing_time(self, to: int) -> None:
        """Sets the clock (ms), and fires the processing-time timers up to there, in their order."""
        self._timers.advance_to(_whole("advance_processing_time", to))

    def finish(self) -> None:
        """Ends all input: what is held back is emitted, and asynchronous calls are waited for."""
        for operator in self._operators.values():
            while operator.ending() is Ending.IN_FLIGHT:
                if not operator.emit_some():
                    self._mails.get(timeout=ASYNC_TIMEOUT_S)()
            operator.finish()

    def wait_for_output(self, count: int) -> list[Record]:
        """Waits until so many records are in ``output``, for asynchronous calls; returns it. Raises ``queue.Empty`` after a minute."""
        while len(self._end.values) < count:
            self._mails.get(timeout=ASYNC_TIMEOUT_S)()
        return self.output

    # --- what comes out -------------------------------------------------------------------------------

    @property
    def output(self) -> list[Record]:
        """All records that were emitted, in order."""
        return list(self._end.values)

    @property
    def timestamps(self) -> list[int | None]:
        """The event times of ``output``."""
        return list(self._end.timestamps)

    @property
    def watermarks(self) -> list[int]:
        """The watermarks that were emitted."""
        return list(self._end.watermarks)

    @property
    def events(self) -> list[object]:
        """The events that were emitted downstream."""
        return list(self._end.events)

    @property
    def task_events(self) -> list[object]:
        """The events that functions have sent upstream, beyond the tested operators."""
        return list(self._task_events)

    @property
    def metrics(self) -> Mapping[str, float]:
        """The metrics of operators and user functions, by name."""
        return self._counts.all_values()

    @property
    def accumulators(self) -> Mapping[str, Json]:
        """The results of the accumulators of user functions, by name."""
        return self._counts.accumulated()

    def take(self) -> list[Record]:
        """Returns the records that were emitted since the last call."""
        found = self._end.values[self._taken :]
        self._taken = len(self._end.values)
        return found

    def side_output(self, tag: OutputTag) -> list[Record]:
        """Returns all records that were emitted to a side output."""
        return list(self._sides.get(tag.tag_id, ()))

    # --- checkpoints ----------------------------------------------------------------------------------

    def snapshot(self, checkpoint_id: int | None = None) -> HarnessSnapshot:
        """Takes a checkpoint of all operators. Ids grow by one unless one is given."""
        number = self._last_checkpoint_id + 1 if checkpoint_id is None else checkpoint_id
        self._last_checkpoint_id = number
        for operator in self._operators.values():
            operator.prepare_snapshot(number)
        return HarnessSnapshot(number, {key: _written(operator, number) for key, operator in self._operators.items()})

    def confirm(self, checkpoint_id: int | None = None) -> None:
        """Confirms the last snapshot, or the one that is named (``notify_checkpoint_complete``)."""
        for operator in self._operators.values():
            operator.notify_checkpoint_complete(checkpoint_id or self._last_checkpoint_id)

    def close(self) -> None:
        """Closes all functions. A second call does nothing."""
        if not self._is_closed:
            self._is_closed = True
            for operator in self._operators.values():
                operator.close()

    # --- inside ---------------------------------------------------------------------------------------

    def _assemble(self, job: BuiltJob, restore: HarnessSnapshot | None) -> None:
        specs, calls = _flattened(job)
        outputs = {
            spec.operator_id: _SideKeeping(spec, self._sides, reuses_objects=self._reuses)
            for spec in specs
            if _is_of_the_piece(spec)
        }
        sources = [spec.operator_id for spec in sorted(specs, key=_input_number) if spec.kind == "source"]
        for spec in specs:
            if _is_of_the_piece(spec):
                self._operators[spec.operator_id] = self._started(spec, outputs[spec.operator_id], restore)
        called = Counter(call.target for call in calls)
        valves = {key: WatermarkValve(called[key]) for key in self._operators}
        channels: Counter[OperatorId] = Counter()
        for call in calls:
            target: _Input | _Collected = self._end
            if call.target in self._operators:
                target = _Input(
                    self._operators[call.target], valves[call.target], channels[call.target], call.input_index
                )
                channels[call.target] += 1
            if call.source in outputs:
                outputs[call.source].add(target, call.tag, call.type_info)
            else:
                self._entries[sources.index(call.source)].append(target)

    def _started(self, spec: OperatorSpec, output: ChainOutput, restore: HarnessSnapshot | None) -> Operator:
        found = restore.operators.get(spec.operator_id) if restore else None
        operator = make_operator(spec)
        operator.setup(
            OperatorContext(
                attempt=AttemptId(_JOB, _VERTEX, 0, self._last_checkpoint_id),
                operator_id=spec.operator_id,
                operator_name=spec.name,
                job_name="harness",
                task_name=spec.name,
                parallelism=1,
                max_parallelism=MAX_PARALLELISM,
                output=output,
                clock=self._clock,
                timers=self._timers,
                metrics=self._counts,
                configuration=self._configuration,
                output_type=spec.output_type,
                restore=OperatorRestore(restore.checkpoint_id, "", _restored(found), MemoryStore())
                if restore and found
                else None,
                background=BackgroundCalls(open_async_calls=lambda ready: AsyncCalls(lambda: self._mails.put(ready))),
                coordination=Coordination(send_task_event=lambda event, _: self._task_events.append(value_of(event))),
            )
        )
        return operator


def _whole(call: str, ms: int) -> int:
    return whole_number(ms, f"OperatorHarness: {call}")


@dataclass(frozen=True, slots=True)
class _Call:
    """A connection by which records of ``source`` go to an input of ``target``."""

    source: OperatorId
    target: OperatorId
    input_index: int = 0
    tag: str = ""
    type_info: TypeInformation | None = None


def _built(piece: Callable[..., DataStream], types: tuple[TypeInformation, ...]) -> BuiltJob:
    env = StreamExecutionEnvironment()
    env.set_parallelism(1)
    streams = [env.from_collection([], kind).name(f"input {index}") for index, kind in enumerate(types)]
    result = piece(*streams)
    if not isinstance(result, DataStream):
        raise InvalidJob(f"OperatorHarness: the function must return a DataStream, not {type(result).__name__}")
    result.print()
    return env.build("harness")


def _flattened(job: BuiltJob) -> tuple[list[OperatorSpec], list[_Call]]:
    """Returns all operators, each before those that take its output, and the connections between them, within chains and across."""
    specs: list[OperatorSpec] = []
    calls: list[_Call] = []
    emitting: dict[int, tuple[OperatorId, str, TypeInformation]] = {}
    programs = [job.programs[vertex.vertex_id] for vertex in job.graph.vertices]
    for program in programs:
        for out in program.outputs:
            emitting[out.edge_id] = (program.operators[out.operator].operator_id, out.tag, out.type_info)
    for program in programs:
        specs += program.operators
        for link in program.links:
            source, target = program.operators[link.source], program.operators[link.target]
            calls.append(
                _Call(source.operator_id, target.operator_id, 0, link.tag, next(iter(target.input_types), None))
            )
        for one in program.inputs:
            operator_id, tag, type_info = emitting[one.edge_id]
            calls.append(_Call(operator_id, program.operators[0].operator_id, one.input_index, tag, type_info))
    return specs, calls


def _is_of_the_piece(spec: OperatorSpec) -> bool:
    return spec.kind not in ("source", "sink")


def _input_number(spec: OperatorSpec) -> int:
    return int(spec.name.rpartition(" ")[2]) if spec.kind == "source" else -1


def _written(operator: Operator, checkpoint_id: int) -> OperatorSnapshot:
    frozen = operator.freeze(checkpoint_id)
    if frozen is None:
        return OperatorSnapshot()
    try:
        return frozen.write(MemoryStore())
    finally:
        frozen.release()


def _restored(snapshot: OperatorSnapshot) -> RestoredOperator:
    slices = tuple((0, handle.elements) for handle in snapshot.operator)
    return RestoredOperator(keyed=snapshot.keyed, operator=snapshot.operator, slices=slices)
