"""From a case to a pattern, and what it finds with the automaton alone."""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tidegate.functions.cep.after_match_skip_strategy import AfterMatchSkipStrategy
from tidegate.functions.cep.compiler import compile_pattern
from tidegate.functions.cep.matcher import KeyMatcher, PatternOutcome, enqueue
from tidegate.functions.cep.nfa import NFA
from tidegate.functions.cep.pattern import Pattern, WithinType
from tidegate.functions.cep.shared_buffer import SharedBuffer

MATCHES = Path(__file__).with_name("flink_2.3_matches.json.xz")
RECORDED: list[dict[str, Any]] = json.loads(lzma.decompress(MATCHES.read_bytes())) if MATCHES.exists() else []
"""Cases, with what was found in each, or the words in which it was refused; none before they are recorded."""
Event = tuple[str, int, str, int]
"""Key, number, name, amount."""


def pattern_of(case: dict[str, Any]) -> Pattern:
    name, *arguments = case["skip"]
    return _pattern(case["pattern"], getattr(AfterMatchSkipStrategy, name)(*arguments))


def found_in(case: dict[str, Any]) -> list[dict[str, Any]]:
    """What the automaton finds after each step, and what is left of it: the last step has to leave nothing but its first state."""
    running = _Keys(case)
    return [running.step(*step) for step in case["steps"]]


class _Keys:
    def __init__(self, case: dict[str, Any]) -> None:
        self._now = 1
        self._nfa = NFA(compile_pattern(pattern_of(case)), handles_timeouts=True, now=lambda: self._now)
        self._matchers: dict[str, KeyMatcher] = {}
        self._places: dict[str, tuple[int, str]] = {}
        self._timers: set[tuple[int, int, str]] = set()
        self._watermark = -(2**63)
        self._by_clock = case["time"] == "processing"

    def step(self, kind: str, time: int, *event: Any) -> dict[str, Any]:
        outcomes: list[PatternOutcome] = []
        late: list[int] = []
        if kind == "event":
            record: Event = (event[0], event[1], event[2], event[3])
            matcher = self._matcher(record[0])
            if self._by_clock:
                outcomes = matcher.take(record, self._now)
            elif time > self._watermark:
                enqueue(matcher.queue, record, time, lambda at: self._timers.add((at, *self._places[record[0]])))
            else:
                late.append(record[1])
        else:
            self._watermark = self._now = time
            due = time - self._by_clock  # Flink's harness lets a timer of the clock fire in the millisecond behind it
            while self._timers and (first := min(self._timers))[0] <= due:
                self._timers.remove(first)
                outcomes += self._matcher(first[2]).advance(time)
        return {
            what: found
            for what, found in (
                ("matches", [self._written(one) for one in outcomes if not one.is_timed_out]),
                ("timed_out", [self._written(one) for one in outcomes if one.is_timed_out]),
                ("late", late),
            )
            if found
        }

    def _matcher(self, key: str) -> KeyMatcher:
        if key not in self._matchers:
            place = self._places[key] = (len(self._places), key)

            def register(time: int) -> None:
                self._timers.add((time, *place))

            self._matchers[key] = KeyMatcher(self._nfa, self._nfa.initial_state(), SharedBuffer({}, {}), {}, register)
        return self._matchers[key]

    def _written(self, outcome: PatternOutcome) -> list[Any]:
        time = None if self._by_clock else outcome.timestamp
        return [time, {stage: [event[1] for event in events] for stage, events in outcome.events.items()}]


def _pattern(stages: list[dict[str, Any]], skip: AfterMatchSkipStrategy) -> Pattern:
    pattern: Any = None
    for stage in stages:
        given = _pattern(stage["group"], skip) if "group" in stage else stage["name"]
        pattern = Pattern.begin(given, skip) if stage["how"] == "begin" else getattr(pattern, stage["how"])(given)
        for method, *arguments in stage["calls"]:
            if method in ("where", "or_", "until"):
                arguments = [condition(*arguments[0])]
            if method == "within_previous":
                method, arguments = "within", [*arguments, WithinType.PREVIOUS_AND_CURRENT]
            getattr(pattern, method)(*arguments)
    assert isinstance(pattern, Pattern)
    return pattern


def condition(kind: str, operand: str, bound: int = 0) -> Callable[..., bool]:
    def is_named(event: Event) -> bool:
        return event[2] == operand

    def is_above(event: Event) -> bool:
        return event[3] > int(operand)

    def is_rising(event: Event, ctx: Any) -> bool:
        return all(event[3] > one[3] for one in [*ctx.get_events_for_pattern(operand)][-1:])

    def has_sum_below(event: Event, ctx: Any) -> bool:
        total: int = sum(one[3] for one in ctx.get_events_for_pattern(operand))
        return event[3] + total < bound

    conditions: dict[str, Callable[..., bool]] = {
        "is": is_named,
        "above": is_above,
        "rising": is_rising,
        "sum_below": has_sum_below,
    }
    return conditions[kind]


__all__ = ["MATCHES", "RECORDED", "Event", "condition", "found_in", "pattern_of"]
