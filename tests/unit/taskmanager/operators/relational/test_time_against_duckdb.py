"""What operators by event time emit, across restores with other numbers of subtasks, is what DuckDB computes from all rows at once."""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec
import pytest

from tests.unit.taskmanager.operators.relational.subtasks import Subtasks
from tests.unit.taskmanager.operators.relational.test_against_duckdb import BACKENDS, call, computed, in_order, join
from tidegate.functions.sql.rows import Change, Row
from tidegate.model.channel_events import END_OF_TIME
from tidegate.plan import nodes
from tidegate.plan.expressions import (
    BoundedWindow,
    CurrentRow,
    RexInputRef,
    RexLiteral,
    UnboundedPreceding,
    WindowBound,
)
from tidegate.plan.logical_types import Field, LogicalType, TimeKind, TypeRoot
from tidegate.plan.specs import (
    CumulativeWindow,
    HoppingWindow,
    IntervalBounds,
    IntervalJoinSpec,
    NamedWindowProperty,
    OverGroup,
    OverSpec,
    PartitionSpec,
    SessionWindow,
    SortField,
    SortSpec,
    TimeAttributeWindowing,
    TumblingWindow,
    Window,
    WindowEnd,
    WindowReference,
    WindowStart,
)

INT, BIGINT = LogicalType(TypeRoot.INTEGER), LogicalType(TypeRoot.BIGINT)
STRING = LogicalType(TypeRoot.VARCHAR, length=2147483647)
TIME = LogicalType(TypeRoot.TIMESTAMP, precision=3, kind=TimeKind.ROWTIME)
ROWS = LogicalType(TypeRoot.ROW, fields=(Field("k", STRING), Field("v", INT), Field("t", TIME)))
_CALLS = (call("$COUNT$1", BIGINT), call("$SUM$1", INT, 1))
_REFERENCE = WindowReference("w$", TIME)


def shuffled_rows(seed: int, count: int = 60) -> list[Row]:
    """With times that differ, of which none comes more than 4 s after a later one."""
    rng = random.Random(seed)
    times = sorted(rng.sample(range(10_000, 70_000), count), key=lambda ms: ms + rng.randrange(4_000))
    return [(rng.choice(("a", "b", "ü", None)), rng.choice((1, 2, -3, None)), ms) for ms in times]


def run(subtasks: Subtasks, rows: Sequence[Row], inputs: Sequence[int]) -> list[Change]:
    """Rows one by one, each with a watermark 4 s behind it; the number of subtasks changes twice, and all input ends."""
    latest = 0
    for step, (row, index) in enumerate(zip(rows, inputs, strict=True)):
        subtasks.feed([(0, row)], index)
        latest = max(latest, row[2])
        subtasks.watermark(latest - 4_001)
        if step in (20, 40):
            subtasks.rescale(3 if step == 20 else 1)
            subtasks.watermark(latest - 4_001)
    subtasks.watermark(END_OF_TIME)
    subtasks.close()
    return subtasks.changes


def window_aggregate(window: Window) -> nodes.WindowAggregate1:
    fields = [ROWS.fields[0], Field("n", BIGINT), Field("s", INT), Field("ws", TIME), Field("we", TIME)]
    return nodes.WindowAggregate1(
        id=1,
        output_type=LogicalType(TypeRoot.ROW, fields=tuple(fields)),
        description="WindowAggregate",
        grouping=(0,),
        agg_calls=_CALLS,
        windowing=TimeAttributeWindowing(
            window=window, time_attribute_type=TIME, time_attribute_index=2, is_rowtime=True
        ),
        named_window_properties=(
            NamedWindowProperty("ws", WindowStart(_REFERENCE)),
            NamedWindowProperty("we", WindowEnd(_REFERENCE)),
        ),
        need_retraction=False,
    )


_BY_START = """SELECT k, count(*), sum(v)::INT, s, s + {size} FROM (SELECT *, epoch_ms(t) AS ms FROM t) AS r,
    LATERAL (SELECT unnest(range(ms - (ms - {offset}) % {slide} - {size} + {slide}, ms + 1, {slide})) AS s) GROUP BY k, s"""
_CUMULATIVE = """SELECT k, count(*), sum(v)::INT, ms - ms % 12000, e FROM (SELECT *, epoch_ms(t) AS ms FROM t) AS r,
    LATERAL (SELECT unnest(range(ms - ms % 4000 + 4000, ms - ms % 12000 + 12001, 4000)) AS e) GROUP BY k, 4, e"""
_SESSIONS = """SELECT k, count(*), sum(v)::INT, min(ms), max(ms) + 1500 FROM (
    SELECT k, v, ms, sum(starts) OVER (PARTITION BY k ORDER BY ms) AS number FROM (
        SELECT k, v, epoch_ms(t) AS ms,
            CASE WHEN epoch_ms(t) - lag(epoch_ms(t)) OVER (PARTITION BY k ORDER BY t) <= 1500 THEN 0 ELSE 1 END AS starts FROM t))
    GROUP BY k, number"""


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("window", "query"),
    [
        (TumblingWindow(size="PT10S", offset="PT3S"), _BY_START.format(size=10_000, slide=10_000, offset=3_000)),
        (HoppingWindow(size="PT10S", slide="PT5S"), _BY_START.format(size=10_000, slide=5_000, offset=0)),
        (CumulativeWindow(max_size="PT12S", step="PT4S"), _CUMULATIVE),
        (SessionWindow(gap="PT1.5S"), _SESSIONS),
    ],
)
def test_windows(window: Window, query: str, backend: str) -> None:
    rows = shuffled_rows(1)
    subtasks = Subtasks(window_aggregate(window), [ROWS], [[0]], 2, {"state.backend.type": backend})
    emitted = run(subtasks, rows, [0] * len(rows))
    assert in_order([row for _, row in emitted]) == in_order(computed(query, t=([(0, row) for row in rows], ROWS)))


def test_what_comes_for_a_window_that_has_fired_is_dropped() -> None:
    subtasks = Subtasks(window_aggregate(TumblingWindow(size="PT10S")), [ROWS], [[0]], 1)
    subtasks.feed([(0, ("a", 1, 5_000))])
    assert subtasks.watermark(9_998) == []
    assert subtasks.watermark(9_999) == [(0, ("a", 1, 1, 0, 10_000))]
    subtasks.feed([(0, ("a", 2, 6_000)), (0, ("a", 3, 10_000))])
    assert subtasks.watermark(END_OF_TIME) == [(0, ("a", 1, 3, 10_000, 20_000))]
    subtasks.close()


@pytest.mark.parametrize(
    ("is_rows", "lower", "frame"),
    [
        (False, None, "RANGE UNBOUNDED PRECEDING"),
        (True, None, "ROWS UNBOUNDED PRECEDING"),
        (True, 2, "ROWS 2 PRECEDING"),
        (False, 5_000, "RANGE BETWEEN INTERVAL 5 SECOND PRECEDING AND CURRENT ROW"),
    ],
)
def test_over_windows(is_rows: bool, lower: int | None, frame: str) -> None:
    bound: WindowBound = UnboundedPreceding()
    if lower is not None:
        bound = BoundedWindow(offset=RexInputRef(input_index=3, type=INT), is_preceding=True)
    group = OverGroup(
        order_by=SortSpec((SortField(2, True, False),)),
        is_rows=is_rows,
        lower_bound=bound,
        upper_bound=CurrentRow(),
        agg_calls=_CALLS,
    )
    node = nodes.OverAggregate1(
        id=1,
        output_type=LogicalType(TypeRoot.ROW, fields=(*ROWS.fields, Field("n", BIGINT), Field("s", INT))),
        description="OverAggregate",
        over_spec=OverSpec(
            partition=PartitionSpec((0,)),
            groups=(group,),
            constants=() if lower is None else (RexLiteral(type=INT, value=lower),),
            original_input_fields=3,
        ),
    )
    rows = shuffled_rows(2)
    emitted = run(Subtasks(node, [ROWS], [[0]], 2), rows, [0] * len(rows))
    query = f"SELECT k, v, epoch_ms(t), count(*) OVER w, (sum(v) OVER w)::INT FROM t WINDOW w AS (PARTITION BY k ORDER BY t {frame})"
    assert in_order([row for _, row in emitted]) == in_order(computed(query, t=([(0, row) for row in rows], ROWS)))


@pytest.mark.parametrize("kind", ["INNER", "LEFT", "RIGHT", "FULL"])
def test_interval_joins(kind: str) -> None:
    rows, rng = shuffled_rows(3), random.Random(5)
    inputs = [rng.randrange(2) for _ in rows]
    bounds = IntervalBounds(
        is_event_time=True, left_lower_bound=-2_000, left_upper_bound=5_000, left_time_index=2, right_time_index=2
    )
    spec = msgspec.structs.replace(join(kind, has_condition=False).join_spec, join_type=kind)
    node = nodes.IntervalJoin1(
        id=1,
        output_type=LogicalType(
            TypeRoot.ROW, fields=(*ROWS.fields, Field("k0", STRING), Field("v0", INT), Field("t0", TIME))
        ),
        description="IntervalJoin",
        interval_join_spec=IntervalJoinSpec(join_spec=spec, window_bounds=bounds),
    )
    emitted = run(Subtasks(node, [ROWS, ROWS], [[0], [0]], 2), rows, inputs)
    sides = [[(0, row) for row, index in zip(rows, inputs, strict=True) if index == side] for side in (0, 1)]
    query = f"""SELECT l.k, l.v, epoch_ms(l.t), r.k, r.v, epoch_ms(r.t) FROM l {kind} JOIN r
        ON l.k = r.k AND epoch_ms(l.t) BETWEEN epoch_ms(r.t) - 2000 AND epoch_ms(r.t) + 5000"""
    assert in_order([row for _, row in emitted]) == in_order(computed(query, l=(sides[0], ROWS), r=(sides[1], ROWS)))
