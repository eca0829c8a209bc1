"""``table.exec.state.ttl`` in the operators whose states a plan does not list: which keys are forgotten, and when (Flink: ``CleanupState``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from tests.unit.taskmanager.operators.relational.subtasks import Subtasks
from tests.unit.taskmanager.operators.relational.test_against_duckdb import (
    LEFT,
    RIGHT,
    ROWS,
    call,
    group_aggregate,
    join,
)
from tidegate.functions.sql.rows import Row
from tidegate.plan import nodes
from tidegate.plan.expressions import BoundedWindow, CurrentRow, RexInputRef, RexLiteral, UnboundedPreceding
from tidegate.plan.logical_types import Field, LogicalType, TimeKind, TypeRoot
from tidegate.plan.nodes import RANK_CACHE_KEY, STATE_TTL_KEY, Node
from tidegate.plan.specs import (
    AppendFast,
    ConstantRange,
    OverGroup,
    OverSpec,
    PartitionSpec,
    Retract,
    SortField,
    SortSpec,
    StateMetadata,
)

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


def limited(node: Node, *names: str) -> Node:
    """The node with states that live for 100 ms."""
    return msgspec.structs.replace(
        node, state=tuple(StateMetadata(at, "100 ms", name) for at, name in enumerate(names))
    )


def test_rows_of_both_sides_of_a_join_expire_after_they_came() -> None:
    """``JoinRecordStateViews``: each row has a time to live of its own, which joining does not renew."""
    subtasks = Subtasks(
        limited(join("INNER", has_condition=False), "leftState", "rightState"), [LEFT, RIGHT], [[0], [0]], 1
    )
    subtasks.feed([(0, (1, "p"))])
    subtasks.set_clock(60)
    assert subtasks.feed([(0, (1, "q"))], 1) == [(0, (1, "p", 1, "q"))]
    subtasks.set_clock(100)
    assert subtasks.feed([(0, (1, "r"))], 1) == []
    subtasks.set_clock(159)
    assert sorted(subtasks.feed([(0, (1, "s"))])) == [(0, (1, "s", 1, "q")), (0, (1, "s", 1, "r"))]
    subtasks.set_clock(160)
    assert subtasks.feed([(0, (1, "t"))]) == [(0, (1, "t", 1, "r"))]
    subtasks.close()


def test_a_row_of_the_outer_side_expires_after_its_last_partner_came() -> None:
    """``StreamingJoinOperator``: the number of partners is written with the row (``updateNumOfAssociations``)."""
    subtasks = Subtasks(
        limited(join("LEFT", has_condition=False), "leftState", "rightState"), [LEFT, RIGHT], [[0], [0]], 1
    )
    assert subtasks.feed([(0, (1, "p"))]) == [(0, (1, "p", None, None))]
    subtasks.set_clock(50)
    assert subtasks.feed([(0, (1, "q"))], 1) == [(3, (1, "p", None, None)), (0, (1, "p", 1, "q"))]
    subtasks.set_clock(149)
    assert subtasks.feed([(0, (1, "r"))], 1) == [(0, (1, "p", 1, "r"))]
    subtasks.set_clock(248)
    assert subtasks.feed([(0, (1, "s"))], 1) == [(0, (1, "p", 1, "s"))]
    subtasks.set_clock(348)
    assert subtasks.feed([(0, (1, "t"))], 1) == []
    subtasks.close()


def test_a_group_begins_anew_when_it_has_expired_and_a_retraction_of_it_is_dropped() -> None:
    """``GroupAggFunction``: the accumulators are written with each row; without them a row is the first of its group, and a retraction is left out."""
    subtasks = Subtasks(limited(group_aggregate((0,)), "groupAggregateState"), [ROWS], [[0]], 1)
    assert [kind for kind, _ in subtasks.feed([(0, ("a", 1, True))])] == [0]
    subtasks.set_clock(99)
    assert [(kind, row[1]) for kind, row in subtasks.feed([(0, ("a", 2, True))])] == [(1, 1), (2, 2)]
    subtasks.set_clock(199)
    assert subtasks.feed([(3, ("a", 1, True))]) == []
    assert [(kind, row[1]) for kind, row in subtasks.feed([(0, ("a", 4, True))])] == [(0, 1)]
    subtasks.close()


@pytest.mark.parametrize("keeps_last", [True, False])
def test_a_deduplicated_key_is_new_when_it_has_expired(keeps_last: bool) -> None:
    """``ProcTimeDeduplicateKeepFirstRowFunction`` writes a key once, ``ProcTimeDeduplicateKeepLastRowFunction`` each row."""
    rows = row_type(TimeKind.PROCTIME)
    node = nodes.Deduplicate1(
        id=1, output_type=rows, description="Deduplicate", unique_keys=(0,), is_rowtime=False, keep_last_row=keeps_last,
        generate_update_before=True, output_insert_only=not keeps_last,
    )  # fmt: skip
    subtasks = Subtasks(limited(node, "deduplicateState"), [rows], [[0]], 1)
    found = []
    for at in (0, 99, 100, 198, 298):
        subtasks.set_clock(at)
        found.append([(kind, row[1]) for kind, row in subtasks.feed([(0, ("a", at, None))])])
    if keeps_last:
        updates = [[(1, before), (2, now)] for before, now in ((0, 99), (99, 100), (100, 198))]
        assert found == [[(0, 0)], *updates, [(0, 298)]]
    else:
        assert found == [[(0, 0)], [], [(0, 100)], [], [(0, 298)]]
    subtasks.close()


def test_the_first_rows_of_a_partition_begin_anew_when_it_has_expired() -> None:
    """``RetractableTopNFunction`` writes what it keeps of a partition with each row."""
    node = nodes.Rank1(
        id=1, output_type=row_type(TimeKind.REGULAR), description="Rank", rank_type="ROW_NUMBER", partition=PartitionSpec((0,)),
        order_by=SortSpec((SortField(1, True, False),)), rank_range=ConstantRange(1, 2), rank_strategy=Retract(),
        output_row_number=False, generate_update_before=True,
    )  # fmt: skip
    subtasks = Subtasks(limited(node, "rankState"), [row_type(TimeKind.REGULAR)], [[0]], 1)
    assert subtasks.feed([(0, ("a", 5, 0)), (0, ("a", 3, 0))]) == [(0, ("a", 5, 0)), (0, ("a", 3, 0))]
    subtasks.set_clock(99)
    assert subtasks.feed([(0, ("a", 4, 0))]) == [(3, ("a", 5, 0)), (0, ("a", 4, 0))]
    subtasks.set_clock(198)
    assert subtasks.feed([(0, ("a", 9, 0))]) == []
    subtasks.set_clock(298)
    assert subtasks.feed([(0, ("a", 7, 0))]) == [(0, ("a", 7, 0))]
    subtasks.close()


def test_rows_of_a_top_n_do_not_expire_while_its_partition_is_among_those_used_last() -> None:
    """``AppendOnlyTopNFunction`` keeps them in memory, of so many partitions as hold ``table.exec.rank.topn-cache-size`` rows, and reads no state of theirs."""
    node = nodes.Rank1(
        id=1, output_type=row_type(TimeKind.REGULAR), description="Rank", rank_type="ROW_NUMBER", partition=PartitionSpec((0,)),
        order_by=SortSpec((SortField(1, True, False),)), rank_range=ConstantRange(1, 2), rank_strategy=AppendFast(),
        output_row_number=False, generate_update_before=True, configuration={RANK_CACHE_KEY: "4"},
    )  # fmt: skip
    subtasks = Subtasks(limited(node, "rankState"), [row_type(TimeKind.REGULAR)], [[0]], 1)
    for key in "abc":
        assert len(subtasks.feed([(0, (key, 1, 0)), (0, (key, 2, 0))])) == 2
    subtasks.set_clock(1_000)
    assert subtasks.feed([(0, ("b", 3, 0)), (0, ("c", 3, 0))]) == []
    assert subtasks.feed([(0, ("a", 3, 0))]) == [(0, ("a", 3, 0))]
    assert subtasks.feed([(0, ("c", 4, 0))]) == []
    assert subtasks.feed([(0, ("b", 4, 0))]) == [(0, ("b", 4, 0))]
    subtasks.rescale(2)
    assert subtasks.feed([(0, ("c", 4, 0))]) == [(0, ("c", 4, 0))]
    subtasks.close()
