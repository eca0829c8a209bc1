"""What grows without bound for a key is entries: a checkpoint after one more row writes a few of them, however many rows the key has; and
savepoints that hold the one value of versions before are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from tests.unit.taskmanager.operators.harness import MemoryStore, Running
from tests.unit.taskmanager.operators.relational.subtasks import Subtasks
from tests.unit.taskmanager.operators.relational.test_against_duckdb import BACKENDS, LEFT, RIGHT, call, join
from tests.unit.taskmanager.operators.relational.test_time_against_duckdb import (
    BIGINT,
    INT,
    ROWS,
    STRING,
    TIME,
    window_aggregate,
)
from tidegate.functions.sql.rows import Change
from tidegate.model.checkpoint import CheckpointOptions, OperatorSnapshot
from tidegate.plan import nodes
from tidegate.plan.expressions import CurrentRow, UnboundedPreceding
from tidegate.plan.logical_types import Field, LogicalType, TypeRoot
from tidegate.plan.specs import (
    IntervalBounds,
    IntervalJoinSpec,
    OverGroup,
    OverSpec,
    PartitionSpec,
    SortField,
    SortSpec,
    TumblingWindow,
    WindowAttachedWindowing,
)

ROWS_OF_KEY = 20_000
MOST_BYTES = 8_000
"""Of what a checkpoint writes after one row: a file of Arrow's with some rows."""


@dataclass
class Case:
    """``row``: the rows that the key is filled with, by number; ``more``: the changes, by input, whose checkpoint is looked at."""

    node: Any
    types: Sequence[LogicalType]
    keys: Sequence[Sequence[int]]
    row: Callable[[int], tuple[Any, ...]]
    more: Sequence[tuple[int, Change]]


def upsert(upsert_key: tuple[int, ...] | None) -> nodes.Sink2:
    from tidegate.plan.specs import ContextResolvedTable, ResolvedCatalogTable, ResolvedSchema, TableSink

    table = ContextResolvedTable("`c`.`d`.`t`", ResolvedCatalogTable(ResolvedSchema(())))
    return nodes.Sink2(
        id=1,
        output_type=LEFT,
        description="Sink",
        dynamic_table_sink=TableSink(table),
        input_changelog_mode=("INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE"),
        require_upsert_materialize=True,
        input_upsert_key=upsert_key,
    )


def interval_join() -> nodes.IntervalJoin1:
    bounds = IntervalBounds(
        is_event_time=True, left_lower_bound=-2_000, left_upper_bound=5_000, left_time_index=2, right_time_index=2
    )
    spec = msgspec.structs.replace(join("FULL", has_condition=False).join_spec, join_type="FULL")
    more = (Field("k0", STRING), Field("v0", INT), Field("t0", TIME))
    return nodes.IntervalJoin1(
        id=1,
        output_type=LogicalType(TypeRoot.ROW, fields=(*ROWS.fields, *more)),
        description="IntervalJoin",
        interval_join_spec=IntervalJoinSpec(join_spec=spec, window_bounds=bounds),
    )


def over(*, is_rows: bool = True) -> nodes.OverAggregate1:
    group = OverGroup(
        order_by=SortSpec((SortField(2, True, False),)),
        is_rows=is_rows,
        lower_bound=UnboundedPreceding(),
        upper_bound=CurrentRow(),
        agg_calls=(call("$COUNT$1", BIGINT),),
    )
    return nodes.OverAggregate1(
        id=1,
        output_type=LogicalType(TypeRoot.ROW, fields=(*ROWS.fields, Field("n", BIGINT))),
        description="OverAggregate",
        over_spec=OverSpec(partition=PartitionSpec((0,)), groups=(group,), constants=(), original_input_fields=3),
    )


WINDOWED = LogicalType(TypeRoot.ROW, fields=(*ROWS.fields, Field("window_start", TIME), Field("window_end", TIME)))


def window_join() -> nodes.WindowJoin1:
    windowing = WindowAttachedWindowing(
        window=TumblingWindow(size="PT10S"),
        time_attribute_type=TIME,
        window_start=3,
        window_end=4,
        is_rowtime=True,
    )
    more = tuple(Field(f"{field.name}0", field.type) for field in WINDOWED.fields)
    return nodes.WindowJoin1(
        id=1,
        output_type=LogicalType(TypeRoot.ROW, fields=(*WINDOWED.fields, *more)),
        description="WindowJoin",
        join_spec=msgspec.structs.replace(join("INNER", has_condition=False).join_spec, join_type="INNER"),
        left_windowing=windowing,
        right_windowing=windowing,
    )


CASES = {
    "join without keys": Case(
        join("INNER", has_keys=False), [LEFT, RIGHT], [[], []], lambda i: (i, "p"), [(0, (0, (-1, "p")))]
    ),
    "outer join of one key": Case(
        join("FULL"), [LEFT, RIGHT], [[0], [0]], lambda i: (1, f"p{i}"), [(0, (0, (1, "q"))), (0, (3, (1, "p7")))]
    ),
    "anti join of one key": Case(
        join("ANTI", has_condition=False), [LEFT, RIGHT], [[0], [0]], lambda i: (1, f"p{i}"), [(0, (3, (1, "p7")))]
    ),
    "interval join": Case(
        interval_join(), [ROWS, ROWS], [[0], [0]], lambda i: ("a", i, 1_000 * i), [(0, (0, ("a", 1, 5_000)))]
    ),
    "interval join at one time": Case(
        interval_join(), [ROWS, ROWS], [[0], [0]], lambda i: ("a", i, 5_000), [(0, (0, ("a", 1, 5_000)))]
    ),
    "OVER of rows that wait": Case(over(), [ROWS], [[0]], lambda i: ("a", i, i), [(0, (0, ("a", 1, 5)))]),
    "OVER of rows of one time": Case(over(), [ROWS], [[0]], lambda i: ("a", i, 5), [(0, (0, ("a", 1, 5)))]),
    "windows of one key": Case(
        window_aggregate(TumblingWindow(size="PT10S")),
        [ROWS],
        [[0]],
        lambda i: ("a", 1, 10_000 * i),
        [(0, (0, ("a", 1, 5)))],
    ),
    "window join": Case(
        window_join(),
        [WINDOWED, WINDOWED],
        [[0], [0]],
        lambda i: ("a", i, 5, 0, 10_000),
        [(0, (0, ("a", 1, 5, 0, 10_000)))],
    ),
    "upserts of one key": Case(
        upsert(None), [LEFT], [[0]], lambda i: (1, f"p{i}"), [(0, (0, (1, "q"))), (0, (3, (1, "p7")))]
    ),
    "upserts with a key of their own": Case(
        upsert((1,)), [LEFT], [[0]], lambda i: (1, f"p{i}"), [(0, (0, (1, "q"))), (0, (2, (1, "p7")))]
    ),
}


def checkpoint(running: Running, number: int) -> tuple[int, OperatorSnapshot]:
    """How many bytes it has written, and the snapshot. The next one builds upon it."""
    store = MemoryStore()
    running.operator.prepare_snapshot(number)
    running.operator.context.checkpoint_options = CheckpointOptions(
        location="/l", shared_location="/s", oldest_base_id=1
    )
    frozen = running.operator.freeze(number)
    assert frozen is not None
    found = frozen.write(store)
    frozen.release()
    running.operator.notify_checkpoint_complete(number)
    return sum(map(len, store.contents)), found


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CASES)
def test_a_checkpoint_after_one_row_writes_some_entries(name: str, backend: str) -> None:
    case, count = CASES[name], ROWS_OF_KEY if backend == "hashmap" else 2_000
    configuration = {"state.backend.type": backend, "execution.checkpointing.incremental": "true"}
    subtasks = Subtasks(case.node, case.types, case.keys, 1, configuration)
    (running,) = subtasks.running
    subtasks.feed([(0, case.row(i)) for i in range(count)])
    whole, _ = checkpoint(running, 1)
    for index, change in case.more:
        subtasks.feed([change], index)
    written, _ = checkpoint(running, 2)
    assert 0 < written < MOST_BYTES < whole, (written, whole)
    subtasks.close()
