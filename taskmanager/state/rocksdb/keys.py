"""Keys, namespaces and map keys as bytes that tell where they end: equal keys have equal bytes, and back.

    'n' None   't' 'f' bool   'i' int, 8 bytes   'I' larger int   'd' float, 8 bytes   'D' Decimal   's' str   'b' bytes
    '(' tuple  '{' frozenset  'w' TimeWindow  'c' CountWindow     'p' anything else: pickled without memo, so that the bytes depend on values alone

A row of RocksDB has the key ``state (2 bytes) · key group (2 bytes) · key · namespace``; rows of a map end with the map's key,
rows of a list with 8 bytes that count upwards, and rows of timers have their time in front of the key. No key begins with another one, so the rows of an entry are those with
its bytes in front.
"""

from __future__ import annotations

import datetime
import decimal
import io
import math
import pickle
import struct

from tidegate.functions.windows import CountWindow, TimeWindow
from tidegate.model.errors import NotSerializable, TidegateError
from tidegate.model.values import Key

PREFIX_BYTES = 4
"""Bytes of state and key group in front of every key."""
TIMESTAMP_BYTES = 8
"""What is between them and the key in rows of timers: 64 bits in the order of the times."""

_INT64 = struct.Struct(">cq")
_DOUBLE = struct.Struct(">cd")
_SIZE = struct.Struct(">cI")
_WINDOW = struct.Struct(">cqq")
_PLACE = struct.Struct(">HH")
_TIME = struct.Struct(">Q")
SIGN = 1 << 63
"""Added to a 64-bit timestamp, so that it is not negative and its bytes are in the order of the times."""


def place(state: int, group: int) -> bytes:
    return _PLACE.pack(state, group)


def time_bytes(timestamp: int) -> bytes:
    """In the order of the times. Raises ``struct.error`` beyond 64 bits."""
    return _TIME.pack(timestamp + SIGN)


def group_of(row_key: bytes) -> int:
    return row_key[2] << 8 | row_key[3]


def encode_key(key: Key) -> bytes:
    """Raises ``NotSerializable``."""
    kind = key.__class__
    if kind is int:
        if -0x8000000000000000 <= key <= 0x7FFFFFFFFFFFFFFF:
            return _INT64.pack(b"i", key)
        return _sized(b"I", b"%d" % key)
    if kind is str:
        return _sized(b"s", key.encode("utf-8", "surrogatepass"))
    if key is None:
        return b"n"
    if kind is tuple:
        return _SIZE.pack(b"(", len(key)) + b"".join(map(encode_key, key))
    if kind is TimeWindow:
        return _WINDOW.pack(b"w", key.start, key.end)
    if kind is CountWindow:
        return _INT64.pack(b"c", key.id)
    if kind is bool:
        return b"t" if key else b"f"
    if kind is float:
        return _DOUBLE.pack(b"d", math.nan if key != key else key + 0.0)
    if kind is bytes:
        return _sized(b"b", key)
    return _encode_rare(key, kind)


def decode_key(content: bytes, at: int = 0) -> tuple[Key, int]:
    """The key that begins at ``at``, and where it ends."""
    mark = content[at]
    if mark == 0x69:  # i
        return _INT64.unpack_from(content, at)[1], at + 9
    if mark == 0x6E:  # n
        return None, at + 1
    if mark == 0x77:  # w
        _, start, end = _WINDOW.unpack_from(content, at)
        return TimeWindow(start, end), at + 17
    if mark == 0x63:  # c
        return CountWindow(_INT64.unpack_from(content, at)[1]), at + 9
    if mark == 0x64:  # d
        value: float = _DOUBLE.unpack_from(content, at)[1]
        return (math.nan if value != value else value), at + 9
    if mark in (0x74, 0x66):  # t f
        return mark == 0x74, at + 1
    _, size = _SIZE.unpack_from(content, at)
    start = at + 5
    if mark in (0x28, 0x7B):  # ( {
        parts = []
        for _ in range(size):
            part, start = decode_key(content, start)
            parts.append(part)
        return (tuple(parts) if mark == 0x28 else frozenset(parts)), start
    return _decode_sized(mark, content[start : start + size]), start + size


def after(prefix: bytes) -> bytes:
    """The first bytes behind all that begin with ``prefix``. No prefix of ours is all 0xff."""
    cut = prefix.rstrip(b"\xff")
    return cut[:-1] + bytes((cut[-1] + 1,))


def _sized(mark: bytes, content: bytes) -> bytes:
    return _SIZE.pack(mark, len(content)) + content


def _encode_rare(key: Key, kind: type) -> bytes:
    if kind is decimal.Decimal and key.is_finite():
        return _sized(b"D", str(_shortest(key)).encode())
    if kind is frozenset:
        return _SIZE.pack(b"{", len(key)) + b"".join(sorted(map(encode_key, key)))
    if kind.__module__ == "numpy" and hasattr(key, "item"):
        return encode_key(key.item())
    if kind is datetime.datetime and key.tzinfo is not None:
        key = key.astimezone(datetime.UTC)  # the same moment is the same key in every zone
    if kind is datetime.datetime or kind is datetime.time:
        key = key.replace(fold=0)  # which does not count when they are compared
    out = io.BytesIO()
    pickler = pickle.Pickler(out, protocol=5)
    pickler.fast = True
    try:
        pickler.dump(key)
    except TidegateError:
        raise
    except Exception as error:
        raise NotSerializable(
            f"a key of type {kind.__qualname__} cannot be written by its value ({error}); use a plain value, a tuple or "
            "a dataclass as key"
        ) from error
    return _sized(b"p", out.getvalue())


def _decode_sized(mark: int, content: bytes) -> Key:
    match mark:
        case 0x73:
            return content.decode("utf-8", "surrogatepass")
        case 0x62:
            return content
        case 0x49:
            return int(content)
        case 0x44:
            return decimal.Decimal(content.decode())
        case _:
            return pickle.loads(content)


def _shortest(key: decimal.Decimal) -> decimal.Decimal:
    """Without zeros at the end, so that equal numbers have equal bytes; never rounded."""
    sign, digits, exponent = key.as_tuple()
    assert isinstance(exponent, int)
    parts = list(digits)
    while len(parts) > 1 and parts[-1] == 0:
        parts.pop()
        exponent += 1
    return decimal.Decimal(0) if parts == [0] else decimal.Decimal((sign, tuple(parts), exponent))
