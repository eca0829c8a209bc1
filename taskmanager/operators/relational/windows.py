"""Windows of time: aggregates, and the rows of a window that are first, or join with each other.

Times are in ms. A window is ``(start, end)``, the end exclusive; it fires when time reaches its last millisecond. What comes for windows that have fired is
dropped (Flink: ``SlicingWindowOperator.java``, ``WindowOperator.java``).
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from tidegate.functions.sql.aggregates import CompiledAggregates
from tidegate.functions.sql.changelog import INSERT, adds
from tidegate.functions.sql.rows import Change, Row
from tidegate.functions.sql.time_windows import Span
from tidegate.plan.specs import SortField
from tidegate.taskmanager.operators.relational.matching import Matcher
from tidegate.taskmanager.operators.relational.ranks import sort_key
from tidegate.taskmanager.operators.relational.timed import TimedOperator

Spans: TypeAlias = Callable[[Row], Sequence[Span]]
"""The windows of a row."""


class WindowAggregate(TimedOperator):
    """State: ``[values of the grouping, {window: accumulator}]``. ``spans``: the windows of a row that has come at the given time; ``merges``: those that
    meet become one (sessions). ``properties``: what of a window stands behind the aggregates."""

    def __init__(
        self,
        name: str,
        grouping: Sequence[int],
        aggregates: CompiledAggregates,
        schema: pa.Schema,
        *,
        time: int | None,
        spans: Callable[[int], Sequence[Span]] | None,
        attached: Spans | None,
        merges: bool,
        properties: Sequence[Callable[[Span], int | None]],
    ) -> None:
        super().__init__(name, [grouping], schema, is_event_time=time is not None or attached is not None)
        self._grouping = grouping
        self._aggregates = aggregates
        self._time = time
        self._spans = spans
        self._attached = attached
        self._merges = merges
        self._properties = properties

    def change(self, state: Any, kind: int, row: Row, input_index: int, out: list[Change]) -> Any:
        now = self.now()
        if self._attached is not None:
            spans = self._attached(row)
        else:
            assert self._spans is not None
            spans = self._spans(now if self._time is None else row[self._time])
        if state is None:
            state = [tuple([row[position] for position in self._grouping]), {}]
        windows = state[1]
        for span in spans:
            if self._merges:
                span = self._merged(windows, span)
            if span[1] - 1 <= now and self.is_event_time:
                continue  # too late
            found = windows.get(span)
            if found is None:
                found = windows[span] = self._aggregates.create()
            self.register(span[1] - 1)
            self._aggregates.change(found, row, adds(kind))
        return state if windows else None

    def fire(self, state: Any, time_ms: int, out: list[Change]) -> Any:
        windows = state[1]
        for span in sorted(span for span in windows if span[1] - 1 <= time_ms):
            found = windows.pop(span)
            if found[0] > 0:
                times = tuple([made(span) for made in self._properties])
                out.append((INSERT, state[0] + self._aggregates.values(found) + times))
        return state if windows else None

    def _merged(self, windows: dict[Span, Any], span: Span) -> Span:
        """Makes one window of those that meet the given one."""
        meeting = sorted(other for other in windows if other[0] <= span[1] and span[0] <= other[1])
        if not meeting:
            return span
        whole = (min(span[0], meeting[0][0]), max(span[1], *(other[1] for other in meeting)))
        first, *others = [windows.pop(other) for other in meeting]
        for other in others:
            self._aggregates.merge(first, other)
        windows[whole] = first
        return whole


class WindowRows(TimedOperator):
    """Operators that keep the rows of a window, which stands in columns of the rows, until it ends.

    State: ``{window: [rows of each input]}``. ``spans``: by input.
    """

    def __init__(
        self,
        name: str,
        keys: Sequence[Sequence[int]],
        schema: pa.Schema,
        *,
        spans: Sequence[Spans],
        is_event_time: bool,
    ) -> None:
        super().__init__(name, keys, schema, is_event_time=is_event_time)
        self._row_spans = spans

    def change(self, state: Any, kind: int, row: Row, input_index: int, out: list[Change]) -> Any:
        windows: dict[Span, list[list[Row]]] = state or {}
        now = self.now()
        for span in self._row_spans[input_index](row):
            if span[1] - 1 <= now and self.is_event_time:
                continue  # too late
            found = windows.get(span)
            if found is None:
                found = windows[span] = [[] for _ in self._positions]
                self.register(span[1] - 1)
            self.take(found[input_index], row)
        return windows or None

    def fire(self, state: Any, time_ms: int, out: list[Change]) -> Any:
        for span in sorted(span for span in state if span[1] - 1 <= time_ms):
            out.extend((INSERT, row) for row in self.results(state.pop(span)))
        return state or None

    @abstractmethod
    def take(self, rows: list[Row], row: Row) -> None:
        """Adds a row to those that are kept of its window."""

    @abstractmethod
    def results(self, rows: Sequence[list[Row]]) -> Iterable[Row]:
        """Returns what is emitted for a window. ``rows``: by input."""


class WindowTopN(WindowRows):
    """The first rows of a window in an order, with their ranks where they are asked for."""

    def __init__(
        self,
        name: str,
        partition: Sequence[int],
        schema: pa.Schema,
        *,
        order: Sequence[SortField],
        ranks: tuple[int, int],
        outputs_number: bool,
        spans: Sequence[Spans],
        is_event_time: bool,
    ) -> None:
        super().__init__(name, [partition], schema, spans=spans, is_event_time=is_event_time)
        self._sort_key = sort_key(order)
        self._first, self._last = ranks[0] - 1, ranks[1]
        self._outputs_number = outputs_number

    def take(self, rows: list[Row], row: Row) -> None:
        rows.insert(bisect_right(rows, self._sort_key(row), key=self._sort_key), row)
        del rows[self._last :]

    def results(self, rows: Sequence[list[Row]]) -> Iterable[Row]:
        ranked = rows[0][self._first :]
        return [(*row, rank) for rank, row in enumerate(ranked, self._first + 1)] if self._outputs_number else ranked


class WindowDeduplicate(WindowRows):
    """The first or last row of a window by a field of time."""

    def __init__(
        self,
        name: str,
        partition: Sequence[int],
        schema: pa.Schema,
        *,
        time: int,
        keeps_last: bool,
        spans: Sequence[Spans],
        is_event_time: bool,
    ) -> None:
        super().__init__(name, [partition], schema, spans=spans, is_event_time=is_event_time)
        self._time = time
        self._keeps_last = keeps_last

    def take(self, rows: list[Row], row: Row) -> None:
        time = self._time
        if not rows or (row[time] >= rows[0][time] if self._keeps_last else row[time] < rows[0][time]):
            rows[:] = [row]

    def results(self, rows: Sequence[list[Row]]) -> Iterable[Row]:
        return rows[0]


class WindowJoin(WindowRows):
    """A join of rows of the same window and key. ``matcher`` finds the rows of the other side."""

    def __init__(
        self,
        name: str,
        keys: Sequence[Sequence[int]],
        schema: pa.Schema,
        *,
        join_type: str,
        matcher: Matcher,
        widths: tuple[int, int],
        spans: Sequence[Spans],
        is_event_time: bool,
    ) -> None:
        super().__init__(name, keys, schema, spans=spans, is_event_time=is_event_time)
        self._type = join_type
        self._matcher = matcher
        self._nothing = [(None,) * width for width in widths]

    def take(self, rows: list[Row], row: Row) -> None:
        rows.append(row)

    def results(self, rows: Sequence[list[Row]]) -> Iterable[Row]:
        left, right = rows
        matched: set[int] = set()
        for row in left:
            found = self._matcher.positions(row, right)
            if self._type in ("SEMI", "ANTI"):
                if bool(found) == (self._type == "SEMI"):
                    yield row
                continue
            for at in found:
                matched.add(at)
                yield row + right[at]
            if not found and self._type in ("LEFT", "FULL"):
                yield row + self._nothing[1]
        if self._type in ("RIGHT", "FULL"):
            yield from (self._nothing[0] + row for at, row in enumerate(right) if at not in matched)
