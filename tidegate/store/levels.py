"""Merges the levels of keyed state into one table: each entry has the row of its highest level, and is absent when that one removes it.

    level 0 ─┐  rows that were replaced above go, rows that are ``deleted`` go with all below
    level 1 ─┼▶ one table, sorted by key group, without the column ``deleted``
    ...     ─┘

An entry is known by its key, window or namespace, and time. Columns are compared by Arrow; only what it cannot encode
(lists and maps in keys) is compared in Python.

Windows over columns are partial aggregates, and their levels are added to those below: the metadata of a file says how a column is combined
(``combine``), and up to which time windows are gone from the levels below it (``fired_ms``). Of sessions (``sessions``)
a level has all rows of each key that it names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.model.checkpoint import SegmentHandle
from tidegate.model.keygroups import KeyGroupRange
from tidegate.model.values import JsonObject
from tidegate.wire.state_columns import DELETED, KEY_GROUP, WINDOW_END, WINDOW_START

Codes = npt.NDArray[np.int64]


def stacks(segments: Iterable[SegmentHandle]) -> Iterator[list[SegmentHandle]]:
    """Groups the segments of one state by key groups, so that no two groups overlap; within a group, the lowest level is first."""
    part: list[SegmentHandle] = []
    end = -1
    for segment in sorted(segments, key=lambda s: s.key_groups):
        if part and segment.key_groups.start > end:
            yield sorted(part, key=lambda s: (s.level, s.key_groups))
            part = []
        part.append(segment)
        end = max(end, segment.key_groups.end)
    if part:
        yield sorted(part, key=lambda s: (s.level, s.key_groups))


def as_one(
    tables: Sequence[pa.Table], key_groups: Sequence[KeyGroupRange], is_identity: Callable[[str], bool]
) -> pa.Table:
    """Merges the tables of one keyed state of any kind. ``tables``: by level, as for ``merged``. ``key_groups[i]``: those of ``tables[i]``."""
    described = _described(tables[-1].schema)
    if described.get("sessions"):
        return _newest_of_keys(tables, is_identity)
    combine = described.get("combine")
    if isinstance(combine, dict):
        return _combined(tables, key_groups, is_identity, combine)
    return merged(tables, is_identity)


def merged(tables: Sequence[pa.Table], is_identity: Callable[[str], bool]) -> pa.Table:
    """Merges tables so that rows replace those of the same entry in lower levels. ``tables``: by level, the lowest first; those of one level share no
    key group. ``is_identity``: whether a column is part of an entry's identity."""
    whole = pa.concat_tables(tables, promote_options="default").combine_chunks()
    names = [name for name in whole.schema.names if is_identity(name) and name != KEY_GROUP]
    codes = np.zeros(whole.num_rows, np.int64)
    for name in names:
        codes = _paired(codes, _codes(_array(whole.column(name))))
    order = np.argsort(codes, kind="stable")
    sorted_codes = codes[order]
    is_last = np.append(sorted_codes[1:] != sorted_codes[:-1], np.ones(min(1, len(codes)), np.bool_))
    kept = order[is_last]
    if DELETED in whole.schema.names:
        gone = whole.column(DELETED).fill_null(False).to_numpy()
        kept = kept[~gone[kept].astype(np.bool_)]
        whole = whole.drop_columns([DELETED])
    groups = whole.column(KEY_GROUP).to_numpy()
    kept = kept[np.lexsort((kept, groups[kept]))]
    return whole.take(pa.array(kept))


def _newest_of_keys(tables: Sequence[pa.Table], is_identity: Callable[[str], bool]) -> pa.Table:
    """Merges tables so that each key keeps only the rows of the highest level that has the key."""
    whole = pa.concat_tables(tables, promote_options="default").combine_chunks()
    levels = np.repeat(np.arange(len(tables)), [table.num_rows for table in tables])
    codes = np.zeros(whole.num_rows, np.int64)
    for name in whole.schema.names:
        if is_identity(name) and name not in (KEY_GROUP, WINDOW_START, WINDOW_END):
            codes = _paired(codes, _codes(_array(whole.column(name))))
    highest = np.zeros(int(codes.max(initial=0)) + 1, np.int64)
    np.maximum.at(highest, codes, levels)
    kept = levels == highest[codes]
    if DELETED in whole.schema.names:
        kept &= ~whole.column(DELETED).fill_null(False).to_numpy().astype(np.bool_)
        whole = whole.drop_columns([DELETED])
    whole = whole.filter(pa.array(kept))
    return whole.take(pa.array(np.argsort(whole.column(KEY_GROUP).to_numpy(), kind="stable")))


def _combined(
    tables: Sequence[pa.Table],
    key_groups: Sequence[KeyGroupRange],
    is_identity: Callable[[str], bool],
    combine: Mapping[str, str],
) -> pa.Table:
    """Aggregates the rows of all levels; each level states which windows of the lower levels are obsolete."""
    fired: npt.NDArray[np.int64] = np.full(max(groups.end for groups in key_groups) + 1, np.iinfo(np.int64).min)
    left = []
    for table, groups in zip(tables[::-1], key_groups[::-1], strict=True):
        ends = table.column(WINDOW_END).to_numpy()
        left.append(table.filter(pa.array(ends > fired[table.column(KEY_GROUP).to_numpy()])))
        here = fired[groups.start : groups.end + 1]
        np.maximum(here, _described(table.schema).get("fired_ms", fired.min()), out=here)
    whole = pa.concat_tables(left, promote_options="default")
    names = [name for name in whole.schema.names if is_identity(name)]
    values = [name for name in whole.schema.names if name not in names]
    sums = whole.group_by(names, use_threads=False).aggregate([(name, combine.get(name, "sum")) for name in values])
    columns = [sums.column(n) for n in names] + [sums.column(f"{n}_{combine.get(n, 'sum')}") for n in values]
    fields = [whole.schema.field(name) for name in [*names, *values]]
    table = pa.table(columns, names=[*names, *values]).cast(pa.schema(fields)).select(whole.schema.names)
    order = np.argsort(table.column(KEY_GROUP).to_numpy(), kind="stable")
    return table.replace_schema_metadata(tables[0].schema.metadata).take(pa.array(order))


def _described(schema: pa.Schema) -> JsonObject:
    found: JsonObject = json.loads((schema.metadata or {}).get(b"tidegate", b"{}"))
    return found


def _array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])


def _codes(column: pa.Array) -> Codes:
    """Returns integer codes that are equal where the values are equal."""
    if pa.types.is_struct(column.type):
        found = np.asarray(column.is_null()).astype(np.int64)
        for child in column.flatten():
            found = _paired(found, _codes(child))
        return found
    try:
        encoded = column.dictionary_encode(null_encoding="encode")
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        numbers: dict[str, int] = {}
        texts = map(repr, column.to_pylist())
        return np.array([numbers.setdefault(text, len(numbers)) for text in texts], np.int64)
    places: Codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return places


def _paired(left: Codes, right: Codes) -> Codes:
    """Combines two columns of codes into codes of their pairs, renumbered from 0."""
    if not len(left) or not left.any():
        return right
    codes: Codes = np.unique(left * (int(right.max()) + 1) + right, return_inverse=True)[1].astype(np.int64)
    return codes
