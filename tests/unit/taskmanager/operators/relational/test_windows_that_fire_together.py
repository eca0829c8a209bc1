"""Windows of many keys that fire together, and windows of slices, give what each window of each key gives by itself."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.taskmanager.operators.harness import restored_of
from tests.unit.taskmanager.operators.relational.subtasks import Subtasks
from tests.unit.taskmanager.operators.relational.test_against_duckdb import BACKENDS, call
from tests.unit.taskmanager.operators.relational.test_time_against_duckdb import (
    BIGINT,
    INT,
    ROWS,
    STRING,
    TIME,
    window_aggregate,
)
from tests.unit.taskmanager.operators.relational.test_windows_by_batch import DECIMAL, EXACT, with_calls
from tidegate.functions.sql.changelog import DELETE, INSERT
from tidegate.functions.sql.rows import Change
from tidegate.functions.sql.time_windows import spans_of
from tidegate.model.channel_events import END_OF_TIME
from tidegate.plan import nodes
from tidegate.plan.logical_types import Field, LogicalType, TimeKind, TypeRoot
from tidegate.plan.specs import CumulativeWindow, HoppingWindow, SessionWindow, TumblingWindow, Window
from tidegate.taskmanager.operators.relational import making
from tidegate.taskmanager.operators.relational import window_aggregate as module
from tidegate.taskmanager.operators.relational.slices import slices_of
from tidegate.taskmanager.operators.relational.window_aggregate import WindowAggregate
from tidegate.taskmanager.operators.relational.window_pairs import find_sessions

WINDOWS = (
    TumblingWindow(size="PT10S", offset="PT3S"),
    HoppingWindow(size="PT10S", slide="PT2S"),
    HoppingWindow(size="PT10S", slide="PT4S", offset="PT1S"),
    HoppingWindow(size="PT2S", slide="PT5S"),
    CumulativeWindow(max_size="PT12S", step="PT4S"),
    SessionWindow(gap="PT1.5S"),
)
DISTINCT = (call("$COUNT$1", BIGINT, 1, distinct=True), call("$SUM$1", INT, 1, distinct=True))
BY_ROW = 1 << 30


def keyed_changes(seed: int, count: int = 240, *, retracts: bool = False) -> list[Change]:
    """Rows of 40 keys, of which some come 6 s after a later one."""
    rng = random.Random(seed)
    times = sorted(rng.sample(range(10_000, 70_000), count), key=lambda ms: ms + rng.randrange(6_000))
    keys = [*(f"k{number}" for number in range(39)), None]
    changes: list[Change] = [(INSERT, (rng.choice(keys), rng.choice((1, 2, -3, None)), ms)) for ms in times]
    if retracts:
        for at in sorted(rng.sample(range(count), 60), reverse=True):
            changes.insert(at + 1 + rng.randrange(3), (DELETE, changes[at][1]))
    return changes


def emitted(
    node: nodes.WindowAggregate1,
    changes: Sequence[Change],
    backend: str,
    rescales: Sequence[int] = (),
    zone: str = "UTC",
) -> list[tuple[str, ...]]:
    """What comes of batches of 40 rows with a watermark 4 s behind each; late rows among them. ``rescales``: numbers of subtasks, one after another."""
    row = ROWS if zone == "UTC" else LogicalType(TypeRoot.ROW, fields=(*ROWS.fields[:2], Field("t", LOCAL)))
    subtasks = Subtasks(node, [row], [[0]], 1, {"state.backend.type": backend}, time_zone=zone)
    latest, left = 0, list(rescales)
    for first in range(0, len(changes), 40):
        part = changes[first : first + 40]
        subtasks.feed(part)
        latest = max([latest, *(row[2] for _, row in part)])
        subtasks.watermark(latest - 4_001)
        if left:
            subtasks.rescale(left.pop(0))
            subtasks.watermark(latest - 4_001)
    subtasks.watermark(END_OF_TIME)
    subtasks.close()
    return [(str(kind), *map(repr, row)) for kind, row in subtasks.changes]


LOCAL = LogicalType(TypeRoot.TIMESTAMP_LTZ, precision=3, kind=TimeKind.ROWTIME)


def by_row(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(module, "ROWS_FOR_ARRAYS", BY_ROW)
    patch.setattr(module, "ROWS_FOR_SESSIONS", BY_ROW)
    patch.setattr(module, "KEYS_FOR_ARRAYS", BY_ROW)


def by_arrays(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(module, "ROWS_FOR_ARRAYS", 1)
    patch.setattr(module, "ROWS_FOR_SESSIONS", 1)
    patch.setattr(module, "KEYS_FOR_ARRAYS", 1)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "calls", [EXACT, DISTINCT, (call("$SUM$1", DECIMAL, 1),)], ids=["exact", "distinct", "decimal"]
)
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_keys_that_fire_together_give_what_each_gives(
    window: Window, calls: Any, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, changes = with_calls(window, calls, retracts=False), keyed_changes(1)
    with monkeypatch.context() as patch:
        by_row(patch)
        expected = emitted(node, changes, backend)
    by_arrays(monkeypatch)
    assert len(expected) > 40
    assert emitted(node, changes, backend) == expected
    assert sorted(emitted(node, changes, backend, (3, 2, 1))) == sorted(expected)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("retracts", [False, True])
@pytest.mark.parametrize("window", WINDOWS[1:3], ids=str)
def test_slices_give_what_windows_give(
    window: Window, retracts: bool, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with rows that are late for some of their windows, and with rows that go."""
    node, changes = with_calls(window, EXACT[:3], retracts=retracts), keyed_changes(2, retracts=retracts)
    found = emitted(node, changes, backend)
    monkeypatch.setattr(making, "slices_of", lambda *_: None)
    assert len(found) > 100
    assert sorted(found) == sorted(emitted(node, changes, backend))


@pytest.mark.parametrize("keys", [1, BY_ROW], ids=["together", "one by one"])
@pytest.mark.parametrize("begins", ["2024-03-30T23:00", "2024-10-26T22:00"])
def test_slices_follow_the_clocks_of_a_time_zone(begins: str, keys: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of three hours that begin every hour, on days when clocks go forward and back."""
    monkeypatch.setattr(module, "KEYS_FOR_ARRAYS", keys)
    node = with_calls(HoppingWindow(size="PT3H", slide="PT1H"), EXACT[:2], retracts=False)
    windowing = msgspec.structs.replace(node.windowing, time_attribute_type=LOCAL)
    node = msgspec.structs.replace(node, windowing=windowing)
    start = int(np.datetime64(begins, "ms").astype(int))
    changes: list[Change] = [
        (kind, (key, value, start + (ms - 10_000) * 600)) for kind, (key, value, ms) in keyed_changes(3)
    ]
    found = emitted(node, changes, "hashmap", zone="Europe/Berlin")
    monkeypatch.setattr(making, "slices_of", lambda *_: None)
    assert len(found) > 100
    assert sorted(found) == sorted(emitted(node, changes, "hashmap", zone="Europe/Berlin"))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("calls", [EXACT, DISTINCT], ids=["exact", "distinct"])
@pytest.mark.parametrize("keys", [1, BY_ROW], ids=["together", "one by one"])
def test_windows_of_earlier_versions_are_merged_with_slices(
    keys: int, calls: Any, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """State that has an accumulator for each window is gone on with by slices."""
    monkeypatch.setattr(module, "KEYS_FOR_ARRAYS", keys)
    node, changes = with_calls(WINDOWS[1], calls, retracts=False), keyed_changes(4)
    texts = {"state.backend.type": backend}

    def feed(subtasks: Subtasks, some: Sequence[Change]) -> None:
        for first in range(0, len(some), 40):
            subtasks.feed(some[first : first + 40])
            subtasks.watermark(max(row[2] for _, row in some[first : first + 40]) - 8_000)

    with monkeypatch.context() as patch:
        patch.setattr(making, "slices_of", lambda *_: None)
        before = Subtasks(node, [ROWS], [[0]], 1, texts)
        feed(before, changes[:120])
        restored = restored_of([running.snapshot() for running in before.running])
        emitted_before = list(before.changes)
        feed(before, changes[120:])
        before.watermark(END_OF_TIME)
        before.close()
    now = Subtasks(node, [ROWS], [[0]], 1, texts)
    now.restart(restored)
    feed(now, changes[120:])
    now.watermark(END_OF_TIME)
    assert len(now.changes) > 100
    assert sorted(map(repr, [*emitted_before, *now.changes])) == sorted(map(repr, before.changes))
    (running,) = now.running
    operator = running.operator
    assert isinstance(operator, WindowAggregate)
    assert operator._backend.entry_keys("state") == []  # nothing is left when all windows have fired
    now.close()


def test_a_key_has_one_timer_for_windows_that_overlap() -> None:
    node = with_calls(HoppingWindow(size="PT10S", slide="PT2S"), EXACT[:1], retracts=False)
    subtasks = Subtasks(node, [ROWS], [[0]], 1)
    subtasks.feed([(INSERT, ("a", 1, ms)) for ms in (10_000, 11_999, 12_000, 13_000)])
    (running,) = subtasks.running
    running.snapshot()
    operator = running.operator
    assert isinstance(operator, WindowAggregate)
    names = [name for _, (_, name) in operator._backend.entry_keys("state")]
    assert sorted(names) == [(10_000, 12_000), (12_000, 14_000)]
    assert [name for _, (_, (name, _)) in operator._backend.entry_keys("_timers.event")] == [11_999, 13_999]
    subtasks.watermark(11_999)
    assert [name for _, (_, (name, _)) in operator._backend.entry_keys("_timers.event")] == [13_999]
    subtasks.close()


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 20), st.integers(-200, 200))
def test_slices_divide_windows(size: int, slide: int, offset: int, ms: int) -> None:
    window = HoppingWindow(size=f"PT{size}S", slide=f"PT{slide}S", offset=f"PT{offset}S")
    assign = spans_of(window)
    slices = slices_of(window, assign)
    if slide >= size:
        assert slices is None
        return
    assert slices is not None
    found = slices.of(ms * 1000)
    windows = slices.windows(found)
    assert found[0] <= ms * 1000 < found[1]
    assert windows == sorted(assign(ms * 1000))
    for one, after in pairwise(windows):
        assert slices.next(one) == after
    for one in windows:
        parts = slices.parts(one)
        assert found in parts
        assert (parts[0][0], parts[-1][1]) == one
        assert set(parts[slices.left_behind :]) == set(parts) & set(slices.parts(slices.next(one)))


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 60)), min_size=1, max_size=40), st.integers(1, 9))
def test_sessions_of_a_batch_are_those_of_its_rows(rows: list[tuple[int, int]], gap: int) -> None:
    found = find_sessions(np.array([key for key, _ in rows], np.intp), np.array([ms for _, ms in rows], np.int64), gap)
    sessions: list[tuple[int, int, int, list[int]]] = []
    for at, (key, ms) in enumerate(rows):
        met = [one for one in sessions if one[0] == key and one[1] <= ms + gap and ms <= one[2]]
        start, end = min([ms, *(one[1] for one in met)]), max([ms + gap, *(one[2] for one in met)])
        sessions = [one for one in sessions if one not in met]
        sessions.append((key, start, end, sorted([at, *(place for one in met for place in one[3])])))
    ends = {(key, end): min(at for at in places if rows[at][1] + gap == end) for key, _, end, places in sessions}
    sessions.sort(key=lambda one: ends[one[0], one[2]])
    assert list(zip(found.keys, found.spans, strict=True)) == [(key, (start, end)) for key, start, end, _ in sessions]
    assert found.firsts.tolist() == [places[0] for *_, places in sessions]
    assert [np.flatnonzero(found.pair_of == number).tolist() for number in range(len(sessions))] == [
        places for *_, places in sessions
    ]


def test_results_have_the_types_of_the_rows() -> None:
    """Texts, times and numbers of few bits, of windows that fire together."""
    kinds = (STRING, TIME, LogicalType(TypeRoot.SMALLINT))
    row = LogicalType(TypeRoot.ROW, fields=(*ROWS.fields, *(Field(f"x{i}", kind) for i, kind in enumerate(kinds))))
    calls = [call(f"${name}$1", kind, 3 + i) for i, kind in enumerate(kinds) for name in ("MIN", "MAX")]
    node = window_aggregate(HoppingWindow(size="PT10S", slide="PT5S"))
    fields = node.output_type.fields
    made = (fields[0], *(Field(f"c{i}", one.type) for i, one in enumerate(calls)), *fields[-2:])
    node = msgspec.structs.replace(
        node, agg_calls=tuple(calls), output_type=LogicalType(TypeRoot.ROW, fields=made), grouping=(0,)
    )
    subtasks = Subtasks(node, [row], [[0]], 1)
    keys = [f"k{number}" for number in range(50)]
    subtasks.feed([(INSERT, (key, 1, 6_000, key, 7, 5)) for key in keys])
    subtasks.feed([(INSERT, (key, 1, 11_000, "a", None, -5)) for key in keys])
    assert len(subtasks.watermark(9_999)) == 50
    found = subtasks.watermark(14_999)
    assert [row for _, row in found] == [(key, "a", key, 7, 7, -5, 5, 5_000, 15_000) for key in keys]
    subtasks.close()
