"""Operators with state by key, one row at a time: group aggregate, join, deduplicate, top-N, changelog normalise, upsert materialise.

The state of a key is one value, which is read once and written once for a batch; docs/state-format.md has the layout of each.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from functools import cmp_to_key
from typing import Any

import pyarrow as pa

from tidegate.columnar.keys.hashing import hash_columns, key_groups
from tidegate.common.typeinfo import Types
from tidegate.functions.sql.aggregates import CompiledAggregates
from tidegate.functions.sql.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, adds
from tidegate.functions.sql.rows import Change, Row, batch_of, changes_of
from tidegate.functions.sql.scalar import CompiledFilter
from tidegate.model.program import KeySpec
from tidegate.plan.specs import SortField
from tidegate.records.batch import ArrowBatch, Batch
from tidegate.records.canonical.forms import canonical_keys
from tidegate.taskmanager.keyed_state.ttl import Ttl
from tidegate.taskmanager.operators.rows.keyed import KeyedOperator

STATE_NAME = "relational"


class RelationalOperator(KeyedOperator):
    """``keys``: for each input the positions of its key; none: all rows have one key."""

    works_on = "arrow"

    def __init__(self, name: str, keys: Sequence[Sequence[int]], schema: pa.Schema, ttl_ms: int = 0) -> None:
        super().__init__(name, [KeySpec() for _ in keys])
        self._positions = keys
        self._schema = schema
        self._ttl_ms = ttl_ms
        self._expires_as_one = True

    def open(self) -> None:
        ttl = Ttl(self._ttl_ms) if self._ttl_ms and self._expires_as_one else None
        self._table = self._backend.table(STATE_NAME, "value", Types.PICKLED_BYTE_ARRAY(), ttl)
        super().open()

    def process(self, batch: Batch, input_index: int) -> None:
        assert isinstance(batch, ArrowBatch)
        data = batch.data
        if not data.num_rows:
            return
        self._backend.merge_some()
        changes = changes_of(data)
        positions = self._positions[input_index]
        keys, groups = self._places(data, changes, positions)
        states: dict[Any, Any] = {}
        of_key: dict[Any, int] = {}
        out: list[Change] = []
        for (kind, row), key, group in zip(changes, keys, groups, strict=True):
            if key not in states:
                of_key[key] = group
                states[key] = self._table.read(group, (key, None))
            states[key] = self.change(states[key], kind, row, input_index, out)
        for key, state in states.items():
            self._backend.set_current(key, of_key[key])
            if state is None:
                self._table.delete(of_key[key], (key, None))
            else:
                self._table.write(of_key[key], (key, None), state)
        if out:
            self.context.output.emit(ArrowBatch(batch_of(out, self._schema)))

    @abstractmethod
    def change(self, state: Any, kind: int, row: Row, input_index: int, out: list[Change]) -> Any:
        """Takes one row into the state of its key, ``None`` where there is none, and returns the new state. What is emitted is
        added to ``out``."""

    def _places(
        self, data: pa.RecordBatch, changes: Sequence[Change], positions: Sequence[int]
    ) -> tuple[list[Any], list[int]]:
        if not positions:
            return [()] * len(changes), [self._backend.owned.start] * len(changes)
        keys = canonical_keys([tuple([row[position] for position in positions]) for _, row in changes])
        groups = key_groups(hash_columns([data.column(position) for position in positions]), self.context.max_parallelism)
        self._check(keys, groups)
        return keys, groups.tolist()


class GroupAggregate(RelationalOperator):
    """State: the accumulator of a key (``CompiledAggregates``)."""

    def __init__(
        self,
        name: str,
        grouping: Sequence[int],
        aggregates: CompiledAggregates,
        schema: pa.Schema,
        *,
        generates_update_before: bool,
        retracts: bool,
        ttl_ms: int,
    ) -> None:
        super().__init__(name, [grouping], schema, ttl_ms)
        self._grouping = grouping
        self._aggregates = aggregates
        self._generates_update_before = generates_update_before
        self._retracts = retracts

    def change(self, state: Any, kind: int, row: Row, input_index: int, out: list[Change]) -> Any:
        added, aggregates = adds(kind), self._aggregates
        is_first = state is None
        if is_first:
            if not added:
                return None
            state = aggregates.create()
        key = tuple([row[position] for position in self._grouping])
        before = None if is_first else aggregates.values(state)
        aggregates.change(state, row, added)
        if self._retracts and state[0] == 0:
            if before is not None:
                out.append((DELETE, key + before))
            return None
        now = aggregates.values(state)
        if before is None:
            out.append((INSERT, key + now))
        elif self._ttl_ms or before != now:
            if self._generates_update_before:
                out.append((UPDATE_BEFORE, key + before))
            out.append((UPDATE_AFTER, key + now))
        return state


class Deduplicate(RelationalOperator):
    """State: the row that is kept. ``time``: the field that tells which one, or ``None``: the order in which they come."""

    def __init__(
        self,
        name: str,
        keys: Sequence[int],
        schema: pa.Schema,
        *,
        time: int | None,
        keeps_last: bool,
        generates_update_before: bool,
        ttl_ms: int,
    ) -> None:
        super().__init__(name, [keys], schema, ttl_ms)
        self._time = time
        self._keeps_last = keeps_last
        self._generates_update_before = generates_update_before

    def change(self, state: Any, kind: int, row: Row, input_index: int, out: list[Change]) -> Any:
        if state is None:
            out.append((INSERT, row))
            return row
        if self._time is None:
            replaces = self._keeps_last and (self._ttl_ms > 0 or state != row)
        else:
            replaces = row[self._time] >= state[self._time] if self._keeps_last else row[self._time] < state[self._time]
        if not replaces:
            return state
        if self._generates_update_before:
            out.append((UPDATE_BEFORE, state))
        out.append((UPDATE_AFTER, row))
        return row


class ChangelogNormalize(RelationalOperator):
    """State: the row of a key. What comes has no earlier rows, or says the same again."""

    def __init__(
        self, name: str, keys: Sequence[int], schema: pa.Schema, *, generates_update_before: bool, ttl_ms: int
    ) -> None:
        super().__init__(name, [keys], schema, ttl_ms)
        self._generates_update_before = generates_update_before

    def change(self, state: Any, kind: int, row: Row, input_index: int, out: list[Change]) -> Any:
        if adds(kind):
            if state is None:
                out.append((INSERT, row))
            elif self._ttl_ms or state != row:
                if self._generates_update_before:
                    out.append((UPDATE_BEFORE, state))
                out.append((UPDATE_AFTER, row))
            return row
        if kind == DELETE and state is not None:
            out.append((DELETE, state))
            return None
        return state


class UpsertMaterialize(RelationalOperator):
    """State: the rows of a key in the order in which they came. The newest is what the table has."""

    def change(self, state: Any, kind: int, row: Row, input_index: int, out: list[Change]) -> Any:
        rows: list[Row] = state or []
        if adds(kind):
            out.append((UPDATE_AFTER if rows else INSERT, row))
            rows.append(row)
            return rows
        if row not in rows:
            return rows or None
        at = rows.index(row)
        del rows[at]
        if not rows:
            out.append((DELETE, row))
        elif at == len(rows):
            out.append((UPDATE_AFTER, rows[-1]))
        return rows or None


def sort_key(fields: Sequence[SortField]) -> Any:
    """The order of rows by ``ORDER BY``."""

    def compare(left: Row, right: Row) -> int:
        for field in fields:
            a, b = left[field.index], right[field.index]
            if a == b:
                continue
            if a is None or b is None:
                return 1 if (a is None) == field.null_is_last else -1
            return -1 if (a < b) == field.is_ascending else 1
        return 0

    return cmp_to_key(compare)


class TopN(RelationalOperator):
    """State: the rows of a partition in their order, those beyond the last rank only where rows may go. ``upsert_keys``: rows replace
    the one of the same key (``UpdateFast``)."""

    def __init__(
        self,
        name: str,
        partition: Sequence[int],
        order: Sequence[SortField],
        ranks: tuple[int, int],
        schema: pa.Schema,
        *,
        outputs_number: bool,
        generates_update_before: bool,
        upsert_keys: Sequence[int] | None,
        retracts: bool,
        ttl_ms: int,
    ) -> None:
        super().__init__(name, [partition], schema, ttl_ms)
        self._sort_key = sort_key(order)
        self._first, self._last = ranks[0] - 1, ranks[1]
        self._outputs_number = outputs_number
        self._generates_update_before = generates_update_before
        self._upsert_keys = upsert_keys
        self._keeps_all = retracts

    def change(self, state: Any, kind: int, row: Row, input_index: int, out: list[Change]) -> Any:
        rows: list[Row] = state or []
        before = rows[self._first : self._last]
        replaced = self._replaced(rows, row)
        if replaced is not None and (adds(kind) or kind == DELETE):
            del rows[replaced]
        elif not adds(kind):
            if row not in rows:
                return rows or None
            rows.remove(row)
        if adds(kind):
            rows.insert(bisect_right(rows, self._sort_key(row), key=self._sort_key), row)
            if not self._keeps_all:
                del rows[self._last :]
        now = rows[self._first : self._last]
        if now != before:
            (self._numbered if self._outputs_number else self._unnumbered)(before, now, out)
        return rows or None

    def _replaced(self, rows: Sequence[Row], row: Row) -> int | None:
        if self._upsert_keys is None:
            return None
        key = [row[position] for position in self._upsert_keys]
        return next((at for at, old in enumerate(rows) if [old[p] for p in self._upsert_keys] == key), None)

    def _numbered(self, before: Sequence[Row], now: Sequence[Row], out: list[Change]) -> None:
        ranks = range(max(len(before), len(now)))
        changed = [
            (
                (*before[at], self._first + at + 1) if at < len(before) else None,
                (*now[at], self._first + at + 1) if at < len(now) else None,
            )
            for at in ranks
            if at >= len(before) or at >= len(now) or before[at] != now[at]
        ]
        goes_first = self._upsert_keys is not None
        later: list[Change] = []
        for old, new in changed:
            if old is not None and new is None:
                out.append((DELETE, old))
                continue
            if old is not None and self._generates_update_before:
                out.append((UPDATE_BEFORE, old))
            assert new is not None
            (later if goes_first else out).append((INSERT if old is None else UPDATE_AFTER, new))
        out.extend(later)

    def _unnumbered(self, before: Sequence[Row], now: Sequence[Row], out: list[Change]) -> None:
        left, came = list(before), []
        for row in now:
            if row in left:
                left.remove(row)
            else:
                came.append(row)
        out.extend((DELETE, row) for row in left)
        out.extend((INSERT, row) for row in came)


class Join(RelationalOperator):
    """A join of two changelogs (Flink: ``StreamingJoinOperator.java``, ``StreamingSemiAntiJoinOperator.java``).

    State: for each side a dict of its rows, ``row ─▶ [how often it is there, how many rows of the other side it has, written at, in ms]``; a side
    with an upsert key has that key in front of the row.
    """

    def __init__(
        self,
        name: str,
        keys: Sequence[Sequence[int]],
        schema: pa.Schema,
        *,
        join_type: str,
        filter_nulls: Sequence[bool],
        condition: CompiledFilter | None,
        joined: pa.Schema,
        widths: tuple[int, int],
        upsert_keys: Sequence[Sequence[int] | None],
        ttl_ms: Sequence[int],
    ) -> None:
        super().__init__(name, keys, schema)
        self._sides_ttl = ttl_ms
        self._type = join_type
        self._is_outer = (join_type in ("LEFT", "FULL"), join_type in ("RIGHT", "FULL"))
        self._filter_nulls = filter_nulls
        self._condition = condition
        self._joined = joined
        self._widths = widths
        self._upsert_keys = upsert_keys

    def change(self, state: Any, kind: int, row: Row, input_index: int, out: list[Change]) -> Any:
        sides: list[dict[Any, list[Any]]] = state or [{}, {}]
        other = self._matching(sides[1 - input_index], row, input_index)
        if self._type in ("SEMI", "ANTI"):
            self._semi(sides, kind, row, input_index, other, out)
        else:
            self._regular(sides, kind, row, input_index, other, out)
        return sides if sides[0] or sides[1] else None

    def _matching(self, side: dict[Any, list[Any]], row: Row, index: int) -> list[tuple[Row, list[Any]]]:
        key = [row[position] for position in self._positions[index]]
        if any(value is None and strict for value, strict in zip(key, self._filter_nulls, strict=True)):
            return []
        ttl = self._sides_ttl[1 - index]
        if ttl:
            last = self.context.clock.now_ms() - ttl
            for old in [found for found, entry in side.items() if entry[3] <= last]:
                del side[old]
        found = [(entry[0], entry) for entry in side.values()]
        if self._condition is None or not found:
            return found
        pairs = [(INSERT, row + old if index == 0 else old + row) for old, _ in found]
        mask = self._condition.evaluate(batch_of(pairs, self._joined)).to_pylist()
        return [pair for pair, matches in zip(found, mask, strict=True) if matches]

    def _identity(self, row: Row, index: int) -> Any:
        keys = self._upsert_keys[index]
        return row if keys is None else tuple([row[position] for position in keys])

    def _put(self, side: dict[Any, list[Any]], row: Row, index: int, matches: int) -> None:
        identity, now = self._identity(row, index), self.context.clock.now_ms() if self._sides_ttl[index] else 0
        found = side.get(identity)
        if found is None or self._upsert_keys[index] is not None:
            side[identity] = [row, 1, matches, now]
        else:
            found[1] += 1
            found[2:] = [matches, now]

    def _remove(self, side: dict[Any, list[Any]], row: Row, index: int) -> None:
        identity = self._identity(row, index)
        found = side.get(identity)
        if found is not None:
            found[1] -= 1
            if found[1] <= 0:
                del side[identity]

    def _pair(self, row: Row, other: Row, index: int) -> Row:
        return row + other if index == 0 else other + row

    def _padded(self, row: Row, index: int) -> Row:
        return self._pair(row, (None,) * self._widths[1 - index], index)

    def _regular(
        self, sides: Any, kind: int, row: Row, index: int, other: list[tuple[Row, list[Any]]], out: list[Change]
    ) -> None:
        is_outer, other_is_outer = self._is_outer[index], self._is_outer[1 - index]
        if adds(kind):
            count = sum(entry[1] for _, entry in other)
            if is_outer and not other:
                out.append((INSERT, self._padded(row, index)))
            if other_is_outer:
                for old, entry in other:
                    if entry[2] == 0:
                        out.extend([(DELETE, self._padded(old, 1 - index))] * entry[1])
                    entry[2] += 1
            shown = INSERT if is_outer or other_is_outer else kind
            for old, entry in other:
                out.extend([(shown, self._pair(row, old, index))] * entry[1])
            self._put(sides[index], row, index, count)
            return
        self._remove(sides[index], row, index)
        if is_outer and not other:
            out.append((DELETE, self._padded(row, index)))
        shown = DELETE if is_outer else kind
        for old, entry in other:
            out.extend([(shown, self._pair(row, old, index))] * entry[1])
        if other_is_outer:
            for old, entry in other:
                if entry[2] == 1:
                    out.extend([(INSERT, self._padded(old, 1 - index))] * entry[1])
                entry[2] -= 1

    def _semi(
        self, sides: Any, kind: int, row: Row, index: int, other: list[tuple[Row, list[Any]]], out: list[Change]
    ) -> None:
        is_anti = self._type == "ANTI"
        if index == 0:
            if bool(other) != is_anti:
                out.append((kind, row))
            if adds(kind):
                self._put(sides[0], row, 0, sum(entry[1] for _, entry in other))
            else:
                self._remove(sides[0], row, 0)
            return
        if adds(kind):
            self._put(sides[1], row, 1, 0)
        else:
            self._remove(sides[1], row, 1)
        change = 1 if adds(kind) else -1
        for old, entry in other:
            if (entry[2] == 0) if adds(kind) else (entry[2] == 1):
                shown = (DELETE if adds(kind) else INSERT) if is_anti else kind
                out.extend([(shown, old)] * entry[1])
            entry[2] += change
