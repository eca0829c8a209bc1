"""Counts of values in the accumulators of keys: in the accumulator itself while it has few rows, otherwise as an entry of state for each value.

    accumulator in state ─▶ ``attach``: its counts become ``EntryCounts`` ─▶ changes ─▶ ``detach``: a time replaces the counts that are entries

The state ``counts-n`` has the entries of the n-th counting aggregate: the form of a value (``form_of``) and its count. The time in the accumulator, in ms, says
since when all counts have been written. Counts must live as long as their accumulator, however long ago each was written: their time to live is one and a half
times that of the accumulator, and all are written again when half of the accumulator's has passed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tidegate.functions.sql.aggregates import CompiledAggregates
from tidegate.records.canonical.forms import decode_form
from tidegate.taskmanager.operators.relational.relational_operator import (
    EntriesOfKey,
    EntriesOfKeys,
    Name,
    TableOperator,
    name_of,
)

MOST_IN_ACCUMULATOR: Final = 256
"""Most counts of one place that are kept in an accumulator. Chosen: a value with so many takes some 2 KB in a checkpoint; a row takes twice the time where
counts are entries.
"""


class EntryCounts:
    """Counts of values by form, each an entry of state, with the interface of a ``dict`` of the counts that are not 0. ``flush`` writes the changes."""

    __slots__ = ("_changed", "_entries", "_form", "_name", "since_ms")

    def __init__(self, entries: EntriesOfKey, since_ms: int) -> None:
        self._entries = entries
        self.since_ms = since_ms
        """The time since which all counts have been written."""
        self._changed: dict[Name, int] = {}
        """Changed counts by name; 0: removed."""
        self._form = self._name = None
        """The form that was read last and its name, kept since it is usually the next one written."""

    def get(self, form: Any, default: Any = None) -> Any:
        self._form, self._name = form, name_of(form)
        count = self._changed.get(self._name)
        if count is None:
            count = self._entries.get(self._name)
        return count or default

    def pop(self, form: Any, default: Any = None) -> Any:
        count = self.get(form)
        if count is None:
            return default
        self._changed[self._name] = 0
        return count

    def __setitem__(self, form: Any, count: int) -> None:
        self._changed[self._name if form is self._form else name_of(form)] = count

    def items(self) -> Iterator[tuple[Any, int]]:
        """Returns the form and the present count of each value."""
        self.flush()
        for name, count in list(self._entries.all().items()):
            yield decode_form(name)[0] if name.__class__ is bytes else name, count

    def take_over(self, counts: dict[Any, int]) -> None:
        """Replaces all counts by the given ones."""
        self.clear()
        for form, count in counts.items():
            self[form] = count
        self.flush()

    def flush(self) -> None:
        """Writes the changed counts."""
        changed, self._changed = self._changed, {}
        put = self._entries.put
        for name, count in changed.items():
            put(name, count or None)

    def write_all(self, now_ms: int) -> None:
        """Writes all counts, also those that have not changed."""
        for name, count in list(self._entries.all().items()):
            self._changed.setdefault(name, count)
        self.flush()
        self.since_ms = now_ms

    def clear(self) -> None:
        """Removes all counts."""
        self._changed.clear()
        for name in list(self._entries.all()):
            self._entries.put(name, None)


class KeptCounts:
    """Moves counts between accumulators and entries when accumulators are read and written. An accumulator with few rows needs no check: only those with more
    than half of ``MOST_IN_ACCUMULATOR`` rows have counts in entries.
    """

    def __init__(self, aggregates: CompiledAggregates, operator: TableOperator, ttl_ms: int) -> None:
        self._places = [
            (number, is_inner, at, operator.entries_of_keys(f"counts-{place}", ttl_ms * 3 // 2, lambda _: ()))
            for place, (number, is_inner, at) in enumerate(aggregates.counts_at)
        ]
        self._renewed_ms = ttl_ms // 2
        self._most, self._few = MOST_IN_ACCUMULATOR, MOST_IN_ACCUMULATOR // 2
        self._attached = 0
        """The number of places whose counts are attached to accumulators in use."""

    def attach(self, acc: Any, group: int, key: Any, now_ms: int) -> None:
        """Attaches the entries to an accumulator that was read from state, before it is changed."""
        if acc[0] <= self._few:
            return
        for holder, at, state in self._places_in(acc):
            held = holder[at]
            if held.__class__ is int:
                holder[at] = EntryCounts(state.of(group, key, now_ms), held)
                self._attached += 1

    def detach(self, acc: Any, group: int, key: Any, now_ms: int) -> None:
        """Detaches the entries from an accumulator before it is written."""
        if not self._attached and acc[0] <= self._most:
            return
        for holder, at, state in self._places_in(acc):
            held = holder[at]
            if held.__class__ is EntryCounts:
                self._attached -= 1
                holder[at] = self._put_back(held, acc[0], now_ms)
            elif len(held) > self._most and acc[0] > self._few:
                entries = EntryCounts(state.of(group, key, now_ms), now_ms)
                entries.take_over(held)  # in place of those of an accumulator that expired
                holder[at] = now_ms

    def remove(self, acc: Any) -> None:
        """Removes the entries of an accumulator's counts, when the accumulator itself is removed."""
        if not self._attached:
            return
        for holder, at, _ in self._places_in(acc):
            held = holder[at]
            if held.__class__ is EntryCounts:
                self._attached -= 1
                held.clear()

    def _places_in(self, acc: Any) -> Iterator[tuple[list[Any], int, EntriesOfKeys]]:
        """Yields each place for counts in an accumulator: its list, its index there, and the state for entries."""
        calls = acc[1]
        for number, is_inner, at, state in self._places:
            yield calls[number][1] if is_inner else calls[number], at, state

    def _put_back(self, counts: EntryCounts, rows: int, now_ms: int) -> dict[Any, int] | int:
        """Writes changed counts. Returns what the accumulator stores: the counts if it has few rows, otherwise the time since which all are written."""
        if rows <= self._few:
            found = dict(counts.items())
            counts.clear()
            return found
        if self._renewed_ms and now_ms - counts.since_ms >= self._renewed_ms:
            counts.write_all(now_ms)
        else:
            counts.flush()
        return counts.since_ms


__all__ = ["MOST_IN_ACCUMULATOR", "EntryCounts", "KeptCounts"]
