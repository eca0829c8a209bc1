"""Windows by column and by record: tumbling, sliding, sessions, and windows of counts."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from tests.compat.outline import Outline, never_late
from tests.unit.taskmanager.runtime.collecting import CollectingSink
from tidegate.common import Time, Types
from tidegate.connectors.number_sequence import DataGeneratorSource
from tidegate.datastream import ProcessWindowFunction, StreamExecutionEnvironment, aggregates
from tidegate.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows

ROWS, KEYS = 3_000, 5
BURST, PAUSE_MS, GAP_MS = 100, 10_000, 3_000
TUMBLE_MS, SLIDE_MS = 20_000, 10_000
COUNT = 150


class Counted(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        values = [element["value"] for element in elements]
        yield repr((key, context.window().start, context.window().end, len(values), sum(values)))


def rows(first: int, number: int) -> pa.RecordBatch:
    index = np.arange(first, first + number, dtype=np.int64)
    return pa.RecordBatch.from_arrays(
        [pa.array(index % KEYS), pa.array(index), pa.array(time_of(index))], ["key", "value", "ts"]
    )


def time_of(index: Any) -> Any:
    """Bursts with pauses between them, which end sessions."""
    return index // BURST * PAUSE_MS + index % BURST * 10


def build(outline: Outline) -> StreamExecutionEnvironment:
    def out(part: str) -> CollectingSink:
        return CollectingSink(f"{outline.world}-{part}")

    env = outline.environment()
    source = DataGeneratorSource(rows, ROWS, rows_per_second=outline.rate)
    stream = env.from_source(source, never_late(), "rows").uid("rows")
    both = (aggregates.count().alias("n"), aggregates.sum("value").alias("total"))
    tumbling = TumblingEventTimeWindows.of(Time.milliseconds(TUMBLE_MS))
    sliding = SlidingEventTimeWindows.of(Time.milliseconds(TUMBLE_MS), Time.milliseconds(SLIDE_MS))
    sessions = EventTimeSessionWindows.with_gap(Time.milliseconds(GAP_MS))
    stream.key_by("key").window(tumbling).agg(*both).uid("tumbling").sink_to(out("tumbling")).uid("tumbling-out")
    stream.key_by("key").window(sessions).agg(*both).uid("sessions").sink_to(out("sessions")).uid("sessions-out")
    typed = stream.key_by(lambda row: row["key"], Types.LONG())
    typed.window(sliding).process(Counted(), Types.STRING()).uid("sliding").sink_to(out("sliding")).uid("sliding-out")
    merged = typed.window(sessions).process(Counted(), Types.STRING())
    merged.uid("merged").sink_to(out("merged")).uid("merged-out")
    numbers = stream.map(lambda row: (row["key"], 1), Types.TUPLE([Types.LONG(), Types.LONG()])).uid("ones")
    counted = numbers.key_by(lambda pair: pair[0], Types.LONG()).count_window(COUNT)
    counted.reduce(lambda a, b: (a[0], a[1] + b[1])).uid("counts").sink_to(out("counts")).uid("counts-out")
    passed = stream.map(lambda row: row["value"], Types.LONG()).uid("pass")
    passed.sink_to(out("passed")).uid("passed-out")
    return env


def is_ready(outline: Outline) -> bool:
    return len(outline.committed("passed")) > ROWS // 3


def expected(windows_of: Callable[[int], Iterable[tuple[int, int]]]) -> Counter[tuple[int, ...]]:
    found: dict[tuple[int, int, int], list[int]] = {}
    for i in range(ROWS):
        for start, end in windows_of(i):
            entry = found.setdefault((i % KEYS, start, end), [0, 0])
            entry[0] += 1
            entry[1] += i
    return Counter((*window, n, total) for window, (n, total) in found.items())


def _tumbling(i: int) -> Iterable[tuple[int, int]]:
    start = time_of(i) // TUMBLE_MS * TUMBLE_MS
    yield start, start + TUMBLE_MS


def _sliding(i: int) -> Iterable[tuple[int, int]]:
    last = time_of(i) // SLIDE_MS * SLIDE_MS
    for start in range(last - TUMBLE_MS + SLIDE_MS, last + 1, SLIDE_MS):
        yield start, start + TUMBLE_MS


def _session(i: int) -> Iterable[tuple[int, int]]:
    first = i // BURST * BURST
    of_key = [index for index in range(first, first + BURST) if index % KEYS == i % KEYS]
    yield time_of(of_key[0]), time_of(of_key[-1]) + GAP_MS


def check(outline: Outline) -> None:
    by_column = {
        part: Counter((key, start, end, n, total) for start, end, key, n, total in outline.committed(part))
        for part in ("tumbling", "sessions")
    }
    by_record = {
        part: Counter(ast.literal_eval(text) for (text,) in outline.committed(part)) for part in ("sliding", "merged")
    }
    assert by_column == {"tumbling": expected(_tumbling), "sessions": expected(_session)}
    assert by_record == {"sliding": expected(_sliding), "merged": expected(_session)}
    each = ROWS // KEYS // COUNT
    assert Counter(map(tuple, outline.committed("counts"))) == {(key, COUNT): each for key in range(KEYS)}
