"""Rows of RocksDB to Arrow batches, and restored batches to entries.

    view ─▶ whole_rows · changed_rows ─▶ Stored, one for each entry ─▶ batches (some thousand entries each) ─▶ segment

A batch has the columns that every backend writes (``taskmanager.state.entries``), so any backend can read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from taskmanager.state.entries import KEY, NAMESPACE, VALUE, WINDOW_END, WINDOW_START
from taskmanager.state.rocksdb_database import Pair, View
from taskmanager.state.rocksdb_keys import decode_key, group_of
from taskmanager.state.rocksdb_tables import StateRows, entry_end
from taskmanager.state.rocksdb_values import STAMP_BYTES, column, decode, stamp_of
from taskmanager.state.segment_streams import Rows
from taskmanager.state.segments import PICKLED
from tidegate.common.record_codec import encode_column
from tidegate.common.typeinfo import Types
from tidegate.model.keygroups import KeyGroupRange

DELETED = "deleted"
BATCH_ENTRIES = 8192
_PICKLED_TYPE = Types.PICKLED_BYTE_ARRAY()
_NONE, _WINDOW = ord("n"), ord("w")


@dataclass(frozen=True, slots=True)
class Form:
    """What is the same in all batches of a file: the columns of the namespace, and whether removed entries are told."""

    rows: StateRows
    namespaces: frozenset[int]
    expired_before_ms: int | None = None
    """Elements that were written up to this time are left out."""
    has_deleted: bool = False

    @property
    def where(self) -> str:
        return f"operator '{self.rows.layout.operator}', state '{self.rows.layout.state_name}'"


@dataclass(slots=True)
class _Batch:
    """Entries on their way into columns. ``contents``: row values of each entry; ``map_keys`` beside them for maps."""

    groups: list[int] = field(default_factory=list)
    keys: list[Any] = field(default_factory=list)
    spaces: list[Any] = field(default_factory=list)
    contents: list[list[bytes]] = field(default_factory=list)
    map_keys: list[list[Any]] = field(default_factory=list)


def whole_batches(form: Form, view: View, groups: KeyGroupRange | None) -> Iterator[Rows]:
    """All entries of some key groups; ``None``: of all of them, by the walk that the view was made for."""
    if groups is None:
        return _batches(form, view.all_rows(form.rows.prefix))
    first = form.rows.prefix + groups.start.to_bytes(2, "big")
    return _batches(form, _until(view.rows(form.rows.prefix, first), groups.end))


def changed_batches(form: Form, view: View, entries: Iterable[bytes]) -> Iterator[Rows]:
    """What became of these entries."""
    batch = _Batch()
    for entry in entries:
        key, namespace, _ = entry_end(entry)
        found = _living(form, list(view.rows(entry)))
        _append(form, batch, entry, key, namespace, found)
        if len(batch.groups) >= BATCH_ENTRIES:
            yield _columns(form, batch)
            batch = _Batch()
    if batch.groups:
        yield _columns(form, batch)


def _until(rows: Iterator[Pair], last_group: int) -> Iterator[Pair]:
    for pair in rows:
        if group_of(pair[0]) > last_group:
            return
        yield pair


def _batches(form: Form, rows: Iterator[Pair]) -> Iterator[Rows]:
    is_single = form.rows.layout.kind not in ("list", "map")
    batch = _Batch()
    if is_single:
        entries: Iterable[tuple[bytes, Iterable[Pair]]] = ((pair[0], (pair,)) for pair in rows)
    else:
        entries = groupby(rows, lambda pair: pair[0][: entry_end(pair[0])[2]])
    for entry, pairs in entries:
        found = _living(form, pairs)
        if found:
            key, namespace, _ = entry_end(entry)
            _append(form, batch, entry, key, namespace, found)
            if len(batch.groups) >= BATCH_ENTRIES:
                yield _columns(form, batch)
                batch = _Batch()
    if batch.groups:
        yield _columns(form, batch)


def _living(form: Form, pairs: Iterable[Pair]) -> list[Pair]:
    last = form.expired_before_ms
    return [pair for pair in pairs if last is None or stamp_of(pair[1]) > last]


def _append(form: Form, batch: _Batch, entry: bytes, key: Any, namespace: Any, found: list[Pair]) -> None:
    batch.groups.append(group_of(entry))
    batch.keys.append(key)
    batch.spaces.append(namespace)
    batch.contents.append([content for _, content in found])
    if form.rows.layout.kind == "map":
        end = entry_end(entry)[2]
        batch.map_keys.append([decode_key(row, end)[0] for row, _ in found])


def _columns(form: Form, batch: _Batch) -> Rows:
    layout = form.rows.layout
    fields, arrays = (
        [layout.key_type.arrow_field(KEY)],
        [encode_column(layout.key_type, batch.keys, f"{form.where}, key")],
    )
    for name_field, array in _namespace_columns(form.namespaces, batch.spaces):
        fields.append(name_field)
        arrays.append(array)
    contents = batch.contents
    if layout.ttl is not None:
        stamps = [[stamp_of(content) for content in parts] for parts in contents]
        fields.append(layout.ttl_field)
        is_single = not pa.types.is_list(layout.ttl_field.type)
        arrays.append(pa.array([s[0] if s else None for s in stamps] if is_single else stamps, layout.ttl_field.type))
        contents = [[content[STAMP_BYTES:] for content in parts] for parts in contents]
    assert layout.value_type is not None
    fields.append(layout.value_type.arrow_field(VALUE))
    arrays.append(_values(form, batch, contents))
    if form.has_deleted:
        fields.append(pa.field(DELETED, pa.bool_(), nullable=False))
        arrays.append(pa.array([not parts for parts in contents], pa.bool_()))
    data = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
    return np.array(batch.groups, np.int32), data


def _values(form: Form, batch: _Batch, contents: list[list[bytes]]) -> pa.Array:
    layout = form.rows.layout
    assert layout.value_type is not None
    if layout.kind == "list":
        lists = [[decode(content) for content in parts] for parts in contents]
        return encode_column(layout.value_type, lists, form.where)
    if layout.kind == "map":
        maps = [
            dict(zip(keys, map(decode, parts), strict=True))
            for keys, parts in zip(batch.map_keys, contents, strict=True)
        ]
        return encode_column(layout.value_type, maps, form.where)
    if all(contents):
        return column(layout.value_type, [parts[0] for parts in contents], form.where)
    values = [decode(parts[0]) if parts else None for parts in contents]
    return encode_column(layout.value_type, values, form.where)


def _namespace_columns(forms: frozenset[int], spaces: list[Any]) -> list[tuple[pa.Field, pa.Array]]:
    if forms <= {_NONE}:
        return []
    if forms == {_WINDOW}:
        starts, ends = [w.start for w in spaces], [w.end for w in spaces]
        return [
            (pa.field(WINDOW_START, pa.int64()), pa.array(starts, pa.int64())),
            (pa.field(WINDOW_END, pa.int64()), pa.array(ends, pa.int64())),
        ]
    pickled = encode_column(_PICKLED_TYPE, spaces, "namespace")
    return [(pa.field(NAMESPACE, pa.binary(), metadata=PICKLED), pickled)]
