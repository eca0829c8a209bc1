"""The operator of MATCH_RECOGNIZE (Flink: ``CepOperator.java`` behind ``StreamExecMatch``).

    row ─▶ the queue of its key, by event time ─▶ watermark ─▶ the automaton of the pattern ─▶ for each match the key's columns and the measures

In processing time, rows are matched in their order of arrival. A row with a time at or below the watermark is late: it is counted and dropped. The state is
that of ``rows/pattern_state``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from tidegate.functions.cep.compiler import compile_pattern
from tidegate.functions.cep.matcher import KeyMatcher, PatternOutcome
from tidegate.functions.cep.nfa import NFA
from tidegate.functions.cep.pattern import Pattern
from tidegate.functions.sql.changelog import INSERT
from tidegate.functions.sql.match_recognize import Measures
from tidegate.functions.sql.rows import Change, Row
from tidegate.functions.time_domain import TimeDomain
from tidegate.model.errors import InvalidJob
from tidegate.model.values import Key
from tidegate.plan.specs import SortField
from tidegate.taskmanager.keyed_state.timers import Timer
from tidegate.taskmanager.operators.relational.ranks import sort_key
from tidegate.taskmanager.operators.relational.relational_operator import KEEP
from tidegate.taskmanager.operators.relational.timed import TimedOperator
from tidegate.taskmanager.operators.rows.pattern_state import PatternState

LATE_RECORDS = "numLateRecordsDropped"


class Match(TimedOperator):
    """Finds the matches of a pattern in the rows of each key. ``time``: the field of event time; ``None``: processing time. ``order``: the order of rows with
    the same time.
    """

    def __init__(
        self,
        name: str,
        key: Sequence[int],
        schema: pa.Schema,
        pattern: Pattern,
        measures: Measures,
        *,
        time: int | None,
        order: Sequence[SortField],
    ) -> None:
        super().__init__(name, [key], schema, is_event_time=time is not None)
        self._key, self._pattern, self._measures, self._time = key, pattern, measures, time
        self._compare = _comparator(sort_key(order)) if order else None
        self._advanced: dict[Key, int] = {}
        """For each key that was processed since the last watermark: the watermark up to which its pattern was advanced."""

    def open_states(self) -> None:
        nfa = NFA(compile_pattern(self._pattern), now=self.context.clock.now_ms)
        self._patterns = PatternState(self._backend, nfa, self.register, self._compare)

    def read(self, group: int, key: Any, now_ms: int) -> Any:
        """Returns ``None``, as ``change`` and ``fire`` read the state that they need."""
        return None

    def change(self, state: Any, kind: int, row: Row, input_index: int, out: list[Change]) -> Any:
        if self._time is None:
            matcher = self._patterns.read()
            outcomes = matcher.take(row, self.now())
            self._finish(matcher, outcomes, out)
            return KEEP
        time = row[self._time]
        if time is None:
            raise InvalidJob(
                f"operator '{self._name}': RowTime should not be null, please convert it to a non-null long value."
            )
        if time > self._timers.watermark:
            self._patterns.enqueue(row, time)
        else:
            self.context.metrics.add(LATE_RECORDS)
        return KEEP

    def on_timer(self, timer: Timer, domain: TimeDomain) -> None:
        now = self.now()
        if domain is TimeDomain.EVENT_TIME:
            if self._advanced.get(timer.key) == now:
                return
            self._advanced[timer.key] = now
        self._backend.set_current(timer.key, timer.group)
        matcher = self._patterns.read()
        self._finish(matcher, matcher.advance(now), self._fired)

    def fire(self, state: Any, time_ms: int, out: list[Change]) -> Any:
        """Does nothing, as ``on_timer`` advances the pattern."""
        return KEEP

    def advance(self, timestamp_ms: int) -> None:
        self._advanced.clear()
        super().advance(timestamp_ms)

    def _finish(self, matcher: KeyMatcher, outcomes: list[PatternOutcome], out: list[Change]) -> None:
        self._patterns.write(matcher)
        for outcome in outcomes:
            first = next(iter(outcome.events.values()))[0]
            measured = self._measures.of(outcome.events, outcome.timestamp)
            out.append((INSERT, (*[first[position] for position in self._key], *measured)))


def _comparator(key: Callable[[Row], Any]) -> Callable[[Row, Row], int]:
    def compare(one: Row, other: Row) -> int:
        left, right = key(one), key(other)
        return int(left > right) - int(left < right)

    return compare


__all__ = ["Match"]
