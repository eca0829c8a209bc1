"""Keyed state of every kind, with timers; and running totals by column."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from tests.compat.outline import Outline, never_late
from tests.unit.taskmanager.runtime.collecting import CollectingSink
from tidegate.common import Row, Time, Types, WatermarkStrategy
from tidegate.connectors.number_sequence import DataGeneratorSource
from tidegate.datastream import AggregateFunction, KeyedProcessFunction, StreamExecutionEnvironment, aggregates
from tidegate.functions.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)

ROWS, KEYS, FEW = 6_000, 12, 300
TIMER_MS = 10_000_000


class Mean(AggregateFunction):
    def create_accumulator(self) -> Any:
        return [0, 0]

    def add(self, value: Any, accumulator: Any) -> Any:
        return [accumulator[0] + value, accumulator[1] + 1]

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return [acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]]


class EveryKind(KeyedProcessFunction):
    """Keeps what it has seen of a key in every kind of state, and tells it when its timer fires, at the end."""

    def open(self, runtime_context: Any) -> None:
        named = Types.ROW_NAMED(["n", "last"], [Types.LONG(), Types.STRING()])
        self.row = runtime_context.get_state(ValueStateDescriptor("row", named))
        self.few = runtime_context.get_list_state(ListStateDescriptor("few", Types.LONG()))
        parities = MapStateDescriptor("parities", Types.STRING(), Types.LONG())
        self.parities = runtime_context.get_map_state(parities)
        largest = ReducingStateDescriptor("largest", max, Types.LONG())
        self.largest = runtime_context.get_reducing_state(largest)
        mean = AggregatingStateDescriptor("mean", Mean(), Types.PICKLED_BYTE_ARRAY())
        self.mean = runtime_context.get_aggregating_state(mean)
        expiring = ValueStateDescriptor("expiring", Types.DOUBLE())
        expiring.enable_time_to_live(StateTtlConfig.new_builder(Time.days(36_500)).build())
        self.expiring = runtime_context.get_state(expiring)
        self.pickled = runtime_context.get_state(ValueStateDescriptor("pickled", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        number = value["value"]
        before = self.row.value()
        self.row.update(Row(n=1 if before is None else before["n"] + 1, last=str(number)))
        if number < FEW:
            self.few.add(number)
        parity = "even" if number % 2 == 0 else "odd"
        self.parities.put(parity, max(number, self.parities.get(parity) or 0))
        self.largest.add(number)
        self.mean.add(number)
        self.expiring.update((self.expiring.value() or 0.0) + 0.5)
        self.pickled.update({"sum": (self.pickled.value() or {"sum": 0})["sum"] + number})
        ctx.timer_service().register_event_time_timer(TIMER_MS + value["key"])
        yield from ()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any]:
        row = self.row.value()
        told = (
            timestamp - TIMER_MS,
            row["n"],
            sorted(self.few.get()),
            sorted(self.parities.items()),
            self.largest.get(),
            self.mean.get(),
            self.expiring.value(),
            self.pickled.value()["sum"],
        )
        yield repr(told)


class Seen(KeyedProcessFunction):
    """The state of a key without a declared type."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(TIMER_MS)
        yield from ()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any]:
        yield repr((ctx.get_current_key(), self.count.value()))


def even(index: Any) -> Any:
    return index % KEYS


def once_or_often(index: Any) -> Any:
    """Most keys come once, a few again and again: that is what increments are for."""
    return np.where(index % 4 == 0, index, index % 7)


def build(outline: Outline, keys_of: Callable[[Any], Any] = even) -> StreamExecutionEnvironment:
    def rows(first: int, number: int) -> pa.RecordBatch:
        index = np.arange(first, first + number, dtype=np.int64)
        return pa.RecordBatch.from_arrays(
            [pa.array(keys_of(index)), pa.array(index), pa.array(index)], ["key", "value", "ts"]
        )

    env = outline.environment()
    source = DataGeneratorSource(rows, ROWS, rows_per_second=outline.rate)
    stream = env.from_source(source, never_late(), "rows").uid("rows")
    typed = stream.key_by(lambda row: row["key"], Types.LONG()).process(EveryKind(), Types.STRING()).uid("kinds")
    typed.sink_to(CollectingSink(f"{outline.world}-kinds")).uid("kinds-out")
    untyped = stream.key_by(lambda row: f"k{row['key']}").process(Seen(), Types.STRING()).uid("seen")
    untyped.sink_to(CollectingSink(f"{outline.world}-seen")).uid("seen-out")
    stream.map(lambda row: row["value"], Types.LONG()).uid("pass").sink_to(
        CollectingSink(f"{outline.world}-passed")
    ).uid("passed-out")
    return env


def is_ready(outline: Outline) -> bool:
    return len(outline.committed("passed")) > ROWS // 4


def check(outline: Outline, keys_of: Callable[[Any], Any] = even) -> None:
    of: dict[int, list[int]] = {}
    for number, key in enumerate(keys_of(np.arange(ROWS)).tolist()):
        of.setdefault(key, []).append(number)
    kinds = sorted(ast.literal_eval(text) for (text,) in outline.committed("kinds"))
    assert kinds == sorted(_told(key, numbers) for key, numbers in of.items())
    seen = sorted(ast.literal_eval(text) for (text,) in outline.committed("seen"))
    assert seen == sorted((f"k{key}", len(numbers)) for key, numbers in of.items())


def _told(key: int, numbers: list[int]) -> tuple[Any, ...]:
    """The state of a key with these numbers."""
    parities = sorted({"even" if n % 2 == 0 else "odd": n for n in numbers}.items())
    n, total = len(numbers), sum(numbers)
    return key, n, [number for number in numbers if number < FEW], parities, numbers[-1], total / n, n / 2, total


def build_totals(outline: Outline) -> StreamExecutionEnvironment:
    def totals(first: int, number: int) -> pa.RecordBatch:
        index = np.arange(first, first + number, dtype=np.int64)
        return pa.RecordBatch.from_arrays([pa.array(once_or_often(index)), pa.array(index)], ["key", "value"])

    env = outline.environment()
    source = DataGeneratorSource(totals, ROWS, rows_per_second=outline.rate)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "rows").uid("rows")
    summed = stream.key_by("key").agg(aggregates.count().alias("n"), aggregates.sum("value").alias("total"))
    summed.uid("totals").sink_to(CollectingSink(f"{outline.world}-passed")).uid("out")
    return env


def check_totals(outline: Outline) -> None:
    """Of each key the last total counts."""
    last: dict[int, tuple[int, int]] = {}
    for key, n, total in outline.committed("passed"):
        last[key] = max(last.get(key, (0, 0)), (n, total))
    keys, index = once_or_often(np.arange(ROWS)), np.arange(ROWS)
    counts, sums = np.bincount(keys), np.bincount(keys, weights=index.astype(float))
    assert last == {key: (int(counts[key]), int(sums[key])) for key in set(keys.tolist())}
