"""Encodes canonical keys, namespaces and map keys as bytes that tell where they end, and decodes them.

    'w' TimeWindow  'c' CountWindow     else as ``tidegate.records.canonical.forms`` has it

A row of RocksDB has the key ``state (2 bytes) · key group (2 bytes) · key · namespace``; rows of a map end with the map's key,
rows of a list with 8 bytes that count upwards, and rows of timers have their time before the key. No encoded key is a prefix
of another one, so the rows of an entry are those that begin with its bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from tidegate.functions.windows import CountWindow, TimeWindow
from tidegate.model.values import Key
from tidegate.records.canonical.forms import decode_form, encode_form

PREFIX_BYTES = 4
"""The number of bytes of state id and key group in front of every key."""
TIMESTAMP_BYTES = 8
"""The number of bytes of the time in front of the key in rows of timers: 64 bits in the order of the times."""

_INT64 = struct.Struct(">cq")
_WINDOW = struct.Struct(">cqq")
_PLACE = struct.Struct(">HH")
_TIME = struct.Struct(">Q")
SIGN = 1 << 63
"""Added to a 64-bit timestamp, so that it is not negative and its bytes are in the order of the times."""


def place(state: int, group: int) -> bytes:
    return _PLACE.pack(state, group)


def time_bytes(timestamp: int) -> bytes:
    """Encodes a timestamp as bytes in the order of the times. Raises ``struct.error`` beyond 64 bits."""
    return _TIME.pack(timestamp + SIGN)


def group_of(row_key: bytes) -> int:
    return row_key[2] << 8 | row_key[3]


def encode_key(key: Key) -> bytes:
    """Encodes a canonical key or a namespace. Raises ``NotSerializable``."""
    kind = key.__class__
    if kind is int and -0x8000000000000000 <= key <= 0x7FFFFFFFFFFFFFFF:
        return _INT64.pack(b"i", key)
    if key is None:
        return b"n"
    if kind is TimeWindow:
        return _WINDOW.pack(b"w", key.start, key.end)
    if kind is CountWindow:
        return _INT64.pack(b"c", key.id)
    return encode_form(key)


def integer_rows(state: int, groups: Sequence[int], keys: Sequence[Key]) -> list[bytes] | None:
    """Returns the row key of each key without a namespace, all at once, if the keys are whole numbers of 64 bits or tuples of the same number of them; ``None``
    for other keys.
    """
    kinds = set(map(type, keys))
    if kinds == {tuple}:
        widths = set(map(len, keys))
        width, is_tuple = widths.pop(), True
        numbers = list(chain.from_iterable(keys))
        if widths or not width or set(map(type, numbers)) != {int}:
            return None
    elif kinds == {int}:
        numbers, width, is_tuple = list(keys), 1, False
    else:
        return None
    try:
        columns = np.array(numbers, np.int64).reshape(len(keys), width)
    except OverflowError:
        return None
    fields: list[Any] = [("state", ">u2"), ("group", ">u2")]
    fields += [("tuple", "S1"), ("size", ">u4")] if is_tuple else []
    rows = np.empty(
        len(keys), np.dtype([*fields, ("parts", [("form", "S1"), ("number", ">i8")], (width,)), ("end", "S1")])
    )
    rows["state"], rows["group"], rows["end"] = state, groups, b"n"
    rows["parts"]["form"], rows["parts"]["number"] = b"i", columns
    if is_tuple:
        rows["tuple"], rows["size"] = b"(", width
    content, size = rows.tobytes(), rows.itemsize
    return [content[at : at + size] for at in range(0, len(content), size)]


def decode_key(content: bytes, at: int = 0) -> tuple[Key, int]:
    """Decodes the canonical key or namespace that begins at ``at``. Returns it, and where it ends."""
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
    return decode_form(content, at)


def after(prefix: bytes) -> bytes:
    """Returns the first bytes after all that begin with ``prefix``, which must not be all 0xff."""
    cut = prefix.rstrip(b"\xff")
    return cut[:-1] + bytes((cut[-1] + 1,))
