"""An operator of a compiled plan as several subtasks in the test's thread: rows are dealt by their keys, state goes through snapshots to other numbers of
subtasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from tests.unit.taskmanager.operators.harness import Running, restored_of, spec, start
from tidegate.columnar.keys.hashing import hash_columns, key_groups
from tidegate.functions.sql.aggregates import UserAggregates
from tidegate.functions.sql.changelog import DELETE, INSERT, UPDATE_AFTER, with_kinds
from tidegate.functions.sql.rows import Change, Row, batch_of, changes_of
from tidegate.functions.sql.scalar import arrow_schema
from tidegate.model.checkpoint import RestoredOperator
from tidegate.model.keygroups import subtask_of
from tidegate.plan.logical_types import LogicalType
from tidegate.plan.nodes import Node
from tidegate.records.arrow_type import ArrowTypeInfo
from tidegate.records.batch import ArrowBatch

MAX_PARALLELISM = 128


class Subtasks:
    """``keys``: positions for each input. Rows that come and go have kinds; ``changes`` is all that was emitted."""

    def __init__(
        self,
        node: Node,
        row_types: Sequence[LogicalType],
        keys: Sequence[Sequence[int]],
        parallelism: int,
        configuration: Mapping[str, str] | None = None,
        functions: UserAggregates | None = None,
        *,
        emits_each: bool = False,
        emits_updates: bool = True,
        time_zone: str = "UTC",
    ) -> None:
        self.schemas = [with_kinds(arrow_schema(kind)) for kind in row_types]
        options = {
            "node": node,
            "row_types": tuple(row_types),
            "keys": keys,
            "time_zone": time_zone,
            "functions": functions,
            "emits_each": emits_each,
        }
        emitted = arrow_schema(node.output_type)
        out = ArrowTypeInfo(with_kinds(emitted) if emits_updates else emitted)
        self._spec = spec(
            "relational", options=options, input_types=tuple(map(ArrowTypeInfo, self.schemas)), output_type=out
        )
        self._keys = keys
        self._configuration = configuration
        self.changes: list[Change] = []
        self.now_ms = 0
        self.running = [self._started(i, parallelism) for i in range(parallelism)]

    def _started(self, index: int, parallelism: int, **restored: Any) -> Running:
        return start(
            self._spec,
            index,
            parallelism,
            configuration=self._configuration,
            max_parallelism=MAX_PARALLELISM,
            now_ms=self.now_ms,
            **restored,
        )

    def feed(self, changes: Sequence[Change], index: int = 0) -> list[Change]:
        """Returns what was emitted."""
        batch = batch_of(changes, self.schemas[index])
        columns = [batch.column(position) for position in self._keys[index]]
        groups = key_groups(hash_columns(columns), MAX_PARALLELISM).tolist() if columns else [0] * len(changes)
        for subtask, running in enumerate(self.running):
            mine = [
                i for i, group in enumerate(groups) if subtask_of(group, MAX_PARALLELISM, len(self.running)) == subtask
            ]
            if mine:
                running.operator.process(ArrowBatch(batch.take(pa.array(mine))), index)
        return self._emitted()

    def _emitted(self) -> list[Change]:
        came: list[Change] = []
        for running in self.running:
            for emitted in running.out.batches:
                assert isinstance(emitted, ArrowBatch)
                came += changes_of(emitted.data)
            running.out.batches.clear()
        self.changes += came
        return came

    def watermark(self, ms: int) -> list[Change]:
        """Event time of all inputs of all subtasks; returns what was emitted."""
        for running in self.running:
            running.operator.on_watermark(ms)
        return self._emitted()

    def rescale(self, parallelism: int) -> None:
        """All subtasks write a snapshot and end; so many others start from it."""
        snapshots = [running.snapshot() for running in self.running]
        self.close()
        self._start(restored_of(snapshots), parallelism)

    def restart(self, restored: RestoredOperator) -> None:
        """As many subtasks start from other state."""
        self.close()
        self._start(restored, len(self.running))

    def _start(self, restored: RestoredOperator, parallelism: int) -> None:
        self.running = [self._started(i, parallelism, restored=restored) for i in range(parallelism)]

    def set_clock(self, now_ms: int) -> None:
        self.now_ms = now_ms
        for running in self.running:
            running.clock.ms = now_ms

    def advance(self, now_ms: int) -> list[Change]:
        """Timers of processing time fire until then; returns what was emitted."""
        self.now_ms = now_ms
        for running in self.running:
            running.timers.advance_to(now_ms)
        return self._emitted()

    def close(self) -> None:
        for running in self.running:
            running.operator.close()


def fold(changes: Sequence[Change]) -> list[Row]:
    """The rows that a changelog leaves. Raises ``ValueError`` where it takes back a row that is not there."""
    left: list[Row] = []
    for kind, row in changes:
        if kind in (INSERT, UPDATE_AFTER):
            left.append(row)
        else:
            left.remove(row)
    return left


def random_changes(random: Any, rows: Sequence[Row], count: int) -> list[Change]:
    """Rows that come, and now and then one of them that goes."""
    there: list[Row] = []
    made: list[Change] = []
    for _ in range(count):
        if there and random.random() < 0.4:
            made.append((DELETE, there.pop(random.randrange(len(there)))))
        else:
            there.append(random.choice(rows))
            made.append((INSERT, there[-1]))
    return made
