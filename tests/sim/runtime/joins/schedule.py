"""A job that joins two streams, from the plan that Flink made of its statement, on a seeded schedule.

    scan a ─▶ watermarks ═ by key ═▶┐
                                    ├ join ─▶ columns ═ rebalance ═▶ sink
    scan b ─▶ watermarks ═ by key ═▶┘

What the changes that were committed leave must be what Flink left of the statement. Each scan has its own speed, so that the inputs run apart.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

import pyarrow as pa

from tests.differential_tables.judge import Judged
from tests.differential_tables.tables import NULL
from tests.sim.laws import Law, LawBroken
from tests.sim.runtime import job
from tests.sim.runtime.job import Outside, OutsideSink
from tests.sim.runtime.joins.statements import STATEMENTS, recorded
from tests.sim.runtime.schedule import Schedule, Shape
from tests.unit.tidegate.table._execution.plan_run import KINDS, column, file_name, file_rows
from tidegate.common import WatermarkStrategy
from tidegate.common.configuration import Configuration
from tidegate.connectors.base import SinkContext, SinkWriter
from tidegate.connectors.number_sequence import DataGeneratorSource, Generate
from tidegate.datastream import DataStream, StreamExecutionEnvironment
from tidegate.datastream._graph.job_graph_builder import BuiltJob
from tidegate.functions.sql.changelog import adds
from tidegate.functions.sql.rows import changes_of
from tidegate.plan.exec_node_graph import decode_plan
from tidegate.plan.nodes import Node, TableSourceScan2
from tidegate.records.batch import ArrowBatch, Batch
from tidegate.records.row_kinds import KIND_FIELD
from tidegate.table._execution.relational import table_schema
from tidegate.table._execution.translation import translate

BATCH_ROWS = 6
_SHAPES = ((2, 2), (2, 3), (3, 2), (3, 1))
"""Of the join and the sinks. The scans stay as they are: a change that takes a row back must come behind the one that gave it."""


class JoinSchedule(Schedule):
    """Raises ``LawBroken``. ``name``: of the statement; drawn if it is ``None``. ``is_disturbed``: whether anything fails."""

    def __init__(self, seed: int, name: str | None = None, *, is_disturbed: bool = True) -> None:
        r = Random(f"{seed}: join")
        self.name = name or r.choice(list(STATEMENTS))
        self._scans = r.choice((1, 2)) if is_append_only(recorded()[self.name]) else 1
        self._shapes = r
        self._gathered = Random(f"{seed}: mini-batches").choice((None, 3, 40))
        super().__init__(seed)
        if not is_disturbed:
            self._mix.abort = self._mix.kill = self._mix.disk_full = 0.0

    def make_outside(self, seed: int) -> Outside:
        return JoinOutside(self.work, judged=recorded()[self.name])

    def build(self, shape: Shape, *, incremental: bool) -> BuiltJob:
        joins, sinks = self._shapes.choice(_SHAPES)
        return build(self.name, self._scans, joins, sinks, self._gathered, incremental=incremental)


@dataclass
class JoinOutside(Outside):
    judged: Judged | None = None

    def check_output(self, *, exactly_once: bool) -> None:
        assert self.judged is not None
        found, wanted = (
            left_by([(kind, row) for rows in self.committed.values() for kind, row in rows]),
            left_by(self.judged.changes),
        )
        if found != wanted:
            lost, more = wanted - found, found - wanted
            raise LawBroken(
                Law.OUTPUT, f"{self.judged.case.kind}: lost {sorted(map(str, lost))}, too many {sorted(map(str, more))}"
            )


def left_by(changes: Sequence[tuple[str, Sequence[str | None]]]) -> Counter[tuple[str | None, ...]]:
    """How often each row is there behind all changes, in whatever order they were committed."""
    left: Counter[tuple[str | None, ...]] = Counter()
    for kind, row in changes:
        left[tuple(row)] += 1 if adds(KINDS.index(kind)) else -1
    return Counter({row: count for row, count in left.items() if count})


def is_append_only(judged: Judged) -> bool:
    return not any(table.kinds for table in judged.case.tables)


class ChangesSink(OutsideSink):
    """Commits changes: the kind of each, and its values as texts."""

    def make_writer(self, context: SinkContext, state: Sequence[Any], input_type: Any) -> SinkWriter:
        return _ChangesWriter(context)


class _ChangesWriter(SinkWriter):
    works_on = "arrow"
    takes_row_kinds = True

    def __init__(self, context: SinkContext) -> None:
        self._context = context
        self._rows: list[Any] = []

    def write(self, batch: Batch) -> None:
        assert isinstance(batch, ArrowBatch)
        for kind, row in changes_of(batch.data):
            job.outside.work()
            self._rows.append([KINDS[kind], [None if value is None else str(value) for value in row]])

    def prepare_commit(self, checkpoint_id: int) -> list[Any]:
        rows, self._rows = self._rows, []
        return [[f"{self._context.attempt}/{checkpoint_id}", checkpoint_id, rows]] if rows else []


@cache
def build(name: str, scans: int, joins: int, sinks: int, gathered: int | None = None, *, incremental: bool) -> BuiltJob:
    """``gathered``: most rows of a mini-batch of a regular join; ``None``: there are none."""
    judged = recorded()[name]
    mini_batches = {
        "table.exec.mini-batch.enabled": str(gathered is not None).lower(),
        "table.exec.mini-batch.size": str(gathered or 0),
    }
    options = Configuration()
    options.set_string("execution.checkpointing.mode", "EXACTLY_ONCE")
    options.set_string("execution.checkpointing.unaligned.enabled", "true")
    options.set_string("execution.checkpointing.incremental", "true" if incremental else "false")
    options.set_string("execution.checkpointing.data-inline-threshold", "0 b" if incremental else "200 b")
    options.set_string("tidegate.exchange.channel-credit", "1 kb")
    options.set_string("tidegate.exchange.batch-rows", "4")
    options.set_string("taskmanager.network.memory.buffer-debloat.enabled", "false")
    options.set_string("pipeline.auto-watermark-interval", "1 ms")
    env = StreamExecutionEnvironment.get_execution_environment(options).set_parallelism(joins)
    env.enable_checkpointing(60_000)
    uids = iter("ab")

    def scanned(node: Node) -> DataStream:
        rows = _rows(judged, node)
        source = DataGeneratorSource(_slices(rows), rows.num_rows, schema=rows.schema, batch_rows=BATCH_ROWS)
        uid = next(uids)
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), f"scan {uid}").uid(uid)
        return stream.set_parallelism(scans)

    def ended(node: Node, stream: DataStream) -> None:
        stream.rebalance().sink_to(ChangesSink()).uid("out").set_parallelism(sinks)

    translate(decode_plan(json.dumps(judged.plan)), env, scanned, ended, options=mini_batches)
    return env.build()


def _rows(judged: Judged, scan: Node) -> pa.RecordBatch:
    """The rows that a scan reads of its table."""
    assert isinstance(scan, TableSourceScan2)
    (table,) = [table for table in judged.case.tables if f"{table.name}.csv" == file_name(scan)]
    cells = [[None if cell == NULL else cell for cell in row] for row in table.rows]
    texts = file_rows(scan, {file_name(scan): cells})
    type = scan.output_type
    columns = [column(field.type, [row[at] for row in texts], "UTC") for at, field in enumerate(type.fields)]
    schema = table_schema(type, has_updates=bool(table.kinds))
    if table.kinds:
        columns.append(pa.array([KINDS.index(kind) for kind in table.kinds], KIND_FIELD.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _slices(rows: pa.RecordBatch) -> Generate:
    return lambda first, count: rows.slice(first, count)
