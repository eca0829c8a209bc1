"""The format ``debezium-avro-confluent``: Debezium's changes in Avro with a schema registry (Flink: ``DebeziumAvroDeserializationSchema``,
``DebeziumAvroSerializationSchema``).

message ─▶ record {before, after, op} ─▶ +I, -U and +U, -D
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidegate.connectors.formats.avro_messages import SchemaRegistry
from tidegate.connectors.formats.messages import Counts, PoisonRecord, Values, objects
from tidegate.functions.sql.changelog import INSERT, adds, has_kinds, with_kinds
from tidegate.functions.sql.scalar import arrow_schema
from tidegate.model.values import Record
from tidegate.plan.logical_types import Field, LogicalType, TypeRoot, parse_type
from tidegate.table._formats.avro import AvroWriting, record_reading
from tidegate.table._formats.changelog_json import DIALECTS, no_row_before
from tidegate.table._formats.columns import as_arrays, first_poison
from tidegate.table._formats.errors import Unreadable

_KINDS: Final = DIALECTS["debezium-json"].kinds


def envelope_of(row_type: LogicalType) -> LogicalType:
    """Returns the row type of a Debezium message: the row before and after the change, and the operation."""
    row = row_type.with_nullable(True)
    fields = Field("before", row), Field("after", row), Field("op", parse_type("STRING"))
    return LogicalType(TypeRoot.ROW, fields=fields)


@dataclass(frozen=True)
class ChangelogAvroReading:
    """Decodes Debezium's Avro messages to changes. ``avro``: the reader's schema of a message, as text."""

    row_type: LogicalType
    avro: str
    registry: SchemaRegistry | None

    @property
    def schema(self) -> pa.Schema:
        """Returns the columns of the table and of row kinds."""
        return with_kinds(arrow_schema(self.row_type))

    def read(self, messages: Values) -> tuple[pa.RecordBatch, Counts]:
        """Decodes messages to rows with their kinds, and the number of rows for each message. Raises ``PoisonRecord``."""
        given = objects(messages)
        places = [index for index, one in enumerate(given) if one]
        rows: list[tuple[Any, ...]] = []
        counts = np.zeros(len(given), np.int64)
        try:
            records = record_reading(self.registry, self.avro).records([one for one in given if one])
        except PoisonRecord as poison:
            raise PoisonRecord(places[poison.index], _unreadable(poison.reason)) from poison
        for place, record in zip(places, records, strict=True):
            before = len(rows)
            try:
                rows += self._changes(record)
            except Unreadable as error:
                raise PoisonRecord(place, _unreadable(str(error))) from None
            counts[place] = len(rows) - before
        arrays = as_arrays(rows, self.schema)
        if arrays is None:
            raise first_poison(self.read, messages)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema), counts

    def _changes(self, record: Record | None) -> Iterator[tuple[Any, ...]]:
        if record is None:
            raise Unreadable("the message is null")
        operation = record["op"]
        if operation is None:
            raise Unreadable('the "op" of the message is null')
        kinds = _KINDS.get(operation)
        if kinds is None:
            raise Unreadable(f'Unknown "op" value "{operation}"')
        for kind in kinds:
            row = record["after" if adds(kind) else "before"]
            if row is None:
                raise Unreadable('the "after" of the message is null' if adds(kind) else no_row_before(operation))
            yield (*(row[name] for name in self.row_type.field_names), kind)


def _unreadable(reason: str) -> str:
    return f"Can't deserialize Debezium Avro message: {reason}"


@dataclass(frozen=True)
class ChangelogAvroWriting:
    """Encodes changes as Debezium's Avro messages: -U and -D rows become deletions. ``envelopes``: encodes the envelope."""

    row_type: LogicalType
    envelopes: AvroWriting

    takes_kinds = True
    """Whether ``messages`` takes batches with a last column of row kinds."""

    def messages(self, batch: pa.RecordBatch) -> list[bytes | None]:
        """Encodes each change as a message. Raises ``UserError`` for a row that does not fit the schema."""
        kinds = batch.columns[-1].to_pylist() if has_kinds(batch.schema) else [INSERT] * batch.num_rows
        added = np.array([adds(kind) for kind in kinds], bool)
        schema = arrow_schema(self.envelopes.row_type)
        columns, fields = batch.columns[: len(self.row_type.fields)], list(schema.field("before").type)
        before, after = (
            pa.StructArray.from_arrays(columns, fields=fields, mask=pa.array(is_null)) for is_null in (added, ~added)
        )
        operations = pa.array(np.where(added, "c", "d"), pa.string())
        return self.envelopes.messages(pa.RecordBatch.from_arrays([before, after, operations], schema=schema))
