"""Assignment of rows to time windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd
from typing import Any, TypeAlias

import pyarrow as pa

from tidegate.functions.sql.changelog import has_kinds
from tidegate.functions.sql.time_shift import TimeShift
from tidegate.plan.errors import UnsupportedPlan
from tidegate.plan.specs import (
    CumulativeWindow,
    GroupWindow,
    HoppingWindow,
    SessionGroupWindow,
    SessionWindow,
    SlidingGroupWindow,
    TumblingWindow,
    Window,
    WindowAttachedWindowing,
    duration_ms,
)

Span: TypeAlias = tuple[int, int]
"""Start and end of a window in ms, the end exclusive."""
Grid: TypeAlias = tuple[int, int]
"""Length and offset of cells of time in ms, within each of which all times have the same windows."""


def spans_of(window: Window | GroupWindow) -> Callable[[int], Sequence[Span]]:
    """Returns the function that assigns a time in ms to windows; for sessions, to the window of that row alone. Not for count windows."""
    match window:
        case SessionWindow() | SessionGroupWindow():
            gap = duration_ms(window.gap)
            return lambda ms: ((ms, ms + gap),)
        case TumblingWindow():
            return _sliding(duration_ms(window.size), duration_ms(window.size), _offset(window))
        case HoppingWindow():
            return _sliding(duration_ms(window.size), duration_ms(window.slide), _offset(window))
        case CumulativeWindow():
            return _cumulative(duration_ms(window.max_size), duration_ms(window.step), _offset(window))
    assert window.is_time_window
    size = ms_of(window.size)
    return _sliding(size, ms_of(window.slide) if isinstance(window, SlidingGroupWindow) else size, 0)


def grid_of(window: Window | GroupWindow) -> Grid | None:
    """Returns the cells of time windows; ``None`` for sessions. Not for count windows."""
    match window:
        case SessionWindow() | SessionGroupWindow():
            return None
        case TumblingWindow():
            return duration_ms(window.size), _offset(window)
        case HoppingWindow():
            return gcd(duration_ms(window.size), duration_ms(window.slide)), _offset(window)
        case CumulativeWindow():
            return gcd(duration_ms(window.max_size), duration_ms(window.step)), _offset(window)
    size = ms_of(window.size)
    return gcd(size, ms_of(window.slide)) if isinstance(window, SlidingGroupWindow) else size, 0


def rows_of(window: GroupWindow) -> tuple[int, int] | None:
    """Returns size and slide of a count window, in rows; ``None``: it is a time window."""
    if isinstance(window, SessionGroupWindow) or window.is_time_window:
        return None
    size = int(window.size)
    return size, int(window.slide) if isinstance(window, SlidingGroupWindow) else size


def start_of(window: Window, end: int) -> int:
    """Returns the start of the window that ends at ``end``. Raises ``UnsupportedPlan`` for sessions, whose length varies."""
    match window:
        case TumblingWindow() | HoppingWindow():
            return end - duration_ms(window.size)
        case CumulativeWindow():
            size = duration_ms(window.max_size)
            return end - 1 - (end - 1 - _offset(window)) % size
        case _:
            raise UnsupportedPlan("session windows whose rows have a window end but no window start are not supported")


def attached_spans(windowing: WindowAttachedWindowing) -> Callable[[Sequence[Any]], Sequence[Span]]:
    """Returns the function that reads the window in a row's columns."""
    first, last, window = windowing.window_start, windowing.window_end, windowing.window
    if first >= 0:
        return lambda row: ((row[first], row[last]),)
    start_of(window, 0)
    return lambda row: ((start_of(window, row[last]), row[last]),)


def attached_bounds(windowing: WindowAttachedWindowing) -> tuple[int, int]:
    """Returns the columns of the start and of the end of a row's window; -1: there is no start, and the end tells it. Raises ``UnsupportedPlan`` as
    ``start_of`` does.
    """
    if windowing.window_start < 0:
        start_of(windowing.window, 0)
    return windowing.window_start, windowing.window_end


class WindowedRows:
    """Emits each row once for each of its windows, with the window's start, end and last ms appended. A row without a time is dropped."""

    def __init__(self, window: Window, time: int, schema: pa.Schema, shift: TimeShift) -> None:
        self._window, self._time, self._schema, self._shift = window, time, schema, shift

    def __call__(self, batch: pa.RecordBatch, now_ms: int | None = None) -> pa.RecordBatch:
        """Emits the rows of a batch. ``now_ms``: the time of all rows, for windows of processing time."""
        spans, shift = spans_of(self._window), self._shift
        times = [now_ms] * batch.num_rows if now_ms is not None else _ms_of(batch.columns[self._time])
        found = [
            (row, span) for row, ms in enumerate(times) if ms is not None for span in sorted(spans(shift.local(ms)))
        ]
        rows = pa.array([row for row, _ in found], pa.int64())
        columns = [column.take(rows) for column in batch.columns]
        kinds = [columns.pop()] if has_kinds(self._schema) else []
        bounds = [
            [span[0] for _, span in found],
            [span[1] for _, span in found],
            [shift.moment(span[1] - 1) for _, span in found],
        ]
        kind = [field.type for field in self._schema][len(columns) : len(columns) + 3]
        columns += [_stamps(values, type) for values, type in zip(bounds, kind, strict=True)]
        return pa.RecordBatch.from_arrays([*columns, *kinds], schema=self._schema)


def _ms_of(times: pa.Array) -> list[int | None]:
    unit = times.type.unit
    values: list[int | None] = times.view(pa.int64()).to_pylist()
    per_ms = {"ms": 1, "us": 1_000, "ns": 1_000_000}[unit]
    return values if per_ms == 1 else [None if value is None else value // per_ms for value in values]


def _stamps(ms: list[int], type: pa.DataType) -> pa.Array:
    return pa.array(ms, pa.int64()).view(pa.timestamp("ms", type.tz)).cast(type)


def _offset(window: TumblingWindow | HoppingWindow | CumulativeWindow) -> int:
    return 0 if window.offset is None else duration_ms(window.offset)


def ms_of(length: str | int) -> int:
    """Returns the length of a window of GROUP BY in ms."""
    return duration_ms(length) if isinstance(length, str) else length


def _sliding(size: int, slide: int, offset: int) -> Callable[[int], Sequence[Span]]:
    def spans(ms: int) -> list[Span]:
        last = ms - (ms - offset) % slide
        return [(start, start + size) for start in range(last, ms - size, -slide)]

    return spans


def _cumulative(size: int, step: int, offset: int) -> Callable[[int], Sequence[Span]]:
    def spans(ms: int) -> list[Span]:
        start = ms - (ms - offset) % size
        first = start + ((ms - start) // step + 1) * step
        return [(start, end) for end in range(first, start + size + 1, step)]

    return spans


__all__ = [
    "Grid",
    "Span",
    "WindowedRows",
    "attached_bounds",
    "attached_spans",
    "grid_of",
    "ms_of",
    "spans_of",
    "start_of",
]
