"""Group aggregates of changelogs (Flink: ``GroupAggFunction.java``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tidegate.functions.sql.aggregates import CompiledAggregates
from tidegate.functions.sql.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, adds
from tidegate.functions.sql.rows import Change, Row
from tidegate.taskmanager.operators.relational.base import RelationalOperator, differs
from tidegate.taskmanager.operators.relational.kept_counts import KeptCounts


class GroupAggregate(RelationalOperator):
    """Emits the changes of each key's aggregates, and keeps its accumulator (``CompiledAggregates``). ``folds``: emits one change of a key for each batch
    (mini-batches).
    """

    def __init__(
        self,
        name: str,
        grouping: Sequence[int],
        aggregates: CompiledAggregates,
        schema: pa.Schema,
        *,
        generates_update_before: bool,
        retracts: bool,
        folds: bool,
        ttl_ms: int,
    ) -> None:
        super().__init__(name, [grouping], schema, ttl_ms)
        self._grouping = grouping
        self._aggregates = aggregates
        self._generates_update_before = generates_update_before
        self._retracts = retracts
        self._folds = folds
        self._touched: dict[Any, tuple[Row, Any]] = {}
        """The grouping values and accumulators of the keys in a batch; used with ``folds`` only."""
        self._shown: dict[Any, tuple[Any, ...]] = {}
        """The values that were emitted last, by the keys of a batch."""

    def open_states(self) -> None:
        super().open_states()
        self._counts = KeptCounts(self._aggregates, self, self._ttl_ms) if self._aggregates.counts_at else None

    def read(self, group: int, key: Any, now_ms: int) -> Any:
        acc = self._state.read(group, key, now_ms)
        if acc is not None and self._counts is not None:
            self._counts.attach(acc, group, key, now_ms)
        return acc

    def write(self, group: int, key: Any, state: Any, now_ms: int) -> None:
        if state is not None and self._counts is not None:
            self._counts.detach(state, group, key, now_ms)
        self._state.write(group, key, state, now_ms)

    def begin_batch(self) -> None:
        self._shown.clear()
        self._touched.clear()

    def change(self, state: Any, kind: int, row: Row, input_index: int, out: list[Change]) -> Any:
        added, aggregates = adds(kind), self._aggregates
        is_first = state is None
        if is_first:
            if not added:
                return None
            state = aggregates.create()
        key = self._backend.key
        group = tuple([row[position] for position in self._grouping])
        if self._folds:
            return self._gathered(state, row, group, added, is_first)
        before = None if is_first else self._shown.get(key) or aggregates.values(state)
        aggregates.change(state, row, added)
        if self._retracts and state[0] == 0:
            self._remove_counts(state)
            self._shown.pop(key, None)
            self._tell(group, before, None, out)
            return None
        now = self._shown[key] = aggregates.values(state)
        self._tell(group, before, now, out)
        return state

    def end_batch(self, out: list[Change]) -> None:
        for key, (group, state) in self._touched.items():
            now = None if state is None else self._aggregates.values(state)
            self._tell(group, self._shown.get(key), now, out)

    def _gathered(self, state: Any, row: Row, group: Row, added: bool, is_first: bool) -> Any:
        """Adds a row to its accumulator. Nothing is emitted before the end of the batch."""
        key = self._backend.key
        if key not in self._touched and not is_first:
            self._shown[key] = self._aggregates.values(state)
        self._aggregates.change(state, row, added)
        if self._retracts and state[0] == 0:
            self._remove_counts(state)
            state = None
        self._touched[key] = group, state
        return state

    def _remove_counts(self, state: Any) -> None:
        """Removes the counts that are kept outside of an accumulator of which no row is left."""
        if self._counts is not None:
            self._counts.remove(state)

    def _tell(self, group: Row, before: Row | None, now: Row | None, out: list[Change]) -> None:
        if self._aggregates.emits_rows:
            if before is not None and self._generates_update_before:
                out += [(DELETE, group + row) for row in before[0]]
            if now is not None:
                out += [(INSERT, group + row) for row in now[0]]
        elif now is None:
            if before is not None:
                out.append((DELETE, group + before))
        elif before is None:
            out.append((INSERT, group + now))
        elif self._ttl_ms or differs(before, now):
            if self._generates_update_before:
                out.append((UPDATE_BEFORE, group + before))
            out.append((UPDATE_AFTER, group + now))
