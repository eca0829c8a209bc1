"""Data in flight in front of a slow function."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from tests.compat.outline import Outline, hold_back
from tests.unit.taskmanager.runtime.collecting import CollectingSink
from tidegate.common import Types, WatermarkStrategy
from tidegate.connectors.number_sequence import DataGeneratorSource
from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from tidegate.functions.state import ValueStateDescriptor

ROWS, KEYS = 6_000, 23


class SlowCount(KeyedProcessFunction):
    """Numbers the values of each key."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        hold_back(0.01)
        number = (self.count.value() or 0) + 1
        self.count.update(number)
        yield value, number


def rows(first: int, number: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(np.arange(first, first + number, dtype=np.int64))], ["value"])


def build(outline: Outline) -> StreamExecutionEnvironment:
    env = outline.environment()
    stream = env.from_source(DataGeneratorSource(rows, ROWS), WatermarkStrategy.no_watermarks(), "rows").uid("rows")
    values = stream.map(lambda row: row[0], Types.LONG()).uid("values")
    counted = values.key_by(lambda value: value % KEYS, Types.LONG())
    pairs = counted.process(SlowCount(), Types.TUPLE([Types.LONG(), Types.LONG()])).uid("count")
    pairs.sink_to(CollectingSink(f"{outline.world}-pairs")).uid("out")
    return env


def is_ready(outline: Outline) -> bool:
    return len(outline.committed("pairs")) > 50


def check(outline: Outline) -> None:
    """Every value once, and the numbers of each key without a gap."""
    found = [tuple(pair) for pair in outline.committed("pairs")]
    assert sorted(value for value, _ in found) == list(range(ROWS))
    numbers = sorted((value % KEYS, number) for value, number in found)
    assert numbers == [(key, n) for key in range(KEYS) for n in range(1, len(range(key, ROWS, KEYS)) + 1)]
