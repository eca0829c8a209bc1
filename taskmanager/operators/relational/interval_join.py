"""The interval join: joins rows whose times are near each other (Flink: ``TimeIntervalJoin.java``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.functions.sql.changelog import INSERT, has_kinds
from tidegate.functions.sql.rows import Change, Row
from tidegate.model.channel_events import END_OF_TIME, NO_WATERMARK
from tidegate.records.batch import ArrowBatch
from tidegate.taskmanager.keyed_state.entry import Entry
from tidegate.taskmanager.operators.operator import Operator
from tidegate.taskmanager.operators.relational.matching import Matcher
from tidegate.taskmanager.operators.relational.near_rows import NearRows, find_near
from tidegate.taskmanager.operators.relational.relational_operator import KEEP, EntriesOfKey, KeyedChanges, Name, listed
from tidegate.taskmanager.operators.relational.timed import TimedOperator

Sides: TypeAlias = tuple[EntriesOfKey, EntriesOfKey]
Places: TypeAlias = npt.NDArray[np.intp]
Times: TypeAlias = npt.NDArray[np.int64]
_TIMER = ("timer",)
ROWS_FOR_ARRAYS = 128
"""The least rows of a batch that is processed by arrays. Fewer cost less one by one."""
_FARTHEST_MS = 1 << 60
"""Batches with times farther from 1970 go row by row, since sums of times might not fit into 64 bits."""


@dataclass(frozen=True, slots=True)
class _Stored:
    """Stored rows of a side that a batch may join with. Of each: the number of its key in the batch, its name and time, the row, and whether it has joined."""

    keys: list[int] = field(default_factory=list)
    names: list[Name] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    have_joined: list[bool] = field(default_factory=list)


class TableIntervalJoin(TimedOperator):
    """Joins rows whose times differ by a bounded interval: left time >= right time - ``before``, and left time <= right time + ``after``, in ms.

    State, for each side: by ``(time,)`` a list of ``(row, whether it has joined)``, and by ``("timer",)`` the time at which its rows are checked for removal.

    A row is removed once no row can join with it, and emitted with nulls in an outer join. That happens at the timer, which each side of a key has for its
    first row, or earlier, when a row of the other side arrives. A row is not stored if nothing can join with it on arrival, and a row older than the removed
    ones joins with nothing, as in Flink (where that time is one for all keys of a subtask, and is lost at a restart). ``min_cleanup_ms``: delays the timer.
    Watermarks are delayed by the larger bound, since emitted rows may be that old.
    """

    def __init__(
        self,
        name: str,
        keys: Sequence[Sequence[int]],
        schema: pa.Schema,
        *,
        join_type: str,
        matcher: Matcher,
        times: tuple[int, int],
        before: int,
        after: int,
        widths: tuple[int, int],
        is_event_time: bool,
        min_cleanup_ms: int = 0,
    ) -> None:
        super().__init__(name, keys, schema, is_event_time=is_event_time)
        self._is_outer = (join_type in ("LEFT", "FULL"), join_type in ("RIGHT", "FULL"))
        self._matcher = matcher
        self._times = times
        self._kept = (before, after)
        """For each side: how long after its time, in ms, a row may join with rows that arrive."""
        self._can_join = before + after >= 0
        self._min_cleanup = min_cleanup_ms
        self._delay = max(before, after) if self._can_join else 0
        self._nothing = [(None,) * width for width in widths]
        self._goes_by_arrays = is_event_time and join_type == "INNER" and self._can_join
        self._gone = [0, 0]
        """For each side: the time up to which its rows were removed."""

    def open_states(self) -> None:
        self._left = self.entries_of_keys("state", 0, lambda whole: _by_time(whole[0]))
        self._right = self.entries_of_keys("right", 0, _by_time)

    def read(self, group: int, key: Any, now_ms: int) -> Sides:
        right = self._right.of(group, key, now_ms)
        whole = self._left.undivided(group, key)
        if whole is not None:
            for name, value, _ in _by_time(whole[1]):
                right.put(name, value)
        return self._left.of(group, key, now_ms), right

    def now(self) -> int:
        """Returns the time in ms. Event time begins in 1970."""
        return max(super().now(), 0)

    def work(self, batch: KeyedChanges, input_index: int) -> None:
        """Processes a batch of an inner join by event time by arrays, whose time is one for all rows: each key's rows are read once, and rows are stored
        together.
        """
        times = self._times_of(batch.data, input_index) if len(batch.keys) >= ROWS_FOR_ARRAYS else None
        if times is None or not self._ran(batch, times, input_index):
            super().work(batch, input_index)

    def _times_of(self, data: pa.RecordBatch, index: int) -> Times | None:
        """Returns the times of a batch that is processed by arrays; ``None`` for others."""
        column = data.column(self._times[index])
        if not self._goes_by_arrays or column.null_count:
            return None
        times = np.asarray(column.view(pa.int64()))
        return times if times.min() > -_FARTHEST_MS and times.max() < _FARTHEST_MS else None

    def _ran(self, batch: KeyedChanges, times: Times, index: int) -> bool:
        """Processes a batch by arrays, unless the stored rows are too far apart. Returns whether it did."""
        other, now = 1 - index, self.now()
        group_of, key_of = batch.by_key()
        keys, groups = list(group_of), list(group_of.values())
        if self._left.has_undivided or self._right.has_undivided:
            for key, group in group_of.items():
                self.read(group, key, batch.now_ms)
        sides = self._left, self._right
        lasts, gone = times + self._kept[index], self._gone_at(now, other)
        looks = lasts > self._gone[other]
        if looks.any():
            first = int(looks.argmax())
            looks[first + 1 :] = lasts[first + 1 :] > gone
        looking = np.flatnonzero(looks)
        looking_keys, first_at = np.unique(key_of[looking], return_index=True)
        stored, expired = _Stored(), dict[int, list[Name]]()
        for number in looking_keys.tolist():
            if held := sides[other].all_of(groups[number], keys[number]):
                self._gather(stored, number, held)
                expired[number] = [name for name in held if _is_time(name) and name[0] <= gone]
        has_joined = np.zeros(len(times), np.bool_)
        joined: Places = np.empty(0, np.intp)
        if stored.keys:
            near = find_near(
                key_of[looking],
                times[looking] - self._kept[other],
                lasts[looking],
                np.array(stored.keys, np.intp),
                np.array(stored.times, np.int64),
            )
            if near is None:
                return False
            is_first = np.zeros(len(looking), np.bool_)
            is_first[first_at] = True
            own, joined = self._emit_near(batch, looking, is_first, stored, near, gone, index)
            has_joined[own] = True
        if len(looking):
            self._gone[other] = gone
        new = [at for at in np.unique(joined).tolist() if not stored.have_joined[at]]
        sides[other].write_all(
            [(keys[stored.keys[at]], stored.names[at]) for at in new],
            [groups[stored.keys[at]] for at in new],
            [(stored.rows[at], True) for at in new],
        )
        for number, names in expired.items():
            if names:
                self._remove(sides[other].of(groups[number], keys[number], batch.now_ms), other, names, [])
        kept = np.flatnonzero(lasts > now)
        if len(kept):
            self._store(batch, kept, times[kept], has_joined[kept], index)
        self.clean(len(batch.keys), batch.now_ms)
        self.end_batch([])
        return True

    def _gather(self, stored: _Stored, key: int, held: Mapping[Name, Any]) -> None:
        """Adds the rows of a key, in the order in which pairs are emitted."""
        for name, entry in held.items():
            if len(name) == 2:
                stored.keys.append(key)
                stored.names.append(name)
                stored.times.append(name[0])
                stored.rows.append(entry[0])
                stored.have_joined.append(entry[1])

    def _emit_near(
        self,
        batch: KeyedChanges,
        looking: Places,
        is_first: npt.NDArray[np.bool_],
        stored: _Stored,
        near: NearRows,
        gone: int,
        index: int,
    ) -> tuple[Places, Places]:
        """Emits the pairs of rows that are near each other. ``looking``: the rows that look for others; ``is_first``: whether each is the first one of its key,
        the only one that expired rows join with. Returns for each pair its row in the batch and its stored row.
        """
        matcher = self._matcher
        values = [batch.values[at] for at in looking.tolist()] if matcher.compares_values else ()
        data = batch.data if len(looking) == batch.data.num_rows else batch.data.take(pa.array(looking))
        rows = [stored.rows[at] for at in near.stored.tolist()]
        mine, theirs = matcher.columns_of_batch(data, index), matcher.columns_of_rows(rows, 1 - index)
        is_expired = np.array(stored.times, np.int64)[near.stored] <= gone
        found: list[tuple[Places, Places]] = [(np.empty(0, np.intp), np.empty(0, np.intp))]
        for own, at in matcher.pairs_in(mine, values, rows, theirs, near.begins, near.sizes, index):
            joins = ~is_expired[at] | is_first[own]
            own, at = own[joins], at[joins]
            in_order = np.lexsort((near.stored[at], own))
            own, at = own[in_order], at[in_order]
            if len(own):
                found.append((looking[own], near.stored[at]))
                self._emit_pairs(mine, theirs, own, at, index)
        owns, others = zip(*found, strict=True)
        return np.concatenate(owns), np.concatenate(others)

    def _emit_pairs(
        self, mine: Sequence[pa.Array], theirs: Sequence[pa.Array], own: Places, at: Places, index: int
    ) -> None:
        rows, others = pa.array(own), pa.array(at)
        parts = [column.take(rows) for column in mine], [column.take(others) for column in theirs]
        arrays = [*parts[index], *parts[1 - index]]
        if has_kinds(self._schema):
            arrays.append(pa.repeat(pa.scalar(INSERT, pa.int8()), len(own)))
        self.context.output.emit(ArrowBatch(pa.RecordBatch.from_arrays(arrays, schema=self._schema)))

    def _store(
        self, batch: KeyedChanges, kept: Places, times: Times, has_joined: npt.NDArray[np.bool_], index: int
    ) -> None:
        """Appends the rows that may still join to the lists of their times. ``kept``: their places in the batch."""
        places = kept.tolist()
        keys, groups, rows = [batch.keys[at] for at in places], [batch.groups[at] for at in places], batch.values
        side = (self._left, self._right)[index]
        lists: dict[Entry, int] = {}
        first_of: dict[Entry, int] = {}
        of_row: list[Entry] = [(key, (time,)) for key, time in zip(keys, times.tolist(), strict=True)]
        for at, (key, group) in enumerate(zip(keys, groups, strict=True)):
            lists[of_row[at]] = group
            first_of.setdefault((key, _TIMER), at)
        counts = {
            entry: count or 0
            for entry, count in zip(lists, side.peek_all(list(lists), list(lists.values())), strict=True)
        }
        entries: list[Entry] = []
        for key, name in of_row:
            entry = key, name
            count = counts[entry]
            counts[entry] = count + 1
            entries.append((key, (*name, count)))
        values: list[Any] = [(rows[at], joined) for at, joined in zip(places, has_joined.tolist(), strict=True)]
        dues = side.peek_all(list(first_of), [groups[at] for at in first_of.values()])
        timers = {entry: at for (entry, at), due in zip(first_of.items(), dues, strict=True) if due is None}
        for (key, _), at in timers.items():
            self._backend.key, self._backend.group = key, groups[at]
            due = self._due_of(int(times[at]), index)
            self.register(due)
            values.append(due)
        side.write_all(
            [*entries, *timers, *counts],
            [*groups, *(groups[at] for at in timers.values()), *lists.values()],
            [*values, *counts.values()],
        )

    def change(self, state: Sides, kind: int, row: Row, input_index: int, out: list[Change]) -> Any:
        now = self.now()
        time = row[self._times[input_index]] if self.is_event_time else now
        last = time + self._kept[input_index]
        has_joined = False
        if self._can_join and self._gone[1 - input_index] < last:
            has_joined = self._join(state[1 - input_index], row, time, input_index, out)
        if self._can_join and now < last:
            own = state[input_index]
            own.append((time,), (row, has_joined))
            if own.get(_TIMER) is None:
                self._register(own, time, input_index)
        elif not has_joined and self._is_outer[input_index]:
            out.append((INSERT, self._pair(row, self._nothing[1 - input_index], input_index)))
        return KEEP

    def fire(self, state: Sides, time_ms: int, out: list[Change]) -> Any:
        for index in (1, 0):
            side = state[index]
            due = side.get(_TIMER)
            if due is not None and due != time_ms:
                continue  # without a timer there are no rows, or those of a version before, which kept none
            self._remove(side, index, self._expired(side.all(), index), out)
            left = min((name[0] for name in side.all() if _is_time(name)), default=0)
            if left > 0:
                self._register(side, left, index)
            else:
                for name in list(side.all()):
                    side.put(name, None)
        return KEEP

    def on_watermark(self, timestamp_ms: int) -> None:
        held = timestamp_ms if timestamp_ms in (END_OF_TIME, NO_WATERMARK) else timestamp_ms - self._delay
        self.advance(timestamp_ms)
        Operator.on_watermark(self, held)

    def _join(self, others: EntriesOfKey, row: Row, time: int, index: int, out: list[Change]) -> bool:
        """Emits the pairs of a row with stored rows of the other side, and removes the stored rows with which nothing can join. Returns whether there was a
        pair.
        """
        first, last = time - self._kept[1 - index], time + self._kept[index]
        held = others.all()
        near = [(name, entry) for name, entry in held.items() if len(name) == 2 and first <= name[0] <= last]
        expired = self._expired(held, 1 - index)
        found = self._matcher.positions(row, [entry[0] for _, entry in near], index)
        for at in found:
            name, (other, has_joined) = near[at]
            if not has_joined:
                others.put(name, (other, True))
            out.append((INSERT, self._pair(row, other, index)))
        self._remove(others, 1 - index, expired, out)
        return bool(found)

    def _expired(self, held: Mapping[Name, Any], index: int) -> list[Name]:
        """Returns the lists of a side with which nothing can join from now on."""
        self._gone[index] = gone = self._gone_at(self.now(), index)
        return [name for name in held if _is_time(name) and name[0] <= gone]

    def _gone_at(self, now: int, index: int) -> int:
        """Returns the time up to which nothing can join with rows of a side."""
        return now if now == END_OF_TIME else now - self._kept[index] - 1

    def _remove(self, side: EntriesOfKey, index: int, expired: Sequence[Name], out: list[Change]) -> None:
        for name in expired:
            if self._is_outer[index]:
                nothing = self._nothing[1 - index]
                rows = [row for row, has_joined in side.listed(name) if not has_joined]
                out.extend((INSERT, self._pair(row, nothing, index)) for row in rows)
            side.remove_list(name)

    def _register(self, side: EntriesOfKey, time: int, index: int) -> None:
        """Registers the timer at which rows of that time on a side can be removed."""
        due = self._due_of(time, index)
        side.put(_TIMER, due)
        self.register(due)

    def _due_of(self, time: int, index: int) -> int:
        """Returns when rows of that time on a side can be removed."""
        return time + self._kept[index] + self._min_cleanup + 1

    def _pair(self, row: Row, other: Row, index: int) -> Row:
        return row + other if index == 0 else other + row


def _is_time(name: Name) -> bool:
    """Tells whether a name is the time of a list of rows."""
    return len(name) == 1 and name != _TIMER


def _by_time(side: Sequence[Sequence[Any]]) -> Iterator[tuple[Name, Any, int | None]]:
    """Converts the state of earlier versions, ``[time, row, whether it has joined]`` of each row, into entries."""
    rows: dict[int, list[tuple[Row, bool]]] = {}
    for time, row, has_joined in side:
        rows.setdefault(time, []).append((row, has_joined))
    for time, found in rows.items():
        yield from listed((time,), found)
