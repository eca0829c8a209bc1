"""Joins of two changelogs (Flink: ``StreamingJoinOperator.java``, ``StreamingSemiAntiJoinOperator.java``)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from tidegate.functions.sql.changelog import DELETE, INSERT, adds
from tidegate.functions.sql.rows import Change, Row
from tidegate.taskmanager.operators.relational.base import RelationalOperator
from tidegate.taskmanager.operators.relational.matching import Matcher

Found: TypeAlias = list[Any]
"""A row in state: ``[row, how often it is there, how many rows of the other side it has, time of the last write in ms]``."""
Side: TypeAlias = dict[Any, Found]
"""By the row itself, or by its upsert key."""


class Join(RelationalOperator):
    """State: for each side the rows of a key.

    ``matcher`` finds rows that join. ``upsert_keys``: by side, the key of which there is one row at a time. ``widths``: numbers of columns.
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
        self._upsert_keys = upsert_keys
        self._now_ms = 0

    def open(self) -> None:
        self._sides = [
            self.state_of_key(name, ttl) for name, ttl in zip(("left", "right"), self._sides_ttl, strict=True)
        ]
        super(RelationalOperator, self).open()

    def read(self, group: int, key: Any, now_ms: int) -> list[Side]:
        self._now_ms = now_ms
        return [
            self._living(state.read(group, key, now_ms) or {}, ttl)
            for state, ttl in zip(self._sides, self._sides_ttl, strict=True)
        ]

    def write(self, group: int, key: Any, state: list[Side], now_ms: int) -> None:
        for side, table, ttl in zip(state, self._sides, self._sides_ttl, strict=True):
            stamp = max([found[3] for found in side.values()], default=0) if ttl else 0
            table.write(group, key, side or None, stamp)

    def clean(self, rows: int, now_ms: int) -> None:
        for table in self._sides:
            table.clean(rows, now_ms)

    def change(self, state: list[Side], kind: int, row: Row, input_index: int, out: list[Change]) -> list[Side]:
        other = self._matching(state[1 - input_index], row, input_index)
        if self._type in ("SEMI", "ANTI"):
            self._semi(state, kind, row, input_index, other, out)
        else:
            self._regular(state, kind, row, input_index, other, out)
        return state

    def _living(self, side: Side, ttl_ms: int) -> Side:
        if not ttl_ms:
            return side
        last = self._now_ms - ttl_ms
        return {key: found for key, found in side.items() if found[3] > last}

    def _matching(self, side: Side, row: Row, index: int) -> list[Found]:
        """The rows of the other side that join with a row."""
        found = list(side.values())
        return [found[at] for at in self._matcher.positions(row, [old[0] for old in found], index)]

    def _identity(self, row: Row, index: int) -> Any:
        keys = self._upsert_keys[index]
        return row if keys is None else tuple([row[position] for position in keys])

    def _put(self, side: Side, row: Row, index: int, matches: int) -> None:
        identity = self._identity(row, index)
        found = side.get(identity)
        if found is None or self._upsert_keys[index] is not None:
            side[identity] = [row, 1, matches, self._now_ms]
        else:
            found[1] += 1
            found[2:] = [matches, self._now_ms]

    def _remove(self, side: Side, row: Row, index: int) -> None:
        identity = self._identity(row, index)
        found = side.get(identity)
        if found is not None:
            found[1] -= 1
            found[3] = self._now_ms
            if found[1] <= 0:
                del side[identity]

    def _pair(self, row: Row, other: Row, index: int) -> Row:
        return row + other if index == 0 else other + row

    def _padded(self, row: Row, index: int) -> Row:
        return self._pair(row, (None,) * self._widths[1 - index], index)

    def _pairs(self, kind: int, row: Row, index: int, other: Iterable[Found], out: list[Change]) -> None:
        for old in other:
            out.extend([(kind, self._pair(row, old[0], index))] * old[1])

    def _regular(
        self, sides: list[Side], kind: int, row: Row, index: int, other: list[Found], out: list[Change]
    ) -> None:
        is_outer, other_is_outer = self._is_outer[index], self._is_outer[1 - index]
        if adds(kind):
            if is_outer and not other:
                out.append((INSERT, self._padded(row, index)))
            if other_is_outer:
                for old in other:
                    if old[2] == 0:
                        out.extend([(DELETE, self._padded(old[0], 1 - index))] * old[1])
                    self._count(old, 1)
            self._pairs(INSERT if is_outer or other_is_outer else kind, row, index, other, out)
            self._put(sides[index], row, index, sum(old[1] for old in other))
            return
        self._remove(sides[index], row, index)
        if is_outer and not other:
            out.append((DELETE, self._padded(row, index)))
        self._pairs(DELETE if is_outer else kind, row, index, other, out)
        if other_is_outer:
            for old in other:
                if old[2] == 1:
                    out.extend([(INSERT, self._padded(old[0], 1 - index))] * old[1])
                self._count(old, -1)

    def _semi(self, sides: list[Side], kind: int, row: Row, index: int, other: list[Found], out: list[Change]) -> None:
        is_anti = self._type == "ANTI"
        if index == 0:
            if bool(other) != is_anti:
                out.append((kind, row))
            if adds(kind):
                self._put(sides[0], row, 0, sum(old[1] for old in other))
            else:
                self._remove(sides[0], row, 0)
            return
        if adds(kind):
            self._put(sides[1], row, 1, 0)
        else:
            self._remove(sides[1], row, 1)
        for old in other:
            if old[2] == (0 if adds(kind) else 1):
                shown = (DELETE if adds(kind) else INSERT) if is_anti else kind
                out.extend([(shown, old[0])] * old[1])
            self._count(old, 1 if adds(kind) else -1)

    def _count(self, found: Found, change: int) -> None:
        found[2] += change
        found[3] = self._now_ms
