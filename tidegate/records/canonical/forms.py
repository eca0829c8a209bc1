"""The canonical form of a key: two keys are equal exactly when their forms are equal, both in a dict and as bytes.

    key ─▶ canonical_key ─▶ form: itself, or ``EncodedKey``     what tables, timers and maps are looked up by
                              └▶ encode_form ─▶ bytes ─▶ decode_form ─▶ form      rows of RocksDB, sorted runs of BATCH
    form ─▶ value_of ─▶ the key that functions see, and that is written into checkpoints

Keys are equal when they have the same type and value, as PyFlink's serialised keys are (recorded in ``tests/unit/tidegate/records/canonical/test_forms.py``):
``1``, ``True``, ``1.0`` and ``Decimal(1)`` are four keys, 0.0 and -0.0 are two, and NaN is one, at any depth. What is the same key all the
same: a list and the tuple of its elements, a numpy scalar and the Python value, decimals of the same number, moments in different zones.

Python finds ``1``, ``True`` and ``1.0`` equal. So only what Python tells apart as it should is its own form; everything else stands as its bytes:

    'n' None   't' 'f' bool   'i' int, 8 bytes   'I' larger int   'd' float, 8 bytes   'D' Decimal   's' str   'b' bytes   '(' tuple or list
    '{' frozenset   'p' anything else: 'pN' namedtuple, 'pO' dataclass, 'pE' enum, 'pR' Row, 'pp' pickled (``pickling``)

The bytes tell where they end. They are good within a process: what is kept longer is the key. But files are in their
order, in which rows are searched for: keys of no mark but 'p' have the same bytes in every version. Law: keys with equal forms have equal hashes.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import math
import struct
from collections.abc import Sequence
from functools import lru_cache
from types import BuiltinFunctionType, FunctionType

from tidegate.model.errors import InvalidJob
from tidegate.model.values import Key
from tidegate.records.canonical.pickling import name_of, named_by, pickled_key, unpickled_key
from tidegate.records.row import PositionalNames, Row, RowKind, make_row

_INT64 = struct.Struct(">cq")
_DOUBLE = struct.Struct(">cd")
_SIZE = struct.Struct(">cI")

PLAIN = frozenset({int, str, type(None), datetime.date, datetime.timedelta})
"""Types of keys that are their own canonical form, as tuples of them are: Python finds them equal to no form of another type."""


class EncodedKey(bytes):
    """The canonical form, as bytes, of a key that Python would find equal to a different key. Equal to no form of another key, hashed like bytes.
    ``key``: the key."""

    key: Key

    def __new__(cls, content: bytes, key: Key) -> EncodedKey:
        made = bytes.__new__(cls, content)
        made.key = key
        return made

    def __reduce__(self) -> tuple[object, ...]:
        return EncodedKey, (bytes(self), self.key)

    def __copy__(self) -> EncodedKey:
        return self

    def __deepcopy__(self, memo: object) -> EncodedKey:
        return self

    def __repr__(self) -> str:
        return repr(self.key)


TRUE, FALSE = EncodedKey(b"t", True), EncodedKey(b"f", False)


def canonical_key(key: Key) -> Key:
    """Returns the canonical form of a key. Raises ``InvalidJob`` for a key whose class has no hash or no equality of its own, and ``NotSerializable``."""
    kind = key.__class__
    if kind in PLAIN or kind is EncodedKey:
        return key
    if kind is bool:
        return TRUE if key else FALSE
    if kind is float:
        return _form_of_float(key)
    if _is_plain(key):
        return key
    key = _plain(key)
    if key.__class__ is not kind:
        return canonical_key(key)
    if _is_plain(key):  # without its lists, which are tuples
        return key
    check_key(key)
    return EncodedKey(encode_form(key), key)


def canonical_keys(keys: list[Key]) -> list[Key]:
    """Returns the canonical form of each key."""
    return keys if PLAIN.issuperset(map(type, keys)) else list(map(canonical_key, keys))


def value_of(form: Key) -> Key:
    """Returns the key of a canonical form."""
    return form.key if form.__class__ is EncodedKey else form


def values_of(forms: Sequence[Key]) -> Sequence[Key]:
    """Returns the key of each canonical form."""
    return list(map(value_of, forms)) if EncodedKey in set(map(type, forms)) else forms


def check_key(key: Key) -> None:
    """Checks that a value can be a key, at any depth of tuples, rows, sets and dataclasses. Raises ``InvalidJob``."""
    kind = key.__class__
    if kind in PLAIN:
        return
    if kind.__hash__ is None and kind is not list:
        raise InvalidJob(
            f"{_shown(key)} cannot be a key, since a {kind.__qualname__} has no hash: take a tuple, a text, a number or a frozen dataclass (a class "
            "with __eq__ needs __hash__ too, a dataclass frozen=True)"
        )
    if kind.__eq__ is object.__eq__ and not isinstance(key, (enum.Enum, type, FunctionType, BuiltinFunctionType)):
        raise InvalidJob(
            f"{_shown(key)} cannot be a key, since its class {kind.__qualname__} does not say which of its objects are equal: make it a frozen "
            "dataclass, give it __eq__ and __hash__, or take a tuple, a text or a number"
        )
    if isinstance(key, (tuple, list, frozenset, Row)):
        for part in key:
            check_key(part)
    elif dataclasses.is_dataclass(kind):
        for field in dataclasses.fields(kind):
            check_key(getattr(key, field.name))


def encode_form(key: Key) -> bytes:
    """Encodes a canonical form or a key as bytes. Raises ``NotSerializable``."""
    kind = key.__class__
    if kind is int:
        if -0x8000000000000000 <= key <= 0x7FFFFFFFFFFFFFFF:
            return _INT64.pack(b"i", key)
        return _sized(b"I", b"%d" % key)
    if kind is str:
        return _sized(b"s", key.encode("utf-8", "surrogatepass"))
    if key is None:
        return b"n"
    if kind is EncodedKey:
        return bytes(key)
    if kind is tuple or kind is list:
        return _SIZE.pack(b"(", len(key)) + b"".join(map(encode_form, key))
    if kind is bool:
        return b"t" if key else b"f"
    if kind is float:
        return _DOUBLE.pack(b"d", math.nan if key != key else key)
    if kind is bytes:
        return _sized(b"b", key)
    return _encode_rare(key, kind)


def decode_form(content: bytes, at: int = 0) -> tuple[Key, int]:
    """Decodes the canonical form whose bytes begin at ``at``; returns it with the position of its end."""
    mark = content[at]
    if mark == 0x69:  # i
        return _INT64.unpack_from(content, at)[1], at + 9
    if mark == 0x73:  # s
        end = at + 5 + _SIZE.unpack_from(content, at)[1]
        return content[at + 5 : end].decode("utf-8", "surrogatepass"), end
    key, end = _decode(content, at)
    if _is_plain(key) or (key.__class__ is float and not key.is_integer() and key == key):
        return key, end
    return EncodedKey(content[at:end], key), end


def _form_of_float(key: float) -> Key:
    if key == 0 or key != key:
        return _encoded_float(key)
    return _of_whole_float(key) if key.is_integer() else key


def _encoded_float(key: float) -> EncodedKey:
    return EncodedKey(encode_form(key), key)


_of_whole_float = lru_cache(1 << 14)(_encoded_float)
"""Encodes whole floats, cached. Not for zeros: a dict takes 0.0 and -0.0 for one key."""


def _is_plain(key: Key) -> bool:
    """Tells whether a key is its own canonical form."""
    kind = key.__class__
    if kind is tuple:
        return all(part.__class__ in PLAIN or (part.__class__ is tuple and _is_plain(part)) for part in key)
    return kind in PLAIN or (kind is datetime.datetime and key.tzinfo is None)


def _plain(key: Key) -> Key:
    """Converts lists to tuples and numpy scalars to Python values, at any depth of tuples."""
    kind = key.__class__
    if kind is tuple or kind is list:
        return tuple(part if part.__class__ in PLAIN else _plain(part) for part in key)
    if kind.__module__ == "numpy" and hasattr(key, "item") and hasattr(key, "dtype") and not key.ndim:
        found = key.item()
        return key if found.__class__.__module__ == "numpy" else found
    return key


def _sized(mark: bytes, content: bytes) -> bytes:
    return _SIZE.pack(mark, len(content)) + content


def _of_class(mark: bytes, kind: type, part: Key) -> bytes:
    return _sized(b"p", mark + encode_form(name_of(kind)) + encode_form(part))


def _encode_rare(key: Key, kind: type) -> bytes:
    if kind is decimal.Decimal and key.is_finite():
        return _sized(b"D", str(_shortest(key)).encode())
    if kind is frozenset:
        return _SIZE.pack(b"{", len(key)) + b"".join(sorted(map(encode_form, key)))
    if kind is Row:
        names = key.given_names
        parts = (key._row_kind.value, None if names is None else tuple(names), tuple(key))
        return _sized(b"p", b"R" + encode_form(parts))
    if isinstance(key, enum.Enum):
        return _of_class(b"E", kind, key.value if isinstance(key, enum.Flag) else key.name)
    if isinstance(key, tuple) and hasattr(kind, "_fields") and not getattr(key, "__dict__", None):
        return _of_class(b"N", kind, tuple(key))
    if dataclasses.is_dataclass(kind) and kind.__new__ is object.__new__:
        return _of_class(b"O", kind, tuple(getattr(key, field.name) for field in dataclasses.fields(kind)))
    found = _plain(key)
    if found is not key:
        return encode_form(found)
    if isinstance(key, datetime.datetime) and key.tzinfo is not None:
        key = key.astimezone(datetime.UTC)  # the same moment is the same key in every zone
    if kind is datetime.datetime or kind is datetime.time:
        key = key.replace(fold=0)  # which does not count when they are compared
    return _sized(b"p", b"p" + pickled_key(key))


def _decode(content: bytes, at: int) -> tuple[Key, int]:
    """Decodes the key whose bytes begin at ``at``; returns it with the position of its end."""
    mark = content[at : at + 1]
    match mark:
        case b"i":
            return _INT64.unpack_from(content, at)[1], at + 9
        case b"n":
            return None, at + 1
        case b"t" | b"f":
            return mark == b"t", at + 1
        case b"d":
            return _DOUBLE.unpack_from(content, at)[1], at + 9
    _, size = _SIZE.unpack_from(content, at)
    start = at + 5
    if mark in (b"(", b"{"):
        parts, end = _decode_several(content, start, size)
        return (tuple(parts) if mark == b"(" else frozenset(parts)), end
    return _decode_sized(mark, content[start : start + size]), start + size


def _decode_several(content: bytes, at: int, count: int) -> tuple[list[Key], int]:
    parts = []
    for _ in range(count):
        part, at = _decode(content, at)
        parts.append(part)
    return parts, at


def _made(held: bytes) -> Key:
    """Decodes a key that is an object: a pickled one, a row, an enum member, a named tuple or a dataclass."""
    mark = held[:1]
    if mark == b"p":
        return unpickled_key(held[1:])
    if mark == b"R":
        row_kind, names, values = _decode(held, 1)[0]
        shown = PositionalNames(f"f{i}" for i in range(len(values))) if names is None else list(names)
        return make_row(shown, values, RowKind(row_kind))
    name, at = _decode(held, 1)
    kind, part = named_by(name), _decode(held, at)[0]
    if mark == b"E":
        assert issubclass(kind, enum.Enum)
        return kind[part] if part.__class__ is str else kind(part)
    if mark == b"N":
        return tuple.__new__(kind, part)
    made: Key = object.__new__(kind)
    for field, value in zip(dataclasses.fields(kind), part, strict=True):
        object.__setattr__(made, field.name, value)
    return made


def _decode_sized(mark: bytes, content: bytes) -> Key:
    match mark:
        case b"s":
            return content.decode("utf-8", "surrogatepass")
        case b"b":
            return content
        case b"I":
            return int(content)
        case b"D":
            return decimal.Decimal(content.decode())
        case _:
            return _made(content)


def _shortest(key: decimal.Decimal) -> decimal.Decimal:
    """Removes trailing zeros of a decimal without rounding, so that equal numbers have equal bytes."""
    sign, digits, exponent = key.as_tuple()
    assert isinstance(exponent, int)
    parts = list(digits)
    while len(parts) > 1 and parts[-1] == 0:
        parts.pop()
        exponent += 1
    return decimal.Decimal(0) if parts == [0] else decimal.Decimal((sign, tuple(parts), exponent))


def _shown(key: Key) -> str:
    text = repr(key)
    return text if len(text) <= 200 else text[:200] + "..."
