"""Window joins of batches, and of keys that fire together, give what rows and keys give one by one."""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec
import pytest

from tests.unit.taskmanager.operators.relational.subtasks import Subtasks
from tests.unit.taskmanager.operators.relational.test_against_duckdb import BACKENDS, join
from tests.unit.taskmanager.operators.relational.test_state_by_entries import WINDOWED, window_join
from tidegate.functions.sql.changelog import INSERT
from tidegate.functions.sql.rows import Change
from tidegate.model.channel_events import END_OF_TIME
from tidegate.plan import nodes
from tidegate.plan.expressions import RexCall, RexInputRef
from tidegate.plan.logical_types import Field, LogicalType, TypeRoot
from tidegate.plan.specs import WindowAttachedWindowing
from tidegate.taskmanager.operators.relational import window_join as module

TYPES = ("INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI")
BY_ROW = 1 << 30


def joined(join_type: str, *, has_condition: bool, has_key: bool) -> nodes.WindowJoin1:
    """With the condition that the left value is less than the right one."""
    node = window_join()
    width = len(WINDOWED.fields)
    refs = tuple(RexInputRef(input_index=at, type=WINDOWED.fields[1].type) for at in (1, width + 1))
    condition = RexCall(type=LogicalType(TypeRoot.BOOLEAN), operands=refs, internal_name="$<$1")
    keys = (0,) if has_key else ()
    spec = msgspec.structs.replace(
        join("INNER", has_condition=False).join_spec,
        join_type=join_type,
        left_keys=keys,
        right_keys=keys,
        filter_nulls=(True,) * len(keys),
        non_equi_condition=condition if has_condition else None,
    )
    right = (
        () if join_type in ("SEMI", "ANTI") else tuple(Field(f"{field.name}0", field.type) for field in WINDOWED.fields)
    )
    return msgspec.structs.replace(
        node, join_spec=spec, output_type=LogicalType(TypeRoot.ROW, fields=(*WINDOWED.fields, *right))
    )


def changes_of_inputs(seed: int, count: int) -> list[tuple[int, list[Change]]]:
    """Batches of an input each, with rows of windows that have fired among them."""
    rng = random.Random(seed)
    keys = [*(f"k{number}" for number in range(25)), None]
    found = []
    for number in range(count):
        rows: list[Change] = []
        for _ in range(rng.randrange(1, 60)):
            start = 10_000 * max(0, number // 3 - rng.choice((0, 0, 0, 1, 2)))
            rows.append((INSERT, (rng.choice(keys), rng.choice((1, 2, 3, None)), start + 5, start, start + 10_000)))
        found.append((rng.randrange(2), rows))
    return found


def emitted(
    node: nodes.WindowJoin1, batches: Sequence[tuple[int, list[Change]]], backend: str, rescales: Sequence[int] = ()
) -> list[str]:
    keys = [list(node.join_spec.left_keys), list(node.join_spec.right_keys)]
    subtasks = Subtasks(node, [WINDOWED, WINDOWED], keys, 1, {"state.backend.type": backend})
    left = list(rescales)
    for number, (index, changes) in enumerate(batches):
        subtasks.feed(changes, index)
        if number % 3 == 2:
            subtasks.watermark(10_000 * (number // 3) - 1)
            if left:
                subtasks.rescale(left.pop(0))
                subtasks.watermark(10_000 * (number // 3) - 1)
    subtasks.watermark(END_OF_TIME)
    found = list(map(repr, subtasks.changes))
    for running in subtasks.running:
        assert isinstance(running.operator, module.WindowJoin)
        assert running.operator._backend.entry_keys("state") == []
    subtasks.close()
    return found


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("has_condition", [False, True])
@pytest.mark.parametrize("join_type", TYPES)
def test_keys_that_join_together_give_what_each_gives(
    join_type: str, has_condition: bool, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = joined(join_type, has_condition=has_condition, has_key=True)
    batches = changes_of_inputs(1, 20)
    with monkeypatch.context() as patch:
        patch.setattr(module, "ROWS_FOR_ARRAYS", BY_ROW)
        expected = emitted(node, batches, backend)
    monkeypatch.setattr(module, "ROWS_FOR_ARRAYS", 1)
    assert len(expected) > 20
    assert emitted(node, batches, backend) == expected
    assert sorted(emitted(node, batches, backend, (3, 2, 1))) == sorted(expected)


@pytest.mark.parametrize("join_type", TYPES)
def test_a_join_by_the_window_alone_gives_what_rows_give(join_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    node, batches = joined(join_type, has_condition=True, has_key=False), changes_of_inputs(2, 15)
    with monkeypatch.context() as patch:
        patch.setattr(module, "ROWS_FOR_ARRAYS", BY_ROW)
        expected = emitted(node, batches, "hashmap")
    monkeypatch.setattr(module, "ROWS_FOR_ARRAYS", 1)
    assert expected
    assert emitted(node, batches, "hashmap") == expected


def test_a_join_of_sessions_has_windows_of_different_keys_that_end_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """And two windows of one key, of which the earlier one is the first."""
    node = joined("FULL", has_condition=False, has_key=True)
    assert isinstance(node.left_windowing, WindowAttachedWindowing)
    rows: list[Change] = [
        (INSERT, (key, number, 5, start, 10_000))
        for number, (key, start) in enumerate((("a", 7_000), ("b", 2_000), ("a", 1_000), ("c", 7_000)))
    ]
    found = []
    for fewest in (BY_ROW, 1):
        monkeypatch.setattr(module, "ROWS_FOR_ARRAYS", fewest)
        found.append(emitted(node, [(0, rows), (1, rows[:3]), (1, rows[1:2])], "hashmap"))
    assert found[0] == found[1]
    assert len(found[0]) == 5
