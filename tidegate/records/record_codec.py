"""Converts records to Arrow and back: from lists of Python values to record batches of a type's ``arrow_schema()``.

Laws: ``decode(t, encode(t, values)) == values`` for every value that fits its type; one that does not fit raises
``SchemaMismatch`` with operator, field and value, and is never rounded, cut or turned into something else in silence.
Work goes column by column; only the shapes that Arrow cannot take as they are (rows, tuples, instants) cost a step of
Python for each value.

``None`` fits everywhere but as a whole row or tuple of a stream.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import chain, pairwise, repeat
from operator import attrgetter, is_, is_not

import numpy as np
import pyarrow as pa

from tidegate.model.errors import NotSerializable, SchemaMismatch, TidegateError
from tidegate.model.values import FieldValue, Record
from tidegate.records.arrow_type import ArrowTypeInfo
from tidegate.records.batch import ArrowBatch, Batch
from tidegate.records.canonical.forms import values_of
from tidegate.records.column_codec import (
    Decoder,
    Encoder,
    Misfit,
    attributes_of,
    decode_big_decimals,
    decode_big_integers,
    decode_instants,
    dict_of,
    encode_big_integers,
    encode_instants,
    leaf_codec,
    pickle_column,
    unpickle_column,
)
from tidegate.records.row import PositionalNames, Row, RowKind, make_row, make_rows
from tidegate.records.row_kinds import has_kinds, with_kinds
from tidegate.records.shown_values import shown_value
from tidegate.records.table_type import TableTypeInfo, table_codec
from tidegate.records.type_information import (
    BasicType,
    BasicTypeInfo,
    MapTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    SqlTimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)

_NONE, _is_there = type(None), partial(is_not, None)
_KINDS = list(RowKind)
"""The row kinds by their values."""
_KIND_OF, _NAMES_OF, _VALUES_OF = attrgetter("_row_kind"), attrgetter("_fields"), attrgetter("_values")


def encode(type_info: TypeInformation, values: Sequence[Record], operator: str = "") -> pa.RecordBatch:
    """Encodes records as columns of ``type_info.arrow_schema()``. Raises ``SchemaMismatch``, ``NotSerializable``."""
    return codec_of(type_info).encode(values, operator)


def decode(type_info: TypeInformation, data: pa.RecordBatch, operator: str = "") -> list[Record]:
    """Decodes a batch with the columns of ``type_info`` into records. Raises ``SchemaMismatch`` when its columns are others."""
    return codec_of(type_info).decode(data, operator)


def records_of(batch: Batch, type_info: TypeInformation) -> list[Record]:
    """Returns the records of a batch in the form of their type: a tuple or object given as a row becomes a ``Row``, 1 given as a DOUBLE 1.0. Raises
    ``SchemaMismatch``."""
    if isinstance(batch, ArrowBatch):
        return decode(type_info, batch.data)
    return (
        batch.values
        if isinstance(type_info, PickledBytesTypeInfo)
        else decode(type_info, encode(type_info, batch.values))
    )


def encode_column(type_info: TypeInformation, values: Sequence[FieldValue], where: str) -> pa.Array:
    """Encodes values as one column of ``type_info.arrow_type()``: rows and tuples become structs. ``where`` begins the message of the ``SchemaMismatch``."""
    encoder, _ = column_codec_of(type_info)
    try:
        return encoder(values)
    except Misfit as misfit:
        raise SchemaMismatch(f"{where}: value {misfit.value!r} does not fit type {type_info!r}: {misfit}") from None
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, TypeError) as error:
        raise SchemaMismatch(f"{where}: a value does not fit type {type_info!r}: {error}") from None


def decode_column(type_info: TypeInformation, column: pa.Array) -> list[FieldValue]:
    """Decodes a column into values; the inverse of ``encode_column``."""
    return column_codec_of(type_info)[1](column)


@lru_cache(maxsize=512)
def column_codec_of(type_info: TypeInformation) -> tuple[Encoder, Decoder]:
    return _column_codec(type_info)


class RecordCodec:
    """The encoder and decoder of one type, compiled once."""

    def __init__(self, type_info: TypeInformation) -> None:
        self.type_info = type_info
        self.schema: pa.Schema = type_info.arrow_schema()
        self._fields = _field_codecs(type_info)
        self._is_single = not isinstance(type_info, (RowTypeInfo, TupleTypeInfo, ArrowTypeInfo))
        self._names: list[str] = self.schema.names
        self._always_has_kinds = isinstance(type_info, ArrowTypeInfo) and has_kinds(self.schema)
        self._with_kinds: pa.Schema | None = None
        """What a batch of rows with kinds has; ``None``: there are inserts only."""
        if self._always_has_kinds:
            self._names, self._with_kinds = self._names[:-1], self.schema
        elif isinstance(type_info, RowTypeInfo):
            self._with_kinds = with_kinds(self.schema)

    def encode(self, values: Sequence[Record], operator: str = "") -> pa.RecordBatch:
        """Encodes records as a record batch. Raises ``SchemaMismatch`` that names the operator and the value that does not fit."""
        has_changes = False
        try:
            if self._is_single:
                columns = [values]
            else:
                columns, has_changes = _transpose(values, self._names, self.type_info, self._with_kinds is not None)
        except Misfit as misfit:
            raise self._mismatch(operator, "", misfit.value, str(misfit)) from None
        arrays = [
            self._encode_column(i, encoder, column, operator)
            for i, ((encoder, _), column) in enumerate(zip(self._fields, columns, strict=False))
        ]
        if not (has_changes or self._always_has_kinds):
            return pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        kinds = [value._row_kind.value if isinstance(value, Row) else RowKind.INSERT.value for value in values]
        return pa.RecordBatch.from_arrays([*arrays, pa.array(kinds, pa.int8())], schema=self._with_kinds)

    def decode(self, data: pa.RecordBatch, operator: str = "") -> list[Record]:
        """Decodes a record batch into records. Raises ``SchemaMismatch`` when its columns are not those of the type, and for a value that
        Python has no object for (a date beyond the year 9999, a text that is not UTF-8)."""
        schema = self.schema
        if self._with_kinds is not None and has_kinds(data.schema):
            schema = self._with_kinds
        if data.schema.names != schema.names or data.schema.types != schema.types:
            raise SchemaMismatch(
                f"operator '{operator}': the batch has the columns {_describe(data.schema)}, and its declared type {self.type_info!r} "
                f"{_describe(self.schema)}: correct the function or its output_type"
            )
        columns = [
            self._decode_column(i, decoder, column, operator)
            for i, ((_, decoder), column) in enumerate(zip(self._fields, data.columns[: len(self.schema)], strict=True))
        ]
        if self._is_single:
            return columns[0]
        records = _records(self.type_info, self._names, columns[: len(self._names)], data.num_rows)
        if schema is self._with_kinds:
            for record, kind in zip(records, data.columns[-1].to_pylist(), strict=True):
                record._row_kind = _KINDS[kind]
        return records

    def _encode_column(self, index: int, encoder: Encoder, column: Sequence[FieldValue], operator: str) -> pa.Array:
        name = self.schema.names[index]
        try:
            return encoder(column)
        except NotSerializable as error:
            of = f"field '{name}': " if not self._is_single else ""
            where = f"operator '{operator}': " if operator else ""
            raise NotSerializable(f"{where}{of}{error.message}") from error
        except TidegateError:
            raise
        except Exception:
            for value in column:
                try:
                    encoder([value])
                except Exception as error:  # noqa: BLE001  the value is the user's: any conversion may fail
                    raise self._mismatch(operator, name, value, str(error)) from None
            raise

    def _decode_column(self, index: int, decoder: Decoder, column: pa.Array, operator: str) -> list[FieldValue]:
        try:
            return decoder(column)
        except (TidegateError, MemoryError):
            raise
        except Exception:
            for row in range(len(column)):
                try:
                    decoder(column.slice(row, 1))
                except Exception as error:
                    where = f"operator '{operator}': " if operator else ""
                    of = "" if self._is_single else f" of field '{self.schema.names[index]}'"
                    raise SchemaMismatch(
                        f"{where}value {shown_value(column[row])}{of}, a {column.type} in row {row} of its batch, is no value of Python: "
                        f"{type(error).__name__}: {error}"
                    ) from error
            raise

    def _mismatch(self, operator: str, field: str, value: FieldValue, why: str) -> SchemaMismatch:
        where = f"operator '{operator}': " if operator else ""
        of = f" of field '{field}'" if field and not self._is_single else ""
        expected = self.type_info if not of else self.schema.field(field).type
        shown = repr(value)
        shown = shown if len(shown) <= 200 else shown[:200] + "..."
        return SchemaMismatch(
            f"{where}value {shown}{of} does not fit type {expected!s}: {why}. Correct the function or its output_type"
        )


@lru_cache(maxsize=512)
def codec_of(type_info: TypeInformation) -> RecordCodec:
    """Returns the codec of a type; types that are equal share it."""
    return RecordCodec(type_info)


def _describe(schema: pa.Schema) -> str:
    return "[" + ", ".join(f"{f.name}: {f.type}" for f in schema) + "]"


# --- rows and tuples ---------------------------------------------------------------------------------


def _transpose(
    values: Sequence[Record], names: list[str], type_info: TypeInformation, takes_changes: bool = False
) -> tuple[list[Sequence[FieldValue]], bool]:
    """Transposes records into columns; returns them and whether some rows are not inserts, which are refused unless ``takes_changes``. No record may be
    ``None``."""
    width = len(names)
    by_name = isinstance(type_info, ArrowTypeInfo) or (isinstance(type_info, RowTypeInfo) and type_info.is_named)
    has_changes = False
    classes = set(map(type, values))
    if Row in classes:
        rows = values if len(classes) == 1 else [value for value in values if isinstance(value, Row)]
        has_changes = any(map(is_not, map(_KIND_OF, rows), repeat(RowKind.INSERT)))
        if has_changes and not takes_changes:
            change = next(row for row in rows if row._row_kind is not RowKind.INSERT)
            raise Misfit(
                change,
                f"a row of kind {change._row_kind} came where only inserts are allowed: give the stream a type Types.ROW",
            )
    parts = _plain_parts(values, names, by_name, classes)
    if parts is not None:
        with contextlib.suppress(ValueError):  # lengths that differ: the way below names the record
            columns: list[Sequence[FieldValue]] = list(zip(*parts, strict=True))
            if len(columns) == width:
                return columns, has_changes
    parts = [_fields_of(value, names, width, by_name) for value in values]
    return list(zip(*parts, strict=True)) if parts else [()] * width, has_changes


def _plain_parts(
    values: Sequence[Record], names: list[str], by_name: bool, classes: set[type]
) -> Sequence[Sequence[FieldValue]] | None:
    """Returns the fields of each record when all records have the same simple form, the usual case; else ``None``."""
    if classes == {tuple}:
        return values
    if classes != {Row}:
        return None
    if by_name:
        first = values[0]._fields
        others = values if any(map(is_not, map(_NAMES_OF, values), repeat(first))) else values[:1]
        if any(row.given_names not in (None, names) for row in others):
            return None
    return list(map(_VALUES_OF, values))


def _fields_of(value: FieldValue, names: list[str], width: int, by_name: bool) -> Sequence[FieldValue]:
    if isinstance(value, Row):
        fields: Sequence[FieldValue] = value._values
        if by_name and (given := value.given_names) is not None and given != names:
            if set(given) != set(names):
                raise Misfit(value, f"it has the fields {given}, not {names}")
            fields = value.get_fields_by_names(names)
    elif isinstance(value, (tuple, list)):
        fields = value
    elif isinstance(value, dict) and by_name:
        if set(value) != set(names):
            raise Misfit(value, f"it has the fields {list(value)}, not {names}")
        fields = [value[name] for name in names]
    elif by_name:
        fields = attributes_of(value, names)
    else:
        raise Misfit(value, f"it is a {type(value).__name__}, not a row of {names}")
    if len(fields) != width:
        raise Misfit(value, f"it has {len(fields)} fields, not {width} ({', '.join(names)})")
    return fields


def _records(type_info: TypeInformation, names: list[str], columns: list[list[FieldValue]], rows: int) -> list[Record]:
    if not columns:
        return [make_row(names, []) for _ in range(rows)]
    if isinstance(type_info, TupleTypeInfo):
        return list(zip(*columns, strict=True))
    if isinstance(type_info, RowTypeInfo) and not type_info.is_named:
        return make_rows(PositionalNames(names), zip(*columns, strict=True))
    return make_rows(names, zip(*columns, strict=True))


def _struct_codec(type_info: TypeInformation) -> tuple[Encoder, Decoder]:
    """Returns the encoder and decoder of rows and tuples inside a column, where ``None`` is a null."""
    schema = type_info.arrow_schema()
    fields = _field_codecs(type_info)
    empty = [None] * len(schema)

    def encode_struct(values: Sequence[FieldValue]) -> pa.Array:
        mask = None
        if any(map(is_, values, repeat(None))):
            mask = pa.array([value is None for value in values], pa.bool_())
            values = [empty if value is None else value for value in values]
        columns, _ = _transpose(values, schema.names, type_info)
        children = [encoder(column) for (encoder, _), column in zip(fields, columns, strict=True)]
        return pa.StructArray.from_arrays(children, fields=list(schema), mask=mask)

    def decode_struct(column: pa.Array) -> list[FieldValue]:
        columns = [decoder(child) for (_, decoder), child in zip(fields, column.flatten(), strict=True)]
        records = _records(type_info, schema.names, columns, len(column))
        if column.null_count:
            return [r if valid else None for r, valid in zip(records, column.is_valid().to_pylist(), strict=True)]
        return records

    return encode_struct, decode_struct


# --- lists and maps ----------------------------------------------------------------------------------


def _offsets(values: Sequence[FieldValue], usual: type, allowed: Callable[[FieldValue], bool], what: str) -> pa.Array:
    """Returns the Arrow offsets of list values; a null value has a null offset. ``usual``: the class of most values, checked first."""
    if set(map(type, values)) == {usual}:
        ends = np.zeros(len(values) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, values), np.int64, len(values)), out=ends[1:])
        return pa.array(ends).cast(pa.int32())
    offsets: list[int | None] = []
    end = 0
    for value in values:
        if value is None:
            offsets.append(None)
            continue
        if not allowed(value):
            raise Misfit(value, f"it is a {type(value).__name__}, not a {what}")
        offsets.append(end)
        end += len(value)
    return pa.array([*offsets, end], pa.int32())


def _is_list(value: FieldValue) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, (str, bytes, dict))


def _list_codec(type_info: TypeInformation, element_type: TypeInformation) -> tuple[Encoder, Decoder]:
    encode_item, decode_item = _column_codec(element_type)
    kind = type_info.arrow_type()

    def encode_list(values: Sequence[FieldValue]) -> pa.Array:
        offsets = _offsets(values, list, _is_list, "list")
        items = encode_item(list(chain.from_iterable(filter(_is_there, values))))
        return pa.ListArray.from_arrays(offsets, items, type=kind)

    def decode_list(column: pa.Array) -> list[FieldValue]:
        bounds = column.offsets.to_pylist()
        start = bounds[0]
        items = decode_item(column.values.slice(start, bounds[-1] - start))
        lists: list[FieldValue] = [items[low - start : high - start] for low, high in pairwise(bounds)]
        if column.null_count:
            return [v if valid else None for v, valid in zip(lists, column.is_valid().to_pylist(), strict=True)]
        return lists

    return encode_list, decode_list


def _map_codec(type_info: MapTypeInfo) -> tuple[Encoder, Decoder]:
    encode_key, decode_key = _column_codec(type_info.key_type)
    encode_value, decode_value = _column_codec(type_info.value_type)
    kind = type_info.arrow_type()

    def encode_map(values: Sequence[FieldValue]) -> pa.Array:
        if not set(map(type, values)) <= {dict, _NONE}:
            values = [None if value is None else dict_of(value) for value in values]
        offsets = _offsets(values, dict, _is_there, "dict")
        present = list(filter(_is_there, values))
        keys = encode_key(values_of(list(chain.from_iterable(present))))
        items = encode_value(list(chain.from_iterable(value.values() for value in present)))
        return pa.MapArray.from_arrays(offsets, keys, items, type=kind)

    def decode_map(column: pa.Array) -> list[FieldValue]:
        maps: list[FieldValue] = list(map(dict, _map_pairs(column, decode_key, decode_value)))
        if column.null_count:
            return [v if valid else None for v, valid in zip(maps, column.is_valid().to_pylist(), strict=True)]
        return maps

    return encode_map, decode_map


def decode_maps(type_info: MapTypeInfo, column: pa.Array) -> list[list[tuple[FieldValue, FieldValue]]]:
    """Decodes maps as lists of entries, so that keys which are equal in Python stay apart. No map may be null."""
    decode_key, decode_value = _column_codec(type_info.key_type)[1], _column_codec(type_info.value_type)[1]
    return _map_pairs(column, decode_key, decode_value)


def _map_pairs(
    column: pa.Array, decode_key: Decoder, decode_value: Decoder
) -> list[list[tuple[FieldValue, FieldValue]]]:
    bounds = column.offsets.to_pylist()
    start, length = bounds[0], bounds[-1] - bounds[0]
    # keys and items of a sliced MapArray are those of the whole array, so they are cut by the offsets
    keys = decode_key(column.keys.slice(start, length))
    items = decode_value(column.items.slice(start, length))
    pairs = list(zip(keys, items, strict=True))
    return [pairs[low - start : high - start] for low, high in pairwise(bounds)]


# --- single columns ----------------------------------------------------------------------------------


def _field_codecs(type_info: TypeInformation) -> list[tuple[Encoder, Decoder]]:
    if isinstance(type_info, (RowTypeInfo, TupleTypeInfo)):
        return [_column_codec(t) for t in type_info.get_field_types()]
    if isinstance(type_info, ArrowTypeInfo):
        if isinstance(type_info, TableTypeInfo):
            return list(map(table_codec, type_info.schema))
        return [_arrow_codec(field.type) for field in type_info.schema]
    return [_column_codec(type_info)]


def _column_codec(type_info: TypeInformation) -> tuple[Encoder, Decoder]:
    if isinstance(type_info, (RowTypeInfo, TupleTypeInfo, ArrowTypeInfo)):
        return _struct_codec(type_info)
    if isinstance(type_info, MapTypeInfo):
        return _map_codec(type_info)
    if isinstance(type_info, PickledBytesTypeInfo):
        return pickle_column, unpickle_column
    if isinstance(type_info, PrimitiveArrayTypeInfo) and pa.types.is_binary(type_info.arrow_type()):
        return leaf_codec(pa.binary())
    if isinstance(type_info, SqlTimeTypeInfo):
        return leaf_codec(type_info.arrow_type())
    if isinstance(type_info, BasicTypeInfo):
        if type_info.basic_type is BasicType.INSTANT:
            return encode_instants, decode_instants
        if type_info.basic_type is BasicType.BIG_INT:
            return encode_big_integers, decode_big_integers
        if type_info.basic_type is BasicType.BIG_DEC:
            encoder, _ = leaf_codec(type_info.arrow_type())
            return encoder, decode_big_decimals
        return leaf_codec(type_info.arrow_type())
    element_type = getattr(type_info, "element_type", None)
    if element_type is not None:
        return _list_codec(type_info, element_type)
    return leaf_codec(type_info.arrow_type())


def _arrow_codec(kind: pa.DataType) -> tuple[Encoder, Decoder]:
    """Returns the encoder and decoder of a column that is declared by its Arrow type only; nested types hold dicts and lists."""
    if pa.types.is_nested(kind):

        def encode_nested(values: Sequence[FieldValue]) -> pa.Array:
            return pa.array([v.as_dict(True) if isinstance(v, Row) else v for v in values], kind)

        return encode_nested, lambda column: list(column.to_pylist())
    return leaf_codec(kind)
