"""The format ``raw``: a message is the only column's value, as bytes or text (Flink: ``RawFormatDeserializationSchema``)."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from tidegate.connectors.formats.messages import Counts, StringSchema, Values
from tidegate.functions.sql.scalar import arrow_schema
from tidegate.model.errors import InvalidJob
from tidegate.plan.logical_types import LogicalType, TypeRoot
from tidegate.table._formats.columns import TEXTS

_BYTES = (TypeRoot.BINARY, TypeRoot.VARBINARY)


def check_raw(row_type: LogicalType) -> None:
    """Raises ``InvalidJob`` unless there is exactly one column, of text or bytes."""
    kinds = [one.type for one in row_type.fields]
    if len(kinds) != 1:
        raise InvalidJob(
            f"The 'raw' format only supports single physical column. However the defined schema contains multiple physical columns: "
            f"[{', '.join(row_type.field_names)}]"
        )
    if kinds[0].root not in (*TEXTS, *_BYTES):
        raise InvalidJob(f"the format raw holds text or bytes here, not {kinds[0]}")


@dataclass(frozen=True)
class RawReading:
    """Decodes the format ``raw``. ``charset``: of text."""

    row_type: LogicalType
    charset: str = "UTF-8"

    def read(self, messages: Values) -> tuple[pa.RecordBatch, Counts | None]:
        """Decodes each message as a row; one without a value is null. Raises ``PoisonRecord``."""
        schema = arrow_schema(self.row_type)
        if self.row_type.fields[0].type.root in _BYTES:
            column = messages if isinstance(messages, pa.Array) else pa.array(messages, pa.binary())
        else:
            column = StringSchema(self.charset).decode(messages).column(0)
        return pa.RecordBatch.from_arrays([column.cast(schema.field(0).type)], schema=schema), None


@dataclass(frozen=True)
class RawWriting:
    """Encodes the format ``raw``. ``charset``: of text."""

    takes_kinds = False
    """Whether ``messages`` takes batches with a last column of row kinds."""

    row_type: LogicalType
    charset: str = "UTF-8"

    def messages(self, batch: pa.RecordBatch) -> list[bytes | None]:
        """Encodes each row as a message."""
        values = batch.column(0).to_pylist()
        if self.row_type.fields[0].type.root in _BYTES:
            return values  # type: ignore[no-any-return]
        return [None if value is None else value.encode(self.charset) for value in values]
