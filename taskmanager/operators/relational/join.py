"""Regular joins of two changelogs (Flink: ``StreamingJoinOperator.java``, ``StreamingSemiAntiJoinOperator.java``).

The rows of a side are entries of state, named as in Flink (``JoinRecordStateViews.java``, ``OuterJoinRecordStateViews.java``):

    no unique key                    the row, with how often it is there
    a unique key                     the values of the key
    a unique key within the join's   nothing: there is one row at a time
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from tidegate.functions.sql.changelog import DELETE, INSERT, adds
from tidegate.functions.sql.rows import Change, Row
from tidegate.taskmanager.operators.relational.base import KEEP, EntriesOfKey, Name, RelationalOperator, name_of
from tidegate.taskmanager.operators.relational.matching import Matcher

Held: TypeAlias = tuple[Row, int, int]
"""A row in state, how often it is there, and the number of rows of the other side that join with it."""
Found: TypeAlias = tuple[Name, Held]
Sides: TypeAlias = tuple[EntriesOfKey, EntriesOfKey]


class Join(RelationalOperator):
    """Joins two changelogs: emits pairs of rows and, for outer joins, rows without a partner. Keeps the rows of both sides by key.

    ``matcher``: finds rows that join. ``upsert_keys``: for each side, the key of which there is one row at a time. ``widths``: numbers of columns.
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
        """For each side: the positions whose values distinguish rows of one join key; ``None``: all of them."""

    def open_states(self) -> None:
        left, right = (
            self.entries_of_keys(name, self._sides_ttl[index], self._split(index))
            for index, name in enumerate(("left", "right"))
        )
        self._sides = (left, right)

    def read(self, group: int, key: Any, now_ms: int) -> Sides:
        left, right = self._sides
        return left.of(group, key, now_ms), right.of(group, key, now_ms)

    def change(self, state: Sides, kind: int, row: Row, input_index: int, out: list[Change]) -> Any:
        other = self._matching(state[1 - input_index], row, input_index)
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

    def _matching(self, side: EntriesOfKey, row: Row, index: int) -> list[Found]:
        """Returns the rows of the other side that join with a row."""
        found = list(side.all().items())
        return [found[at] for at in self._matcher.positions(row, [held[0] for _, held in found], index)]

    def _name_of(self, row: Row, index: int) -> Name:
        positions = self._names[index]
        if positions is None:
            return name_of(row)
        return name_of(tuple([row[position] for position in positions])) if positions else ()

    def _put(self, side: EntriesOfKey, row: Row, index: int, matches: int) -> None:
        name = self._name_of(row, index)
        found = None if self._has_key[index] else side.get(name)
        side.put(name, (row, 1 if found is None else found[1] + 1, matches))

    def _remove(self, side: EntriesOfKey, row: Row, index: int) -> None:
        name = self._name_of(row, index)
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
        self._remove(sides[index], row, index)
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
                self._remove(sides[0], row, 0)
            return
        if adds(kind):
            self._put(sides[1], row, 1, 0)
        else:
            self._remove(sides[1], row, 1)
        for found in other:
            if found[1][2] == (0 if adds(kind) else 1):
                shown = (DELETE if adds(kind) else INSERT) if is_anti else kind
                out.extend([(shown, found[1][0])] * found[1][1])
            self._count(sides[0], found, 1 if adds(kind) else -1)

    def _count(self, side: EntriesOfKey, found: Found, change: int) -> None:
        name, (row, count, matches) = found
        side.put(name, (row, count, matches + change))
