"""An operator outside any runtime: what it emits is kept, its clock is set by hand, its snapshots stay in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import pyarrow as pa

from tidegate.model.accumulators import Accumulator
from tidegate.model.channel_events import UserEvent
from tidegate.model.checkpoint import OperatorSnapshot, RestoredOperator, StateHandle, StateRedistribution
from tidegate.model.errors import TidegateError
from tidegate.model.ids import AttemptId, JobId, OperatorId, VertexId
from tidegate.model.program import OperatorOptions, OperatorSpec
from tidegate.operator_options import make_options
from tidegate.records.batch import ArrowBatch, Batch, RecordsBatch
from tidegate.taskmanager.harness import environment
from tidegate.taskmanager.harness.environment import HandClock, HandTimers
from tidegate.taskmanager.operators.operator import BackgroundCalls, Coordination, Operator, OperatorContext, Resources
from tidegate.taskmanager.runtime.operator_factory import make_operator
from tidegate.taskmanager.state.ports import OperatorRestore

CONFIGURATION: dict[str, str] = {}
"""Of operators that are started without one; see ``keyed_kit.backends``."""


class MemoryStore(environment.MemoryStore):
    """What was written stays, to be looked at."""

    def __init__(self) -> None:
        self.contents: list[bytes] = []

    def write(self, name_hint: str, parts: Iterable[bytes | memoryview], *, is_shared: bool = False) -> StateHandle:
        handle = super().write(name_hint, parts, is_shared=is_shared)
        assert handle.data is not None
        self.contents.append(handle.data)
        return handle


class Recorder:
    """Output and metrics."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.sides: dict[str, list[Batch]] = {}
        self.watermarks: list[int] = []
        self.idle: list[bool] = []
        self.counts: dict[str, int] = {}
        self.gauges: dict[str, float] = {}
        self.watched: dict[str, Callable[[], float]] = {}
        self.accumulators: dict[str, Accumulator[Any, Any]] = {}
        self.order: list[str] = []

    def emit(self, batch: Batch) -> None:
        self.batches.append(batch)
        self.order.append("batch")

    def emit_side(self, tag: str, batch: Batch) -> None:
        self.sides.setdefault(tag, []).append(batch)

    def emit_watermark(self, timestamp_ms: int) -> None:
        self.watermarks.append(timestamp_ms)
        self.order.append("watermark")

    def emit_idle(self, idle: bool) -> None:
        self.idle.append(idle)

    def emit_event(self, event: UserEvent) -> None:
        self.order.append("event")

    def add(self, name: str, amount: int = 1) -> None:
        self.counts[name] = self.counts.get(name, 0) + amount

    def gauge(self, name: str, value: float) -> None:
        self.gauges[name] = value

    def watch(self, name: str, read: Callable[[], float]) -> None:
        self.watched[name] = read

    def accumulate(self, name: str, accumulator: Accumulator[Any, Any]) -> None:
        self.accumulators[name] = accumulator

    def values(self) -> list[Any]:
        return values_of(self.batches)

    def stamps(self) -> list[int | None]:
        found: list[int | None] = []
        for batch in self.batches:
            if isinstance(batch, ArrowBatch):
                found += [None] * len(batch) if batch.timestamps is None else batch.timestamps.to_pylist()
            else:
                found += batch.timestamps or [None] * len(batch)
        return found

    def table(self) -> pa.Table:
        return pa.Table.from_batches([b.data for b in self.batches if isinstance(b, ArrowBatch)])


def values_of(batches: Sequence[Batch]) -> list[Any]:
    found: list[Any] = []
    for batch in batches:
        found += batch.values if isinstance(batch, RecordsBatch) else batch.data.to_pylist()
    return found


@dataclass
class HandAnswer:
    number: int
    result: Any = None
    error: Exception | None = None


class HandCalls:
    """Stands for the event loop: calls are answered by hand."""

    def __init__(self, ready: Callable[[], None]) -> None:
        self._ready = ready
        self.waiting: dict[int, dict[str, Any]] = {}
        self._answers: list[HandAnswer] = []
        self.closed = False

    def submit(self, number: int, invoke: Any, on_timeout: Any, **policy: Any) -> None:
        self.waiting[number] = {"invoke": invoke, "on_timeout": on_timeout, **policy}

    def answer(self, *numbers: int, result: Any = None, error: Exception | None = None) -> None:
        """Runs the coroutines of these calls, unless ``result`` or ``error`` is given; one mail for all."""
        for number in numbers:
            call = self.waiting.pop(number)
            found = asyncio.run(call["invoke"]()) if result is None and error is None else result
            self._answers.append(HandAnswer(number, found, error))
        self._ready()

    def take(self) -> list[HandAnswer]:
        found, self._answers = self._answers, []
        return found

    def close(self) -> None:
        self.closed = True


@dataclass
class Running:
    """One subtask of an operator, opened."""

    operator: Operator
    out: Recorder
    clock: HandClock
    timers: HandTimers
    calls: list[HandCalls] = field(default_factory=list)

    def feed(self, values: Sequence[Any], stamps: Sequence[int | None] | None = None, index: int = 0) -> None:
        self.operator.process(RecordsBatch(list(values), None if stamps is None else list(stamps)), index)

    def snapshot(self, checkpoint_id: int = 1, store: MemoryStore | None = None) -> OperatorSnapshot:
        self.operator.prepare_snapshot(checkpoint_id)
        frozen = self.operator.freeze(checkpoint_id)
        if frozen is None:
            return OperatorSnapshot()
        try:
            return frozen.write(store or MemoryStore())
        finally:
            frozen.release()


def start(
    spec: OperatorSpec,
    subtask: int = 0,
    parallelism: int = 1,
    restored: RestoredOperator | None = None,
    configuration: Mapping[str, str] | None = None,
    max_parallelism: int = 128,
    restored_id: int | None = None,
    now_ms: int = 0,
    attempt: int = 0,
    given: Mapping[str, Any] | None = None,
) -> Running:
    out, clock = Recorder(), HandClock(now_ms)
    timers = HandTimers(clock)
    calls: list[HandCalls] = []

    def open_calls(ready: Callable[[], None]) -> HandCalls:
        calls.append(HandCalls(ready))
        return calls[-1]

    more = dict(given or {})
    segments = more.pop("segments", None) or MemoryStore()

    def of_port(port: type) -> dict[str, Any]:
        return {field.name: more.pop(field.name) for field in fields(port) if field.name in more}

    restore = None
    if restored is not None or restored_id is not None:
        restore = OperatorRestore(1 if restored_id is None else restored_id, "", restored, segments)
    operator = make_operator(spec)
    operator.setup(
        OperatorContext(
            attempt=AttemptId(JobId("0" * 32), VertexId("1" * 32), subtask, attempt),
            operator_id=OperatorId("2" * 32),
            operator_name=spec.name,
            job_name="job",
            task_name="task",
            parallelism=parallelism,
            max_parallelism=max_parallelism,
            output=out,
            clock=clock,
            timers=timers,
            metrics=out,
            configuration=CONFIGURATION if configuration is None else configuration,
            restore=restore,
            background=BackgroundCalls(**of_port(BackgroundCalls), open_async_calls=open_calls),
            coordination=Coordination(**of_port(Coordination)),
            resources=Resources(**of_port(Resources)),
            **more,
        )
    )
    try:
        operator.open()
    except BaseException:
        operator.close()  # as the runtime does
        raise
    return Running(operator, out, clock, timers, calls)


def restored_of(snapshots: Sequence[OperatorSnapshot]) -> RestoredOperator:
    """Everything to a subtask, as UNION: tests of SPLIT cut by hand."""
    operator = tuple(handle for snapshot in snapshots for handle in snapshot.operator)
    return RestoredOperator(
        keyed=tuple(segment for snapshot in snapshots for segment in snapshot.keyed),
        operator=operator,
        slices=tuple((0, handle.elements) for handle in operator),
    )


def split_mode(snapshot: OperatorSnapshot) -> dict[str, StateRedistribution]:
    return {handle.state_name: handle.redistribution for handle in snapshot.operator}


def spec(kind: Any, name: str = "op", options: Mapping[str, Any] | None = None, **fields: Any) -> OperatorSpec:
    made = OperatorOptions() if options is None else make_options(kind, name, options)
    return OperatorSpec(kind=kind, operator_id=OperatorId("2" * 32), name=name, options=made, **fields)


class Pool:
    """``run_async`` by hand."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Callable[[], None], Callable[[BaseException | None], None]]] = []

    def submit(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        self.jobs.append((work, done))

    def run_one(self) -> None:
        work, done = self.jobs.pop(0)
        error: BaseException | None = None
        try:
            work()
        except TidegateError as raised:
            error = raised
        done(error)
