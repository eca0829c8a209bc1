"""The job that the simulated runtime runs: numbers, counted by key from state, into a sink that commits in two phases.

    rows (value, ts) ─▶ values ═ by key ═▶ count: (value, how many of its key so far) ═ rebalance or rescale ═▶ sink
                          │ ▲ └── Passed(value), behind every 25th value ─▶ │ ── (-1 - value, 0) for each that it hears of
                          │ └──────────────── Noted(number), against ────────┘

Each value must come out once, and the counts of each key must be 1, 2, 3, ... The functions check event time on the way. Of each event
along the stream every subtask must hear once, in order with the records of its split; while counters are as many as they were.
After a rescale each of the old ones' must be heard, and places are theirs no more. Against the stream, nothing comes twice or later.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from tests.sim.laws import Law, LawBroken
from tests.sim.runtime import transactions
from tests.sim.runtime.transactions import Bank, BankSink
from tidegate.common import Types, WatermarkStrategy
from tidegate.common.configuration import Configuration
from tidegate.connectors.base import Committer, Sink, SinkContext, SinkWriter
from tidegate.connectors.number_sequence import DataGeneratorSource, ranges
from tidegate.datastream import (
    EventListener,
    KeyedProcessFunction,
    ProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    TaskEventListener,
    register_user_event,
)
from tidegate.datastream._graph.job_graph_builder import BuiltJob
from tidegate.functions.state import ValueStateDescriptor
from tidegate.records.batch import Batch, RecordsBatch

KEYS, TOTAL, BATCH_ROWS = 5, 200, 12
EVERY, EVERY_NOTE = 25, 20
"""Behind so many values an event is emitted, and behind so many counted ones one is sent against the stream."""
MOST_SOURCES = 3
_CUTS = sorted({int(split.payload[0]) for parts in range(1, MOST_SOURCES + 1) for split in ranges(0, TOTAL - 1, parts)})
"""Between two of them values come from one source, in their order, whatever its parallelism."""


@dataclass(frozen=True)
class Passed:
    value: int


@dataclass(frozen=True)
class Noted:
    sender: str
    number: int


register_user_event("sim.passed", Passed)
register_user_event("sim.noted", Noted)


@dataclass
class Outside:
    """What the functions of the job reach: the external system, and how long a record takes."""

    work: Callable[[], None] = lambda: None
    completed: set[int] = field(default_factory=set)
    committed: dict[str, list[Any]] = field(default_factory=dict)
    broken: LawBroken | None = None
    counters: set[int] = field(default_factory=set)
    """How many subtasks counted, in all executions."""
    noted: dict[tuple[str, str], int] = field(default_factory=dict)
    """By receiver and sender: the last event against the stream."""
    bank: Bank = field(init=False)

    def __post_init__(self) -> None:
        self.bank = Bank(self.fail, self.commit)

    def fail(self, law: Law, text: str) -> None:
        """The subtask makes a failure of its own of what a function raises: the schedule looks here."""
        self.broken = self.broken or LawBroken(law, text)

    def commit(self, identity: str, checkpoint_id: int, rows: list[Any]) -> None:
        if not any(n >= checkpoint_id for n in self.completed):  # what an aborted one left goes with the next
            self.fail(Law.PUBLISHED, f"{identity} is committed, and neither its checkpoint nor a later one is complete")
        self.committed.setdefault(identity, rows)

    def check_output(self, *, exactly_once: bool) -> None:
        everything = [tuple(row) for rows in self.committed.values() for row in rows]
        rows = [row for row in everything if row[0] >= 0]
        heard = Counter(-1 - value for value, _ in everything if value < 0)
        found, wanted = Counter(value for value, _ in rows), Counter(range(TOTAL))
        if not exactly_once:
            if wanted - found:
                raise LawBroken(Law.OUTPUT, f"lost {sorted(wanted - found)}")
            self._check_events(heard, exactly_once=False)
            return
        if found != wanted:
            raise LawBroken(Law.OUTPUT, f"lost {sorted(wanted - found)}, too many {sorted(found - wanted)}")
        counts = Counter((value % KEYS, number) for value, number in rows)
        expected = Counter((key, n + 1) for key in range(KEYS) for n in range(TOTAL // KEYS))
        if counts != expected:
            raise LawBroken(
                Law.OUTPUT, f"(key, count) lost {sorted(expected - counts)}, too many {sorted(counts - expected)}"
            )
        self._check_events(heard, exactly_once=True)

    def _check_events(self, heard: Counter[int], *, exactly_once: bool) -> None:
        is_exact, least = exactly_once and len(self.counters) == 1, min(self.counters)
        for value in range(0, TOTAL, EVERY):
            if heard[value] < least or (is_exact and heard[value] > least):
                raise LawBroken(
                    Law.EVENTS,
                    f"the event behind {value} was heard of {heard[value]} times by {self.counters} subtasks",
                )
        if strange := [value for value in heard if value % EVERY]:
            raise LawBroken(Law.EVENTS, f"nobody sent events behind {strange}")

    def note(self, receiver: str, note: Noted) -> None:
        before = self.noted.get((receiver, note.sender), 0)
        self.noted[receiver, note.sender] = note.number
        if note.number <= before:
            self.fail(Law.EVENTS, f"{receiver} got event {note.number} of {note.sender} after {before}")
        if receiver.rpartition("#")[2] != note.sender.rpartition("#")[2]:
            self.fail(Law.EVENTS, f"{receiver} got an event of another attempt: {note.sender}")


outside = Outside()
"""Of the world that runs: functions are pickled with the job and find it by its name."""


def enter(found: Outside) -> None:
    global outside
    outside = found
    transactions.enter(found.bank)


def numbers(first: int, number: int) -> pa.RecordBatch:
    index = np.arange(first, first + number)
    return pa.RecordBatch.from_arrays([pa.array(index), pa.array(index)], names=["value", "ts"])


class Values(ProcessFunction, TaskEventListener):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.context = runtime_context

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any]:
        yield value[0]
        if value[0] % EVERY == 0:
            self.context.emit_event(Passed(value[0]))

    def on_task_event(self, event: object) -> None:
        assert isinstance(event, Noted)
        outside.note(self.context.get_task_name_with_subtasks(), event)


class Count(KeyedProcessFunction, EventListener):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.context = runtime_context
        self.processed = 0
        self.last_value: dict[int, int] = {}
        """By piece of the values; of this attempt only."""
        self.last_event: dict[int, int] = {}

    def on_event(self, event: object) -> Iterable[Any]:
        assert isinstance(event, Passed)
        piece = bisect(_CUTS, event.value)
        before = self.last_value.get(piece, -1)
        if before > event.value and len(outside.counters) == 1:
            outside.fail(Law.EVENTS, f"the event behind {event.value} came behind {before}")
        self.last_event[piece] = event.value
        yield -1 - event.value, 0

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        outside.work()
        self.processed += 1
        if self.processed % EVERY_NOTE == 0:
            self.context.send_task_event(Noted(self.context.get_task_name_with_subtasks(), self.processed))
        piece = bisect(_CUTS, value)
        if value <= self.last_event.get(piece, -1) and len(outside.counters) == 1:
            outside.fail(Law.EVENTS, f"{value} came behind the event behind {self.last_event[piece]}")
        self.last_value[piece] = value
        timestamp, watermark = ctx.timestamp(), ctx.timer_service().current_watermark()
        if timestamp is not None and timestamp <= watermark:
            outside.fail(Law.EVENT_TIME, f"a record of {timestamp} came behind the watermark {watermark}")
        number = (self.count.value() or 0) + 1
        self.count.update(number)
        yield value, number


class OutsideSink(Sink):
    def make_writer(self, context: SinkContext, state: Sequence[Any], input_type: Any) -> SinkWriter:
        return _Writer(context)

    def make_committer(self, context: SinkContext) -> Committer:
        return _Committer()


class _Writer(SinkWriter):
    works_on = "records"

    def __init__(self, context: SinkContext) -> None:
        self._context = context
        self._rows: list[Any] = []

    def write(self, batch: Batch) -> None:
        assert isinstance(batch, RecordsBatch)
        self._rows += [list(value) for value in batch.values]

    def prepare_commit(self, checkpoint_id: int) -> list[Any]:
        rows, self._rows = self._rows, []
        return [[f"{self._context.attempt}/{checkpoint_id}", checkpoint_id, rows]] if rows else []


class _Committer(Committer):
    def commit(self, committables: Sequence[Any]) -> None:
        for identity, checkpoint_id, rows in committables:
            outside.commit(identity, checkpoint_id, rows)


@cache
def build(
    sources: int,
    counters: int,
    sinks: int,
    *,
    incremental: bool,
    exactly_once: bool = True,
    pointwise: bool = False,
    by_function: bool = False,
) -> BuiltJob:
    """``pointwise``: barriers are aligned by force in front of the sinks. ``by_function``: these are a ``TwoPhaseCommitSinkFunction``."""
    options = Configuration()
    options.set_string("execution.checkpointing.mode", "EXACTLY_ONCE" if exactly_once else "AT_LEAST_ONCE")
    options.set_string("execution.checkpointing.unaligned.enabled", "true" if exactly_once else "false")
    options.set_string("execution.checkpointing.incremental", "true" if incremental else "false")
    options.set_string("execution.checkpointing.data-inline-threshold", "0 b" if incremental else "200 b")
    options.set_string("tidegate.exchange.channel-credit", "1 kb")
    options.set_string("tidegate.exchange.batch-rows", "4")
    options.set_string("taskmanager.network.memory.buffer-debloat.enabled", "false")
    env = StreamExecutionEnvironment.get_execution_environment(options).set_parallelism(counters)
    env.enable_checkpointing(60_000)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("ts")
    source = DataGeneratorSource(numbers, TOTAL, batch_rows=BATCH_ROWS)
    types = Types.TUPLE([Types.LONG(), Types.LONG()])
    stream = env.from_source(source, strategy, "rows").uid("rows").set_parallelism(sources)
    values = stream.process(Values(), Types.LONG()).set_parallelism(sources)
    counted = values.key_by(lambda value: value % KEYS, Types.LONG()).process(Count(), types).uid("count")
    dealt = counted.rescale() if pointwise else counted.rebalance()
    sink = dealt.add_sink(BankSink()) if by_function else dealt.sink_to(OutsideSink())
    sink.uid("out").set_parallelism(sinks)
    return env.build()
