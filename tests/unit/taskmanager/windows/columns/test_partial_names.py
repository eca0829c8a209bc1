"""Columns that aggregations add are never a user's, whatever the user's are called; averages of integers do not wrap; state of before is restored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
import xxhash

from tidegate.columnar.aggregates.names import (
    HASH,
    ROWS,
    TIMED,
    UPPER,
    WINDOW,
    count_of,
    high_of,
    internal_name,
    sum_of,
)
from tidegate.common import Row, Time
from tidegate.common.typeinfo import ArrowTypeInfo
from tidegate.datastream import DataStream
from tidegate.datastream.aggregates import avg, count, first, last, max, median, min, stddev, sum
from tidegate.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from tidegate.model.errors import SchemaMismatch
from tidegate.testing import HarnessSnapshot, OperatorHarness

Piece = Callable[[DataStream], DataStream]
ASSIGNERS: dict[str, Any] = {
    "tumble": TumblingEventTimeWindows.of(Time.milliseconds(10)),
    "hop": SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5)),
    "session": EventTimeSessionWindows.with_gap(Time.milliseconds(5)),
}
ALL = [*ASSIGNERS, "running"]
LIKE_OURS = [
    "x",
    "x__sum",
    "x__count",
    "x__high",
    WINDOW,
    ROWS,
    HASH,
    f"v{TIMED}",
    f"v{UPPER}",
    "x__value",
    "x__sum__value",
    "__index__",
    "ts",
]


def aggregated(kind: str, keys: list[str], *aggregates: Any) -> Piece:
    if kind == "running":
        return lambda stream: stream.key_by(*keys).agg(*aggregates)
    return lambda stream: stream.key_by(*keys).window(ASSIGNERS[kind]).agg(*aggregates)


def results(piece: Piece, schema: pa.Schema, parts: list[list[tuple[Any, ...]]], change: Any = None) -> dict[str, Any]:
    """The last row, with a snapshot and a restore between any two parts."""
    restored = None
    for number, part in enumerate(parts):
        with OperatorHarness(piece, ArrowTypeInfo(schema), restore=restored) as harness:
            for values in part:
                harness.push(Row(**dict(zip(schema.names, values, strict=True))), 6)
            restored = harness.snapshot()
            if number == 0 and change is not None:
                restored = change(restored)
            if number == len(parts) - 1:
                harness.push_watermark(1000)
                found: dict[str, Any] = harness.output[-1].as_dict()
    return found


def test_names_inside_are_different_for_different_columns() -> None:
    names = [
        *LIKE_OURS,
        *(internal_name(name) for name in LIKE_OURS),
        *map(internal_name, map(internal_name, LIKE_OURS)),
    ]
    inside = {name: internal_name(name) for name in names}
    ours = [WINDOW, ROWS, HASH, *(f(name) for f in (sum_of, count_of, high_of) for name in names)]
    ours += [name + end for end in (TIMED, UPPER) for name in names]
    assert len(set(inside.values())) == len(inside)
    assert not set(inside.values()) & set(ours)
    assert len(set(ours)) == 3 + 5 * len(set(names))


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize(
    "alias", [sum_of("x"), count_of("x"), high_of("x"), internal_name(sum_of("x")), ROWS, WINDOW, HASH]
)
def test_an_average_stands_beside_any_other_aggregate(kind: str, alias: str) -> None:
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("u", pa.float64())])
    for other, wanted in ((sum("u"), 70.0), (max("u"), 40.0), (count("u"), 3), (avg("u"), 70.0 / 3)):
        for made in ([avg("v").alias("x"), other.alias(alias)], [other.alias(alias), avg("v").alias("x")]):
            found = results(aggregated(kind, ["k"], *made), schema, [[(1, 1, 10.0), (1, 3, 20.0)], [(1, 8, 40.0)]])
            assert (found["x"], found[alias]) == (4.0, wanted)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("name", LIKE_OURS)
def test_columns_may_be_called_like_ours(kind: str, name: str) -> None:
    """As a key, and as what is aggregated by functions that need further columns."""
    as_key = pa.schema([(name, pa.int64()), ("other", pa.int64())])
    found = results(aggregated(kind, [name], avg("other").alias("y"), sum("other")), as_key, [[(7, 1)], [(7, 2)]])
    assert (found[name], found["y"], found["sum_other"]) == (7, 1.5, 3)
    as_value = pa.schema([("k", pa.int64()), (name, pa.int64()), ("v", pa.int64())])
    more = (
        []
        if kind == "running"
        else [first("v").alias("f"), last(name).alias("l"), stddev(name).alias("s"), median("v").alias("m")]
    )
    made = [avg(name).alias("a"), avg("v").alias("b"), min(name).alias(name), *more]
    found = results(aggregated(kind, ["k"], *made), as_value, [[(7, 1, 10)], [(7, 3, 30)]])
    assert (found["a"], found["b"], found[name]) == (2.0, 20.0, 1)
    if more:
        assert (found["f"], found["l"], found["s"], round(found["m"])) == (10, 3, pytest.approx(2**0.5), 20)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([2**63 - 1] * 2, 2.0**63),
        ([-(2**63)] * 3, -(2.0**63)),
        ([2**63 - 1, -(2**63)], -0.5),
        ([-1] * 5, -1.0),
        ([2**62 + 1, 2**62 + 3, -(2**63)], float(2**62 + 1 + 2**62 + 3 - 2**63) / 3),
        ([None, None], None),
    ],
)
def test_the_average_of_integers_does_not_wrap(kind: str, values: list[int | None], wanted: float | None) -> None:
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    rows: list[tuple[Any, ...]] = [(1, value) for value in values]
    assert results(aggregated(kind, ["k"], avg("v")), schema, [rows[:1], rows[1:]])["avg_v"] == wanted


@pytest.mark.parametrize("kind", ALL)
def test_the_average_of_uint64_does_not_wrap(kind: str) -> None:
    schema = pa.schema([("k", pa.int64()), ("v", pa.uint64())])
    assert results(aggregated(kind, ["k"], avg("v")), schema, [[(1, 2**64 - 1)], [(1, 2**64 - 3)]])["avg_v"] == 2.0**64


# --- state of versions that had no names inside, and no upper halves


def of_before(renamed: dict[str, str], dropped: str = "__high") -> Callable[[HarnessSnapshot], HarnessSnapshot]:
    def changed(snapshot: HarnessSnapshot) -> HarnessSnapshot:
        operators = {
            key: replace(operator, keyed=tuple(_rewritten(segment, renamed, dropped) for segment in operator.keyed))
            for key, operator in snapshot.operators.items()
        }
        return replace(snapshot, operators=operators)

    return changed


def _rewritten(segment: Any, renamed: dict[str, str], dropped: str) -> Any:
    with pa.ipc.open_file(pa.py_buffer(segment.handle.data)) as reader:
        table, metadata = reader.read_all(), reader.schema.metadata
    kept = [name for name in table.schema.names if not name.endswith(dropped)]
    assert len(kept) < len(table.schema.names) or renamed
    table = (
        table.select(kept).rename_columns([renamed.get(name, name) for name in kept]).replace_schema_metadata(metadata)
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    content = sink.getvalue().to_pybytes()
    handle = replace(segment.handle, size_bytes=len(content), checksum=xxhash.xxh3_64_hexdigest(content), data=content)
    return replace(segment, handle=handle)


@pytest.mark.parametrize("kind", ALL)
def test_averages_of_before_go_on(kind: str) -> None:
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("w", pa.int32())])
    made = [avg("v"), max("v"), avg("w"), count()]
    rows: list[list[tuple[Any, ...]]] = [[(1, 2**62, 5), (1, -5, 6)], [(1, 2**63 - 1, 10), (1, -(2**63), 20)]]
    found = results(aggregated(kind, ["k"], *made), schema, rows, of_before({}))
    assert found["avg_v"] == (2**62 - 5 - 1) / 4
    assert (found["max_v"], found["avg_w"], found["count"]) == (2**63 - 1, 10.25, 4)


@pytest.mark.parametrize("kind", ALL)
def test_names_of_before_go_on(kind: str) -> None:
    """``y__sum`` was called so inside as well, be it a key or an aggregate."""
    schema = pa.schema([("k__count", pa.int64()), ("v", pa.int64())])
    renamed = {"key.k__count__value": "key.k__count", "value.y__sum__value": "value.y__sum"}
    made = aggregated(kind, ["k__count"], sum("v").alias("y__sum"), avg("v").alias("x"))
    found = results(made, schema, [[(1, 1)], [(1, 4)]], of_before(renamed))
    assert (found["k__count"], found["y__sum"], found["x"]) == (1, 5, 2.5)


def test_running_state_in_which_names_were_confused_is_refused() -> None:
    schema = pa.schema([("k", pa.int64()), ("v", pa.float64())])
    made = aggregated("running", ["k"], avg("v").alias("x"), sum("v").alias("x__sum"))
    renamed = of_before({"value.x__sum__value": "value.x__sum"})
    with pytest.raises(SchemaMismatch, match=r"'value.x__sum' twice.*another uid"):
        results(made, schema, [[(1, 1.0)], [(1, 4.0)]], renamed)


def test_a_column_that_no_longer_is_an_averages_is_not_taken_for_one() -> None:
    """The average x is dropped, and a sum x__sum added: it begins with nothing."""
    schema = pa.schema([("k", pa.int64()), ("v", pa.float64())])
    before = lambda stream: stream.key_by("k").agg(avg("v").alias("x"), count()).uid("totals")  # noqa: E731
    after = lambda stream: stream.key_by("k").agg(avg("v").alias("x"), sum("v").alias("x__sum"), count()).uid("totals")  # noqa: E731
    with OperatorHarness(before, ArrowTypeInfo(schema)) as harness:
        harness.push(Row(k=1, v=6.0))
        snapshot = harness.snapshot()
    with OperatorHarness(after, ArrowTypeInfo(schema), restore=snapshot) as harness:
        harness.push(Row(k=1, v=2.0))
        assert harness.take() == [Row(k=1, x=4.0, x__sum=2.0, count=2)]
