"""The lookup join: joins rows of a batch with the rows that a table has for their keys now (Flink: ``CommonExecLookupJoin.java``).

    rows ─▶ those that the first condition keeps, with no null in their key ─▶ different keys ─▶ one question ─▶ rows of the table
      └──────────────▶ joined by the number of the key ◀── filter and projection of the table's rows ◀──────────────────────┘
                              └─▶ the last condition ─▶ rows without a partner stay with nulls, in a left join

Rows keep their order and their kinds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidegate.columnar.keys.codes import encode_keys
from tidegate.functions.base import Function, RuntimeContext
from tidegate.functions.sql.changelog import has_kinds, with_kinds
from tidegate.functions.sql.scalar import (
    CompiledFilter,
    CompiledProjection,
    EvaluationContext,
    arrow_schema,
    batch_of,
    compile_filter,
    compile_projection,
)
from tidegate.plan import nodes as plan_nodes
from tidegate.plan.errors import UnsupportedPlan
from tidegate.plan.expressions import Rex, RexInputRef
from tidegate.plan.logical_types import LogicalType
from tidegate.plan.specs import LookupField
from tidegate.table._lookup.port import FoundRows, LookupTable, Positions

LookupNode = plan_nodes.LookupJoin1 | plan_nodes.BatchLookupJoin1


@dataclass(frozen=True)
class _Compiled:
    first: CompiledFilter | None
    keys: CompiledProjection
    key_schema: pa.Schema
    table_filter: CompiledFilter | None
    table_projection: CompiledProjection | None
    table_schema: pa.Schema
    last: CompiledFilter | None
    joined: pa.Schema
    schema: pa.Schema


@dataclass(frozen=True, slots=True)
class Question:
    """The distinct keys of a batch. ``codes``: for each row the position of its key, -1 where it has none that can be looked up."""

    batch: pa.RecordBatch
    codes: Positions
    keys: pa.RecordBatch


class LookupJoin:
    """Finds the distinct keys of a batch, and joins the rows found for them to it. Compiled in the subtask."""

    def __init__(self, node: LookupNode, input_type: LogicalType, time_zone: str) -> None:
        self._arguments = (node, input_type, time_zone)
        self._compiled: _Compiled | None = None

    def __reduce__(self) -> tuple[type[LookupJoin], tuple[LookupNode, LogicalType, str]]:
        return LookupJoin, self._arguments

    def compile(self) -> _Compiled:
        """Compiles conditions and projections. Raises ``UnsupportedPlan`` that names what is not supported."""
        if self._compiled is None:
            self._compiled = _compiled(*self._arguments)
        return self._compiled

    def ask(self, batch: pa.RecordBatch) -> Question:
        """Returns the distinct keys of a batch."""
        made = self.compile()
        columns = made.keys.evaluate(batch)
        can = np.ones(batch.num_rows, bool)
        if made.first is not None:
            can &= made.first.evaluate(batch).fill_null(False).to_numpy(zero_copy_only=False)
        for column in columns:
            if column.null_count:
                can &= column.is_valid().to_numpy(zero_copy_only=False)
        columns = [column.cast(field.type) for column, field in zip(columns, made.key_schema, strict=True)]
        if not can.all():
            columns = [column.filter(pa.array(can)) for column in columns]
        rows = int(np.count_nonzero(can))
        encoded = encode_keys(columns, rows, "lookup join")
        used, codes = np.unique(encoded.codes, return_inverse=True) if rows else (np.empty(0, np.intp), np.empty(0))
        keys = encoded.decode(used) if rows else columns
        found = np.full(batch.num_rows, -1, np.int64)
        found[can] = codes
        return Question(batch, found, batch_of(keys, made.key_schema, len(used)))

    def join(self, question: Question, found: FoundRows) -> pa.RecordBatch:
        """Joins the rows of a batch with the rows found for their keys."""
        made = self.compile()
        node, input_type, _ = self._arguments
        width = len(input_type.fields)
        batch = question.batch
        if made.table_filter is not None:
            found = found.chosen(made.table_filter.evaluate(found.rows))
        columns = (
            list(found.rows.columns) if made.table_projection is None else made.table_projection.evaluate(found.rows)
        )
        parents, places = _pairs(question, found)
        taken = pa.array(places)
        right = [column.take(taken) for column in columns]
        right = [column.cast(field.type) for column, field in zip(right, made.table_schema, strict=True)]
        if made.last is not None:
            left = [column.take(pa.array(parents)) for column in batch.columns[:width]]
            mask = made.last.evaluate(batch_of([*left, *right], made.joined, len(parents))).fill_null(False)
            parents = parents[mask.to_numpy(zero_copy_only=False)]
            right = [column.filter(mask) for column in right]
        if node.join_type == "LEFT":
            alone = np.flatnonzero(np.bincount(parents, minlength=batch.num_rows) == 0)
            order = np.argsort(np.concatenate([parents, alone]), kind="stable")
            partner = pa.array(order, mask=order >= len(parents))
            parents = np.concatenate([parents, alone])[order]
            right = [column.take(partner) for column in right]
        rows = pa.array(parents)
        schema, kinds = made.schema, []
        if has_kinds(batch.schema):
            schema, kinds = with_kinds(schema), [batch.columns[-1].take(rows)]
        left = [column.take(rows) for column in batch.columns[:width]]
        found_columns = [column.cast(field.type) for column, field in zip([*left, *right], made.schema, strict=True)]
        return batch_of([*found_columns, *kinds], schema, len(parents))


class LookupJoinFunction(Function):
    """The lookup join as an operator's function: one lookup for each batch."""

    def __init__(self, join: LookupJoin, table: LookupTable) -> None:
        self._join, self._table = join, table

    def open(self, runtime_context: RuntimeContext) -> None:
        self._table.open(runtime_context)

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        question = self._join.ask(batch)
        if question.keys.num_rows:
            return self._join.join(question, self._table.look_up(question.keys))
        return self._join.join(question, nothing(self._table.schema))

    def close(self) -> None:
        self._table.close()


def nothing(schema: pa.Schema) -> FoundRows:
    """Returns an empty result of a lookup."""
    rows = pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
    return FoundRows(np.empty(0, np.int64), rows)


def _pairs(question: Question, found: FoundRows) -> tuple[Positions, Positions]:
    """Returns the pairs of matching rows, as positions in the batch and in the rows found, ordered by the batch."""
    counts = np.bincount(found.keys, minlength=question.keys.num_rows).astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(counts)])
    asking = np.flatnonzero(question.codes >= 0)
    codes = question.codes[asking]
    of_row = counts[codes]
    parents = np.repeat(asking, of_row)
    within = np.arange(len(parents)) - np.repeat(np.cumsum(of_row) - of_row, of_row)
    return parents, np.repeat(starts[codes], of_row) + within


def _compiled(node: LookupNode, input_type: LogicalType, time_zone: str) -> _Compiled:
    if node.join_type not in ("INNER", "LEFT"):
        raise UnsupportedPlan(f"a lookup join of the type {node.join_type} is not supported")
    if not node.lookup_keys:
        name = node.temporal_table.lookup_table_source.table.name
        raise UnsupportedPlan(f"Temporal table join requires an equality condition on fields of table [{name}].")
    context = EvaluationContext(time_zone)
    table_type = node.temporal_table.output_type
    keys: list[Rex] = []
    positions = sorted(map(int, node.lookup_keys))
    for position in positions:
        key = node.lookup_keys[str(position)]
        keys.append(
            RexInputRef(key.index, input_type.fields[key.index].type) if isinstance(key, LookupField) else key.literal
        )
    projection = node.projection_on_temporal_table
    fields = node.output_type.fields[len(input_type.fields) :]
    right = LogicalType(node.output_type.root, fields=fields)
    joined = LogicalType(node.output_type.root, fields=(*input_type.fields, *fields))
    last = node.remaining_join_condition if isinstance(node, plan_nodes.LookupJoin1) else None
    last = last or node.join_condition
    stored = arrow_schema(table_type)
    return _Compiled(
        first=None
        if node.pre_filter_condition is None
        else compile_filter(node.pre_filter_condition, input_type, context),
        keys=compile_projection(keys, input_type, context),
        key_schema=pa.schema([stored.field(position).with_nullable(True) for position in positions]),
        table_filter=None
        if node.filter_on_temporal_table is None
        else compile_filter(node.filter_on_temporal_table, table_type, context),
        table_projection=None if projection is None else compile_projection(projection, table_type, context),
        table_schema=arrow_schema(right),
        last=None if last is None else compile_filter(last, joined, context),
        joined=arrow_schema(joined),
        schema=arrow_schema(node.output_type),
    )


__all__ = ["LookupJoin", "LookupJoinFunction", "LookupNode", "Question", "nothing"]
