"""Regular joins of two changelogs (Flink: ``StreamingJoinOperator.java``, ``StreamingSemiAntiJoinOperator.java``).

The rows of a side are entries of state, named as in Flink (``JoinRecordStateViews.java``, ``OuterJoinRecordStateViews.java``):

    no unique key                    the row, with how often it is there
    a unique key                     the values of the key
    a unique key within the join's   nothing: there is one row at a time
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from tidegate.functions.sql.changelog import DELETE, INSERT, adds, as_inserts, has_kinds
from tidegate.functions.sql.rows import Change, Row
from tidegate.records.batch import ArrowBatch
from tidegate.taskmanager.operators.relational.matching import Matcher, OtherRows, Places
from tidegate.taskmanager.operators.relational.relational_operator import (
    KEEP,
    EntriesOfKey,
    KeyedChanges,
    Name,
    RelationalOperator,
    name_of,
    names_of,
)

Held: TypeAlias = tuple[Row, int, int]
"""A stored row, the number of its occurrences, and the number of rows of the other side that join with it."""
Found: TypeAlias = tuple[Name, Held]
Sides: TypeAlias = tuple[EntriesOfKey, EntriesOfKey]


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
        states = [self.read(group, key, batch.now_ms) for key, group in group_of.items()]
        found: list[Found] = []
        sizes: list[int] = []
        for state in states:
            held = state[1 - input_index].all()
            found += held.items()
            sizes.append(len(held))
        others = OtherRows([held[0] for _, held in found], np.array(sizes, np.intp), key_of)
        if self._type == "INNER":
            self._inner(batch, input_index, [state[input_index] for state in states], others, found)
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
        other = [(name, side.get(name)) for name in next(self._joining)]
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
        self,
        batch: KeyedChanges,
        index: int,
        sides: Sequence[EntriesOfKey],
        others: OtherRows,
        found: Sequence[Found],
    ) -> None:
        """Emits the pairs of an inner join as columns, and stores the rows on their own side. ``sides``: that side's entries for each key of the batch."""
        mine, theirs = self._own_columns(batch, index), self._matcher.columns_of_rows(others.rows, 1 - index)
        counts = np.array([held[1] for _, held in found], np.intp)
        matches = np.zeros(len(batch.keys), np.intp)
        for own, at in self._matcher.pairs(mine, batch.values, others, theirs, index):
            times = counts[at]
            own, at = np.repeat(own, times), np.repeat(at, times)
            matches += np.bincount(own, minlength=len(matches))
            self._emit_pairs(batch.data, mine, theirs, own, at, index)
        has_key = self._has_key[index]
        changes = zip(
            batch.changes, self._names_of(batch, index), others.key_of.tolist(), matches.tolist(), strict=True
        )
        for (kind, row), name, key, joined in changes:
            side = sides[key]
            if not adds(kind):
                self._remove(side, name)
                continue
            before = None if has_key else side.get(name)
            side.put(name, (row, 1 if before is None else before[1] + 1, joined))
        self.clean(len(batch.keys), batch.now_ms)

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
        if positions is None:
            return names_of(batch.values, batch.data.columns[: self._widths[index]])
        if not positions:
            return [()] * len(batch.keys)
        rows = [tuple([row[position] for position in positions]) for row in batch.values]
        return names_of(rows, [batch.data.columns[position] for position in positions])

    def _name_of(self, row: Row, index: int) -> Name:
        positions = self._names[index]
        if positions is None:
            return name_of(row)
        return name_of(tuple([row[position] for position in positions])) if positions else ()

    def _put(self, side: EntriesOfKey, row: Row, index: int, matches: int) -> None:
        name = self._name_of(row, index)
        found = None if self._has_key[index] else side.get(name)
        side.put(name, (row, 1 if found is None else found[1] + 1, matches))

    def _remove(self, side: EntriesOfKey, name: Name) -> None:
        found = side.get(name)
        if found is not None:
            held, count, matches = found
            side.put(name, (held, count - 1, matches) if count > 1 else None)

    def _pair(self, row: Row, other: Row, index: int) -> Row:
        return row + other if index == 0 else other + row

    def _padded(self, row: Row, index: int) -> Row:
        return self._pair(row, (None,) * self._widths[1 - index], index)

    def _pairs(self, kind: int, row: Row, index: int, other: Iterable[Found], out: list[Change]) -> None:
        for _, (old, count, _) in other:
            out.extend([(kind, self._pair(row, old, index))] * count)

    def _regular(self, sides: Sides, kind: int, row: Row, index: int, other: list[Found], out: list[Change]) -> None:
        is_outer, other_is_outer = self._is_outer[index], self._is_outer[1 - index]
        if adds(kind):
            if is_outer and not other:
                out.append((INSERT, self._padded(row, index)))
            if other_is_outer:
                for found in other:
                    if found[1][2] == 0:
                        out.extend([(DELETE, self._padded(found[1][0], 1 - index))] * found[1][1])
                    self._count(sides[1 - index], found, 1)
            self._pairs(INSERT if is_outer or other_is_outer else kind, row, index, other, out)
            self._put(sides[index], row, index, sum(held[1] for _, held in other))
            return
        self._remove(sides[index], self._name_of(row, index))
        if is_outer and not other:
            out.append((DELETE, self._padded(row, index)))
        self._pairs(DELETE if is_outer else kind, row, index, other, out)
        if other_is_outer:
            for found in other:
                if found[1][2] == 1:
                    out.extend([(INSERT, self._padded(found[1][0], 1 - index))] * found[1][1])
                self._count(sides[1 - index], found, -1)

    def _semi(self, sides: Sides, kind: int, row: Row, index: int, other: list[Found], out: list[Change]) -> None:
        is_anti = self._type == "ANTI"
        if index == 0:
            if bool(other) != is_anti:
                out.append((kind, row))
            if adds(kind):
                self._put(sides[0], row, 0, sum(held[1] for _, held in other))
            else:
                self._remove(sides[0], self._name_of(row, 0))
            return
        if adds(kind):
            self._put(sides[1], row, 1, 0)
        else:
            self._remove(sides[1], self._name_of(row, 1))
        for found in other:
            if found[1][2] == (0 if adds(kind) else 1):
                shown = (DELETE if adds(kind) else INSERT) if is_anti else kind
                out.extend([(shown, found[1][0])] * found[1][1])
            self._count(sides[0], found, 1 if adds(kind) else -1)

    def _count(self, side: EntriesOfKey, found: Found, change: int) -> None:
        name, (row, count, matches) = found
        side.put(name, (row, count, matches + change))
