"""The hash of one key, by its Python type. The table is in ``tidegate.common.keys.hashing``, which does whole columns.

Laws: equal to what ``hash_columns`` gives for the same value, bit for bit; keys of one canonical form
(``tidegate.common.canonical.forms``) have one hash. Checkpoints hold key groups, so no hash may change.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import struct
from collections.abc import Callable

from tidegate.common.canonical.forms import EncodedKey
from tidegate.common.canonical.pickling import hashed_bytes
from tidegate.common.time import Instant
from tidegate.model.values import Key

_MASK = 0xFFFFFFFF
"""Java's int."""
_MASK64 = 0xFFFFFFFFFFFFFFFF
"""Java's long."""
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
NAN_BITS = 0x7FF8000000000000
"""Java's `Double.doubleToLongBits` gives all NaNs the same."""
NANOS_FACTOR = 51
"""`java.time.Instant.hashCode` has it."""
TRUE_HASH, FALSE_HASH = 1231, 1237
"""`java.lang.Boolean.hashCode` gives these."""


def hash_key(key: Key) -> int:
    """Hash of one key, -2**31 to 2**31 - 1. Raises ``NotSerializable`` for a key that has no value of its own."""
    code = _unsigned_hash(key)
    return code - 0x100000000 if code & 0x80000000 else code


def _unsigned_hash(key: Key) -> int:
    found = _BY_TYPE.get(type(key))
    if found is None:
        found = _BY_TYPE[type(key)] = _resolve(type(key))
    return found(key)


def _resolve(key_type: type) -> Callable[[Key], int]:
    """The row of the table for a type that is not in it: by its nearest base, else by its form."""
    if issubclass(key_type, enum.Enum):
        return lambda key: _hash_str(key.name or str(key.value))
    for base in key_type.__mro__[1:]:
        if base in _BY_TYPE and base is not object:
            return _BY_TYPE[base]
    if key_type.__module__ == "numpy" and hasattr(key_type, "item"):
        return lambda key: _unsigned_hash(key.item())
    if key_type.__name__ == "Row" and hasattr(key_type, "__iter__"):
        return lambda key: _hash_sequence(tuple(key))
    if dataclasses.is_dataclass(key_type):
        names = tuple(f.name for f in dataclasses.fields(key_type))
        return lambda key: _hash_sequence(tuple(getattr(key, name) for name in names))
    return _hash_pickled


def _hash_int(key: int) -> int:
    if _INT64_MIN <= key <= _INT64_MAX:
        return (key ^ (key >> 32)) & _MASK
    return _hash_big_int(key)


def _hash_big_int(key: int) -> int:
    """``BigInteger.hashCode``: over the 32-bit words of the magnitude, then the sign."""
    magnitude, code = abs(key), 0
    for shift in range((max(magnitude.bit_length(), 1) - 1) // 32 * 32, -1, -32):
        code = (31 * code + ((magnitude >> shift) & _MASK)) & _MASK
    return code if key >= 0 else -code & _MASK


def _hash_float(key: float) -> int:
    bits: int = struct.unpack("<Q", struct.pack("<d", key + 0.0))[0]
    if key != key:
        bits = NAN_BITS
    return (bits ^ (bits >> 32)) & _MASK


def _hash_str(key: str) -> int:
    code = 0
    if key.isascii():
        for unit in key.encode("ascii"):
            code = (31 * code + unit) & _MASK
        return code
    units = key.encode("utf-16-le", "surrogatepass")
    for at in range(0, len(units), 2):
        code = (31 * code + units[at] + (units[at + 1] << 8)) & _MASK
    return code


def _hash_bytes(key: bytes) -> int:
    code = 1
    for byte in key:
        code = (31 * code + byte - ((byte & 0x80) << 1)) & _MASK
    return code


def _hash_sequence(key: tuple[Key, ...] | list[Key]) -> int:
    code = 1
    for element in key:
        code = (31 * code + _unsigned_hash(element)) & _MASK
    return code


def _hash_decimal(key: decimal.Decimal) -> int:
    if not key.is_finite():
        return _hash_float(float("nan") if key.is_nan() else float(key))
    sign, digits, exponent = key.as_tuple()
    assert isinstance(exponent, int)
    unscaled, scale = int("".join(map(str, digits)) or "0"), -exponent
    if unscaled == 0:
        return 0
    while unscaled % 10 == 0:
        unscaled, scale = unscaled // 10, scale - 1
    if scale <= 0:
        return _hash_int(int(key))
    return (31 * _hash_big_int(-unscaled if sign else unscaled) + scale) & _MASK


def _hash_date(key: dt.date) -> int:
    return ((key.year & 0xFFFFF800) ^ ((key.year << 11) + (key.month << 6) + key.day)) & _MASK


def _hash_time(key: dt.time) -> int:
    seconds = (key.hour * 60 + key.minute) * 60 + key.second
    return _hash_int((seconds * 1_000_000 + key.microsecond) * 1000)


def _hash_datetime(key: dt.datetime) -> int:
    aware = key if key.tzinfo is not None else key.replace(tzinfo=dt.UTC)
    return _hash_timedelta(aware - _EPOCH, getattr(key, "nanosecond", 0))


def _hash_timedelta(key: dt.timedelta, nanosecond: int = 0) -> int:
    seconds, nanos = key.days * 86400 + key.seconds, key.microseconds * 1000
    return (_hash_int(seconds) + NANOS_FACTOR * (nanos + (nanosecond or getattr(key, "nanoseconds", 0)))) & _MASK


def _hash_set(key: frozenset[Key]) -> int:
    return sum(map(_unsigned_hash, key)) & _MASK


def _hash_pickled(key: Key) -> int:
    return _hash_bytes(hashed_bytes(key))


def _hash_instant(key: Instant) -> int:
    """As the value of its column, so that a key is the same before and behind an exchange."""
    return _hash_timedelta(dt.timedelta(seconds=key.seconds, microseconds=key.nanos // 1000))


_BY_TYPE: dict[type, Callable[[Key], int]] = {
    type(None): lambda _: 0,
    bool: lambda key: TRUE_HASH if key else FALSE_HASH,
    int: _hash_int,
    float: _hash_float,
    str: _hash_str,
    bytes: _hash_bytes,
    bytearray: _hash_bytes,
    tuple: _hash_sequence,
    list: _hash_sequence,
    dict: lambda key: _hash_sequence(tuple(key.values())),
    decimal.Decimal: _hash_decimal,
    dt.datetime: _hash_datetime,
    dt.date: _hash_date,
    dt.time: _hash_time,
    dt.timedelta: _hash_timedelta,
    Instant: _hash_instant,
    EncodedKey: lambda key: _unsigned_hash(key.key),
    set: _hash_set,
    frozenset: _hash_set,
}
