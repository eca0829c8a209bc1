"""``table.exec.state.ttl`` in the operators whose states a plan does not list: which keys are forgotten, and when (Flink: ``CleanupState``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from tests.unit.taskmanager.operators.relational.subtasks import Subtasks
from tests.unit.taskmanager.operators.relational.test_against_duckdb import LEFT, RIGHT, call, join
from tidegate.functions.sql.rows import Row
from tidegate.plan import nodes
from tidegate.plan.expressions import BoundedWindow, CurrentRow, RexInputRef, RexLiteral, UnboundedPreceding
from tidegate.plan.logical_types import Field, LogicalType, TimeKind, TypeRoot
from tidegate.plan.nodes import STATE_TTL_KEY, Node
from tidegate.plan.specs import OverGroup, OverSpec, PartitionSpec, SortField, SortSpec, StateMetadata

INT, BIGINT = LogicalType(TypeRoot.INTEGER), LogicalType(TypeRoot.BIGINT)
STRING = LogicalType(TypeRoot.VARCHAR, length=2147483647)
TTL = {STATE_TTL_KEY: "100 ms"}


def row_type(kind: TimeKind) -> LogicalType:
    time = LogicalType(TypeRoot.TIMESTAMP, precision=3, kind=kind)
    return LogicalType(TypeRoot.ROW, fields=(Field("k", STRING), Field("v", INT), Field("t", time)))


def over(kind: TimeKind, *, is_rows: bool, preceding: int | None = None, order: int = 2) -> Subtasks:
    rows = row_type(kind)
    bound = (
        UnboundedPreceding()
        if preceding is None
        else BoundedWindow(offset=RexInputRef(input_index=3, type=BIGINT), is_preceding=True)
    )
    group = OverGroup(
        SortSpec((SortField(order, True, False),)), is_rows, bound, CurrentRow(), (call("$SUM$1", INT, 1),)
    )
    constants = () if preceding is None else (RexLiteral(type=BIGINT, value=preceding),)
    node = nodes.OverAggregate1(
        id=1,
        output_type=LogicalType(TypeRoot.ROW, fields=(*rows.fields, Field("s", INT))),
        description="OverAggregate",
        configuration=TTL,
        over_spec=OverSpec(PartitionSpec((0,)), (group,), constants, 3),
    )
    return Subtasks(node, [rows], [[0]], 1)


def sums(changes: Sequence[Any]) -> list[Any]:
    return [row[-1] for _, row in changes]


def feed(subtasks: Subtasks, *rows: Row) -> list[Any]:
    return sums(subtasks.feed([(0, row) for row in rows]))


@pytest.mark.parametrize("is_rows", [True, False])
@pytest.mark.parametrize("preceding", [None, 1])
def test_over_by_event_time_is_forgotten_between_one_time_to_live_and_half_of_it_more(
    is_rows: bool, preceding: int | None
) -> None:
    subtasks = over(TimeKind.ROWTIME, is_rows=is_rows, preceding=preceding)
    feed(subtasks, ("a", 1, 10))
    assert sums(subtasks.watermark(10)) == [1]
    subtasks.advance(40)  # 140 is before 150, when it would be forgotten: it stays so
    feed(subtasks, ("a", 2, 11))
    assert sums(subtasks.watermark(11)) == [3]
    subtasks.rescale(2)
    subtasks.advance(149)
    is_kept = not is_rows and preceding is not None  # a span of time has ends of its own
    feed(subtasks, ("a", 4, 12))
    assert sums(subtasks.watermark(12)) == ([7] if preceding is None else [6])
    subtasks.advance(299)  # 149 + 150
    feed(subtasks, ("a", 8, 13))
    assert sums(subtasks.watermark(13)) == ([12] if is_kept else [8])
    subtasks.close()


def test_over_by_event_time_keeps_rows_that_wait_for_a_watermark() -> None:
    subtasks = over(TimeKind.ROWTIME, is_rows=True)
    feed(subtasks, ("a", 1, 10), ("a", 2, 20))
    assert sums(subtasks.watermark(10)) == [1]
    subtasks.advance(10_000)
    assert sums(subtasks.watermark(20)) == [3]
    subtasks.close()


def test_over_a_number_of_rows_by_processing_time_is_forgotten() -> None:
    subtasks = over(TimeKind.PROCTIME, is_rows=True, preceding=2)
    assert feed(subtasks, ("a", 1, None), ("a", 2, None)) == [1, 3]
    subtasks.advance(149)
    assert feed(subtasks, ("a", 4, None)) == [7]
    subtasks.advance(299)
    assert feed(subtasks, ("a", 8, None)) == [8]
    subtasks.close()


def test_over_all_rows_by_processing_time_expires_after_the_last_row() -> None:
    subtasks = over(TimeKind.PROCTIME, is_rows=True)
    assert feed(subtasks, ("a", 1, None), ("b", 2, None)) == [1, 2]
    subtasks.advance(99)
    assert feed(subtasks, ("a", 4, None)) == [5]
    subtasks.advance(100)
    assert feed(subtasks, ("a", 8, None), ("b", 16, None)) == [13, 16]
    subtasks.close()


def test_over_in_an_order_that_is_no_time_expires_after_the_last_row() -> None:
    subtasks = over(TimeKind.REGULAR, is_rows=True, order=1)
    assert feed(subtasks, ("a", 1, 0)) == [1]
    subtasks.advance(99)
    assert feed(subtasks, ("a", 2, 0)) == [3]
    subtasks.advance(199)
    assert feed(subtasks, ("a", 4, 0)) == [4]
    subtasks.close()


TIMED_LEFT, TIMED_RIGHT = (
    LogicalType(
        TypeRoot.ROW,
        fields=(*side.fields, Field(name, LogicalType(TypeRoot.TIMESTAMP, precision=3, kind=TimeKind.ROWTIME))),
    )
    for side, name in ((LEFT, "t"), (RIGHT, "u"))
)


def temporal_join(left: LogicalType, right: LogicalType, times: tuple[int, int]) -> Subtasks:
    node = nodes.TemporalJoin1(
        id=1,
        output_type=LogicalType(TypeRoot.ROW, fields=left.fields + right.fields),
        description="TemporalJoin",
        configuration=TTL,
        join_spec=msgspec.structs.replace(join("LEFT", has_condition=False).join_spec, join_type="LEFT"),
        is_temporal_function_join=True,
        left_time_attribute_index=times[0],
        right_time_attribute_index=times[1],
    )
    return Subtasks(node, [left, right], [[0], [0]], 1)


def test_a_temporal_join_forgets_versions_and_rows_that_wait() -> None:
    subtasks = temporal_join(TIMED_LEFT, TIMED_RIGHT, (2, 2))
    subtasks.feed([(0, (1, "q", 5))], 1)
    subtasks.watermark(5)
    subtasks.feed([(0, (1, "p", 7))])
    assert subtasks.watermark(7) == [(0, (1, "p", 7, 1, "q", 5))]
    subtasks.rescale(2)
    subtasks.advance(149)
    subtasks.feed([(0, (1, "r", 8))])
    assert subtasks.watermark(8) == [(0, (1, "r", 8, 1, "q", 5))]
    subtasks.advance(299)
    subtasks.feed([(0, (1, "s", 9))])
    assert subtasks.watermark(9) == [(0, (1, "s", 9, None, None, None))]
    subtasks.feed([(0, (1, "t", 20))])
    subtasks.advance(1_000)
    assert subtasks.watermark(20) == []
    subtasks.close()


def test_a_temporal_join_by_processing_time_forgets_its_version() -> None:
    subtasks = temporal_join(LEFT, RIGHT, (-1, -1))
    subtasks.feed([(0, (1, "q"))], 1)
    subtasks.advance(149)
    assert subtasks.feed([(0, (1, "p"))]) == [(0, (1, "p", 1, "q"))]
    subtasks.advance(298)
    assert subtasks.feed([(0, (1, "r"))]) == [(0, (1, "r", 1, "q"))]
    subtasks.advance(500)
    assert subtasks.feed([(0, (1, "s"))]) == [(0, (1, "s", None, None))]
    subtasks.close()


def first_row(ttl: dict[str, str] | None) -> Subtasks:
    rows = row_type(TimeKind.ROWTIME)
    node = nodes.Deduplicate1(
        id=1, output_type=rows, description="Deduplicate", unique_keys=(0,), is_rowtime=True, keep_last_row=False,
        generate_update_before=False, output_insert_only=True, configuration=ttl,
    )  # fmt: skip
    return Subtasks(node, [rows], [[0]], 1)


def test_that_a_first_row_was_emitted_expires_and_a_row_that_waits_does_not() -> None:
    subtasks = first_row(TTL)
    subtasks.feed([(0, ("a", 2, 20)), (0, ("a", 1, 10))])
    subtasks.advance(1_000)
    assert subtasks.watermark(10) == [(0, ("a", 1, 10))]
    subtasks.rescale(2)
    subtasks.advance(1_099)
    subtasks.feed([(0, ("a", 3, 30))])
    assert subtasks.watermark(30) == []
    subtasks.advance(1_100)
    subtasks.feed([(0, ("a", 4, 40))])
    assert subtasks.watermark(40) == [(0, ("a", 4, 40))]
    subtasks.close()


def test_without_a_time_to_live_nothing_is_forgotten() -> None:
    subtasks = first_row(None)
    subtasks.feed([(0, ("a", 1, 10))])
    subtasks.watermark(10)
    subtasks.advance(10**12)
    subtasks.feed([(0, ("a", 2, 20))])
    assert subtasks.watermark(20) == []
    subtasks.close()


def test_what_the_plan_says_of_a_state_comes_before_the_option() -> None:
    node: Node = msgspec.structs.replace(
        join("INNER", has_condition=False),
        configuration=TTL,
        state=(StateMetadata(0, "0 ms", "leftState"), StateMetadata(1, "10 ms", "rightState")),
    )
    subtasks = Subtasks(node, [LEFT, RIGHT], [[0], [0]], 1)
    subtasks.feed([(0, (1, "p"))])
    subtasks.feed([(0, (1, "q"))], 1)
    subtasks.set_clock(1_000)
    assert subtasks.feed([(0, (1, "s"))]) == []
    assert subtasks.feed([(0, (1, "r"))], 1) == [(0, (1, "p", 1, "r")), (0, (1, "s", 1, "r"))]
    subtasks.close()
