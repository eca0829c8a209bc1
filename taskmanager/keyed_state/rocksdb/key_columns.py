"""Converts row keys of RocksDB to the columns of keys and namespaces: integers all at once, others one by one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.records.canonical.forms import value_of, values_of
from tidegate.records.record_codec import encode_column
from tidegate.taskmanager.keyed_state.entry import Namespace
from tidegate.taskmanager.keyed_state.heap.entries import (
    KEY,
    NAMESPACE,
    TIMESTAMP,
    Columns,
    count_window_columns,
    time_window_columns,
)
from tidegate.taskmanager.keyed_state.rocksdb.keys import PREFIX_BYTES, TIMESTAMP_BYTES, decode_key
from tidegate.taskmanager.state.files.segments import PICKLED, Groups

_PICKLED_TYPE = Types.PICKLED_BYTE_ARRAY()
_NONE, _WINDOW, _COUNT, _INT, _TEXT = ord("n"), ord("w"), ord("c"), ord("i"), ord("s")
_INTEGER_ROW = np.dtype([("state", ">u2"), ("group", ">u2"), ("form", "u1"), ("key", ">i8"), ("space", "u1")])
_SIGN = np.uint64(1 << 63)
_TEXT_START = PREFIX_BYTES + 5
"""Where the text of a key begins in a row key: after the form of the key and the four bytes of its length."""


def batch_of(columns: Columns) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [array for _, array in columns], schema=pa.schema([field for field, _ in columns])
    )


def key_columns(
    key_type: TypeInformation, row_keys: Sequence[bytes], namespaces: frozenset[int], where: str
) -> tuple[Groups, Columns]:
    """Converts row keys, which end with the namespace. Returns their key groups, and the columns of keys and namespaces.

    ``namespaces``: the forms that namespaces may have. Raises ``SchemaMismatch`` naming ``where`` when a key does not fit its type.
    """
    field = key_type.arrow_field(KEY)
    if namespaces <= {_NONE}:
        integers = _integers(row_keys, field.type) if pa.types.is_integer(field.type) else None
        if integers is not None:
            return integers[0], [(field, integers[1])]
        if pa.types.is_string(field.type) and all(row[PREFIX_BYTES] == _TEXT for row in row_keys):
            texts = [row[_TEXT_START:-1].decode("utf-8", "surrogatepass") for row in row_keys]
            return _groups(row_keys), [(field, encode_column(key_type, texts, f"{where}, key"))]
    keys, spaces = [], []
    for row in row_keys:
        key, at = decode_key(row, PREFIX_BYTES)
        keys.append(key)
        spaces.append(value_of(decode_key(row, at)[0]))
    columns: Columns = [(field, encode_column(key_type, values_of(keys), f"{where}, key"))]
    return _groups(row_keys), columns + namespace_columns(namespaces, spaces)


def timer_columns(
    key_type: TypeInformation, row_keys: Sequence[bytes], namespaces: frozenset[int], where: str
) -> tuple[Groups, Columns]:
    """Converts row keys of timers as ``key_columns`` does, with a column of their times."""
    cut = PREFIX_BYTES + TIMESTAMP_BYTES
    flipped = np.frombuffer(b"".join([row[PREFIX_BYTES:cut] for row in row_keys]), ">u8").astype(np.uint64)
    plain = [row[:PREFIX_BYTES] + row[cut:] for row in row_keys]
    groups, columns = key_columns(key_type, plain, namespaces, where)
    return groups, [columns[0], timestamp_column((flipped ^ _SIGN).view(np.int64)), *columns[1:]]


def timestamp_column(timestamps: Sequence[int] | npt.NDArray[np.int64]) -> tuple[pa.Field, pa.Array]:
    return pa.field(TIMESTAMP, pa.int64()), pa.array(timestamps, pa.int64())


def namespace_columns(forms: frozenset[int], spaces: Sequence[Namespace]) -> Columns:
    """Returns the columns of namespaces. All batches of a file have the same ones, whatever namespaces a batch contains."""
    if forms <= {_NONE}:
        return []
    if forms == {_WINDOW}:
        return time_window_columns(spaces)
    if forms == {_COUNT}:
        return count_window_columns(spaces)
    pickled = encode_column(_PICKLED_TYPE, spaces, "namespace")
    return [(pa.field(NAMESPACE, pa.binary(), metadata=PICKLED), pickled)]


def _integers(row_keys: Sequence[bytes], kind: pa.DataType) -> tuple[Groups, pa.Array] | None:
    """Returns groups and keys of rows whose keys are 64-bit integers; ``None`` when one is not, or is too large for its column."""
    joined = b"".join(row_keys)
    if len(joined) != _INTEGER_ROW.itemsize * len(row_keys):
        return None
    rows = np.frombuffer(joined, _INTEGER_ROW)
    if not (rows["form"] == _INT).all() or not (rows["space"] == _NONE).all():
        return None
    try:
        keys = pa.array(rows["key"].astype(np.int64)).cast(kind)
    except pa.ArrowInvalid:
        return None
    return rows["group"].astype(np.int32), keys


def _groups(row_keys: Sequence[bytes]) -> Groups:
    return np.fromiter((row[2] << 8 | row[3] for row in row_keys), np.int32, len(row_keys))
