"""Session windows of columns give what merging one row after the other gives, whatever the batches and the restores between."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.taskmanager.operators.harness import Running, restored_of, spec, start
from tests.unit.taskmanager.windows.columns.test_windows import exchange
from tidegate.common import Time, WatermarkStrategy
from tidegate.connectors.number_sequence import DataGeneratorSource
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.aggregates import avg, count
from tidegate.datastream.window import EventTimeSessionWindows, ProcessingTimeSessionWindows
from tidegate.model.channel_events import END_OF_TIME
from tidegate.model.errors import InvalidJob, SchemaMismatch
from tidegate.records.batch import ArrowBatch
from tidegate.taskmanager.windows.columns.session_merging import find_sessions

GAP = 100
AGGREGATES = [("n", "count", None), ("s", "sum", "v"), ("a", "avg", "v"), ("f", "first", "v"), ("hi", "max", "v")]
Session = tuple[Any, int, int, int, int, float, int, int]


def options(**more: Any) -> dict[str, Any]:
    return {"gap_ms": GAP, "keys": ["k"], "aggregates": AGGREGATES, **more}


def sender() -> Running:
    return start(spec("columnar_session_local", options=options(input="raw")))


def session(index: int = 0, parallelism: int = 1, **more: Any) -> Running:
    return start(spec("columnar_session", options=options(input="partial")), index, parallelism, **more)


def sent(local: Running) -> list[Any]:
    """What it emitted since it was asked last."""
    batches = list(local.out.batches)
    local.out.batches.clear()
    return batches


def rows(seed: int, first_ms: int, number: int = 60, keys: int = 5) -> ArrowBatch:
    rng = np.random.default_rng(seed)
    names = pa.array([f"key {k}" if k else None for k in rng.integers(0, keys, number)])
    data = pa.RecordBatch.from_arrays([names, pa.array(rng.permutation(number) + 1000 * seed)], names=["k", "v"])
    return ArrowBatch(data, pa.array(first_ms + rng.integers(0, 1000, number)))


def expected(batches: list[ArrowBatch]) -> list[Session]:
    """Key, start, end, count, sum, average, first (the smallest of several at once), largest: row after row."""
    by_key: dict[Any, list[tuple[int, int]]] = {}
    for one in batches:
        assert one.timestamps is not None
        columns = (one.data["k"].to_pylist(), one.timestamps.to_pylist(), one.data["v"].to_pylist())
        for key, stamp, value in zip(*columns, strict=True):
            by_key.setdefault(key, []).append((stamp, value))
    found = []
    for key, values in by_key.items():
        together: list[list[tuple[int, int]]] = []
        for stamp, value in sorted(values):
            if not together or stamp > together[-1][-1][0] + GAP:
                together.append([])
            together[-1].append((stamp, value))
        for one_session in together:
            of_session = [value for _, value in one_session]
            total = sum(of_session)
            told = (len(of_session), total, total / len(of_session), one_session[0][1], max(of_session))
            found.append((key, one_session[0][0], one_session[-1][0] + GAP, *told))
    return sorted(found, key=repr)


def results(running: list[Running]) -> list[Session]:
    names = ("k", "window_start", "window_end", "n", "s", "a", "f", "hi")
    return sorted((tuple(row[n] for n in names) for one in running for row in one.out.values()), key=repr)


@pytest.mark.parametrize("watermarks", [False, True])
def test_sessions_are_those_of_one_row_after_the_other(watermarks: bool) -> None:
    senders, windows = [sender(), sender()], [session(i, 2) for i in range(2)]
    batches = [rows(i, i * 400) for i in range(8)]
    for i, one in enumerate(batches):
        senders[i % 2].operator.process(one, 0)
        exchange(sent(senders[i % 2]), ["k"], windows)
        for window in windows if watermarks else ():
            window.operator.on_watermark((i + 1) * 400 - 1)
    for window in windows:
        window.operator.on_watermark(END_OF_TIME)
    assert results(windows) == expected(batches)
    stamps = [stamp for window in windows for stamp in window.out.stamps() if stamp is not None]
    assert sorted(stamps) == sorted(row[2] - 1 for row in expected(batches))


def test_a_session_is_told_when_the_watermark_passes_its_end_and_not_before() -> None:
    local, window = sender(), session()
    one = ArrowBatch(pa.RecordBatch.from_pydict({"k": ["a", "a"], "v": [1, 2]}), pa.array([10, 50]))
    local.operator.process(one, 0)
    exchange(sent(local), ["k"], [window])
    window.operator.on_watermark(148)
    assert not results([window])
    window.operator.on_watermark(149)
    assert [row[:4] for row in results([window])] == [("a", 10, 150, 2)]


def test_a_late_row_is_dropped_unless_its_session_has_not_ended() -> None:
    window = session()

    def come(*stamps: int) -> None:
        local = sender()
        data = pa.RecordBatch.from_pydict({"k": ["a"] * len(stamps), "v": list(stamps)})
        local.operator.process(ArrowBatch(data, pa.array(stamps)), 0)
        exchange(sent(local), ["k"], [window])

    come(1000)
    window.operator.on_watermark(1050)
    come(920, 400, 430)  # the first touches the session from 1000 on, though by itself it had ended at 1020
    window.operator.on_watermark(END_OF_TIME)
    assert [row[:4] for row in results([window])] == [("a", 920, 1100, 2)]
    assert window.out.counts["numLateRecordsDropped"] == 2


@pytest.mark.parametrize("parallelism", [1, 3])
def test_open_sessions_are_restored_at_any_parallelism(parallelism: int) -> None:
    local, before = sender(), [session(i, 2) for i in range(2)]
    batches = [rows(i, i * 300) for i in range(6)]
    for one in batches[:3]:
        local.operator.process(one, 0)
    exchange(sent(local), ["k"], before)
    for window in before:
        window.operator.on_watermark(500)
    handles = [window.snapshot(1) for window in before]
    after = [session(i, parallelism, restored=restored_of(handles)) for i in range(parallelism)]
    for window in after:
        window.operator.on_watermark(500)
    for one in batches[3:]:
        local.operator.process(one, 0)
    exchange(sent(local), ["k"], after)
    for window in after:
        window.operator.on_watermark(END_OF_TIME)
    assert results([*before, *after]) == expected(batches)


intervals = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 60), st.integers(1, 30)), min_size=1, max_size=40)


@given(intervals)
def test_intervals_that_overlap_or_touch_are_one(found: list[tuple[int, int, int]]) -> None:
    keys, starts, lengths = (np.array(column) for column in zip(*found, strict=True))
    sessions = find_sessions(keys, starts, starts + lengths)
    wanted = set()
    for key in set(keys.tolist()):
        merged: list[list[int]] = []
        for start_ms, end_ms in sorted((s, s + n) for k, s, n in found if k == key):
            if merged and start_ms <= merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], end_ms)
            else:
                merged.append([start_ms, end_ms])
        wanted |= {(key, begin, end) for begin, end in merged}
    told = zip(keys[sessions.a_row].tolist(), sessions.starts.tolist(), sessions.ends.tolist(), strict=True)
    assert sorted(told) == sorted(wanted)
    for row, number in enumerate(sessions.of_row.tolist()):
        assert sessions.starts[number] <= starts[row] < sessions.ends[number]
        assert keys[sessions.a_row[number]] == keys[row]


def test_a_state_of_other_aggregates_is_refused() -> None:
    local, window = sender(), session()
    local.operator.process(rows(1, 0), 0)
    exchange(sent(local), ["k"], [window])
    handles = [window.snapshot(1)]
    other = spec("columnar_session", options=options(input="partial") | {"aggregates": [("m", "max", "v")]})
    with pytest.raises(SchemaMismatch, match="no column 'm'"):
        start(other, restored=restored_of(handles))


def test_the_api_builds_two_steps_and_refuses_sessions_that_are_not_of_event_time() -> None:
    def generate(first: int, rows: int) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict({"k": np.arange(first, first + rows), "v": np.arange(first, first + rows)})

    env = StreamExecutionEnvironment()
    source = DataGeneratorSource(generate, 10)
    keyed = env.from_source(source, WatermarkStrategy.no_watermarks(), "rows").key_by("k")
    made = keyed.window(EventTimeSessionWindows.with_gap(Time.seconds(1))).agg(count().alias("n"), avg("v"))
    assert made.get_type().arrow_schema().names == ["window_start", "window_end", "k", "n", "avg_v"]
    with pytest.raises(InvalidJob, match="EventTimeSessionWindows with a fixed gap"):
        keyed.window(ProcessingTimeSessionWindows.with_gap(Time.seconds(1))).agg(count())
