"""Regular joins of two changelogs (Flink: ``StreamingJoinOperator.java``, ``StreamingSemiAntiJoinOperator.java``).

The rows of a side are entries of state, named as in Flink (``JoinRecordStateViews.java``, ``OuterJoinRecordStateViews.java``):

    no unique key                    the row, with how often it is there
    a unique key                     the values of the key
    a unique key within the join's   nothing: there is one row at a time

A name that is the row itself is not stored a second time in its value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from tidegate.functions.sql.changelog import DELETE, INSERT, adds, as_inserts, has_kinds, is_insert_only
from tidegate.functions.sql.rows import Change, Row
from tidegate.records.batch import ArrowBatch
from tidegate.taskmanager.operators.relational.matching import Matcher, OtherRows, Places
from tidegate.taskmanager.operators.relational.relational_operator import (
    KEEP,
    EntriesOfKey,
    EntriesOfKeys,
    KeyedChanges,
    Name,
    RelationalOperator,
    is_plain,
    name_of,
    names_of,
)

Held: TypeAlias = tuple[Row, int, int]
"""A stored row, the number of its occurrences, and the number of rows of the other side that join with it."""
Stored: TypeAlias = Held | tuple[int, int]
"""The value of an entry. Without a row: that is the entry's name."""
Found: TypeAlias = tuple[Name, Stored]
Sides: TypeAlias = tuple[EntriesOfKey, EntriesOfKey]
_ONCE: Final = [(1, matches) for matches in range(256)]
"""Values of rows that are there once, by their numbers of matches: one object for all rows with few of them."""


def held_of(found: Found) -> Held:
    """Returns the row of an entry, and what is counted of it."""
    name, stored = found
    return stored if len(stored) == 3 else (name, *stored)


class Join(RelationalOperator):
    """Joins two changelogs: emits pairs of rows and, for outer joins, rows without a partner. Keeps the rows of both sides in state, by join key.

    ``matcher``: finds rows that join. ``upsert_keys``: for each side, the columns that identify a row (a newer row replaces the older one); ``None``:
    there are none. ``widths``: the numbers of columns of the sides.
    """

    def __init__(
        self,
        name: str,
        keys: Sequence[Sequence[int]],
        schema: pa.Schema,
        *,
        join_type: str,
        matcher: Matcher,
        widths: tuple[int, int],
        upsert_keys: Sequence[Sequence[int] | None],
        ttl_ms: Sequence[int],
    ) -> None:
        super().__init__(name, keys, schema)
        self._sides_ttl = ttl_ms
        self._type = join_type
        self._is_outer = (join_type in ("LEFT", "FULL"), join_type in ("RIGHT", "FULL"))
        self._matcher = matcher
        self._widths = widths
        self._has_key = [found is not None for found in upsert_keys]
        self._names = [
            None if found is None else [position for position in found if position not in key]
            for found, key in zip(upsert_keys, keys, strict=True)
        ]
        """For each side: the columns whose values distinguish the rows of one join key; ``None``: all columns."""
        self._is_named_by_row = [
            positions is None and all(is_plain(field.type) for field in fields)
            for positions, fields in zip(self._names, matcher.fields, strict=True)
        ]
        self._joining: Iterator[list[Name]] = iter(())
        """For each row of a batch that is not processed yet: the names of the other side's rows that join with it."""

    def open_states(self) -> None:
        left, right = (
            self.entries_of_keys(name, self._sides_ttl[index], self._split(index))
            for index, name in enumerate(("left", "right"))
        )
        self._sides = (left, right)

    def read(self, group: int, key: Any, now_ms: int) -> Sides:
        left, right = self._sides
        return left.of(group, key, now_ms), right.of(group, key, now_ms)

    def work(self, batch: KeyedChanges, input_index: int) -> None:
        """Finds all pairs of a batch before its rows are processed. This is possible since rows change only their own side, and on the other side only the
        numbers of joining rows.
        """
        group_of, key_of = batch.by_key()
        read = self._sides[1 - input_index].reader(batch.now_ms)
        held = [read(group, key) for key, group in group_of.items()]
        found: list[Found] = [entry for of_key in held for entry in of_key.items()]
        rows = list(map(held_of, found))
        others = OtherRows([row for row, _, _ in rows], np.fromiter(map(len, held), np.intp, len(held)), key_of)
        if self._type == "INNER":
            self._inner(batch, input_index, group_of, others, [count for _, count, _ in rows])
            return
        matcher, mine, theirs = (
            self._matcher,
            self._own_columns(batch, input_index),
            self._other_columns(others, input_index),
        )
        joining: list[list[Name]] = [[] for _ in batch.keys]
        for own, at in matcher.pairs(mine, batch.values, others, theirs, input_index):
            for row, place in zip(own.tolist(), at.tolist(), strict=True):
                joining[row].append(found[place][0])
        self._joining = iter(joining)
        super().work(batch, input_index)

    def change(self, state: Sides, kind: int, row: Row, input_index: int, out: list[Change]) -> Any:
        side = state[1 - input_index]
        other = [(name, held_of((name, side.get(name)))) for name in next(self._joining)]
        if self._type in ("SEMI", "ANTI"):
            self._semi(state, kind, row, input_index, other, out)
        else:
            self._regular(state, kind, row, input_index, other, out)
        return KEEP

    def _split(self, index: int) -> Any:
        """Returns a function that converts the state of earlier versions into entries.

        That state is ``{row or its key: [row, how often it is there, number of joining rows of the other side, time of the last write in ms]}``.
        """

        def split(side: dict[Any, list[Any]]) -> Iterator[tuple[Name, Held, int]]:
            for row, count, matches, written_ms in side.values():
                yield self._name_of(row, index), (row, count, matches), written_ms

        return split

    def _inner(
        self, batch: KeyedChanges, index: int, group_of: Mapping[Any, int], others: OtherRows, times: Sequence[int]
    ) -> None:
        """Emits the pairs of an inner join as columns, and stores the rows on their own side. ``times``: how often each of the other rows is there."""
        mine, theirs = self._own_columns(batch, index), self._matcher.columns_of_rows(others.rows, 1 - index)
        counts = np.array(times, np.intp)
        matches = np.zeros(len(batch.keys), np.intp)
        values = batch.values if self._matcher.compares_values else ()
        for own, at in self._matcher.pairs(mine, values, others, theirs, index):
            often = counts[at]
            own, at = np.repeat(own, often), np.repeat(at, often)
            matches += np.bincount(own, minlength=len(matches))
            self._emit_pairs(batch.data, mine, theirs, own, at, index)
        side, names = self._sides[index], self._names_of(batch, index)
        joined = matches.tolist()
        if not self._stored_together(batch, side, group_of, names, joined, index):
            of_key = {key: side.of(group, key, batch.now_ms) for key, group in group_of.items()}
            for (kind, row), key, name, matched in zip(batch.changes, batch.keys, names, joined, strict=True):
                if adds(kind):
                    self._put(of_key[key], name, row, index, matched)
                else:
                    self._remove(of_key[key], name)
        self.clean(len(batch.keys), batch.now_ms)

    def _stored_together(
        self,
        batch: KeyedChanges,
        side: EntriesOfKeys,
        group_of: Mapping[Any, int],
        names: Sequence[Name],
        joined: Sequence[int],
        index: int,
    ) -> bool:
        """Stores the rows of a batch at once, if they are only added, do not expire, and none is there twice. Returns whether it did."""
        if side.expires or not is_insert_only(batch.data):
            return False
        entries = list(zip(batch.keys, names, strict=True))
        if side.has_undivided:
            for key, group in group_of.items():
                side.of(group, key, batch.now_ms)
        counts = [1] * len(entries)
        if not self._has_key[index]:
            if len(group_of) < len(entries) and len(set(entries)) < len(entries):
                return False
            counts = [1 if held is None else held[-2] + 1 for held in side.peek_all(entries, batch.groups)]
        values: list[Stored]
        if self._is_named_by_row[index]:
            values = [
                _ONCE[matched] if count == 1 and matched < len(_ONCE) else (count, matched)
                for count, matched in zip(counts, joined, strict=True)
            ]
        else:
            values = list(zip(batch.values, counts, joined, strict=True))
        side.write_all(entries, batch.groups, values)
        return True

    def _emit_pairs(
        self,
        data: pa.RecordBatch,
        mine: Sequence[pa.Array],
        theirs: Sequence[pa.Array],
        own: Places,
        at: Places,
        index: int,
    ) -> None:
        rows, others = pa.array(own), pa.array(at)
        parts = [column.take(rows) for column in mine], [column.take(others) for column in theirs]
        arrays = [*parts[index], *parts[1 - index]]
        if has_kinds(self._schema):
            arrays.append(as_inserts(data).columns[-1].take(rows))
        self.context.output.emit(ArrowBatch(pa.RecordBatch.from_arrays(arrays, schema=self._schema)))

    def _own_columns(self, batch: KeyedChanges, index: int) -> list[pa.Array]:
        return self._matcher.columns_of_batch(batch.data, index)

    def _other_columns(self, others: OtherRows, index: int) -> list[pa.Array]:
        """Returns the columns of rows of the other side if the condition needs them."""
        return self._matcher.columns_of_rows(others.rows, 1 - index) if self._matcher.has_condition else []

    def _names_of(self, batch: KeyedChanges, index: int) -> Sequence[Name]:
        """Returns the names of a batch's rows."""
        positions = self._names[index]
        if self._is_named_by_row[index]:
            return batch.values
        if positions is None:
            return names_of(batch.values, batch.data.columns[: self._widths[index]])
        if not positions:
            return [()] * len(batch.keys)
        rows = [tuple([row[position] for position in positions]) for row in batch.values]
        return names_of(rows, [batch.data.columns[position] for position in positions])

    def _name_of(self, row: Row, index: int) -> Name:
        positions = self._names[index]
        if positions is None:
            return row if self._is_named_by_row[index] else name_of(row)
        return name_of(tuple([row[position] for position in positions])) if positions else ()

    def _put(self, side: EntriesOfKey, name: Name, row: Row, index: int, matches: int) -> None:
        found = None if self._has_key[index] else side.get(name)
        side.put(name, self._stored(index, row, 1 if found is None else found[-2] + 1, matches))

    def _stored(self, index: int, row: Row, count: int, matches: int) -> Stored:
        return (count, matches) if self._is_named_by_row[index] else (row, count, matches)

    def _remove(self, side: EntriesOfKey, name: Name) -> None:
        found = side.get(name)
        if found is not None:
            *row, count, matches = found
            side.put(name, (*row, count - 1, matches) if count > 1 else None)

    def _pair(self, row: Row, other: Row, index: int) -> Row:
        return row + other if index == 0 else other + row

    def _padded(self, row: Row, index: int) -> Row:
        return self._pair(row, (None,) * self._widths[1 - index], index)

    def _pairs(self, kind: int, row: Row, index: int, other: Iterable[tuple[Name, Held]], out: list[Change]) -> None:
        for _, (old, count, _) in other:
            out.extend([(kind, self._pair(row, old, index))] * count)

    def _regular(
        self, sides: Sides, kind: int, row: Row, index: int, other: list[tuple[Name, Held]], out: list[Change]
    ) -> None:
        is_outer, other_is_outer = self._is_outer[index], self._is_outer[1 - index]
        if adds(kind):
            if is_outer and not other:
                out.append((INSERT, self._padded(row, index)))
            if other_is_outer:
                for found in other:
                    if found[1][2] == 0:
                        out.extend([(DELETE, self._padded(found[1][0], 1 - index))] * found[1][1])
                    self._count(sides[1 - index], 1 - index, found, 1)
            self._pairs(INSERT if is_outer or other_is_outer else kind, row, index, other, out)
            self._put(sides[index], self._name_of(row, index), row, index, sum(held[1] for _, held in other))
            return
        self._remove(sides[index], self._name_of(row, index))
        if is_outer and not other:
            out.append((DELETE, self._padded(row, index)))
        self._pairs(DELETE if is_outer else kind, row, index, other, out)
        if other_is_outer:
            for found in other:
                if found[1][2] == 1:
                    out.extend([(INSERT, self._padded(found[1][0], 1 - index))] * found[1][1])
                self._count(sides[1 - index], 1 - index, found, -1)

    def _semi(
        self, sides: Sides, kind: int, row: Row, index: int, other: list[tuple[Name, Held]], out: list[Change]
    ) -> None:
        is_anti = self._type == "ANTI"
        if index == 0:
            if bool(other) != is_anti:
                out.append((kind, row))
            if adds(kind):
                self._put(sides[0], self._name_of(row, 0), row, 0, sum(held[1] for _, held in other))
            else:
                self._remove(sides[0], self._name_of(row, 0))
            return
        if adds(kind):
            self._put(sides[1], self._name_of(row, 1), row, 1, 0)
        else:
            self._remove(sides[1], self._name_of(row, 1))
        for found in other:
            if found[1][2] == (0 if adds(kind) else 1):
                shown = (DELETE if adds(kind) else INSERT) if is_anti else kind
                out.extend([(shown, found[1][0])] * found[1][1])
            self._count(sides[0], 0, found, 1 if adds(kind) else -1)

    def _count(self, side: EntriesOfKey, index: int, found: tuple[Name, Held], change: int) -> None:
        name, (row, count, matches) = found
        side.put(name, self._stored(index, row, count, matches + change))
