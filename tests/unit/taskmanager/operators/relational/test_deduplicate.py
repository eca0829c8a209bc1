"""Deduplication by arrays gives the changes and the state of its rows one by one."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.unit.taskmanager.operators.harness import MemoryStore, restored_of
from tests.unit.taskmanager.operators.relational.subtasks import Subtasks
from tests.unit.taskmanager.operators.relational.test_against_duckdb import BACKENDS, BIGINT, INT, STRING, row_type
from tidegate.functions.sql.rows import Change, Row
from tidegate.model.channel_events import END_OF_TIME
from tidegate.plan import nodes
from tidegate.plan.logical_types import LogicalType, TimeKind, TypeRoot
from tidegate.plan.specs import StateMetadata
from tidegate.taskmanager.operators.relational import deduplicate as module
from tidegate.taskmanager.operators.relational.deduplicate import Deduplicate, FirstRow
from tidegate.taskmanager.operators.relational.relational_operator import KeyedChanges, RelationalOperator
from tidegate.taskmanager.operators.relational.replacements import (
    RowsByKey,
    find_earlier_or_later,
    find_replacements,
)

ROWTIME = LogicalType(TypeRoot.TIMESTAMP, precision=3, kind=TimeKind.ROWTIME)
DOUBLE = LogicalType(TypeRoot.DOUBLE)
ROWS = row_type(k=STRING, n=BIGINT, v=INT, f=DOUBLE, t=ROWTIME)
MODES = {
    "first by arrival": (False, False, False),
    "last by arrival": (False, True, False),
    "first by time, as updates": (True, False, False),
    "last by time": (True, True, False),
    "first by time, once": (True, False, True),
}


def deduplicate(
    mode: str, keys: tuple[int, ...], ttl_ms: int, *, generates_update_before: bool = True
) -> nodes.Deduplicate1:
    is_rowtime, keeps_last, inserts_only = MODES[mode]
    return nodes.Deduplicate1(
        id=1,
        output_type=ROWS,
        description="Deduplicate",
        unique_keys=keys,
        is_rowtime=is_rowtime,
        keep_last_row=keeps_last,
        generate_update_before=generates_update_before,
        output_insert_only=inserts_only,
        state=(StateMetadata(0, f"{ttl_ms} ms", "deduplicateState"),) if ttl_ms else (),
    )


def state(subtasks: Subtasks) -> list[str]:
    operator = subtasks.running[0].operator
    assert isinstance(operator, RelationalOperator)
    return sorted(repr(entry) for table in operator._states for entry in table._table.entries())


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("keys", "ttl_ms", "generates_update_before"), [((0,), 0, True), ((1,), 100, True), ((1, 0), 100, False)]
)
@pytest.mark.parametrize("mode", MODES)
def test_batches_by_arrays(
    mode: str,
    keys: tuple[int, ...],
    ttl_ms: int,
    generates_update_before: bool,
    backend: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There are the same changes as row by row, whichever of the two wrote the state, and the same state."""
    node = deduplicate(mode, keys, ttl_ms, generates_update_before=generates_update_before)
    configuration = {"state.backend.type": backend, "execution.checkpointing.incremental": "true"}
    by_arrays, row_by_row = (Subtasks(node, [ROWS], [list(keys)], 1, configuration) for _ in range(2))
    alone: list[int] = []
    one_by_one = RelationalOperator.work

    def watched(operator: RelationalOperator, batch: KeyedChanges, input_index: int) -> None:
        alone.append(len(batch.keys))
        one_by_one(operator, batch, input_index)

    monkeypatch.setattr(RelationalOperator, "work", watched)
    rng = random.Random(mode)
    times = (0, 5, 7, 20, 21, 35, 60) if "once" in mode else (-(2**62), -1, 0, 5, 7, 1_000, 2**62)
    now_ms = 0
    for number in range(25):
        span = rng.choice((2, 5, 40))
        batch: list[Change] = [
            (
                0,
                (
                    rng.choice(("a", "b", "c", None)),
                    rng.randrange(span),
                    rng.choice((1, 2, None)),
                    rng.choice((0.0, -0.0, float("nan"), None)),
                    rng.choice(times) + number * ("once" in mode),
                ),
            )
            for _ in range(rng.choice((1, 2, rng.randrange(1, 60))))
        ]
        monkeypatch.setattr(module, "ROWS_FOR_ARRAYS", 1)
        came = by_arrays.feed(batch)
        monkeypatch.setattr(module, "ROWS_FOR_ARRAYS", 1 << 20)
        assert repr(came) == repr(row_by_row.feed(batch))
        assert len(alone) == number + 1, "one of the two goes row by row"
        if rng.random() < 0.3:
            assert repr(by_arrays.watermark(number)) == repr(row_by_row.watermark(number))
        assert state(by_arrays) == state(row_by_row)
        now_ms += rng.choice((10, 60, 150))
        for subtasks in (by_arrays, row_by_row):
            subtasks.set_clock(now_ms)
        if rng.random() < 0.2:
            restored = restored_of([running.snapshot() for running in by_arrays.running])
            for subtasks in (by_arrays, row_by_row):
                subtasks.restart(restored)
    assert repr(by_arrays.watermark(END_OF_TIME)) == repr(row_by_row.watermark(END_OF_TIME))
    assert len(by_arrays.changes) >= 4
    for subtasks in (by_arrays, row_by_row):
        subtasks.close()


def test_a_snapshot_that_is_being_written_keeps_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS_FOR_ARRAYS", 1)
    subtasks = Subtasks(deduplicate("last by time", (0,), 0), [ROWS], [[0]], 1)
    first: list[Change] = [(0, (key, 1, 1, 1.0, 5)) for key in "abc"]
    subtasks.feed(first)
    frozen = subtasks.running[0].operator.freeze(1)
    assert frozen is not None
    later: Row = ("b", 2, 2, 2.0, 6)
    assert subtasks.feed([(0, later)]) == [(1, first[1][1]), (2, later)]
    written = frozen.write(MemoryStore())
    assert subtasks.feed([(0, ("b", 3, 3, 3.0, 6))]) == [(1, later), (2, ("b", 3, 3, 3.0, 6))]
    frozen.release()
    subtasks.restart(restored_of([written]))
    assert subtasks.feed([(0, later)]) == [(1, first[1][1]), (2, later)]
    subtasks.close()


def test_times_that_are_far_apart_are_compared_too() -> None:
    least, most = -(2**63), 2**63 - 1
    rows = RowsByKey(np.array([0, 1, 0, 1, 0]), np.array([True, False]))
    times, held = np.array([most, 5, least, least, most]), np.array([least, 0])
    later = find_earlier_or_later(rows, times, held, is_later=True)
    assert later.tolist() == [True, False, True, True, False], "by key: 0, 2, 4, then 1, 3"
    found = find_replacements(rows, later)
    assert (found.rows.tolist(), found.before.tolist()) == ([0, 4, 1], [-2, 0, -1])
    assert (found.keys.tolist(), found.kept.tolist()) == ([0, 1], [4, 1])
    earlier = find_earlier_or_later(rows, times, held, is_later=False)
    assert earlier.tolist() == [False, False, False, True, True]
    assert find_replacements(rows, earlier).kept.tolist() == [3]


def test_a_batch_with_a_time_that_is_missing_goes_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS_FOR_ARRAYS", 1)
    subtasks = Subtasks(deduplicate("first by time, once", (0,), 0), [ROWS], [[0]], 1)
    subtasks.feed([(0, ("a", 1, 1, 1.0, None)), (0, ("a", 2, 2, 2.0, 7)), (0, ("a", 3, 3, 3.0, 8))])
    assert subtasks.watermark(END_OF_TIME) == [(0, ("a", 2, 2, 2.0, 7))]
    subtasks.close()


def test_what_is_made_of_each_mode() -> None:
    for mode, (_, _, inserts_only) in MODES.items():
        subtasks = Subtasks(deduplicate(mode, (0,), 0), [ROWS], [[0]], 1)
        assert type(subtasks.running[0].operator) is (FirstRow if inserts_only else Deduplicate)
        subtasks.close()
