"""What operators over changelogs emit leaves, at every prefix, the rows that DuckDB computes from the rows that are there; across restores with other
numbers of subtasks, and on both backends of state."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from functools import cache
from typing import Any

import duckdb
import msgspec
import pyarrow as pa
import pytest

from tests.unit.taskmanager.operators.relational.subtasks import Subtasks, fold, random_changes
from tidegate.functions.sql.rows import Change, Row, batch_of
from tidegate.functions.sql.scalar import arrow_schema
from tidegate.plan import nodes
from tidegate.plan.expressions import AggregateCall, RexCall, RexInputRef
from tidegate.plan.logical_types import Field, LogicalType, TypeRoot
from tidegate.plan.specs import (
    ContextResolvedTable,
    JoinSpec,
    ResolvedCatalogTable,
    ResolvedSchema,
    StateMetadata,
    TableSink,
)
from tidegate.taskmanager.operators.relational import kept_counts, matching

INT, BIGINT = LogicalType(TypeRoot.INTEGER), LogicalType(TypeRoot.BIGINT)
STRING, BOOLEAN = LogicalType(TypeRoot.VARCHAR, length=2147483647), LogicalType(TypeRoot.BOOLEAN)
BACKENDS = ("hashmap", "rocksdb")


def row_type(**fields: LogicalType) -> LogicalType:
    return LogicalType(TypeRoot.ROW, fields=tuple(Field(name, kind) for name, kind in fields.items()))


def computed(query: str, **tables: tuple[Sequence[Change], LogicalType]) -> list[Row]:
    """Returns what DuckDB computes over the rows that changelogs leave."""
    connection = _duckdb()
    for name, (changes, kind) in tables.items():
        rows = batch_of([(0, row) for row in fold(changes)], arrow_schema(kind))
        connection.register(name, pa.Table.from_batches([rows]))
    found: list[Row] = connection.execute(query).fetchall()
    return found


@cache
def _duckdb() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


def in_order(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=repr)


def call(function: str, type: LogicalType, *arguments: int, filter: int = -1, distinct: bool = False) -> AggregateCall:
    return AggregateCall(
        name=None,
        arg_list=arguments,
        filter_arg=filter,
        distinct=distinct,
        approximate=False,
        ignore_nulls=False,
        type=type,
        internal_name=function,
    )


ROWS = row_type(k=STRING, v=INT, f=BOOLEAN)
CALLS = (
    call("$COUNT$1", BIGINT),
    call("$COUNT$1", BIGINT, 1),
    call("$SUM$1", INT, 1),
    call("$AVG$1", INT, 1),
    call("$MIN$1", INT, 1),
    call("$MAX$1", INT, 1),
    call("$COUNT$1", BIGINT, 1, distinct=True),
    call("$SUM$1", INT, 1, filter=2),
)
TOTALS = """SELECT {}count(*), count(v), sum(v)::INT, (sum(v) / count(v))::DOUBLE, min(v), max(v), count(DISTINCT v), (sum(v) FILTER (WHERE f))::INT
    FROM t {}"""


def group_aggregate(grouping: tuple[int, ...], *, generates_update_before: bool = True) -> nodes.GroupAggregate1:
    names = [Field(f"a{i}", made.type) for i, made in enumerate(CALLS)]
    return nodes.GroupAggregate1(
        id=1,
        output_type=LogicalType(TypeRoot.ROW, fields=(*(ROWS.fields[i] for i in grouping), *names)),
        description="GroupAggregate",
        grouping=grouping,
        agg_calls=CALLS,
        agg_call_need_retractions=(True,) * len(CALLS),
        generate_update_before=generates_update_before,
        need_retraction=True,
    )


def _whole_average(rows: Sequence[Row], position: int) -> list[Row]:
    """Flink's average of whole numbers is one, cut toward zero."""
    return [tuple(int(v) if i == position and v is not None else v for i, v in enumerate(row)) for row in rows]


@pytest.mark.parametrize("most", [64, 1])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("seed", range(2))
def test_aggregates_of_groups_at_every_prefix(
    seed: int, backend: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``most``: counts that stand in an accumulator, at most."""
    monkeypatch.setattr(kept_counts, "MOST_IN_ACCUMULATOR", most)
    rng = random.Random(seed)
    rows = list(itertools.product(("a", "b", "ü", None), (-7, 2, 3, None), (True, False, None)))
    subtasks = Subtasks(group_aggregate((0,)), [ROWS], [[0]], 2, {"state.backend.type": backend})
    taken: list[Change] = []
    for step, change in enumerate(random_changes(rng, rows, 40)):
        taken.append(change)
        subtasks.feed([change])
        expected = _whole_average(computed(TOTALS.format("k, ", "GROUP BY k"), t=(taken, ROWS)), 4)
        assert in_order(fold(subtasks.changes)) == in_order(expected)
        if step in (15, 30):
            subtasks.rescale(3 if step == 15 else 1)
    subtasks.close()


def test_aggregates_of_all_rows_go_when_no_row_is_left() -> None:
    subtasks = Subtasks(group_aggregate(()), [ROWS], [[]], 1)
    subtasks.feed([(0, ("a", 1, True)), (0, ("b", 5, False))])
    assert fold(subtasks.changes) == [(2, 2, 6, 3, 1, 5, 2, 1)]
    subtasks.feed([(3, ("a", 1, True)), (3, ("b", 5, False))])
    assert fold(subtasks.changes) == []
    subtasks.close()


def test_earlier_values_are_left_out_where_nothing_asks_for_them() -> None:
    subtasks = Subtasks(group_aggregate((0,), generates_update_before=False), [ROWS], [[0]], 1)
    assert [kind for kind, _ in subtasks.feed([(0, ("a", 1, True)), (0, ("a", 2, True)), (3, ("a", 1, True))])] == [
        0,
        2,
        2,
    ]
    assert subtasks.feed([(3, ("a", 2, True))]) == [(3, ("a", 1, 1, 2, 2, 2, 2, 1, 2))]
    assert subtasks.feed([(3, ("a", 2, True))]) == []
    subtasks.close()


LEFT, RIGHT = row_type(a=INT, x=STRING), row_type(b=INT, y=STRING)
_CONDITION = RexCall(
    type=BOOLEAN,
    operands=(RexInputRef(input_index=1, type=STRING), RexInputRef(input_index=3, type=STRING)),
    internal_name="$<>$1",
)
_JOINS = {
    "INNER": "SELECT l.*, r.* FROM l JOIN r ON {}",
    "LEFT": "SELECT l.*, r.* FROM l LEFT JOIN r ON {}",
    "RIGHT": "SELECT l.*, r.* FROM l RIGHT JOIN r ON {}",
    "FULL": "SELECT l.*, r.* FROM l FULL JOIN r ON {}",
    "SEMI": "SELECT * FROM l WHERE EXISTS (SELECT 1 FROM r WHERE {})",
    "ANTI": "SELECT * FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE {})",
}


def join(kind: str, *, has_keys: bool = True, has_condition: bool = True, strict: bool = True) -> nodes.Join1:
    fields = LEFT.fields if kind in ("SEMI", "ANTI") else LEFT.fields + RIGHT.fields
    return nodes.Join1(
        id=1,
        output_type=LogicalType(TypeRoot.ROW, fields=fields),
        description="Join",
        join_spec=JoinSpec(
            join_type=kind,
            left_keys=(0,) if has_keys else (),
            right_keys=(0,) if has_keys else (),
            filter_nulls=(strict,) if has_keys else (),
            non_equi_condition=_CONDITION if has_condition else None,
        ),
    )


@pytest.mark.parametrize(
    ("form", "backend"),
    [
        ("keys", "hashmap"),
        ("keys and condition", "rocksdb"),
        ("condition", "hashmap"),
        ("null equals null", "hashmap"),
    ],
)
@pytest.mark.parametrize("kind", _JOINS)
def test_joins_at_every_prefix(kind: str, form: str, backend: str) -> None:
    rng = random.Random(7)
    has_keys, has_condition, strict = form != "condition", "condition" in form, form != "null equals null"
    node = join(kind, has_keys=has_keys, has_condition=has_condition, strict=strict)
    keys: list[list[int]] = [[0], [0]] if has_keys else [[], []]
    rows = list(itertools.product((1, 2, None), ("p", "q")))
    sides: list[list[Change]] = [random_changes(rng, rows, 20), random_changes(rng, rows, 20)]
    equal = "l.a = r.b" if strict else "l.a IS NOT DISTINCT FROM r.b"
    on = " AND ".join([*([equal] if has_keys else []), *(["l.x <> r.y"] if has_condition else [])])
    subtasks = Subtasks(node, [LEFT, RIGHT], keys, 2 if has_keys else 1, {"state.backend.type": backend})
    taken: list[list[Change]] = [[], []]
    for step in range(40):
        side = rng.randrange(2) if sides[0] and sides[1] else int(not sides[0])
        change = sides[side].pop(0)
        taken[side].append(change)
        subtasks.feed([change], side)
        expected: Any = computed(_JOINS[kind].format(on), l=(taken[0], LEFT), r=(taken[1], RIGHT))
        assert in_order(fold(subtasks.changes)) == in_order(expected), (step, change)
        if step in (15, 30) and has_keys:
            subtasks.rescale(3 if step == 15 else 1)
    subtasks.close()


@pytest.mark.parametrize("most", [1, 7, 1 << 16])
@pytest.mark.parametrize("form", ["keys", "keys and condition", "condition", "unique keys"])
@pytest.mark.parametrize("kind", _JOINS)
def test_a_batch_of_a_join_has_the_changes_of_its_rows_one_by_one(
    kind: str, form: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``most``: pairs whose condition is evaluated at once."""
    monkeypatch.setattr(matching, "PAIRS_AT_ONCE", most)
    rng = random.Random(f"{kind} {form}")
    node = join(kind, has_keys=form != "condition", has_condition="condition" in form)
    if form == "unique keys":
        node = msgspec.structs.replace(node, left_upsert_keys=((0, 1),), right_upsert_keys=((0,),))
    keys: list[list[int]] = [[], []] if form == "condition" else [[0], [0]]
    rows = list(itertools.product((1, 2, 3, None), ("p", "q", None)))
    one_by_one, at_once = (Subtasks(node, [LEFT, RIGHT], keys, 1) for _ in range(2))
    sides: list[list[Change]] = [random_changes(rng, rows, 120), random_changes(rng, rows, 120)]
    while any(sides):
        side = rng.randrange(2) if all(sides) else int(not sides[0])
        count = rng.randrange(1, 20)
        batch, sides[side] = sides[side][:count], sides[side][count:]
        expected = [found for change in batch for found in one_by_one.feed([change], side)]
        assert at_once.feed(batch, side) == expected
    assert len(at_once.changes) > 20
    for subtasks in (one_by_one, at_once):
        subtasks.close()


def test_groups_are_forgotten_after_their_time_to_live() -> None:
    node = msgspec.structs.replace(
        group_aggregate((0,)), state=(StateMetadata(index=0, ttl="10 ms", name="groupAggregateState"),)
    )
    subtasks = Subtasks(node, [ROWS], [[0]], 1)
    subtasks.feed([(0, ("a", 1, True)), (0, ("b", 1, True))])
    subtasks.set_clock(6)
    assert [kind for kind, _ in subtasks.feed([(0, ("a", 2, True))])] == [1, 2]
    subtasks.set_clock(12)
    assert subtasks.feed([(0, ("a", 3, True))])[-1] == (2, ("a", 3, 3, 6, 2, 1, 3, 3, 6))
    subtasks.rescale(2)
    assert subtasks.feed([(0, ("b", 4, True))]) == [(0, ("b", 1, 1, 4, 4, 4, 4, 1, 4))]
    subtasks.set_clock(22)
    assert subtasks.feed([(3, ("a", 3, True))]) == []
    subtasks.close()


def test_sides_of_a_join_have_their_own_time_to_live() -> None:
    ttl = (
        StateMetadata(index=0, ttl="10 ms", name="leftState"),
        StateMetadata(index=1, ttl="100 ms", name="rightState"),
    )
    subtasks = Subtasks(
        msgspec.structs.replace(join("INNER", has_condition=False), state=ttl), [LEFT, RIGHT], [[0], [0]], 1
    )
    subtasks.feed([(0, (1, "p"))])
    subtasks.feed([(0, (1, "q"))], 1)
    subtasks.set_clock(10)
    assert subtasks.feed([(0, (1, "r"))], 1) == []
    assert subtasks.feed([(0, (1, "s"))]) == [(0, (1, "s", 1, "q")), (0, (1, "s", 1, "r"))]
    subtasks.rescale(2)
    subtasks.set_clock(100)
    assert subtasks.feed([(0, (1, "t"))]) == [(0, (1, "t", 1, "r"))]
    subtasks.close()


def test_an_upsert_changelog_gets_its_earlier_values() -> None:
    node = nodes.ChangelogNormalize1(
        id=1, output_type=LEFT, description="ChangelogNormalize", unique_keys=(0,), generate_update_before=True
    )
    subtasks = Subtasks(node, [LEFT], [[0]], 2)
    assert subtasks.feed([(2, (1, "p")), (2, (1, "q")), (2, (1, "q")), (0, (1, "r"))]) == [
        (0, (1, "p")), (1, (1, "p")), (2, (1, "q")), (1, (1, "q")), (2, (1, "r")),
    ]  # fmt: skip
    subtasks.rescale(3)
    assert subtasks.feed([(3, (1, None)), (3, (1, "r")), (3, (2, None))]) == [(3, (1, "r"))]
    subtasks.close()


def test_a_mini_batch_gives_one_change_of_each_key() -> None:
    node = msgspec.structs.replace(group_aggregate((0,)), configuration={"table.exec.mini-batch.enabled": "true"})
    subtasks = Subtasks(node, [ROWS], [[0]], 1)
    taken: list[Change] = [(0, ("a", 1, True)), (0, ("b", 5, True)), (0, ("a", 2, True))]
    assert subtasks.feed(taken) == [(0, ("a", 2, 2, 3, 1, 1, 2, 2, 3)), (0, ("b", 1, 1, 5, 5, 5, 5, 1, 5))]
    assert subtasks.feed(
        [(3, ("b", 5, True)), (0, ("a", 3, None)), (3, ("a", 3, None)), (0, ("c", 1, True)), (3, ("c", 1, True))]
    ) == [
        (3, ("b", 1, 1, 5, 5, 5, 5, 1, 5)),
    ]
    assert [kind for kind, _ in subtasks.feed([(3, ("a", 1, True)), (0, ("a", 9, True))])] == [1, 2]
    subtasks.close()


@pytest.mark.parametrize("upsert_key", [(), (1,)])
def test_a_primary_key_has_the_newest_of_the_rows_of_several_keys(upsert_key: tuple[int, ...]) -> None:
    table = ContextResolvedTable("`c`.`d`.`t`", ResolvedCatalogTable(ResolvedSchema(())))
    node = nodes.Sink2(
        id=1,
        output_type=LEFT,
        description="Sink",
        dynamic_table_sink=TableSink(table),
        input_changelog_mode=("INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE"),
        require_upsert_materialize=True,
        input_upsert_key=upsert_key or None,
    )
    subtasks = Subtasks(node, [LEFT], [[0]], 2)
    assert subtasks.feed([(0, (1, "p")), (0, (1, "q")), (3, (1, "p"))]) == [(0, (1, "p")), (2, (1, "q"))]
    subtasks.rescale(3)
    assert subtasks.feed([(0, (1, "r")), (3, (1, "r")), (3, (1, "x"))]) == [(2, (1, "r")), (2, (1, "q"))]
    assert subtasks.feed([(3, (1, "q"))]) == [(3, (1, "q"))]
    subtasks.close()
