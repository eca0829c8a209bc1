"""Sliding windows of columns: each row in ``size / slide`` windows, aggregated once by pane."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.unit.taskmanager.operators.harness import Running, restored_of, spec, start
from tests.unit.taskmanager.windows.columns.test_windows import exchange
from tidegate.common import Time, WatermarkStrategy
from tidegate.connectors.number_sequence import DataGeneratorSource
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.aggregates import count
from tidegate.datastream.window import SlidingEventTimeWindows
from tidegate.model.channel_events import END_OF_TIME
from tidegate.model.errors import InvalidJob
from tidegate.records.batch import ArrowBatch

SIZE, SLIDE, OFFSET = 900, 300, 50
AGGREGATES = [("n", "count", None), ("s", "sum", "v"), ("f", "first", "v"), ("m", "quantile:1.0", "v")]


def sender() -> Running:
    options = {"size_ms": SLIDE, "offset_ms": OFFSET, "keys": ["k"], "aggregates": AGGREGATES, "input": "raw"}
    return start(spec("columnar_window_local", options=options))


def window(index: int = 0, parallelism: int = 1, kind: str = "partial", **more: Any) -> Running:
    options = {"size_ms": SIZE, "slide_ms": SLIDE, "offset_ms": OFFSET, "keys": ["k"], "aggregates": AGGREGATES}
    return start(spec("columnar_window", options=options | {"input": kind}), index, parallelism, **more)


def rows(seed: int, start_ms: int) -> ArrowBatch:
    rng = np.random.default_rng(seed)
    data = pa.RecordBatch.from_pydict({"k": rng.integers(0, 9, 500), "v": rng.integers(1, 1000, 500)})
    return ArrowBatch(data, pa.array(start_ms + rng.permutation(500)))


def expected(batches: list[ArrowBatch]) -> dict[tuple[int, int], tuple[int, int, int]]:
    """(start, key) ▶ count, sum, first."""
    found: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for one in batches:
        assert one.timestamps is not None
        columns = (one.timestamps.to_pylist(), one.data["k"].to_pylist(), one.data["v"].to_pylist())
        for stamp, key, value in zip(*columns, strict=True):
            last = (stamp - OFFSET) // SLIDE * SLIDE + OFFSET
            for begin in range(last - SIZE + SLIDE, last + 1, SLIDE):
                found.setdefault((begin, key), []).append((stamp, value))
    return {key: (len(rows), sum(v for _, v in rows), min(rows)[1]) for key, rows in found.items()}


def results(running: list[Running]) -> dict[tuple[int, int], tuple[int, int, int]]:
    values = [row for one in running for row in one.out.values()]
    assert all(row["window_end"] - row["window_start"] == SIZE for row in values)
    found = {(row["window_start"], row["k"]): (row["n"], row["s"], row["f"]) for row in values}
    assert len(found) == len(values)
    return found


def test_panes_a_restore_and_another_parallelism_give_what_rows_give() -> None:
    batches = [rows(i, i * 500) for i in range(6)]
    senders, windows = [sender(), sender()], [window()]
    for i, one in enumerate(batches):
        senders[i % 2].operator.process(one, 0)
        if i == 2:
            for each in senders:
                each.operator.prepare_snapshot(1)
                exchange(each.out.batches, ["k"], windows)
                each.out.batches.clear()
            windows[0].operator.on_watermark(749)
            emitted = results(windows)
            handles = [windows[0].snapshot(1)]
            windows = [window(index, 2, restored=restored_of(handles)) for index in range(2)]
    for each in senders:
        each.operator.on_watermark(END_OF_TIME)
        exchange(each.out.batches, ["k"], windows)
    for one_window in windows:
        one_window.operator.on_watermark(END_OF_TIME)
    assert {begin for begin, _ in emitted} == {-850, -550, -250}
    assert emitted | results(windows) == expected(batches)


def test_a_row_is_late_when_all_its_windows_are_over() -> None:
    running = window(kind="raw")
    running.operator.on_watermark(1249)  # the windows up to 350..1249 are over
    batch = pa.RecordBatch.from_pydict({"k": [1, 2, 3], "v": [10, 20, 30]})
    running.operator.process(ArrowBatch(batch, pa.array([349, 649, 1300])), 0)
    running.operator.on_watermark(END_OF_TIME)
    assert running.out.counts == {"numLateRecordsDropped": 2}
    assert set(results([running])) == {(650, 3), (950, 3), (1250, 3)}


def test_a_slide_that_does_not_divide_the_size_is_refused() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    source = DataGeneratorSource(lambda first, n: pa.RecordBatch.from_pydict({"k": [1] * n}), 10)
    keyed = env.from_source(source, WatermarkStrategy.no_watermarks(), "rows").key_by("k")
    windows = SlidingEventTimeWindows.of(Time.milliseconds(1000), Time.milliseconds(300))
    with pytest.raises(InvalidJob, match="divides"):
        keyed.window(windows).agg(count())
