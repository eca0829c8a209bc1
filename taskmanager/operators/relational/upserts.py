"""Operators on changelogs with a unique key: they add the previous rows of updates, and order the rows of several upsert keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from tidegate.functions.sql.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, adds
from tidegate.functions.sql.rows import Change, Row, batch_of
from tidegate.functions.sql.scalar import CompiledFilter
from tidegate.taskmanager.operators.relational.relational_operator import (
    KEEP,
    EntriesOfKey,
    EntriesOperator,
    Name,
    RelationalOperator,
    differs,
    name_of,
)

_AT, _OF = "at", "of"


class ChangelogNormalize(RelationalOperator):
    """Emits the changes of a key with the previous row, which it stores. Its input lacks the previous rows, and may repeat rows. ``condition``: rows that do
    not satisfy it are treated as absent (Flink: ``ProcTimeDeduplicateFilter``).
    """

    def __init__(
        self,
        name: str,
        keys: Sequence[int],
        schema: pa.Schema,
        *,
        condition: CompiledFilter | None,
        rows: pa.Schema,
        generates_update_before: bool,
        ttl_ms: int,
    ) -> None:
        super().__init__(name, [keys], schema, ttl_ms)
        self._condition = condition
        self._rows = rows
        self._generates_update_before = generates_update_before

    def change(self, state: Any, kind: int, row: Row, input_index: int, out: list[Change]) -> Any:
        if adds(kind) and not self._holds(row):
            kind = DELETE
        if adds(kind):
            if state is None:
                out.append((INSERT, row))
            elif self._ttl_ms or differs(state, row):
                if self._generates_update_before:
                    out.append((UPDATE_BEFORE, state))
                out.append((UPDATE_AFTER, row))
            return row
        if kind == DELETE and state is not None:
            out.append((DELETE, state))
            return None
        return KEEP

    def _holds(self, row: Row) -> bool:
        if self._condition is None:
            return True
        return bool(self._condition.evaluate(batch_of([(INSERT, row)], self._rows))[0].as_py())


class UpsertMaterialize(EntriesOperator):
    """Stores the rows of a key in the order of arrival, and emits the newest one as the table's (Flink: ``SinkUpsertMaterializer.java``).

    ``upsert_key``: the key of the query, for which there is one row at a time.

    State, as Flink's ``LinkedMultiSetState.java``: by ``()`` the numbers of the newest row and of the next one; by ``("at", number)`` ``(row, number of the row
    before it, number of the row after it)``; by ``("of", row or its upsert key)`` the numbers of those rows. Expired entries are absent.
    """

    def __init__(
        self, name: str, keys: Sequence[int], schema: pa.Schema, *, upsert_key: Sequence[int], ttl_ms: int
    ) -> None:
        super().__init__(name, [keys], schema, ttl_ms)
        self._upsert_key = upsert_key

    def change(self, state: EntriesOfKey, kind: int, row: Row, input_index: int, out: list[Change]) -> Any:
        name = self._name_of(row)
        newest, following = state.get(()) or (None, 0)
        if newest is not None and state.get((_AT, newest)) is None:
            newest = None
        numbers = state.get(name) or ()
        if adds(kind):
            out.append((INSERT if newest is None else UPDATE_AFTER, row))
            if self._upsert_key and numbers:
                _, before, next_number = state.get((_AT, numbers[0])) or (row, None, None)
                state.put((_AT, numbers[0]), (row, before, next_number))
            else:
                self._add(state, name, row, numbers, newest, following)
            return KEEP
        if not numbers:
            return KEEP
        number, *others = numbers
        _, before, next_number = state.get((_AT, number)) or (row, None, None)
        previous = None if before is None else state.get((_AT, before))
        state.put((_AT, number), None)
        state.put(name, tuple(others) or None)
        if previous is not None:
            state.put((_AT, before), (previous[0], previous[1], next_number))
        if next_number is not None:
            if (found := state.get((_AT, next_number))) is not None:
                state.put((_AT, next_number), (found[0], before, found[2]))
        elif previous is None:
            out.append((DELETE, row))
            state.put((), None)
        else:
            out.append((UPDATE_AFTER, previous[0]))
            state.put((), (before, following))
        return KEEP

    def split(self, whole: Sequence[Row]) -> Iterator[tuple[Name, Any, int | None]]:
        """Divides the state of earlier versions, the rows in their order, into entries."""
        last = len(whole) - 1
        numbers: dict[Name, tuple[int, ...]] = {}
        for at, row in enumerate(whole):
            yield (_AT, at), (row, at - 1 if at else None, at + 1 if at < last else None), None
            name = self._name_of(row)
            numbers[name] = (*numbers.get(name, ()), at)
        for name, found in numbers.items():
            yield name, found, None
        yield (), (last, last + 1), None

    def _add(
        self, state: EntriesOfKey, name: Name, row: Row, numbers: tuple[int, ...], newest: int | None, number: int
    ) -> None:
        """Appends a row after the newest one."""
        if newest is not None:
            before, earlier, _ = state.get((_AT, newest))
            state.put((_AT, newest), (before, earlier, number))
        state.put((_AT, number), (row, newest, None))
        state.put(name, (*numbers, number))
        state.put((), (number, number + 1))

    def _name_of(self, row: Row) -> Name:
        key = self._upsert_key
        return (_OF, name_of(tuple([row[position] for position in key]) if key else row))
