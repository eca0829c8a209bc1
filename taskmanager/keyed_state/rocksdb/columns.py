"""Converts rows of RocksDB to Arrow batches for segments.

    view ─▶ whole_rows · changed_rows ─▶ Stored, one for each entry ─▶ batches (some thousand entries each) ─▶ segment

A batch has the columns that every backend writes (``tidegate.taskmanager.keyed_state.heap.entries``), so any backend can read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby, islice

import numpy as np
import pyarrow as pa

from tidegate.model.keygroups import KeyGroupRange
from tidegate.model.values import Key, MapKey
from tidegate.records.canonical.forms import values_of
from tidegate.records.record_codec import encode_column
from tidegate.taskmanager.keyed_state.entry import Namespace
from tidegate.taskmanager.keyed_state.heap.entries import KEY, VALUE
from tidegate.taskmanager.keyed_state.rocksdb.database import Pair, View
from tidegate.taskmanager.keyed_state.rocksdb.key_columns import (
    batch_of,
    key_columns,
    namespace_columns,
    timer_columns,
    timestamp_column,
)
from tidegate.taskmanager.keyed_state.rocksdb.keys import decode_key, group_of, place
from tidegate.taskmanager.keyed_state.rocksdb.state_rows import StateRows
from tidegate.taskmanager.keyed_state.rocksdb.unloaded import FrozenUnloaded, merged_rows
from tidegate.taskmanager.keyed_state.rocksdb.values import STAMP_BYTES, column, decode, stamp_of
from tidegate.taskmanager.state.files.segment_streams import Rows

DELETED = "deleted"
BATCH_ENTRIES = 8192
"""Entries of a batch, which bounds what is decoded at once since values may be large."""


@dataclass(frozen=True, slots=True)
class Form:
    """The common properties of all batches of a file: the columns of the namespace, and whether removed entries are included."""

    rows: StateRows
    namespaces: frozenset[int]
    expired_before_ms: int | None = None
    """Elements written up to this time are left out; ``None``: none are."""
    has_deleted: bool = False

    @property
    def where(self) -> str:
        return f"operator '{self.rows.layout.operator}', state '{self.rows.layout.state_name}'"


@dataclass(slots=True)
class _Batch:
    """Entries that are collected for one batch. ``contents``: row values of each entry. ``map_keys``: the keys of each map."""

    groups: list[int] = field(default_factory=list)
    keys: list[Key] = field(default_factory=list)
    spaces: list[Namespace] = field(default_factory=list)
    contents: list[list[bytes]] = field(default_factory=list)
    map_keys: list[list[MapKey]] = field(default_factory=list)


def whole_batches(
    form: Form, view: View, groups: KeyGroupRange | None, unloaded: FrozenUnloaded | None = None
) -> Iterator[Rows]:
    """Yields all entries of some key groups as batches.

    ``groups``: ``None`` for all of them, read by the single pass for which the view was made; it does not include ``unloaded`` entries.
    """
    if unloaded is not None:
        assert groups is not None
        return _batches(form, _with_unloaded(form.rows, view, groups, unloaded))
    if groups is None:
        return _batches(form, view.all_rows(form.rows.prefix))
    first = form.rows.prefix + groups.start.to_bytes(2, "big")
    return _batches(form, _until(view.rows(form.rows.prefix, first), groups.end))


def changed_batches(form: Form, view: View, entries: Iterable[bytes]) -> Iterator[Rows]:
    """Yields the present state of changed entries as batches."""
    batch = _Batch()
    for entry in entries:
        key, namespace, _ = form.rows.parts(entry)
        found = _living(form, list(view.rows(entry)))
        _append(form, batch, entry, key, namespace, found)
        if len(batch.groups) >= BATCH_ENTRIES:
            yield _columns(form, batch)
            batch = _Batch()
    if batch.groups:
        yield _columns(form, batch)


def _with_unloaded(rows: StateRows, view: View, groups: KeyGroupRange, unloaded: FrozenUnloaded) -> Iterator[Pair]:
    for group in range(groups.start, groups.end + 1):
        if group in unloaded.groups:
            yield from merged_rows(view, rows, unloaded, group)
        else:
            yield from view.rows(place(rows.state_id, group))


def _until(rows: Iterator[Pair], last_group: int) -> Iterator[Pair]:
    for pair in rows:
        if group_of(pair[0]) > last_group:
            return
        yield pair


def _batches(form: Form, rows: Iterator[Pair]) -> Iterator[Rows]:
    if not (form.rows.layout.is_list or form.rows.layout.is_map):
        yield from _single_batches(form, rows)
        return
    batch = _Batch()
    for entry, pairs in groupby(rows, lambda pair: pair[0][: form.rows.parts(pair[0])[2]]):
        found = _living(form, pairs)
        if found:
            key, namespace, _ = form.rows.parts(entry)
            _append(form, batch, entry, key, namespace, found)
            if len(batch.groups) >= BATCH_ENTRIES:
                yield _columns(form, batch)
                batch = _Batch()
    if batch.groups:
        yield _columns(form, batch)


def _single_batches(form: Form, rows: Iterator[Pair]) -> Iterator[Rows]:
    """Yields batches of state with one row for each entry, converted in whole columns."""
    layout = form.rows.layout
    last = form.expired_before_ms
    while chunk := list(islice(rows, BATCH_ENTRIES)):
        if last is not None:
            chunk = [pair for pair in chunk if stamp_of(pair[1]) > last]
            if not chunk:
                continue
        row_keys, contents = zip(*chunk, strict=True)
        if layout.value_type is None:
            groups, columns = timer_columns(layout.key_type, row_keys, form.namespaces, form.where)
            yield groups, batch_of(columns)
            continue
        groups, columns = key_columns(layout.key_type, row_keys, form.namespaces, form.where)
        if layout.ttl is not None:
            columns.append((layout.ttl_field, pa.array(list(map(stamp_of, contents)), pa.int64())))
            contents = tuple(content[STAMP_BYTES:] for content in contents)
        columns.append((layout.value_type.arrow_field(VALUE), column(layout.value_type, contents, form.where)))
        yield groups, batch_of(columns)


def _living(form: Form, pairs: Iterable[Pair]) -> list[Pair]:
    last = form.expired_before_ms
    return [pair for pair in pairs if last is None or stamp_of(pair[1]) > last]


def _append(form: Form, batch: _Batch, entry: bytes, key: Key, namespace: Namespace, found: list[Pair]) -> None:
    batch.groups.append(group_of(entry))
    batch.keys.append(key)
    batch.spaces.append(namespace)
    batch.contents.append([content for _, content in found])
    if form.rows.layout.is_map:
        end = form.rows.parts(entry)[2]
        batch.map_keys.append([decode_key(row, end)[0] for row, _ in found])


def _columns(form: Form, batch: _Batch) -> Rows:
    layout, contents = form.rows.layout, batch.contents
    columns = [
        (layout.key_type.arrow_field(KEY), encode_column(layout.key_type, values_of(batch.keys), f"{form.where}, key"))
    ]
    spaces = batch.spaces
    if layout.value_type is None:
        columns.append(timestamp_column([timestamp for timestamp, _ in spaces]))
        spaces = [space for _, space in spaces]
    columns += namespace_columns(form.namespaces, spaces)
    if layout.ttl is not None:
        stamps = [[stamp_of(content) for content in parts] for parts in contents]
        is_single = not pa.types.is_list(layout.ttl_field.type)
        stored = [s[0] if s else None for s in stamps] if is_single else stamps
        columns.append((layout.ttl_field, pa.array(stored, layout.ttl_field.type)))
        contents = [[content[STAMP_BYTES:] for content in parts] for parts in contents]
    if layout.value_type is not None:
        columns.append((layout.value_type.arrow_field(VALUE), _values(form, batch, contents)))
    if form.has_deleted:
        deleted = pa.array([not parts for parts in contents], pa.bool_())
        columns.append((pa.field(DELETED, pa.bool_(), nullable=False), deleted))
    return np.array(batch.groups, np.int32), batch_of(columns)


def _values(form: Form, batch: _Batch, contents: list[list[bytes]]) -> pa.Array:
    layout = form.rows.layout
    assert layout.value_type is not None
    if layout.is_list:
        lists = [[decode(content) for content in parts] for parts in contents]
        return encode_column(layout.value_type, lists, form.where)
    if layout.is_map:
        maps = [
            dict(zip(keys, map(decode, parts), strict=True))
            for keys, parts in zip(batch.map_keys, contents, strict=True)
        ]
        return encode_column(layout.value_type, maps, form.where)
    if all(contents):
        return column(layout.value_type, [parts[0] for parts in contents], form.where)
    values = [decode(parts[0]) if parts else None for parts in contents]
    return encode_column(layout.value_type, values, form.where)
