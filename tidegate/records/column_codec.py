"""Codecs of Arrow columns without nested types: basic types, dates, instants and pickled objects, as pairs of encoder and decoder.

Law: a value that does not fit raises, and is never rounded or turned into another type in silence. Arrow alone is not
strict enough for that: given the type, it cuts 1.5 to an integer, takes bytes for text and a datetime for a date.
"""

from __future__ import annotations

import datetime
import decimal
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from tidegate.model.errors import NotSerializable
from tidegate.model.values import FieldValue
from tidegate.records.arrow_arrays import arrow_array
from tidegate.records.pickling import dumps, loads
from tidegate.records.time import Instant

_SCRIPT = b"__main__"
_ALL_DIGITS = decimal.Context(prec=76)
_ONE = decimal.Decimal(1)
_dumps = partial(pickle.dumps, protocol=5)

Encoder = Callable[[Sequence[FieldValue]], pa.Array]
Decoder = Callable[[pa.Array], list[FieldValue]]


class Misfit(ValueError):
    """The error of a value that does not fit the type of its column, with the reason."""

    def __init__(self, value: FieldValue, why: str) -> None:
        super().__init__(why)
        self.value = value


def attributes_of(value: FieldValue, names: Sequence[str]) -> list[FieldValue]:
    """Returns the attributes of an object that is given as a row, by the names of its fields; other attributes are left out. Raises ``Misfit``."""
    if not _has_attributes(value):
        raise Misfit(value, f"it is a {type(value).__name__}, not a row of {names}")
    missing = [name for name in names if not hasattr(value, name)]
    if missing:
        raise Misfit(value, f"it is a {type(value).__name__} without the attributes {missing}")
    return [getattr(value, name) for name in names]


def dict_of(value: FieldValue) -> dict[FieldValue, FieldValue]:
    """Returns a value that is given as a map as a dict: a mapping, or the attributes of an object. Raises ``Misfit``."""
    if isinstance(value, Mapping):
        return dict(value)
    if not _has_attributes(value):
        raise Misfit(value, f"it is a {type(value).__name__}, not a dict")
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return dict(vars(value))


def _has_attributes(value: FieldValue) -> bool:
    """Tells whether a value is an object with attributes: not a number, text, time or class."""
    return (hasattr(value, "__dict__") or is_dataclass(value)) and not isinstance(value, type)


def leaf_codec(kind: pa.DataType) -> tuple[Encoder, Decoder]:
    """Returns the encoder and decoder of a column type that is not nested."""
    if pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _inferring_encoder(kind), _decode_plain
    if pa.types.is_date(kind):
        return _checked_encoder(kind, _is_pure_date, "a datetime.date without a time"), _decode_slowly
    if pa.types.is_timestamp(kind) and kind.tz is None:
        return _checked_encoder(kind, _is_naive, "a datetime.datetime without a zone"), _decode_slowly
    if pa.types.is_time(kind):
        return _checked_encoder(kind, _is_naive, "a datetime.time without a zone"), _decode_slowly
    if pa.types.is_floating(kind):
        return _encode_floats(kind), _decode_plain
    fast = pa.types.is_boolean(kind) or pa.types.is_binary(kind)
    return (lambda values: arrow_array(values, kind)), _decode_plain if fast else _decode_slowly


def _inferring_encoder(kind: pa.DataType) -> Encoder:
    """Returns an encoder that lets Arrow infer the type before it casts: with the type given, Arrow would truncate 1.5 to an integer and take bytes for
    text."""
    is_integer = pa.types.is_integer(kind)

    def encode_inferring(values: Sequence[FieldValue]) -> pa.Array:
        try:
            found = arrow_array(values)
        except (OverflowError, pa.ArrowInvalid):  # Arrow infers no uint64 for Python's numbers from 2**63 on
            if kind != pa.uint64():
                raise
            return arrow_array([_whole(value) for value in values], kind)
        if found.type == kind:
            return found
        seen = found.type
        fits = (
            pa.types.is_integer(seen) or pa.types.is_floating(seen)
            if is_integer
            else pa.types.is_string(seen) or pa.types.is_large_string(seen)
        )
        if not fits and not pa.types.is_null(seen):
            raise pa.ArrowInvalid(f"it is of type {seen}")
        return found.cast(kind)

    return encode_inferring


def _whole(value: FieldValue) -> int | None:
    """Converts a whole number of any type to ``int``. Raises ``Misfit`` for other values."""
    if value is None or (isinstance(value, (int, np.integer)) and not isinstance(value, bool)):
        return None if value is None else int(value)
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return int(value)
    raise Misfit(value, "it is not a whole number")


def _encode_floats(kind: pa.DataType) -> Encoder:
    encode_checked = _checked_encoder(kind, _is_no_bool, "a number")

    def encode_floats(values: Sequence[FieldValue]) -> pa.Array:
        try:
            return encode_checked(values)
        except (OverflowError, pa.ArrowInvalid):  # whole numbers beyond 64 bits, of which some are floats too
            return encode_checked([_as_float(value) for value in values])

    return encode_floats


def _as_float(value: FieldValue) -> FieldValue:
    """Converts an integer beyond 64 bits to the float of equal value. Raises ``Misfit`` when there is none."""
    if type(value) is not int or -(2**63) <= value < 2**63:
        return value
    try:
        found = float(value)
    except OverflowError:
        found = 0.0
    if int(found) != value:
        raise Misfit(value, "no floating-point number has this value")
    return found


def _checked_encoder(kind: pa.DataType, fits: Callable[[FieldValue], bool], what: str) -> Encoder:
    def encode_checked(values: Sequence[FieldValue]) -> pa.Array:
        for value in values:
            if value is not None and not fits(value):
                raise Misfit(value, f"it is not {what}")
        return arrow_array(values, kind)

    return encode_checked


def _is_pure_date(value: FieldValue) -> bool:
    return isinstance(value, datetime.date) and not isinstance(value, datetime.datetime)


def _is_naive(value: FieldValue) -> bool:
    return getattr(value, "tzinfo", None) is None and not isinstance(value, (int, float, decimal.Decimal))


def _is_no_bool(value: FieldValue) -> bool:
    return value.__class__ is not bool


def _decode_plain(column: pa.Array) -> list[FieldValue]:
    kind = column.type
    if column.null_count and not (pa.types.is_string(kind) or pa.types.is_binary(kind)):
        return list(column.to_pylist())
    values: list[FieldValue] = column.to_numpy(zero_copy_only=False).tolist()  # three times as fast as to_pylist
    return values


def _decode_slowly(column: pa.Array) -> list[FieldValue]:
    return list(column.to_pylist())


def encode_instants(values: Sequence[FieldValue]) -> pa.Array:
    """Encodes ``Instant`` values. Raises ``Misfit`` for other values and for fractions of a microsecond."""
    micros: list[int | None] = []
    for value in values:
        if value is None:
            micros.append(None)
        elif not isinstance(value, Instant):
            raise Misfit(value, f"it is a {type(value).__name__}, not an Instant")
        elif value.nanos % 1000:
            raise Misfit(value, "instants are kept to the microsecond")
        else:
            micros.append(value.seconds * 1_000_000 + value.nanos // 1000)
    return pa.array(micros, pa.int64()).cast(pa.timestamp("us", tz="UTC"))


def decode_instants(column: pa.Array) -> list[FieldValue]:
    """Decodes a column of UTC timestamps into ``Instant`` values."""
    micros = column.cast(pa.int64()).to_pylist()
    return [None if m is None else Instant(m // 1_000_000, m % 1_000_000 * 1000) for m in micros]


def encode_big_integers(values: Sequence[FieldValue]) -> pa.Array:
    """Encodes whole numbers of up to 76 digits. Raises ``Misfit`` for other values."""
    for value in values:
        if value is not None and not (isinstance(value, (int, np.integer)) and not isinstance(value, bool)):
            raise Misfit(value, f"it is a {type(value).__name__}, not an integer")
    return pa.array(values, pa.decimal256(76, 0))


def decode_big_integers(column: pa.Array) -> list[FieldValue]:
    """Decodes a column of decimals without fraction into ``int`` values."""
    return [None if value is None else int(value) for value in column.to_pylist()]


def decode_big_decimals(column: pa.Array) -> list[FieldValue]:
    """Decodes a column of decimals without the trailing zeros of the column's scale: 3 is decoded as 3, as in Flink, 1.50 as 1.5."""
    return [None if value is None else _shortest(value) for value in column.to_pylist()]


def _shortest(value: decimal.Decimal) -> decimal.Decimal:
    short = value.normalize(_ALL_DIGITS)
    exponent = short.as_tuple().exponent  # a letter, of what is no number
    return short.quantize(_ONE, context=_ALL_DIGITS) if isinstance(exponent, int) and exponent > 0 else short


def pickle_value(value: FieldValue) -> bytes:
    """Pickles any object for every process of the job. Classes of the job's script are part of the pickle, since ``__main__`` is another module there.
    Raises ``NotSerializable`` naming the object."""
    try:
        content = _dumps(value)
        if _SCRIPT not in content:  # a mere text of that kind only makes it slower
            return content
    except Exception:  # noqa: BLE001  the object is the user's; cloudpickle knows more kinds (lambdas, local classes)
        pass
    try:
        return dumps(value)
    except Exception as error:
        shown = repr(value)[:200]
        raise NotSerializable(f"{shown} of type {type(value).__name__} cannot be pickled: {error}") from error


def pickle_column(values: Sequence[FieldValue]) -> pa.Array:
    """Encodes objects of any class as a column of pickles. Raises as ``pickle_value`` does."""
    try:
        contents = list(map(_dumps, values))
        if _SCRIPT in b"".join(contents):  # one search instead of one for each value
            contents = list(map(pickle_value, values))
    except Exception:  # noqa: BLE001  as in ``pickle_value``
        contents = list(map(pickle_value, values))
    return arrow_array(contents, pa.binary())


def unpickle_column(column: pa.Array) -> list[FieldValue]:
    """Decodes a column of pickled objects."""
    values = column.to_numpy(zero_copy_only=False)  # null only below a null row
    return [None if value is None else loads(value) for value in values]
