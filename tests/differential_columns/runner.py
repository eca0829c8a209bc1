"""Runs a case by the operators of the runtime, senders and receivers as many as it says, and compares the results with the oracle's, and with DuckDB's where
every row counts."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from tests.differential_columns import oracle
from tests.differential_columns.cases import NUMBERS, STEP_MS, Case, case_of
from tests.unit.taskmanager.operators.harness import Running, restored_of, spec, start
from tidegate.columnar.aggregates.names import internal_name
from tidegate.columnar.keys.hashing import hash_columns, key_groups
from tidegate.common import Time, WatermarkStrategy
from tidegate.common.typeinfo import ArrowTypeInfo, TypeInformation
from tidegate.connectors.number_sequence import DataGeneratorSource
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.aggregates import Aggregate
from tidegate.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from tidegate.model.channel_events import END_OF_TIME
from tidegate.model.keygroups import subtask_of
from tidegate.records.batch import ArrowBatch

MAX_PARALLELISM = 128


def check(seed: int) -> Case:
    """Raises ``AssertionError`` that begins with the seed."""
    case = case_of(seed)
    wanted = oracle.results(case)
    with tempfile.TemporaryDirectory() as directory:
        found = Job(case, directory).run()
    _compare(case, found, wanted)
    if case.kind == "tumble" and case.restore_before is None:
        _compare_with_duckdb(case, found, wanted)
    return case


class Job:
    """The operators that the DSL makes of the case."""

    def __init__(self, case: Case, directory: str) -> None:
        self._case = case
        self._given = {"managed_memory_bytes": case.budget, "temp_dir": directory}
        self._specs = operators_of(case)
        self._senders = [] if case.kind == "running" else [start(self._specs[0]) for _ in range(case.senders)]
        self._receivers = [self._receiver(i, case.receivers) for i in range(case.receivers)]
        self._watermarks = [oracle.NEVER] * case.senders
        self._results: list[dict[str, Any]] = []

    def run(self) -> list[dict[str, Any]]:
        """Returns the rows that come out, in the order of their receivers."""
        for number, step in enumerate(self._case.steps):
            if number == self._case.restore_before:
                self._restore()
            batch = ArrowBatch(step.rows, pa.array(step.stamps, pa.int64()))
            if not self._senders:
                self._deal(batch, self._case.keys)
                self._take()
                continue
            self._senders[step.sender].operator.process(batch, 0)
            self._watermark(step.sender, step.watermark)
        for sender in range(len(self._senders)):
            self._watermark(sender, END_OF_TIME)
        self._take()
        for running in (*self._senders, *self._receivers):
            running.operator.close()
        return self._results

    def _receiver(self, index: int, parallelism: int, **more: Any) -> Running:
        return start(self._specs[-1], index, parallelism, given=self._given, **more)

    def _watermark(self, sender: int, to: int) -> None:
        self._senders[sender].operator.on_watermark(to)
        self._forward(sender)
        before = min(self._watermarks)
        self._watermarks[sender] = max(self._watermarks[sender], to)
        if min(self._watermarks) > before:
            for receiver in self._receivers:
                receiver.operator.on_watermark(min(self._watermarks))

    def _forward(self, sender: int) -> None:
        batches = list(self._senders[sender].out.batches)
        self._senders[sender].out.batches.clear()
        for batch in batches:
            assert isinstance(batch, ArrowBatch)
            self._deal(batch, list(map(internal_name, self._case.keys)))

    def _deal(self, batch: ArrowBatch, keys: Sequence[str]) -> None:
        groups = key_groups(hash_columns([batch.data.column(name) for name in keys]), MAX_PARALLELISM)
        owners = np.array([subtask_of(int(group), MAX_PARALLELISM, len(self._receivers)) for group in groups])
        for index, receiver in enumerate(self._receivers):
            rows = np.flatnonzero(owners == index)
            if len(rows):
                stamps = None if batch.timestamps is None else batch.timestamps.take(pa.array(rows))
                receiver.operator.process(ArrowBatch(batch.data.take(pa.array(rows)), stamps), 0)

    def _take(self) -> None:
        for receiver in self._receivers:
            self._results += receiver.out.values()
            receiver.out.batches.clear()

    def _restore(self) -> None:
        """A savepoint, and a job of another parallelism from it."""
        for sender in range(len(self._senders)):
            self._senders[sender].operator.prepare_snapshot(1)
            self._forward(sender)
        self._take()
        restored = restored_of([receiver.snapshot() for receiver in self._receivers])
        for receiver in self._receivers:
            receiver.operator.close()
        count = self._case.receivers_after
        self._receivers = [self._receiver(i, count, restored=restored) for i in range(count)]
        self._senders = [start(self._specs[0]) for _ in self._senders]
        self._watermarks = [oracle.NEVER] * self._case.senders


def operators_of(case: Case) -> list[Any]:
    """Sender and receiver, with the options and types that the graph has."""
    env = StreamExecutionEnvironment.get_execution_environment()
    rows = DataGeneratorSource(lambda first, number: case.steps[0].rows, 1)
    keyed = env.from_source(rows, WatermarkStrategy.no_watermarks(), "rows").key_by(*case.keys)
    made = [
        Aggregate(f.partition(":")[0], column, name, float(f.partition(":")[2]) if ":" in f else None)  # type: ignore[arg-type]
        for name, f, column in case.aggregates
    ]
    assigner: Any = {
        "tumble": TumblingEventTimeWindows.of(Time.milliseconds(STEP_MS)),
        "hop": SlidingEventTimeWindows.of(Time.milliseconds(case.size_ms), Time.milliseconds(STEP_MS)),
        "session": EventTimeSessionWindows.with_gap(Time.milliseconds(STEP_MS)),
    }.get(case.kind)
    stream = keyed.agg(*made) if assigner is None else keyed.window(assigner).agg(*made)
    last: Any = stream._transformation
    chain = [last] if assigner is None else [last.inputs[0].input, last]
    found = []
    for step in chain:
        types: tuple[TypeInformation, ...] = (ArrowTypeInfo(case.schema) if step is chain[0] else chain[0].output_type,)
        found.append(spec(step.kind, step.kind, step.options, input_types=types, output_type=step.output_type))
    return found


def _compare(case: Case, found: list[dict[str, Any]], wanted: list[oracle.Told]) -> None:
    left: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for row in found:
        window = (row["window_start"], row["window_end"]) if case.kind != "running" else None
        left[oracle.key_of([row[name] for name in case.keys]), window].append(row)
    for told in wanted:
        rows = left[told.key, told.window]
        assert rows, f"seed {case.seed}: {told.key} {told.window} is missing of {case}"
        row = rows.pop(0)
        for name, function, column in case.aggregates:
            kind = None if column is None else case.schema.field(column).type
            shown = f"{function}({column}: {kind}) as {name} of {told.key} {told.window} is {row[name]!r}"
            of = [row[1][column] for row in told.rows] if column is not None else len(told.rows)
            assert oracle.fits(function, column, kind, told.rows, row[name]), f"seed {case.seed}: {shown}, of {of}"
    rest = {key: rows for key, rows in left.items() if rows}
    assert not rest, f"seed {case.seed}: {rest} should not be there in {case}"


_DUCKDB = {
    "sum": "sum({})",
    "avg": "avg({})",
    "min": "min({})",
    "max": "max({})",
    "median": "median({})",
    "count": "count({})",
}


def _compare_with_duckdb(case: Case, found: list[dict[str, Any]], wanted: list[oracle.Told]) -> None:
    """The aggregates of integers, one window after the other. Late rows are known from the oracle, which the results were compared with."""
    columns = [
        (name, f, c)
        for name, f, c in case.aggregates
        if c is not None and pa.types.is_integer(case.schema.field(c).type)
    ]
    for told in wanted[:3]:
        (row,) = [
            r
            for r in found
            if (oracle.key_of([r[n] for n in case.keys]), (r["window_start"], r["window_end"]))
            == (told.key, told.window)
        ][:1]
        for name, function, column in columns:
            table = pa.table({"v": pa.array([one[column] for _, one in told.rows], case.schema.field(column).type)})
            share = function.partition(":")[2]
            text = f"quantile_disc({{}}, {share})" if share else _DUCKDB.get(function)
            if text is None or (function == "sum" and row[name] is not None and abs(row[name]) > 2**62):
                continue
            relation = duckdb.from_arrow(table).aggregate(text.format("v"))
            ((exact,),) = relation.fetchall()
            if function == "sum" and exact is not None and not -(2**63) <= exact < 2**63:
                continue
            is_near = row[name] == exact if exact is None or function in ("min", "max", "count", "sum") else None
            if is_near is None:
                is_near = oracle.near(
                    row[name], float(exact), 0.0101 if share or function == "median" else 1e-9, 1e-9 * 2**63
                )
            assert is_near, (
                f"seed {case.seed}: {function}({column}) is {row[name]!r}, DuckDB's {exact!r} of {table['v'].to_pylist()}"
            )


__all__ = ["NUMBERS", "Job", "check", "operators_of"]
