"""Counts of values in the accumulators of keys. Those of few rows stand in the accumulator; when there are more, each count is an entry of state:

    accumulator of state ─▶ ``attach`` ─▶ with ``EntryCounts`` for the time ─▶ changes ─▶ ``detach`` ─▶ with a time for what is in entries

The state ``counts-n`` has the entries of the n-th place for counts: the form of a value (``form_of``), and how often it is there. The time in ms is that since
which all of them have been written: counts go with their accumulator, however long each was not written. So they live half as long again as it, and are
written again when half of its time has passed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tidegate.functions.sql.aggregates import CompiledAggregates
from tidegate.records.canonical.forms import decode_form
from tidegate.taskmanager.operators.relational.base import (
    EntriesOfKey,
    EntriesOfKeys,
    Name,
    RelationalOperator,
    name_of,
)

MOST_IN_ACCUMULATOR: Final = 256
"""Counts of one place that stand in the accumulator, at most. Chosen: a value of so many is some 2 KB in a checkpoint; a row takes twice the time where
counts are entries."""


class EntryCounts:
    """How often each value is there, as a ``dict`` of counts that are not 0, by form; each is an entry of state. What has changed is written by ``flush``."""

    __slots__ = ("_changed", "_entries", "_form", "_name", "since_ms")

    def __init__(self, entries: EntriesOfKey, since_ms: int) -> None:
        self._entries = entries
        self.since_ms = since_ms
        """Since when all of them have been written."""
        self._changed: dict[Name, int] = {}
        """By name; 0: removed."""
        self._form = self._name = None
        """The form that was asked for last, and its name: what is asked for is written next."""

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
        """Returns the form and the count of each value, as they are now."""
        self.flush()
        for name, count in list(self._entries.all().items()):
            yield decode_form(name)[0] if name.__class__ is bytes else name, count

    def take_over(self, counts: dict[Any, int]) -> None:
        """Writes these in place of what is there."""
        self.clear()
        for form, count in counts.items():
            self[form] = count
        self.flush()

    def flush(self) -> None:
        """Writes what has changed."""
        changed, self._changed = self._changed, {}
        put = self._entries.put
        for name, count in changed.items():
            put(name, count or None)

    def write_all(self, now_ms: int) -> None:
        """Writes those that have not changed, too."""
        for name, count in list(self._entries.all().items()):
            self._changed.setdefault(name, count)
        self.flush()
        self.since_ms = now_ms

    def clear(self) -> None:
        """Removes all."""
        self._changed.clear()
        for name in list(self._entries.all()):
            self._entries.put(name, None)


class KeptCounts:
    """What an operator does with the accumulators that it takes from state and puts back. Where an accumulator has counts in entries, it is of more than
    half of ``MOST_IN_ACCUMULATOR`` rows: those of few rows cost no look."""

    def __init__(self, aggregates: CompiledAggregates, operator: RelationalOperator, ttl_ms: int) -> None:
        self._places = [
            (number, is_inner, at, operator.entries_of_keys(f"counts-{place}", ttl_ms * 3 // 2, lambda _: ()))
            for place, (number, is_inner, at) in enumerate(aggregates.counts_at)
        ]
        self._renewed_ms = ttl_ms // 2
        self._most, self._few = MOST_IN_ACCUMULATOR, MOST_IN_ACCUMULATOR // 2
        self._attached = 0
        """Counts of accumulators that are out."""

    def attach(self, acc: Any, group: int, key: Any, now_ms: int) -> None:
        """Called for an accumulator of state, before it is changed."""
        if acc[0] <= self._few:
            return
        for holder, at, state in self._places_in(acc):
            held = holder[at]
            if held.__class__ is int:
                holder[at] = EntryCounts(state.of(group, key, now_ms), held)
                self._attached += 1

    def detach(self, acc: Any, group: int, key: Any, now_ms: int) -> None:
        """Called for an accumulator before it is written."""
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
        """Called for an accumulator that was taken from state, and is removed from it."""
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
        """Returns what stands in the accumulator."""
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
