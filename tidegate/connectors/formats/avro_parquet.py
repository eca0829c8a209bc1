"""Avro records in files of Parquet, with the columns of Flink's ``AvroParquetWriters`` and ``AvroParquetReaders``.

    field of Avro                          column of Parquet
    null                                   none: it is None whatever the file
    union of null and one other            that one, nullable
    union of several                       struct of ``member0``, ``member1`` ..., one of them set (null is no member)
    enum, uuid                             text
    record, array, map                     struct, list, map with keys of text

Lists are written with the three levels that Parquet's specification has; Flink's writer makes the older two, which are read as well.
Records are dicts. A schema that contains itself has no columns: it is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from uuid import UUID

import pyarrow as pa

from tidegate.common.typeinfo import TypeInformation
from tidegate.connectors.files.encoders import EncoderFactory, FileEncoder, ParquetEncoderFactory
from tidegate.connectors.files.formats import ParquetFormat
from tidegate.connectors.formats.avro_files import AvroSchema, GenericRecordAvroTypeInfo, records_of, rejected
from tidegate.connectors.formats.avro_resolution import Values, default_of, with_values
from tidegate.connectors.formats.avro_type import AvroType, ParsedSchema, library, logical_type
from tidegate.model.errors import InvalidJob, SchemaMismatch
from tidegate.model.values import FieldValue, Record
from tidegate.records.record_codec import encode

_AVRO_SCHEMA = b"parquet.avro.schema"
"""The key of the Avro schema in the footer, as in Parquet's own Avro library."""


def _same(value: FieldValue) -> FieldValue:
    return value


def _text(value: FieldValue) -> FieldValue:
    """Converts a value of a text column to ``str``: columns of Parquet's type ENUM are read as bytes."""
    return value.decode() if isinstance(value, bytes) else value


@dataclass(frozen=True)
class _Column:
    """The mapping of an Avro type to a Parquet column. ``to_file`` and ``from_file`` convert non-null values."""

    kind: pa.DataType
    to_file: Callable[[FieldValue], FieldValue] = _same
    from_file: Callable[[FieldValue], FieldValue] = _same


_PLAIN = {
    "boolean": _Column(pa.bool_()),
    "int": _Column(pa.int32()),
    "long": _Column(pa.int64()),
    "float": _Column(pa.float32()),
    "double": _Column(pa.float64()),
    "bytes": _Column(pa.binary()),
    "string": _Column(pa.string(), from_file=_text),
    "enum": _Column(pa.string(), from_file=_text),
}
_LOGICAL = {
    "date": _Column(pa.date32()),
    "time-millis": _Column(pa.time32("ms")),
    "time-micros": _Column(pa.time64("us")),
    "timestamp-millis": _Column(pa.timestamp("ms", "UTC")),
    "timestamp-micros": _Column(pa.timestamp("us", "UTC")),
    "local-timestamp-millis": _Column(pa.timestamp("ms")),
    "local-timestamp-micros": _Column(pa.timestamp("us")),
    "uuid": _Column(pa.string(), str, lambda value: UUID(_text(value))),
}


@dataclass(frozen=True)
class _Field:
    """A field of a record; ``column`` is ``None`` when its only value is null."""

    name: str
    column: _Column | None
    nullable: bool
    default: Callable[[], FieldValue] | None
    """Returns the field's default value; ``None`` when it has no default."""

    def arrow(self) -> pa.Field:
        assert self.column is not None
        return pa.field(self.name, self.column.kind, self.nullable)

    def to_file(self, record: Record) -> FieldValue:
        value = record[self.name] if self.name in record else self._filled()
        return None if value is None or self.column is None else self.column.to_file(value)

    def _filled(self) -> FieldValue:
        return None if self.default is None else self.default()

    def from_file(self, record: dict[str, FieldValue]) -> FieldValue:
        if self.name not in record:
            return self._filled()
        value = record[self.name]
        return None if value is None or self.column is None else self.column.from_file(value)


def _fields(schema: AvroType) -> list[_Field]:
    return [
        _Field(one["name"], _column(one["type"]), _takes_null(one["type"]), _default(one)) for one in schema["fields"]
    ]


def _default(one: AvroType) -> Callable[[], FieldValue] | None:
    if "default" not in one:
        return None
    return default_of(ParsedSchema(one["type"], {}), one["type"], one["default"], Values(), one["name"])


def _takes_null(schema: AvroType) -> bool:
    return schema == "null" or (isinstance(schema, list) and "null" in schema)


def _column(schema: AvroType) -> _Column | None:
    if isinstance(schema, list):
        return _union([one for one in schema if one != "null"])
    if isinstance(schema, str):
        if schema != "null" and schema not in _PLAIN:
            raise InvalidJob(f"the Avro record {schema!r} contains itself: Parquet has no columns for that")
        return _PLAIN.get(schema)
    kind, logical = schema["type"], logical_type(schema)
    if logical == "decimal":
        return _Column(pa.decimal128(schema["precision"], schema.get("scale", 0)))
    if logical in _LOGICAL and kind != "fixed":
        return _LOGICAL[logical]
    match kind:
        case "record":
            return _record(_fields(schema))
        case "array":
            return _list(_present(schema["items"]), _takes_null(schema["items"]))
        case "map":
            return _map(_present(schema["values"]), _takes_null(schema["values"]))
        case "fixed":
            return _Column(pa.binary(schema["size"]))
    return _column(kind)


def _present(schema: AvroType) -> _Column:
    found = _column(schema)
    if found is None:
        raise InvalidJob("an Avro array or map of nulls has no column in Parquet")
    return found


def _record(fields: Sequence[_Field]) -> _Column:
    there = [one for one in fields if one.column is not None]
    if not there:
        raise InvalidJob("an Avro record without a field that is not null has no columns in Parquet")
    return _Column(
        pa.struct([one.arrow() for one in there]),
        lambda value: {one.name: one.to_file(value) for one in there},
        lambda value: {one.name: one.from_file(value) for one in fields},
    )


def _list(item: _Column, nullable: bool) -> _Column:
    def each(convert: Callable[[FieldValue], FieldValue]) -> Callable[[FieldValue], FieldValue]:
        return lambda values: [None if value is None else convert(value) for value in values]

    return _Column(pa.list_(pa.field("element", item.kind, nullable)), each(item.to_file), each(item.from_file))


def _map(item: _Column, nullable: bool) -> _Column:
    def to_file(values: FieldValue) -> FieldValue:
        return [(key, None if value is None else item.to_file(value)) for key, value in values.items()]

    def from_file(values: FieldValue) -> FieldValue:
        return {_text(key): None if value is None else item.from_file(value) for key, value in values}

    return _Column(pa.map_(pa.string(), pa.field("value", item.kind, nullable)), to_file, from_file)


def _union(branches: Sequence[FieldValue]) -> _Column | None:
    if len(branches) < 2:
        return _column(branches[0]) if branches else None
    members = [(f"member{index}", branch, _present(branch)) for index, branch in enumerate(branches)]
    is_of = library().validate

    def to_file(value: FieldValue) -> FieldValue:
        for name, branch, column in members:
            if is_of(value, branch, raise_errors=False):
                return {name: column.to_file(value)}
        raise SchemaMismatch(f"{value!r} fits no branch of its Avro union")

    def from_file(value: FieldValue) -> FieldValue:
        found = ((column, value[name]) for name, _, column in members if value.get(name) is not None)
        return next((column.from_file(member) for column, member in found), None)

    return _Column(pa.struct([pa.field(name, column.kind) for name, _, column in members]), to_file, from_file)


def _fields_of(schema: AvroSchema) -> list[_Field]:
    """Returns the fields of a record schema, with named types expanded. Raises ``InvalidJob`` for a type without a column."""
    parsed = library().schema.expand_schema(schema.parsed().root)
    if not isinstance(parsed, dict) or parsed.get("type") != "record":
        raise InvalidJob(f"files of Parquet have Avro records, not {str(schema)[:100]}")
    fields = _fields(parsed)
    _record(fields)
    return fields


def _read_type(actual: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    """Returns the type to read a file's column as: the reader's, ``wanted``, where file and reader have different logical types of the same number, as
    in Avro itself."""
    types = pa.types
    if types.is_struct(actual) and types.is_struct(wanted):
        known = {one.name: one.type for one in wanted}
        return pa.struct([one.with_type(_read_type(one.type, known.get(one.name, one.type))) for one in actual])
    if types.is_list(actual) and types.is_list(wanted):
        return pa.list_(actual.value_field.with_type(_read_type(actual.value_type, wanted.value_type)))
    if types.is_map(actual) and types.is_map(wanted):
        item = actual.item_field.with_type(_read_type(actual.item_type, wanted.item_type))
        return pa.map_(actual.key_field, item)
    if types.is_timestamp(actual) and types.is_timestamp(wanted):
        return pa.timestamp(actual.unit, wanted.tz)
    if types.is_integer(actual) and types.is_floating(wanted):
        return wanted
    if types.is_integer(actual) != types.is_integer(wanted) and (
        types.is_temporal(actual) or types.is_temporal(wanted)
    ):
        return wanted
    return actual


class AvroParquetFormat(ParquetFormat):
    """Reads Parquet files as Avro records with the fields of the reader's ``schema``; a field that a file lacks has its default, or is null."""

    def __init__(self, schema: AvroSchema) -> None:
        self._type = GenericRecordAvroTypeInfo(schema)
        super().__init__(self._type.arrow_schema())
        _fields_of(schema)

    def produced_type(self) -> TypeInformation:
        return self._type

    def without(self, names: Collection[str]) -> None:
        """Returns ``None``: records have the fields of the Avro schema, all of which are in the file."""
        return

    def check(self, path: str, actual: pa.Schema) -> None:
        for one in _fields_of(self._type.schema):
            if one.name not in actual.names and not one.nullable and one.default is None:
                raise SchemaMismatch(f"{path} has no column {one.name!r}; it has {', '.join(actual.names)}")

    def names_in(self, actual: pa.Schema) -> list[str]:
        return [
            one.name for one in _fields_of(self._type.schema) if one.column is not None and one.name in actual.names
        ]

    def shaped(self, data: pa.RecordBatch) -> pa.RecordBatch:
        fields = _fields_of(self._type.schema)
        kinds = {one.name: one.column.kind for one in fields if one.column is not None}
        target = pa.schema([one.with_type(_read_type(one.type, kinds[one.name])) for one in data.schema])
        rows = data.cast(target).to_pylist()
        records = [{one.name: one.from_file(row) for one in fields} for row in rows]
        return encode(self._type, records)


@dataclass(frozen=True)
class AvroParquetEncoderFactory(EncoderFactory):
    """Parquet files of Avro records, which are dicts or the rows of a stream with named columns."""

    schema: AvroSchema
    suffix: str = ".parquet"

    def open(self, file: pa.NativeFile, schema: pa.Schema) -> FileEncoder:
        return _AvroParquetEncoder(file, self.schema, schema)


class _AvroParquetEncoder(FileEncoder):
    def __init__(self, file: pa.NativeFile, schema: AvroSchema, stream: pa.Schema) -> None:
        self._parsed = with_values(schema.parsed()).root
        self._fields = [one for one in _fields_of(schema) if one.column is not None]
        self._schema = pa.schema([one.arrow() for one in self._fields], {_AVRO_SCHEMA: str(schema).encode()})
        self._stream = stream
        self._inner = ParquetEncoderFactory().open(file, self._schema)

    def write(self, data: pa.RecordBatch) -> None:
        """Writes a batch. Raises ``SchemaMismatch`` for a record that does not fit the schema."""
        records = records_of(data, self._stream)
        for record in records:
            try:
                library().validate(record, self._parsed)
            except Exception as error:  # fastavro's own, and what a value of another kind leads it to
                raise rejected(record, error) from error
        columns = [pa.array([one.to_file(record) for record in records], one.arrow().type) for one in self._fields]
        self._inner.write(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def finish(self) -> None:
        self._inner.finish()
