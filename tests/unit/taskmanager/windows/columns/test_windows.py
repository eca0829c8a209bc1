"""Columnar windows give what a plain group_by gives, whatever the keys, the batches and the restores between."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.unit.taskmanager.operators.harness import MemoryStore, Running, restored_of, spec, start
from tidegate.columnar.keys.hashing import hash_columns, key_groups
from tidegate.model.channel_events import END_OF_TIME
from tidegate.model.errors import SchemaMismatch
from tidegate.model.keygroups import subtask_of
from tidegate.records.batch import ArrowBatch

AGGREGATES = [
    ("n", "count", None),
    ("nv", "count", "v"),
    ("s", "sum", "v"),
    ("lo", "min", "v"),
    ("hi", "max", "v"),
    ("a", "avg", "v"),
    ("fs", "sum", "f"),
    ("fhi", "max", "f"),
]
SIZE = 1000


def options(keys: Sequence[str], offset: int = 0, **more: Any) -> dict[str, Any]:
    return {"size_ms": SIZE, "offset_ms": offset, "keys": list(keys), "aggregates": AGGREGATES, **more}


def batch(rng: np.random.Generator, rows: int, keys: dict[str, pa.Array], low: int, high: int) -> ArrowBatch:
    values = pa.array(rng.integers(-(10**6), 10**6, rows), mask=rng.random(rows) < 0.2)
    floats = pa.array(rng.integers(-100, 100, rows) / 4)
    data = pa.RecordBatch.from_arrays([*keys.values(), values, floats], names=[*keys, "v", "f"])
    return ArrowBatch(data, pa.array(rng.integers(low, high, rows)))


def expected(batches: Sequence[ArrowBatch], keys: Sequence[str], offset: int = 0) -> list[tuple[Any, ...]]:
    """One pass of plain Python over all rows."""
    groups: dict[tuple[Any, ...], list[tuple[Any, Any]]] = {}
    for one in batches:
        columns = [one.data.column(k).to_pylist() for k in keys]
        rows = zip(*columns, one.data.column("v").to_pylist(), one.data.column("f").to_pylist(), strict=True)
        assert one.timestamps is not None
        for row, stamp in zip(rows, one.timestamps.to_pylist(), strict=True):
            window = (stamp - offset) // SIZE * SIZE + offset
            groups.setdefault((window, window + SIZE, *row[:-2]), []).append(row[-2:])
    found = []
    for key, rows_of in groups.items():
        values = [v for v, _ in rows_of if v is not None]
        floats = [f for _, f in rows_of]
        s, lo, hi, a = (sum(values), min(values), max(values), sum(values) / len(values)) if values else (None,) * 4
        found.append((*key, len(rows_of), len(values), s, lo, hi, a, sum(floats), max(floats)))
    return sorted(found, key=repr)


def results(running: Sequence[Running]) -> list[tuple[Any, ...]]:
    rows = [row for r in running for row in r.out.values()]
    return sorted((tuple(row.values()) for row in rows), key=repr)


def exchange(partials: Sequence[Any], keys: Sequence[str], windows: Sequence[Running]) -> None:
    """What the HASH edge does."""
    for part in partials:
        groups = key_groups(hash_columns([part.data.column(k) for k in keys]), 128)
        owners = np.array([subtask_of(int(g), 128, len(windows)) for g in groups])
        for index, window in enumerate(windows):
            rows = np.flatnonzero(owners == index)
            if len(rows):
                window.operator.process(ArrowBatch(part.data.take(pa.array(rows))), 0)


def _pieces(batches: Sequence[Any], rows: int) -> list[ArrowBatch]:
    return [ArrowBatch(one.data.slice(at, rows)) for one in batches for at in range(0, len(one), rows)]


def key_columns(kind: str, rng: np.random.Generator, rows: int) -> dict[str, pa.Array]:
    few = rng.integers(-5, 40, rows)
    match kind:
        case "dense":
            return {"k": pa.array(few)}
        case "int32":
            return {"k": pa.array(few.astype(np.int32))}
        case "sparse":
            return {"k": pa.array(few * 2**55)}
        case "null":
            return {"k": pa.array(few, mask=few == 3)}
        case "string":
            return {"k": pa.array([f"key {x}" for x in few])}
        case "float":
            return {"k": pa.array(few / 8)}
        case "two":
            return {"k": pa.array(few), "l": pa.array([["a", "b", None][x % 3] for x in rng.integers(0, 9, rows)])}
        case "wide":
            return {
                "k": pa.array(few * 2**40),
                "l": pa.array(rng.integers(0, 3, rows) * 10**12),
                "m": pa.array(few % 2),
            }
        case "date":
            return {"k": pa.array(few.astype(np.int32), pa.date32())}
        case _:
            return {"k": pa.array(few.astype(np.uint64))}


KINDS = ["dense", "int32", "sparse", "null", "string", "float", "two", "wide", "date", "uint64"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("span", "managed"), [(900, 0), (3500, 0), (40_000, 0), (40_000, 80_000)])
def test_two_steps_give_what_one_pass_gives(kind: str, span: int, managed: int, tmp_path: Path) -> None:
    """``managed``: with so little managed memory, a part of the windows is on disk."""
    given = {"managed_memory_bytes": managed, "temp_dir": str(tmp_path)}
    rng = np.random.default_rng(1)
    batches = [batch(rng, 400, key_columns(kind, rng, 400), i * 700, i * 700 + span) for i in range(6)]
    keys = [n for n in batches[0].data.schema.names if n not in ("v", "f")]
    senders = [start(spec("columnar_window_local", options=options(keys, 17))) for _ in range(2)]
    receiving = spec("columnar_window", options=options(keys, 17, input="partial"))
    windows = [start(receiving, i, 2, given=given) for i in range(2)]
    for i, one in enumerate(batches):
        senders[i % 2].operator.process(one, 0)
        senders[i % 2].operator.on_watermark(i * 700 - 1)
    for sender in senders:
        sender.operator.on_watermark(END_OF_TIME)
        exchange(_pieces(sender.out.batches, 100), keys, windows)
    assert any(window.out.watched["stateBytesOnDisk"]() > 0 for window in windows) == (managed > 0)
    for window in windows:
        window.operator.on_watermark(END_OF_TIME)
    assert results(windows) == expected(batches, keys, 17)
    assert all(w.out.order[-1] == "watermark" and w.out.watermarks == [END_OF_TIME] for w in windows)


@pytest.mark.parametrize("kind", ["dense", "string"])
def test_raw_rows_give_the_same(kind: str) -> None:
    rng = np.random.default_rng(2)
    batches = [batch(rng, 300, key_columns(kind, rng, 300), 0, 5000) for _ in range(4)]
    window = start(spec("columnar_window", options=options(["k"], input="raw")))
    for one in batches:
        window.operator.process(one, 0)
    window.operator.on_watermark(END_OF_TIME)
    assert results([window]) == expected(batches, ["k"])
    assert {s - 999 for s in window.out.stamps() if s is not None} == {0, 1000, 2000, 3000, 4000}


def test_only_ended_windows_leave_and_all_of_them_at_a_barrier() -> None:
    rng = np.random.default_rng(3)
    for kind in ("dense", "sparse"):
        sender = start(spec("columnar_window_local", options=options(["k"])))
        sender.operator.process(batch(rng, 200, key_columns(kind, rng, 200), 0, 3000), 0)
        sender.operator.on_watermark(998)
        assert sender.out.batches == []
        sender.operator.on_watermark(999)
        assert set(sender.out.table()["window_start"].to_pylist()) == {0}
        assert sender.out.order == ["watermark", "batch", "watermark"]
        sender.operator.prepare_snapshot(1)
        assert set(sender.out.table()["window_start"].to_pylist()) == {0, 1000, 2000}
        assert sender.operator.freeze(1) is None
        assert sum(sender.out.table()["n"].to_pylist()) == 200


def test_a_dense_range_that_grows_keeps_what_it_has() -> None:
    sender = start(spec("columnar_window_local", options=options(["k"])))
    rng = np.random.default_rng(4)
    batches = [batch(rng, 50, {"k": pa.array(rng.integers(*r, 50))}, 0, 1000) for r in [(0, 10), (-90, 0), (5, 60_000)]]
    for one in batches:
        sender.operator.process(one, 0)
    window = start(spec("columnar_window", options=options(["k"], input="partial")))
    sender.operator.prepare_snapshot(1)
    exchange(sender.out.batches, ["k"], [window])
    window.operator.on_watermark(END_OF_TIME)
    assert results([window]) == expected(batches, ["k"])


def test_keys_that_hardly_repeat_pass_without_grouping() -> None:
    rng = np.random.default_rng(5)
    sender = start(spec("columnar_window_local", options=options(["k"])))
    batches = [batch(rng, 2000, {"k": pa.array(rng.integers(0, 2**60, 2000))}, 0, 1000) for _ in range(3)]
    for number, one in enumerate(batches[:2], 1):
        sender.operator.process(one, 0)
        assert [len(sent) for sent in sender.out.batches] == [2000] * number
    sender.operator.process(batches[2], 0)
    sender.operator.on_watermark(END_OF_TIME)
    window = start(spec("columnar_window", options=options(["k"], input="partial")))
    exchange(sender.out.batches, ["k"], [window])
    window.operator.on_watermark(END_OF_TIME)
    assert results([window]) == expected(batches, ["k"])


def test_late_partials_are_dropped_and_every_row_is_counted() -> None:
    rng = np.random.default_rng(6)
    sender = start(spec("columnar_window_local", options=options(["k"])))
    sender.operator.process(batch(rng, 70, {"k": pa.array(rng.integers(0, 5, 70))}, 0, 1000), 0)
    sender.operator.finish()
    for kind in ("partial", "raw"):
        window = start(spec("columnar_window", options=options(["k"], input=kind)))
        window.operator.on_watermark(999)
        if kind == "partial":
            exchange(sender.out.batches, ["k"], [window])
        else:
            window.operator.process(batch(rng, 70, {"k": pa.array(rng.integers(0, 5, 70))}, 0, 1000), 0)
        window.operator.on_watermark(END_OF_TIME)
        assert window.out.counts == {"numLateRecordsDropped": 70}
        assert window.out.batches == []


@pytest.mark.parametrize("kind", ["dense", "string", "two", "float"])
@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 2), (2, 2)])
def test_a_restore_at_another_parallelism_loses_and_repeats_nothing(kind: str, before: int, after: int) -> None:
    rng = np.random.default_rng(7)
    batches = [batch(rng, 300, key_columns(kind, rng, 300), 0, 4000) for _ in range(6)]
    keys = [n for n in batches[0].data.schema.names if n not in ("v", "f")]
    spec_of = spec("columnar_window", options=options(keys, input="raw"))
    first = [start(spec_of, i, before) for i in range(before)]
    _spread(batches[:3], keys, first)
    for window in first:
        window.operator.on_watermark(999)
    snapshots = [window.snapshot() for window in first]
    _spread(batches[3:], keys, first)  # lost: it came after the checkpoint
    second = [start(spec_of, i, after, restored_of(snapshots)) for i in range(after)]
    _spread(batches[3:], keys, second)
    for window in second:
        window.operator.on_watermark(END_OF_TIME)
    whole = expected(batches, keys)
    early = [row for row in expected(batches[:3], keys) if row[0] == 0]
    late = [row for row in expected(batches[3:], keys) if row[0] == 0]
    assert [r for r in results(first) if r[0] == 0] == early
    assert results(second) == sorted([r for r in whole if r[0] > 0] + late, key=repr)


def _spread(batches: Sequence[ArrowBatch], keys: Sequence[str], windows: Sequence[Running]) -> None:
    for one in batches:
        assert one.timestamps is not None
        groups = key_groups(hash_columns([one.data.column(k) for k in keys]), 128)
        owners = np.array([subtask_of(int(g), 128, len(windows)) for g in groups])
        for index, window in enumerate(windows):
            rows = pa.array(np.flatnonzero(owners == index))
            window.operator.process(ArrowBatch(one.data.take(rows), one.timestamps.take(rows)), 0)


def test_what_is_frozen_does_not_change() -> None:
    rng = np.random.default_rng(8)
    window = start(spec("columnar_window", options=options(["k"], input="raw")))
    window.operator.process(batch(rng, 300, key_columns("dense", rng, 300), 0, 3000), 0)
    before = window.snapshot()
    frozen = window.operator.freeze(2)
    window.operator.process(batch(rng, 300, key_columns("dense", rng, 300), 0, 3000), 0)
    window.operator.on_watermark(999)
    assert frozen is not None
    assert frozen.write(MemoryStore()) == before


def test_the_memory_of_the_windows_is_a_metric() -> None:
    rng = np.random.default_rng(8)
    window = start(spec("columnar_window", options=options(["k"], input="raw")))

    def figures() -> dict[str, float]:
        return {name: read() for name, read in window.out.watched.items() if name.startswith("state")}

    assert set(figures().values()) == {0}
    window.operator.process(batch(rng, 300, key_columns("dense", rng, 300), 0, 3000), 0)
    full = figures()
    assert 0 < full["stateRows"] <= 300
    assert full["stateBytes"] == full["stateBytesPerRow"] * full["stateRows"] >= 8 * 3 * full["stateRows"]
    assert full["stateBytesForNextCheckpoint"] == 0, "checkpoints are not incremental"
    window.operator.on_watermark(END_OF_TIME)
    assert set(figures().values()) == {0}


def test_nan_is_one_key_and_the_zeros_are_two() -> None:
    keys = pa.array([math.nan, -math.nan, 0.0, -0.0, None])
    data = pa.RecordBatch.from_arrays(
        [keys, pa.array([1, 2, 3, 4, 5]), pa.array([math.nan, 1.0, 2.0, 3.0, 4.0])], ["k", "v", "f"]
    )
    window = start(spec("columnar_window", options=options(["k"], input="raw")))
    window.operator.process(ArrowBatch(data, pa.array([1] * 5)), 0)
    window.operator.on_watermark(END_OF_TIME)
    rows = {repr(row["k"]): row for row in window.out.values()}
    assert {k: r["s"] for k, r in rows.items()} == {"nan": 3, "0.0": 3, "-0.0": 4, "None": 5}
    assert rows["nan"]["fhi"] == 1.0
    assert math.isnan(rows["nan"]["fs"])


def test_sums_wrap_and_stay_exact() -> None:
    data = pa.record_batch(
        {"k": pa.array([1, 1, 2, 2]), "v": pa.array([2**63 - 1, 1, 2**53, 1]), "f": pa.array([0.0] * 4)}
    )
    window = start(spec("columnar_window", options=options(["k"], input="raw")))
    window.operator.process(ArrowBatch(data, pa.array([1] * 4)), 0)
    window.operator.on_watermark(END_OF_TIME)
    assert [row["s"] for row in window.out.values()] == [-(2**63), 2**53 + 1]


def test_no_timestamp_and_no_column_are_told() -> None:
    window = start(spec("columnar_window", "hourly", options=options(["k"], input="raw")))
    with pytest.raises(SchemaMismatch, match="'hourly'.*WatermarkStrategy"):
        window.operator.process(ArrowBatch(pa.record_batch({"k": [1]})), 0)
    with pytest.raises(SchemaMismatch, match="'hourly': the input has no column 'v'"):
        window.operator.process(ArrowBatch(pa.record_batch({"k": [1]}), pa.array([1])), 0)


def test_state_is_readable_with_plain_arrow() -> None:
    window = start(spec("columnar_window", "hourly", options=options(["k"], input="raw")))
    rng = np.random.default_rng(9)
    window.operator.process(batch(rng, 100, key_columns("string", rng, 100), 0, 2000), 0)
    store = MemoryStore()
    (segment,) = window.snapshot(store=store).keyed
    table = pa.ipc.open_file(store.contents[0]).read_all()
    assert table.schema.names[:4] == ["key_group", "key.k", "window_start", "window_end"]
    groups = table["key_group"].to_numpy()
    assert (groups[1:] >= groups[:-1]).all()
    assert groups.tolist() == key_groups(hash_columns([table["key.k"].combine_chunks()]), 128).tolist()
    assert sum(table["value.n"].to_pylist()) == 100
    assert len(segment.offsets) == 129
    assert segment.offsets[-1] == table.num_rows
