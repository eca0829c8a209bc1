"""The operator of patterns of events on keyed streams, ``cep`` (Flink: ``CepOperator.java``).

    event time:      event ─▶ queue of its key ─▶ a timer at its time ─▶ the queue up to the watermark, in order ─▶ automaton ─▶ function
    processing time: event ────────────────────────────────────────────────────────────────────────────────────────▶ automaton ─▶ function

An event with a time at or below the watermark is late: it goes to the side output, or is counted and dropped. Results of a match have the time of the match.

The keyed state is in ``pattern_state``.
"""

from __future__ import annotations

from typing import Any

from tidegate.functions.cep.compiler import compile_pattern
from tidegate.functions.cep.functions import PatternContext, TimedOutPartialMatchHandler
from tidegate.functions.cep.matcher import KeyMatcher, PatternOutcome
from tidegate.functions.cep.nfa import NFA
from tidegate.functions.output_tag import OutputTag
from tidegate.functions.time_domain import TimeDomain
from tidegate.model.errors import InvalidJob
from tidegate.model.program import KeySpec
from tidegate.model.values import Key
from tidegate.operator_options import CepOptions
from tidegate.records.batch import Batch, RecordsBatch
from tidegate.taskmanager.keyed_state.timers import Timer
from tidegate.taskmanager.operators.operator import OperatorContext
from tidegate.taskmanager.operators.rows.keyed import KeyedOperator
from tidegate.taskmanager.operators.rows.pattern_state import PatternState
from tidegate.taskmanager.operators.user_code.boundary import Collector, user_error
from tidegate.taskmanager.operators.user_code.user_function import FunctionOperatorBase, UserFunction

LATE_RECORDS = "numLateRecordsDropped"


class _Context(PatternContext):
    """The context of pattern functions: one object for all matches."""

    def __init__(self, context: OperatorContext, collector: Collector, *, is_event_time: bool) -> None:
        self._clock, self._collector, self._is_event_time = context.clock, collector, is_event_time
        self.time = 0

    @property
    def stamp(self) -> int | None:
        return self.time if self._is_event_time else None

    def output(self, output_tag: OutputTag, value: Any) -> None:
        self._collector.add_to_side(output_tag.tag_id, value, self.stamp)

    def timestamp(self) -> int:
        return self.time

    def current_processing_time(self) -> int:
        return self._clock.now_ms()


class CepOperator(FunctionOperatorBase, KeyedOperator):
    """Matches a pattern on the events of each key, in the order of event time or of their arrival (Flink: ``CepOperator.java``)."""

    def __init__(self, name: str, key: KeySpec, options: CepOptions) -> None:
        super().__init__(name, [key])
        self._func = options.func
        self._user = UserFunction(options.func, name)
        self._options = options
        self._handler = options.func if isinstance(options.func, TimedOutPartialMatchHandler) else None
        self._advanced: dict[Key, int] = {}
        """For each key, the watermark up to which it was advanced, since the last watermark came."""

    def open(self) -> None:
        automaton = compile_pattern(self._options.pattern)
        self._nfa = NFA(automaton, handles_timeouts=self._handler is not None, now=lambda: self.context.clock.now_ms())
        copies = self.context.copies_of(None)
        self._shared, self._own = copies.shared, copies.copy
        self._found = _Context(self.context, self._collector, is_event_time=self._options.is_event_time)
        by_event_time = self._options.is_event_time
        register = (
            self._timers.register_event_time_timer if by_event_time else self._timers.register_processing_time_timer
        )
        self._patterns = PatternState(self._backend, self._nfa, register, self._options.comparator)
        self._user.open(self.context)
        super().open()

    def process(self, batch: Batch, input_index: int) -> None:
        assert isinstance(batch, RecordsBatch)
        if self._options.is_event_time:
            self._keep(batch, input_index)
        else:
            for value, _ in self._keyed_records(batch, input_index):
                matcher = self._patterns.read()
                now = self.context.clock.now_ms()
                try:
                    outcomes = matcher.take(self._copied(value), now)
                except Exception as error:
                    raise user_error(self._name, error, value) from error
                self._finish(matcher, outcomes)
        self._collector.flush()
        self._schedule()

    def on_watermark(self, timestamp_ms: int) -> None:
        self._advanced.clear()
        super().on_watermark(timestamp_ms)

    def on_timer(self, timer: Timer, domain: TimeDomain) -> None:
        if domain is TimeDomain.EVENT_TIME:
            now = self._timers.watermark
            if self._advanced.get(timer.key) == now:
                return
            self._advanced[timer.key] = now
        else:
            now = self.context.clock.now_ms()
        self._backend.set_current(timer.key, timer.group)
        matcher = self._patterns.read()
        try:
            outcomes = matcher.advance(now)
        except Exception as error:
            raise user_error(self._name, error, *matcher.current) from error
        self._finish(matcher, outcomes)

    def close(self) -> None:
        try:
            self._user.close()
        finally:
            super().close()

    def _keep(self, batch: RecordsBatch, input_index: int) -> None:
        watermark, late_tag, collector = self._timers.watermark, self._options.late_tag, self._collector
        for value, stamp in self._keyed_records(batch, input_index):
            if stamp is None:
                raise InvalidJob(
                    f"operator '{self._name}': a record has no timestamp: put assign_timestamps_and_watermarks before the pattern, or take "
                    f"in_processing_time() (record: {value!r})"
                )
            if stamp > watermark:
                self._patterns.enqueue(self._copied(value), stamp)
            elif late_tag is None:
                self.context.metrics.add(LATE_RECORDS)
            else:
                collector.add_to_side(late_tag, value, stamp)

    def _finish(self, matcher: KeyMatcher, outcomes: list[PatternOutcome]) -> None:
        """Writes the state of the current key, and calls the function for matches and timeouts."""
        self._patterns.write(matcher)
        for outcome in outcomes:
            self._emit(outcome)
        if self._collector.is_full():
            self._collector.flush()

    def _emit(self, outcome: PatternOutcome) -> None:
        found = self._found
        found.time = outcome.timestamp
        match = {stage: [self._copied(event) for event in events] for stage, events in outcome.events.items()}
        try:
            if not outcome.is_timed_out:
                self._collector.add_all(self._func.process_match(match, found), found.stamp)
            elif self._handler is not None:
                self._collector.add_all(self._handler.process_timed_out_match(match, found), found.stamp)
        except Exception as error:
            events = [event for of_stage in match.values() for event in of_stage]
            raise user_error(self._name, error, *events[:1], *events[1:][-1:]) from error

    def _copied(self, value: Any) -> Any:
        """Copies an event, since functions must not change the one in state."""
        return value if value.__class__ in self._shared else self._own(value)


__all__ = ["CepOperator"]
