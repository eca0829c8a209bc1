"""Running aggregates of columns give what plain Python gives, across snapshots, restores and rescales."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.unit.taskmanager.operators.harness import MemoryStore, Running, restored_of, spec, start
from tests.unit.taskmanager.windows.columns.test_windows import AGGREGATES, KINDS, batch, key_columns
from tidegate.columnar.keys.hashing import hash_columns, key_groups
from tidegate.common.typeinfo import ArrowTypeInfo
from tidegate.model.channel_events import END_OF_TIME
from tidegate.model.checkpoint import RestoredOperator
from tidegate.model.errors import InvalidJob, SchemaMismatch
from tidegate.model.keygroups import subtask_of
from tidegate.model.program import OperatorSpec
from tidegate.operator_options import AggregateOptions
from tidegate.records.batch import ArrowBatch
from tidegate.taskmanager.compatibility.states import StateOutcome, StoredState, examine_states
from tidegate.taskmanager.operators.columns import aggregate as columnar_aggregate
from tidegate.taskmanager.operators.operator import Ending
from tidegate.taskmanager.runtime.operator_factory import options_of

Totals = dict[tuple[Any, ...], dict[str, Any]]


def aggregate(schema: pa.Schema, keys: Sequence[str], aggregates: Sequence[Any] = AGGREGATES) -> OperatorSpec:
    options = {"keys": list(keys), "aggregates": list(aggregates)}
    return spec("columnar_aggregate", options=options, input_types=(ArrowTypeInfo(schema),))


def expected(batches: Sequence[ArrowBatch], keys: Sequence[str]) -> Totals:
    rows: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for one in batches:
        for row in one.data.to_pylist():
            rows.setdefault(tuple(row[key] for key in keys), []).append(row)
    found = {}
    for key, group in rows.items():
        v = [row["v"] for row in group if row["v"] is not None]
        f = [row["f"] for row in group]
        some = (
            {"s": sum(v), "lo": min(v), "hi": max(v), "a": sum(v) / len(v)}
            if v
            else dict.fromkeys(["s", "lo", "hi", "a"])
        )
        found[key] = {"n": len(group), "nv": len(v), **some, "fs": sum(f), "fhi": max(f)}
    return found


def latest(runs: Sequence[Running], keys: Sequence[str]) -> Totals:
    """The last row of each key."""
    rows = [row for running in runs for row in running.out.values()]
    return {tuple(row[key] for key in keys): {k: v for k, v in row.items() if k not in keys} for row in rows}


def deal(one: ArrowBatch, keys: Sequence[str], runs: Sequence[Running]) -> None:
    groups = key_groups(hash_columns([one.data.column(k) for k in keys]), 128)
    owners = np.array([subtask_of(int(g), 128, len(runs)) for g in groups])
    for index, running in enumerate(runs):
        rows = np.flatnonzero(owners == index)
        if len(rows):
            running.operator.process(ArrowBatch(one.data.take(pa.array(rows))), 0)


@pytest.mark.parametrize("kind", KINDS)
def test_the_last_row_of_a_key_is_the_aggregate_of_all_its_rows(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columnar_aggregate, "STEP_ROWS", 150)
    rng = np.random.default_rng(3)
    batches = [batch(rng, 400, key_columns(kind, rng, 400), 0, 1000) for _ in range(6)]
    keys = [n for n in batches[0].data.schema.names if n not in ("v", "f")]
    made, store = aggregate(batches[0].data.schema, keys), MemoryStore()
    two = [start(made, index, 2) for index in range(2)]
    for one in batches[:2]:
        deal(one, keys, two)
    frozen = [running.operator.freeze(1) for running in two]
    for one in batches[2:]:  # while it is written
        deal(one, keys, two)
    assert latest(two, keys) == expected(batches, keys)
    snapshots = []
    for state in frozen:
        assert state is not None
        snapshots.append(state.write(store))
        state.release()
    three = [start(made, index, 3, restored_of(snapshots)) for index in range(3)]
    for one in batches[2:]:
        deal(one, keys, three)
    after = expected(batches[2:], keys)
    whole = expected(batches, keys)
    assert latest(three, keys) == {key: whole[key] for key in after}


def test_rows_come_out_with_the_declared_columns() -> None:
    data = pa.record_batch({"k": ["a", "b", "a"], "v": [1, None, 2]})
    running = start(aggregate(data.schema, ["k"], [("v", "sum", "v"), ("mean", "avg", "v")]))
    running.operator.process(ArrowBatch(data), 0)
    running.operator.process(ArrowBatch(data.slice(2)), 0)
    assert running.out.table().schema == pa.schema([("k", pa.string()), ("v", pa.int64()), ("mean", pa.float64())])
    assert running.out.values() == [
        {"k": "a", "v": 3, "mean": 1.5},
        {"k": "b", "v": None, "mean": None},
        {"k": "a", "v": 5, "mean": 5 / 3},
    ]


def test_other_aggregates_are_refused_before_and_at_a_restore() -> None:
    data = pa.record_batch({"k": ["a"], "v": [1], "t": ["x"]})
    running = start(aggregate(data.schema, ["k"], [("x", "sum", "v")]))
    running.operator.process(ArrowBatch(data), 0)
    snapshot = running.snapshot()
    float_sum = aggregate(pa.schema([("k", pa.string()), ("v", pa.float32())]), ["k"], [("x", "max", "v")])
    with pytest.raises(SchemaMismatch, match=r"value\.x"):
        start(float_sum, restored=RestoredOperator(keyed=snapshot.keyed))
    content = snapshot.keyed[0].handle.data
    assert content is not None
    stored = StoredState("aggregates", "columnar_keyed", None, pa.ipc.open_file(content).schema)
    assert [v.outcome for v in examine_states(float_sum, [stored])] == [StateOutcome.CANNOT_BE_READ]
    same = aggregate(data.schema, ["k"], [("x", "sum", "v")])
    assert [v.outcome for v in examine_states(same, [stored])] == [StateOutcome.RESTORES]


def test_totals_of_batch_mode_come_at_the_end_a_step_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columnar_aggregate, "STEP_ROWS", 150)
    rng = np.random.default_rng(5)
    batches = [batch(rng, 400, key_columns(KINDS[0], rng, 400), 0, 1000) for _ in range(4)]
    keys = [n for n in batches[0].data.schema.names if n not in ("v", "f")]
    made = aggregate(batches[0].data.schema, keys)
    running = start(replace(made, options=replace(options_of(made, AggregateOptions), is_final=True)))
    for one in batches:
        running.operator.process(one, 0)
        running.operator.on_watermark(7)
    running.operator.on_watermark(END_OF_TIME)
    assert running.out.order == []
    with pytest.raises(InvalidJob, match="no checkpoints or savepoints"):
        running.operator.freeze(1)
    while running.operator.ending() is Ending.IN_FLIGHT:
        assert running.operator.emit_some()
        assert all(len(emitted) <= 150 for emitted in running.out.batches)
    running.operator.finish()
    assert running.out.watermarks == [END_OF_TIME]
    assert len(running.out.values()) == len(expected(batches, keys))
    assert latest([running], keys) == expected(batches, keys)


def test_totals_of_nothing_are_nothing() -> None:
    made = aggregate(pa.schema([("k", pa.string()), ("v", pa.int64())]), ["k"], [("x", "sum", "v")])
    running = start(replace(made, options=replace(options_of(made, AggregateOptions), is_final=True)))
    while running.operator.ending() is Ending.IN_FLIGHT:
        assert running.operator.emit_some()
    running.operator.finish()
    assert running.out.values() == []
