"""first, last, stddev, distinct values and quantiles of windows: beside plain Python over all rows."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from tests.unit.taskmanager.operators.harness import Running, restored_of, spec, start
from tests.unit.taskmanager.windows.columns.test_windows import exchange
from tidegate.columnar.aggregates.sketches import MOST_HASHES, RELATIVE_ERROR, hashes_of
from tidegate.datastream.aggregates import approx_distinct, count, first, last, median, quantile, stddev, sum
from tidegate.model.channel_events import END_OF_TIME
from tidegate.model.errors import InvalidJob, SchemaMismatch
from tidegate.records.batch import ArrowBatch

SIZE = 1000
AGGREGATES = [
    ("n", "count", None),
    ("f", "first", "t"),
    ("l", "last", "t"),
    ("sd", "stddev", "v"),
    ("du", "approx_distinct", "t"),
    ("dv", "approx_distinct", "v"),
    ("q5", "quantile:0.5", "v"),
    ("q9", "quantile:0.9", "v"),
]


def options(**more: Any) -> dict[str, Any]:
    return {"size_ms": SIZE, "offset_ms": 0, "keys": ["k"], "aggregates": AGGREGATES, **more}


def batch(rng: np.random.Generator, rows: int, keys: pa.Array, start_ms: int) -> ArrowBatch:
    """Every row has a time of its own, so that there is one first."""
    stamps = start_ms + rng.permutation(rows)
    values = pa.array(rng.normal(1e6, 3.0, rows).round(2), mask=rng.random(rows) < 0.1)
    texts = pa.array([f"at {s}" if s % 5 else None for s in stamps.tolist()])
    data = pa.RecordBatch.from_arrays([keys, values, texts], names=["k", "v", "t"])
    return ArrowBatch(data, pa.array(stamps))


def expected(batches: Sequence[ArrowBatch]) -> dict[Any, list[tuple[int, float | None, str | None]]]:
    groups: dict[Any, list[tuple[int, float | None, str | None]]] = {}
    for one in batches:
        assert one.timestamps is not None
        columns = [one.timestamps.to_pylist(), *(one.data.column(n).to_pylist() for n in ("v", "t", "k"))]
        for stamp, value, text, key in zip(*columns, strict=True):
            groups.setdefault((stamp // SIZE * SIZE, key), []).append((stamp, value, text))
    return groups


def check(running: Sequence[Running], batches: Sequence[ArrowBatch]) -> None:
    groups = expected(batches)
    found = [row for one in running for row in one.out.values()]
    assert {(row["window_start"], row["k"]) for row in found} == set(groups)
    assert len(found) == len(groups)
    for row in found:
        rows = sorted(groups[row["window_start"], row["k"]])
        values = [value for _, value, _ in rows if value is not None]
        texts = [text for _, _, text in rows if text is not None]
        assert row["n"] == len(rows)
        assert row["f"] == (texts[0] if texts else None)
        assert row["l"] == (texts[-1] if texts else None)
        assert row["du"] == len(set(texts))
        assert row["dv"] == len(set(values))
        assert row["sd"] == (pytest.approx(statistics.stdev(values), rel=1e-6) if len(values) > 1 else None)
        for name, share in (("q5", 0.5), ("q9", 0.9)):
            exact = sorted(values)[int(share * (len(values) - 1))] if values else None
            assert row[name] == (None if exact is None else pytest.approx(exact, rel=RELATIVE_ERROR))


@pytest.mark.parametrize("managed", [0, 260_000])
@pytest.mark.parametrize("kind", ["few", "wide", "text", "unique"])
def test_two_steps_and_a_restore_give_what_one_pass_gives(kind: str, managed: int, tmp_path: Path) -> None:
    """``managed``: with so little managed memory, most of the windows of unique keys are on disk."""
    given = {"managed_memory_bytes": managed, "temp_dir": str(tmp_path)}
    rng = np.random.default_rng(3)
    batches = []
    for i in range(6):
        few = rng.integers(0, 12, 700)
        keys = {"few": few, "wide": few * 2**50, "text": [f"k{x}" for x in few], "unique": np.arange(700) + 700 * i}
        batches.append(batch(rng, 700, pa.array(keys[kind]), i * 700))
    senders = [start(spec("columnar_window_local", options=options())) for _ in range(2)]
    receiving = spec("columnar_window", options=options(input="partial"))
    windows = [start(receiving, i, 2, given=given) for i in range(2)]
    for i, one in enumerate(batches):
        if i == 3:
            for sender in senders:
                sender.operator.prepare_snapshot(1)
                exchange(sender.out.batches, ["k"], windows)
                sender.out.batches.clear()
            handles = [window.snapshot(1) for window in windows]
            windows = [start(receiving, i, 2, restored=restored_of(handles), given=given) for i in range(2)]
        senders[i % 2].operator.process(one, 0)
    for sender in senders:
        sender.operator.on_watermark(END_OF_TIME)
        exchange(sender.out.batches, ["k"], windows)
    if managed and kind == "unique":
        assert all(window.out.watched["stateBytesOnDisk"]() > 0 for window in windows)
    for window in windows:
        window.operator.on_watermark(END_OF_TIME)
    check(windows, batches)


def test_raw_rows_give_the_same_and_late_ones_are_left_out() -> None:
    rng = np.random.default_rng(4)
    batches = [batch(rng, 500, pa.array(rng.integers(0, 5, 500)), i * 500) for i in range(4)]
    window = start(spec("columnar_window", options=options(input="raw")))
    for one in batches[:3]:
        window.operator.process(one, 0)
    window.operator.on_watermark(999)
    late = ArrowBatch(batches[0].data, pa.array(np.where(np.arange(500) % 2, 1200 + np.arange(500), 5)))
    window.operator.process(late, 0)
    window.operator.process(batches[3], 0)
    window.operator.on_watermark(END_OF_TIME)
    kept = np.arange(500) % 2 == 1
    assert late.timestamps is not None
    rest = ArrowBatch(late.data.filter(pa.array(kept)), late.timestamps.filter(pa.array(kept)))
    found = {(row["window_start"], row["k"]): row["n"] for row in window.out.values()}
    assert found == {key: len(rows) for key, rows in expected([*batches, rest]).items()}


def test_many_values_are_estimated() -> None:
    rng = np.random.default_rng(5)
    aggregates = [("d", "approx_distinct", "v"), ("q", "quantile:0.99", "v")]
    window = start(spec("columnar_window", options=options(input="raw") | {"aggregates": aggregates}))
    values = rng.integers(0, 2**60, 40_000)
    for at in range(0, 80_000, 10_000):  # every value comes twice
        part = values[at % 40_000 : at % 40_000 + 10_000]
        data = pa.RecordBatch.from_arrays([pa.array(np.zeros(10_000, np.int64)), pa.array(part)], names=["k", "v"])
        window.operator.process(ArrowBatch(data, pa.array(np.arange(10_000) % SIZE)), 0)
    window.operator.on_watermark(END_OF_TIME)
    (row,) = window.out.values()
    distinct = len(set(values.tolist()))
    assert abs(row["d"] - distinct) < 4 * distinct / math.sqrt(MOST_HASHES)
    assert row["q"] == pytest.approx(np.sort(values)[int(0.99 * 39_999)], rel=2 * RELATIVE_ERROR)


def test_quantiles_of_any_numbers() -> None:
    numbers = [-1e300, -5.0, -1e-300, 0.0, 0.0, 1e-300, 7.0, math.inf, math.nan]
    for share, exact in ((0.0, -1e300), (0.15, -5.0), (0.4, 0.0), (0.85, 7.0), (0.9, math.inf), (1.0, math.inf)):
        aggregates = [("q", f"quantile:{share}", "v")]
        window = start(spec("columnar_window", options=options(input="raw") | {"aggregates": aggregates}))
        data = pa.RecordBatch.from_pydict({"k": [1] * len(numbers), "v": numbers})
        window.operator.process(ArrowBatch(data, pa.array([1] * len(numbers))), 0)
        window.operator.on_watermark(END_OF_TIME)
        (row,) = window.out.values()
        assert row["q"] == pytest.approx(exact, rel=RELATIVE_ERROR) or row["q"] == exact


def test_equal_values_hash_alike_whatever_their_column() -> None:
    assert (
        hashes_of(pa.array([0.0, math.nan])).tolist() == hashes_of(pa.array([-0.0, -math.nan], pa.float64())).tolist()
    )
    assert hashes_of(pa.array([1, -1], pa.int8())).tolist() == hashes_of(pa.array([1, -1], pa.int64())).tolist()
    assert hashes_of(pa.array(["a"])).tolist() == hashes_of(pa.array(["a"], pa.large_string())).tolist()


def test_names_types_and_refusals() -> None:
    schema = pa.schema([("x", pa.float32()), ("s", pa.string()), ("l", pa.list_(pa.int64()))])
    assert quantile("x", 0.999).output_name == "p99_9_x"
    assert median("x").output_field(schema) == pa.field("median_x", pa.float64())
    assert [a.output_field(schema).type for a in (first("s"), last("x"), approx_distinct("s"), stddev("x"))] == [
        pa.string(), pa.float32(), pa.int64(), pa.float64(),
    ]  # fmt: skip
    with pytest.raises(InvalidJob, match="from 0 to 1"):
        quantile("x", 1.5)
    for wrong in (stddev("s"), quantile("s", 0.5), approx_distinct("l"), sum("s")):
        with pytest.raises(SchemaMismatch):
            wrong.output_field(schema)
    assert count().output_field(schema).type == pa.int64()


def aggregated(function: str, values: list[float | int | None], kind: pa.DataType) -> Any:
    """The result of one window, of partials that are merged."""
    aggregates = [("a", function, "v")]
    local = start(spec("columnar_window_local", options=options(input="raw") | {"aggregates": aggregates}))
    window = start(spec("columnar_window", options=options(input="partial") | {"aggregates": aggregates}))
    for value in values:
        data = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([value], kind)], names=["k", "v"])
        local.operator.process(ArrowBatch(data, pa.array([1])), 0)
        local.operator.prepare_snapshot(1)
    for batch in local.out.batches:
        window.operator.process(batch, 0)
    window.operator.on_watermark(END_OF_TIME)
    (row,) = window.out.values()
    return row["a"]


SHARES = (0.0, 0.01, 0.07, 0.1, 0.25, 0.3, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 10, 50, 100])
def test_quantiles_of_small_groups_are_duckdbs(size: int) -> None:
    values = [3**i % 1009 + 1 for i in range(size)]
    rows = ", ".join(f"({value})" for value in values)
    for share in SHARES:
        relation = duckdb.sql(f"SELECT quantile_disc(v, {share}), median(v) FROM (VALUES {rows}) AS t(v)")
        assert relation is not None
        ((exact, middle),) = relation.fetchall()
        assert aggregated(f"quantile:{share}", values, pa.int64()) == pytest.approx(exact, rel=RELATIVE_ERROR), share
    assert aggregated("median", values, pa.int64()) == pytest.approx(middle, rel=RELATIVE_ERROR)


@pytest.mark.parametrize(
    "values",
    [
        [1e300, 2e300],
        [1.7e308, -1.7e308, 0.0],
        [1e300, 1e300, 1e300],
        [1e200, 1.0, 2.0],
        [1e-300, 3e-300],
        [2.0**62, 2.0**62 + 2048],
        [1.0],
    ],
)
def test_the_spread_of_any_numbers_is_that_of_python(values: list[float]) -> None:
    found = aggregated("stddev", list(values), pa.float64())
    if len(values) == 1:
        assert found is None
    else:
        scale = max(map(abs, values))
        exact = float(
            Fraction(statistics.stdev([Fraction(value) / Fraction(scale) for value in values])) * Fraction(scale)
        )
        assert found == pytest.approx(exact, rel=1e-9)


def test_large_and_small_numbers_of_several_keys_do_not_touch_each_other() -> None:
    window = start(spec("columnar_window", options=options(input="raw") | {"aggregates": [("a", "stddev", "v")]}))
    data = pa.RecordBatch.from_pydict({"k": [1, 1, 2, 2, 3, 3], "v": [1e300, 3e300, 1.0, 3.0, math.inf, 1.0]})
    window.operator.process(ArrowBatch(data, pa.array([1] * 6)), 0)
    window.operator.on_watermark(END_OF_TIME)
    found = {row["k"]: row["a"] for row in window.out.values()}
    assert (found[1], found[2]) == (pytest.approx(2**0.5 * 1e300), pytest.approx(2**0.5))
    assert math.isnan(found[3])


@pytest.mark.parametrize(
    "kind", [pa.decimal128(38, 2), pa.decimal256(50, 2), pa.decimal32(5, 2), pa.decimal64(12, 2)], ids=str
)
def test_decimals_are_counted(kind: pa.DataType) -> None:
    values = pa.array([Decimal("1.50"), Decimal("-1.5"), Decimal("1.5"), Decimal("0")], kind)
    assert len(set(hashes_of(values).tolist())) == 3
    assert hashes_of(values.slice(1)).tolist() == hashes_of(values).tolist()[1:]
