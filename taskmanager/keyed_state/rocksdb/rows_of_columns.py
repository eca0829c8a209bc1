"""Converts restored columns to rows of RocksDB without making Python objects: the inverse of ``values.column`` and ``key_columns``.

    key: integers, text, without a namespace     value: integers, doubles, text, pickles, with and without a time

Everything else is decoded and encoded again by the caller (``None``). What the first row of each batch should be is compared with what decoding it gives.
"""

from __future__ import annotations

import struct
from itertools import repeat

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.records.schema_evolution import TTL_COLUMN
from tidegate.taskmanager.keyed_state.heap.entries import KEY, NAMESPACE, TIMESTAMP, VALUE, WINDOW_ID, WINDOW_START
from tidegate.taskmanager.keyed_state.rocksdb.keys import SIGN
from tidegate.taskmanager.keyed_state.rocksdb.values import stamp
from tidegate.taskmanager.state.files.segments import PICKLED

_SIZE = struct.Struct(">I")
_NAMESPACES = frozenset({WINDOW_START, WINDOW_ID, NAMESPACE})


def starts_of(prefix: bytes, data: pa.RecordBatch) -> list[bytes] | None:
    """Returns the row-key prefix of each entry (of a timer, the whole row key); ``None`` if keys must be encoded one by one. ``prefix``: state and
    key group.
    """
    keys = data.column(KEY)
    if not _NAMESPACES.isdisjoint(data.schema.names) or keys.null_count:
        return None
    times: npt.NDArray[np.uint64] | None = None
    if TIMESTAMP in data.schema.names:
        times = data.column(data.schema.get_field_index(TIMESTAMP)).to_numpy().view(np.uint64) ^ np.uint64(SIGN)
    if keys.type == pa.int64():
        moment = [] if times is None else [("time", ">u8")]
        rows = np.empty(
            len(keys), [("prefix", f"V{len(prefix)}"), *moment, ("form", "S1"), ("key", ">i8"), ("namespace", "S1")]
        )
        rows["prefix"], rows["form"], rows["key"], rows["namespace"] = np.void(prefix), b"i", keys.to_numpy(), b"n"
        if times is not None:
            rows["time"] = times
        return _cut(rows)
    if pa.types.is_string(keys.type):
        pack, texts = _SIZE.pack, keys.cast(pa.binary()).to_pylist()
        if times is None:
            front = prefix + b"s"
            return [front + pack(len(key)) + key + b"n" for key in texts]
        moments = _cut(times.astype(">u8"))
        return [prefix + time + b"s" + pack(len(key)) + key + b"n" for time, key in zip(moments, texts, strict=True)]
    return None


def contents_of(data: pa.RecordBatch) -> list[bytes] | None:
    """Returns the content of the only row of each entry; ``None`` if values must be encoded one by one."""
    field, values = data.schema.field(VALUE), data.column(VALUE)
    if values.null_count:
        return None
    found: list[bytes] | None = None
    if (field.metadata or {}).items() >= PICKLED.items():
        found = values.to_pylist()
        if any(map(bytes.__ne__, (content[:1] for content in found), repeat(b"\x80"))):
            return None
    elif field.type == pa.int64() or field.type == pa.float64():
        is_integer = field.type == pa.int64()
        rows = np.empty(len(values), [("form", "S1"), ("number", "<i8" if is_integer else "<f8")])
        rows["form"], rows["number"] = b"q" if is_integer else b"d", values.to_numpy()
        found = _cut(rows)
    elif pa.types.is_string(field.type):
        found = [b"s" + value for value in values.cast(pa.binary()).to_pylist()]
    if found is None or TTL_COLUMN not in data.schema.names:
        return found
    stamps = data.column(TTL_COLUMN)
    return None if stamps.null_count else list(map(stamp, found, stamps.to_pylist()))


def _cut(rows: npt.NDArray[np.generic]) -> list[bytes]:
    size, whole = rows.itemsize, rows.tobytes()
    return [whole[at : at + size] for at in range(0, len(whole), size)]
