"""Matches of patterns beside those of an oracle that tries all sequences of events, and what is left in the shared buffer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tidegate.functions.cep.after_match_skip_strategy import AfterMatchSkipStrategy
from tidegate.functions.cep.compiler import compile_pattern
from tidegate.functions.cep.nfa import NFA
from tidegate.functions.cep.pattern import Pattern
from tidegate.functions.cep.shared_buffer import KeptEvent, Node, SharedBuffer

Event = tuple[int, str]
"""Time and letter; the time tells events apart."""


@dataclass(frozen=True)
class Stage:
    letter: str
    how: str
    least: int
    most: int | None
    """``None``: any number."""
    inner: str
    is_optional: bool


def stages() -> st.SearchStrategy[list[Stage]]:
    counts: st.SearchStrategy[tuple[int, int | None]] = st.sampled_from(
        [(1, 1), (1, 1), (1, None), (2, None), (2, 2), (1, 3)]
    )
    one = st.builds(
        lambda letter, how, count, inner, is_optional: Stage(letter, how, count[0], count[1], inner, is_optional),
        st.sampled_from("ab"),
        st.sampled_from(["next", "followed_by", "followed_by_any"]),
        counts,
        st.sampled_from(["next", "followed_by", "followed_by_any"]),
        st.booleans(),
    )
    return st.lists(one, min_size=1, max_size=3)


def pattern_of(made: list[Stage], window_ms: int | None, skip: AfterMatchSkipStrategy | None = None) -> Pattern:
    pattern: Any = None
    for at, stage in enumerate(made):
        name = f"s{at}"
        pattern = Pattern.begin(name, skip) if pattern is None else getattr(pattern, stage.how)(name)
        letter = stage.letter
        pattern.where(lambda event, letter=letter: event[1] == letter)
        if (stage.least, stage.most) != (1, 1):
            if stage.most is None:
                pattern.times_or_more(stage.least)
            else:
                pattern.times(stage.least, stage.most)
            if stage.inner != "followed_by":
                pattern.consecutive() if stage.inner == "next" else pattern.allow_combinations()
        if stage.is_optional:
            pattern.optional()
    pattern.within(window_ms)
    assert isinstance(pattern, Pattern)
    return pattern


def sequences(made: list[Stage], events: list[Event]) -> Iterator[list[tuple[int, int]]]:
    """All matches, as stages and places of events."""

    def followers(last: int | None, how: str, letter: str) -> Iterator[int]:
        if last is None:
            yield from (at for at, event in enumerate(events) if event[1] == letter)
            return
        for at in range(last + 1, len(events)):
            if events[at][1] == letter:
                yield at
                if how != "followed_by_any":
                    return
            if how == "next":
                return

    def grown(stage: int, count: int, path: list[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
        """``count``: how many events the stage has taken so far."""
        if stage == len(made):
            if path:
                yield path
            return
        of = made[stage]
        if count >= of.least or (count == 0 and of.is_optional):
            yield from grown(stage + 1, 0, path)
        if of.most is None or count < of.most:
            last = path[-1][1] if path else None
            for at in followers(last, of.how if count == 0 else of.inner, of.letter):
                yield from grown(stage, count + 1, [*path, (stage, at)])

    yield from grown(0, 0, [])


def as_found(path: list[tuple[int, int]], events: list[Event]) -> dict[str, list[Event]]:
    found: dict[str, list[Event]] = {}
    for stage, at in path:
        found.setdefault(f"s{stage}", []).append(events[at])
    return found


def run(pattern: Pattern, events: list[Event]) -> list[dict[str, list[Event]]]:
    events_kept: dict[tuple[int, int], KeptEvent] = {}
    nodes: dict[int, Node] = {}
    nfa, buffer = NFA(compile_pattern(pattern)), SharedBuffer(events_kept, nodes)
    state = nfa.initial_state()
    found = []
    for event in events:
        found += nfa.advance_time(state, buffer, event[0])[0]
        found += nfa.process(state, buffer, event, event[0])
    if pattern.get_window_size() is not None:
        found += nfa.advance_time(state, buffer, 10**6)[0]
        assert (events_kept, nodes) == ({}, {})
        assert len(state.partial) == 1
    return found


@given(stages(), st.lists(st.sampled_from("abx"), max_size=7), st.sampled_from([None, 2, 4, 6]))
def test_every_match_is_found_once(made: list[Stage], letters: list[str], window_ms: int | None) -> None:
    events = [(time, letter) for time, letter in enumerate(letters, 1)]
    expected = [
        as_found(path, events)
        for path in sequences(made, events)
        if window_ms is None or events[path[-1][1]][0] - events[path[0][1]][0] < window_ms
    ]
    found = run(pattern_of(made, window_ms), events)
    assert sorted(map(repr, found)) == sorted(map(repr, expected))


def span(match: dict[str, list[Event]]) -> tuple[int, int]:
    times = [event[0] for taken in match.values() for event in taken]
    return min(times), max(times)


@given(stages(), st.lists(st.sampled_from("abx"), max_size=8), st.sampled_from([3, 6]))
def test_past_the_last_event_no_two_matches_overlap(made: list[Stage], letters: list[str], window_ms: int) -> None:
    events = [(time, letter) for time, letter in enumerate(letters, 1)]
    found = run(pattern_of(made, window_ms, AfterMatchSkipStrategy.skip_past_last_event()), events)
    spans = [span(match) for match in found]
    assert all(last < first for (_, last), (first, _) in pairwise(spans))
    assert bool(found) == bool(run(pattern_of(made, window_ms), events))


@given(stages(), st.lists(st.sampled_from("abx"), max_size=8))
def test_to_the_next_there_is_one_match_for_each_first_event(made: list[Stage], letters: list[str]) -> None:
    events = [(time, letter) for time, letter in enumerate(letters, 1)]
    pattern = pattern_of(made, 5, AfterMatchSkipStrategy.skip_to_next())
    firsts = [span(match)[0] for match in run(pattern, events)]
    assert len(firsts) == len(set(firsts))
    assert set(firsts) == {span(match)[0] for match in run(pattern_of(made, 5), events)}
