"""Encodes values as bytes, and converts whole columns of them to Arrow.

The first byte tells the form: ``q`` a 64-bit integer, ``d`` a double, ``s`` text, each for states that are declared so; else a
pickle, which begins with 0x80. State that expires has eight bytes in front: when it was written. Integers, doubles and
pickles go from here into an Arrow column without becoming Python objects.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from tidegate.common.typeinfo import TypeInformation
from tidegate.model.values import StateValue
from tidegate.records.column_codec import pickle_value
from tidegate.records.pickling import loads
from tidegate.records.record_codec import encode_column

_INT64 = struct.Struct("<cq")
_DOUBLE = struct.Struct("<cd")
_STAMP = struct.Struct("<q")
STAMP_BYTES = 8
"""The number of bytes of a time in ms."""

Encode = Callable[[StateValue], bytes]


def encoder_of(type_info: TypeInformation) -> Encode:
    """Returns the encoder of a type. Values that are not of the declared type are pickled: a value that does not fit is
    reported at the snapshot, as in memory."""
    kind = type_info.arrow_type()
    if pa.types.is_integer(kind):
        return _encode_integer
    if kind == pa.float64():
        return _encode_double
    if pa.types.is_string(kind):
        return _encode_text
    return pickle_value


def decode(content: bytes) -> StateValue:
    mark = content[0]
    if mark == 0x80:
        return loads(content)
    if mark == 0x71:  # q
        return _INT64.unpack(content)[1]
    if mark == 0x64:  # d
        return _DOUBLE.unpack(content)[1]
    return content[1:].decode("utf-8", "surrogatepass")


def stamp(content: bytes, ms: int) -> bytes:
    return _STAMP.pack(ms) + content


def stamp_of(content: bytes) -> int:
    found: int = _STAMP.unpack_from(content)[0]
    return found


def column(type_info: TypeInformation, contents: Sequence[bytes], where: str) -> pa.Array:
    """Converts encoded values to an Arrow column. Raises ``SchemaMismatch`` naming ``where`` when a value does not fit its type."""
    field = type_info.arrow_field("value")
    if b"tidegate.pickled" in (field.metadata or {}):
        return pa.array(contents, pa.binary())
    if pa.types.is_integer(field.type) or field.type == pa.float64():
        numbers = _numbers(contents, "q" if pa.types.is_integer(field.type) else "d")
        if numbers is not None:
            with contextlib.suppress(pa.ArrowInvalid):  # too large: reported below
                return numbers.cast(field.type)
    return encode_column(type_info, [decode(content) for content in contents], where)


def _numbers(contents: Sequence[bytes], form: str) -> pa.Array | None:
    """Returns the numbers of encoded values; ``None`` when one of them has another form."""
    joined = b"".join(contents)
    if len(joined) != 9 * len(contents):
        return None
    rows = np.frombuffer(joined, np.dtype([("form", "S1"), ("number", "<i8" if form == "q" else "<f8")]))
    if not (rows["form"] == form.encode()).all():
        return None
    return pa.array(np.ascontiguousarray(rows["number"]))


def _encode_integer(value: StateValue) -> bytes:
    if value.__class__ is int and -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
        return _INT64.pack(b"q", value)
    return pickle_value(value)


def _encode_double(value: StateValue) -> bytes:
    return _DOUBLE.pack(b"d", value) if value.__class__ is float else pickle_value(value)


def _encode_text(value: StateValue) -> bytes:
    return b"s" + value.encode("utf-8", "surrogatepass") if value.__class__ is str else pickle_value(value)
