"""Top-N: the first rows of a partition in an order."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from functools import cmp_to_key
from math import copysign
from typing import Any

import pyarrow as pa

from tidegate.functions.sql.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, adds, is_insert_only
from tidegate.functions.sql.rows import Change, Row, batch_of_repeated
from tidegate.plan.specs import SortField
from tidegate.records.batch import ArrowBatch
from tidegate.taskmanager.operators.relational.first_rows import leading_rows
from tidegate.taskmanager.operators.relational.relational_operator import (
    KEEP,
    KeyedChanges,
    RelationalOperator,
    name_of,
)


def sort_key(fields: Sequence[SortField], *, parts_zeros: bool = False) -> Any:
    """Returns the sort key of rows for ``ORDER BY``.

    NaN is larger than all numbers, as in Flink's sort of batch mode (recorded with 2.3; its comparators of Top-N take NaN for equal to each of them, and leave
    the order of its neighbours open). ``parts_zeros``: -0.0 is less than 0.0, as in that sort.
    """

    def compare(left: Row, right: Row) -> int:
        for field in fields:
            a, b = left[field.index], right[field.index]
            if a == b:
                if parts_zeros and a == 0 and a.__class__ is float and copysign(1.0, a) != copysign(1.0, b):
                    return -1 if (copysign(1.0, a) < 0) == field.is_ascending else 1
                continue
            if a is None or b is None:
                return 1 if (a is None) == field.null_is_last else -1
            if a != a or b != b:
                if a != a and b != b:
                    continue
                return 1 if (a != a) == field.is_ascending else -1
            return -1 if (a < b) == field.is_ascending else 1
        return 0

    return cmp_to_key(compare)


def _position(rows: Sequence[Row], row: Row) -> int | None:
    """Returns the index of the first equal row, ``None`` if there is none. A row with NaN is equal to itself."""
    if row in rows:
        return rows.index(row)
    if all(value == value for value in row):
        return None
    name = name_of(row)
    return next((at for at, old in enumerate(rows) if name_of(old) == name), None)


ROWS_FOR_ARRAYS = 64
"""Rows from which a batch is looked through by arrays: that takes 0.1 ms however few there are, as long as so many rows in Python."""
ROWS_OF_UNKNOWN_RANK = 100
"""How many rows a cached partition is taken for whose last rank is a field (Flink: ``AbstractTopNFunction.DEFAULT_TOPN_SIZE``)."""


class TopN(RelationalOperator):
    """Emits the rows of a partition up to a rank (Top-N), and their changes.

    State: the rows in their order; rows after the last rank only if rows can be deleted. ``upsert_keys``: a row replaces the one with the same key
    (``UpdateFast``). ``last_rank``: the field that contains the last rank, if ``ranks`` has none. If it is not a field of the partition,
    the value of the partition's first row is kept and applies to all (Flink: ``AbstractTopNFunction.initRankEnd``).

    ``cached_rows``: with a time to live, so many rows of the partitions that were used last do not expire until a restore, if rows are not deleted: Flink
    keeps them in memory (recorded with 2.3).
    """

    def __init__(
        self,
        name: str,
        partition: Sequence[int],
        order: Sequence[SortField],
        ranks: tuple[int, int | None],
        schema: pa.Schema,
        *,
        last_rank: int | None = None,
        outputs_number: bool,
        generates_update_before: bool,
        upsert_keys: Sequence[int] | None,
        retracts: bool,
        ttl_ms: int,
        cached_rows: int = 0,
    ) -> None:
        super().__init__(name, [partition], schema, ttl_ms)
        self._order = order
        self._sort_key = sort_key(order)
        self._first, self._last = ranks[0] - 1, ranks[1]
        self._last_rank = last_rank
        self._keeps_last_rank = last_rank is not None and last_rank not in partition
        self._outputs_number = outputs_number
        self._emitted_ranks: list[int] = []
        """The rank of each row that a batch emits, where ranks are emitted."""
        self._generates_update_before = generates_update_before
        self._upsert_keys = upsert_keys
        self._keeps_all = retracts
        is_first_alone = self._last == 1 and not retracts
        self._cached: OrderedDict[Any, tuple[int, list[Row]]] | None = None
        """The key group and the rows of the partitions that were used last, which do not expire."""
        if ttl_ms and not retracts:
            self._cached = OrderedDict()
            self._most_cached = max(cached_rows // (self._last or ROWS_OF_UNKNOWN_RANK), 1)
        self._is_first_alone = is_first_alone
        self._takes_leading = is_first_alone and self._first == 0 and not ttl_ms and upsert_keys is None
        """Whether rows behind one of their partition in the same batch change nothing."""
        self._changed: set[Any] = set()
        """The cached partitions of rows with keys that were changed since the last snapshot."""
        self._tells_ranks = outputs_number or self._first > 0 or is_first_alone
        """Whether a row that takes the rank of another updates it. As in Flink, it does so also without a column of ranks where the first ranks are left out
        (``AbstractTopNFunction.hasOffset``) or there is only one (``FastTop1Function``).
        """

    def open_states(self) -> None:
        super().open_states()
        if self._keeps_last_rank:
            self._rank_ends = self.state_of_key("rank-end", self._ttl_ms)

    def work(self, batch: KeyedChanges, input_index: int) -> None:
        """Processes a batch. Where only the first row counts, those that are not before all earlier ones of their partition are left out at once."""
        if self._takes_leading and len(batch.keys) >= ROWS_FOR_ARRAYS and is_insert_only(batch.data):
            _, key_of = batch.by_key()
            leading = leading_rows(batch.data, self._order, key_of)
            if leading is not None and len(leading) < len(batch.keys):
                batch = batch.taken(leading)
        super().work(batch, input_index)

    def read(self, group: int, key: Any, now_ms: int) -> Any:
        cached = self._cached
        if cached is None:
            return super().read(group, key, now_ms)
        if key in cached:
            cached.move_to_end(key)
            return list(cached[key][1])  # what was written must not be changed
        found = super().read(group, key, now_ms)
        if found is not None and not self._is_first_alone:
            self._cache(group, key, list(found))
        return found

    def write(self, group: int, key: Any, state: Any, now_ms: int) -> None:
        super().write(group, key, state, now_ms)
        if self._cached is None:
            return
        if state is None:
            self._cached.pop(key, None)
            self._changed.discard(key)
        else:
            self._cache(group, key, state)
            if self._upsert_keys is not None:
                self._changed.add(key)

    def _cache(self, group: int, key: Any, rows: list[Row]) -> None:
        assert self._cached is not None
        self._cached[key] = group, rows
        self._cached.move_to_end(key)
        if len(self._cached) > self._most_cached:
            evicted, _ = self._cached.popitem(last=False)
            self._changed.discard(evicted)

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        """Writes cached partitions again, which live longer by that: all of them where there is one rank (``FastTop1Function``), and those that were changed
        where rows have keys (``UpdatableTopNFunction``)."""
        super().prepare_snapshot(checkpoint_id)
        if self._cached is None:
            return
        now_ms = self.context.clock.now_ms()
        for key in self._cached if self._is_first_alone else self._changed:
            group, rows = self._cached[key]
            self._state.write(group, key, rows, now_ms)
        self._changed.clear()

    def emit(self, out: Sequence[Change]) -> None:
        """Emits changes. A row often occurs in many of them, with one rank after the other, and is converted to columns once."""
        ranks, self._emitted_ranks = self._emitted_ranks, []
        if out:
            more = [ranks] if self._outputs_number else []
            self.context.output.emit(ArrowBatch(batch_of_repeated(out, self._schema, more)))

    def change(self, state: Any, kind: int, row: Row, input_index: int, out: list[Change]) -> Any:
        rows: list[Row] = state or []
        if self._last_rank is not None:
            self._last = self._last_of_partition(row[self._last_rank])
        replaced = self._replaced(rows, row)
        if replaced is not None and adds(kind) and self._tells_ranks:
            return self._moved(rows, replaced, row, out)
        if not adds(kind):
            at = replaced if kind == DELETE and replaced is not None else _position(rows, row)
            if at is not None:
                (self._closed if self._tells_ranks else self._left)(rows, at, out)
                del rows[at]
            return rows or None
        before = rows[self._first : self._last]
        if replaced is not None:
            del rows[replaced]
        at = bisect_right(rows, self._sort_key(row), key=self._sort_key)
        rows.insert(at, row)
        if self._tells_ranks:
            self._opened(rows, at, out)
        elif rows[self._first : self._last] != before:
            self._unnumbered(before, rows[self._first : self._last], out)
        if not self._keeps_all:
            del rows[self._last :]
            if replaced is None and self._last is not None and at >= self._last:
                return KEEP
        return rows or None

    def _last_of_partition(self, given: int | None) -> int:
        """Returns the last rank of the current partition: that of its first row, or of each row where all have the same. ``given``: that of the row."""
        last = max(given or 0, 0)
        if not self._keeps_last_rank:
            return last
        backend, now_ms = self._backend, self.context.clock.now_ms()
        kept: int | None = self._rank_ends.read(backend.group, backend.key, now_ms)
        if kept is None:
            self._rank_ends.write(backend.group, backend.key, last, now_ms)
            return last
        return kept

    def _replaced(self, rows: Sequence[Row], row: Row) -> int | None:
        if self._upsert_keys is None:
            return None
        key = [row[position] for position in self._upsert_keys]
        return next((at for at, old in enumerate(rows) if [old[p] for p in self._upsert_keys] == key), None)

    def _moved(self, rows: list[Row], old: int, row: Row, out: list[Change]) -> list[Row]:
        """Replaces the row of a key and moves it to its new rank; returns the rows.

        Emits the changes of all ranks in between, in the order of Flink's ``UpdatableTopNFunction.processElementWithRowNumber``. A row whose sort key is
        unchanged keeps its rank.
        """
        before = list(rows)
        place, replaced = self._sort_key(row), self._sort_key(rows.pop(old))
        new = old if place == replaced else bisect_right(rows, place, key=self._sort_key)
        rows.insert(new, row)
        if before[old] == row:
            return rows
        changes = [(UPDATE_BEFORE, old)]
        if new <= old:
            for at in range(new, old):
                changes.insert(0 if at == new else len(changes), (UPDATE_BEFORE, at))
                changes.append((UPDATE_AFTER, at))
            changes.append((UPDATE_AFTER, old))
        else:
            for at in range(old, new):
                changes += [(UPDATE_BEFORE, at + 1), (UPDATE_AFTER, at)]
            changes.append((UPDATE_AFTER, new))
        for kind, at in changes:
            self._emit_change(kind, (rows if kind == UPDATE_AFTER else before)[at], at, out)
        return rows

    def _opened(self, rows: Sequence[Row], at: int, out: list[Change]) -> None:
        """Emits the changes of an inserted row and of the rows after it, whose ranks increase by 1, also where rows are equal."""
        self._shifted(rows[1:], rows, at, len(rows) - 1, out)
        self._emit_change(INSERT, rows[-1], len(rows) - 1, out)

    def _closed(self, rows: Sequence[Row], at: int, out: list[Change]) -> None:
        """Emits the changes of a deleted row and of the rows after it, whose ranks decrease by 1."""
        self._shifted(rows, rows[1:], at, len(rows) - 1, out)
        self._emit_change(DELETE, rows[-1], len(rows) - 1, out)

    def _shifted(self, before: Sequence[Row], now: Sequence[Row], begin: int, end: int, out: list[Change]) -> None:
        """Emits the changes of the ranks from ``begin`` to ``end``, which have other rows now."""
        begin, end = max(begin, self._first), end if self._last is None else min(end, self._last)
        numbered = self._emitted_ranks
        for rank in range(begin, end):
            if self._generates_update_before:
                out.append((UPDATE_BEFORE, before[rank]))
                numbered.append(rank + 1)
            out.append((UPDATE_AFTER, now[rank]))
            numbered.append(rank + 1)

    def _left(self, rows: Sequence[Row], at: int, out: list[Change]) -> None:
        """Emits the deletion of a row, and the insertion of the row that moves up to the last rank, also if the two are equal."""
        if self._last is None or at < self._last:
            out.append((DELETE, rows[at]))
            if self._last is not None and self._last < len(rows):
                out.append((INSERT, rows[self._last]))

    def _emit_change(self, kind: int, row: Row, rank: int, out: list[Change]) -> None:
        is_in = self._first <= rank and (self._last is None or rank < self._last)
        if is_in and (kind != UPDATE_BEFORE or self._generates_update_before):
            out.append((kind, row))
            self._emitted_ranks.append(rank + 1)

    def _unnumbered(self, before: Sequence[Row], now: Sequence[Row], out: list[Change]) -> None:
        """Emits changes without ranks. A row that replaces another one of its key is emitted as an update."""
        left, came = list(before), []
        for row in now:
            if row in left:
                left.remove(row)
            else:
                came.append(row)
        for row in list(came):
            old = self._replaced(left, row)
            if old is not None:
                if self._generates_update_before:
                    out.append((UPDATE_BEFORE, left[old]))
                out.append((UPDATE_AFTER, row))
                del left[old]
                came.remove(row)
        out.extend((DELETE, row) for row in left)
        out.extend((INSERT, row) for row in came)
