"""Hashes of single values, as Arrow converts them to Python, by their type.

    value ─▶ ``ValueHashes``: by its type, else by the nearest base, else by its form (enum, numpy scalar, dataclass), else by ``other``

Laws: equal to what ``hash_columns`` gives for the same value, bit for bit. Checkpoints hold key groups, so no hash may change. Keys that functions make
have more types: ``tidegate.records.keys``.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import struct
from collections.abc import Callable, Mapping
from typing import NoReturn

from tidegate.model.errors import SchemaMismatch
from tidegate.model.values import Key

_MASK = 0xFFFFFFFF
"""The bits of Java's int."""
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
NAN_BITS = 0x7FF8000000000000
"""The bits that Java's `Double.doubleToLongBits` returns for every NaN."""
NANOS_FACTOR = 51
"""The factor of `java.time.Instant.hashCode`."""
TRUE_HASH, FALSE_HASH = 1231, 1237
"""The values of `java.lang.Boolean.hashCode`."""

HashOf = Callable[[Key], int]
"""Returns the hash of a value as 32 bits, 0 to 2**32 - 1."""


class ValueHashes:
    """Hashes values by type. ``more``: further types; ``other``: hashes values of unknown types, which otherwise raise ``SchemaMismatch``."""

    def __init__(self, more: Mapping[type, HashOf] | None = None, other: HashOf | None = None) -> None:
        self._other = other or _refused
        self._by_type: dict[type, HashOf] = {
            **_BY_TYPE,
            tuple: self._of_sequence,
            list: self._of_sequence,
            dict: lambda key: self._of_sequence(tuple(key.values())),
            set: self._of_set,
            frozenset: self._of_set,
            **(more or {}),
        }

    def of(self, value: Key) -> int:
        """Returns the hash of a value, -2**31 to 2**31 - 1."""
        code = self.unsigned(value)
        return code - 0x100000000 if code & 0x80000000 else code

    def unsigned(self, value: Key) -> int:
        """Returns the same 32 bits as 0 to 2**32 - 1."""
        found = self._by_type.get(type(value))
        if found is None:
            found = self._by_type[type(value)] = self._resolve(type(value))
        return found(value)

    def _resolve(self, kind: type) -> HashOf:
        """Returns the hash function of an unknown type: that of its nearest base, else by its structure."""
        if issubclass(kind, enum.Enum):
            return lambda key: _hash_str(key.name or str(key.value))
        for base in kind.__mro__[1:]:
            if base in self._by_type and base is not object:
                return self._by_type[base]
        if kind.__module__ == "numpy" and hasattr(kind, "item"):
            return lambda key: self.unsigned(key.item())
        if kind.__name__ == "Row" and hasattr(kind, "__iter__"):
            return lambda key: self._of_sequence(tuple(key))
        if dataclasses.is_dataclass(kind):
            names = tuple(f.name for f in dataclasses.fields(kind))
            return lambda key: self._of_sequence(tuple(getattr(key, name) for name in names))
        return self._other

    def _of_sequence(self, values: tuple[Key, ...] | list[Key]) -> int:
        code = 1
        for value in values:
            code = (31 * code + self.unsigned(value)) & _MASK
        return code

    def _of_set(self, values: frozenset[Key]) -> int:
        return sum(map(self.unsigned, values)) & _MASK


def _refused(value: Key) -> NoReturn:
    raise SchemaMismatch(
        f"a value of type {type(value).__qualname__} in a key's column cannot be hashed; cast the column to a string or a number first"
    )


def _hash_int(key: int) -> int:
    if _INT64_MIN <= key <= _INT64_MAX:
        return (key ^ (key >> 32)) & _MASK
    return _hash_big_int(key)


def _hash_big_int(key: int) -> int:
    """Returns ``BigInteger.hashCode``: over the 32-bit words of the magnitude, then the sign."""
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


def hash_bytes(key: bytes) -> int:
    """Returns ``Arrays.hashCode(byte[])``."""
    code = 1
    for byte in key:
        code = (31 * code + byte - ((byte & 0x80) << 1)) & _MASK
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
    return hash_timedelta(aware - _EPOCH, getattr(key, "nanosecond", 0))


def hash_timedelta(key: dt.timedelta, nanosecond: int = 0) -> int:
    """Returns ``Duration.hashCode``; ``nanosecond``: of the second, where the value has nanoseconds."""
    seconds, nanos = key.days * 86400 + key.seconds, key.microseconds * 1000
    return (_hash_int(seconds) + NANOS_FACTOR * (nanos + (nanosecond or getattr(key, "nanoseconds", 0)))) & _MASK


_BY_TYPE: Mapping[type, HashOf] = {
    type(None): lambda _: 0,
    bool: lambda key: TRUE_HASH if key else FALSE_HASH,
    int: _hash_int,
    float: _hash_float,
    str: _hash_str,
    bytes: hash_bytes,
    bytearray: hash_bytes,
    decimal.Decimal: _hash_decimal,
    dt.datetime: _hash_datetime,
    dt.date: _hash_date,
    dt.time: _hash_time,
    dt.timedelta: hash_timedelta,
}
"""Hash functions of types that contain no other values."""
