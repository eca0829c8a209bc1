"""Interval joins by arrays give the changes and the state of their rows one by one."""

from __future__ import annotations

import random

import msgspec
import numpy as np
import pytest

from tests.unit.taskmanager.operators.harness import restored_of
from tests.unit.taskmanager.operators.relational.subtasks import Subtasks
from tests.unit.taskmanager.operators.relational.test_against_duckdb import BACKENDS, join
from tests.unit.taskmanager.operators.relational.test_deduplicate import state
from tests.unit.taskmanager.operators.relational.test_time_against_duckdb import INT, ROWS, STRING, TIME
from tidegate.functions.sql.rows import Change
from tidegate.model.channel_events import END_OF_TIME
from tidegate.plan import nodes
from tidegate.plan.logical_types import Field, LogicalType, TypeRoot
from tidegate.plan.specs import IntervalBounds, IntervalJoinSpec
from tidegate.taskmanager.operators.relational import interval_join as module
from tidegate.taskmanager.operators.relational import matching
from tidegate.taskmanager.operators.relational.interval_join import TableIntervalJoin
from tidegate.taskmanager.operators.relational.near_rows import find_near
from tidegate.taskmanager.operators.relational.relational_operator import KeyedChanges, RelationalOperator

BOUNDS = {"around": (-2_000, 5_000), "after": (1_000, 3_000), "before": (-4_000, -1_000), "never": (5_000, 1_000)}


def interval_join(kind: str, bounds: str, *, has_condition: bool = False) -> nodes.IntervalJoin1:
    lower, upper = BOUNDS[bounds]
    window = IntervalBounds(
        is_event_time=True, left_lower_bound=lower, left_upper_bound=upper, left_time_index=2, right_time_index=2
    )
    spec = msgspec.structs.replace(join("INNER", has_condition=has_condition).join_spec, join_type=kind)
    more = (Field("k0", STRING), Field("v0", INT), Field("t0", TIME))
    return nodes.IntervalJoin1(
        id=1,
        output_type=LogicalType(TypeRoot.ROW, fields=(*ROWS.fields, *more)),
        description="IntervalJoin",
        interval_join_spec=IntervalJoinSpec(join_spec=spec, window_bounds=window),
    )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("bounds", ["around", "after", "before"])
@pytest.mark.parametrize("most", [3, 1 << 16])
def test_batches_by_arrays(bounds: str, most: int, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """There are the same pairs in the same order, whichever of the two wrote the state, and the same state. ``most``: pairs that are found at once."""
    monkeypatch.setattr(matching, "PAIRS_AT_ONCE", most)
    node = interval_join("INNER", bounds)
    configuration = {"state.backend.type": backend}
    by_arrays, row_by_row = (Subtasks(node, [ROWS, ROWS], [[0], [0]], 1, configuration) for _ in range(2))
    alone: list[int] = []
    one_by_one = RelationalOperator.work

    def watched(operator: RelationalOperator, batch: KeyedChanges, input_index: int) -> None:
        alone.append(len(batch.keys))
        one_by_one(operator, batch, input_index)

    monkeypatch.setattr(RelationalOperator, "work", watched)
    rng = random.Random(bounds)
    watermark = 0
    for number in range(40):
        batch: list[Change] = [
            (0, (rng.choice(("a", "b", "c", None)), rng.randrange(5), watermark + rng.randrange(-3_000, 6_000, 250)))
            for _ in range(rng.choice((1, 2, rng.randrange(1, 30))))
        ]
        index = rng.randrange(2)
        monkeypatch.setattr(module, "ROWS_FOR_ARRAYS", 1)
        came = by_arrays.feed(batch, index)
        monkeypatch.setattr(module, "ROWS_FOR_ARRAYS", 1 << 20)
        assert came == row_by_row.feed(batch, index)
        assert len(alone) == number + 1, "one of the two goes row by row"
        assert state(by_arrays) == state(row_by_row)
        if rng.random() < 0.4:
            watermark += rng.choice((500, 1_000, 4_000))
            assert by_arrays.watermark(watermark) == row_by_row.watermark(watermark)
            assert state(by_arrays) == state(row_by_row)
        if rng.random() < 0.15:
            restored = restored_of([running.snapshot() for running in by_arrays.running])
            for subtasks in (by_arrays, row_by_row):
                subtasks.restart(restored)
    assert len(by_arrays.changes) > 20
    assert by_arrays.watermark(END_OF_TIME) == row_by_row.watermark(END_OF_TIME)
    assert state(by_arrays) == state(row_by_row) == []
    for subtasks in (by_arrays, row_by_row):
        subtasks.close()


@pytest.mark.parametrize(("kind", "bounds"), [("LEFT", "around"), ("FULL", "after"), ("INNER", "never")])
def test_joins_that_go_row_by_row(kind: str, bounds: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS_FOR_ARRAYS", 1)
    monkeypatch.setattr(TableIntervalJoin, "_ran", None)
    subtasks = Subtasks(interval_join(kind, bounds), [ROWS, ROWS], [[0], [0]], 1)
    subtasks.feed([(0, ("a", 1, 5_000)), (0, ("b", 1, 5_000))], 0)
    subtasks.feed([(0, ("a", 2, 3_000))], 1)
    subtasks.watermark(END_OF_TIME)
    expected = (
        [] if bounds == "never" else [(0, ("a", 1, 5_000, "a", 2, 3_000)), (0, ("b", 1, 5_000, None, None, None))]
    )
    assert subtasks.changes == expected
    subtasks.close()


def test_times_that_are_very_far_apart_go_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS_FOR_ARRAYS", 1)
    subtasks = Subtasks(interval_join("INNER", "around"), [ROWS, ROWS], [[0], [0]], 1)
    times = (2**60 - 1, 1_000, 2**61)
    keys = [f"k{number}" for number in range(8)]
    for time in times:
        assert subtasks.feed([(0, (key, 1, time)) for key in keys], 0) == []
    found = subtasks.feed([(0, (key, 2, time)) for key in keys for time in times], 1)
    assert found == [(0, (key, 1, time, key, 2, time)) for key in keys for time in times]
    subtasks.close()


def test_near_rows_are_those_within_the_times() -> None:
    rng = np.random.default_rng(1)
    for _ in range(30):
        keys, stored_keys = rng.integers(0, 4, 20), rng.integers(0, 4, 30)
        firsts, stored = rng.integers(-50, 50, 20), rng.integers(-40, 40, 30)
        lasts = firsts + rng.integers(0, 30, 20)
        near = find_near(keys, firsts, lasts, stored_keys, stored)
        assert near is not None
        seen: set[int] = set()
        for row in range(20):
            found = near.stored[near.begins[row] : near.begins[row] + near.sizes[row]].tolist()
            seen.update(found)
            is_near = (stored_keys == keys[row]) & (firsts[row] <= stored) & (stored <= lasts[row])
            assert sorted(found) == np.flatnonzero(is_near).tolist()
        assert seen == set(near.stored.tolist()), "no others are kept"
    far = np.array([-(2**61), 2**61])
    assert find_near(far * 0, far, far, far * 0, far) is None
