"""Patterns: what is refused and in which words, conditions, and what of a pattern can be asked for."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import cloudpickle
import pytest

from tidegate.common.time import Duration, Time
from tidegate.functions.cep.after_match_skip_strategy import AfterMatchSkipStrategy
from tidegate.functions.cep.compiler import compile_pattern
from tidegate.functions.cep.conditions import IterativeCondition, SimpleCondition
from tidegate.functions.cep.errors import MalformedPatternException
from tidegate.functions.cep.nfa import NFA, Found
from tidegate.functions.cep.pattern import Pattern, WithinType
from tidegate.functions.cep.shared_buffer import SharedBuffer


def found(pattern: Pattern, values: list[Any]) -> list[Found]:
    """All matches in events whose times are their places; what cannot match has to leave the buffer."""
    nfa, buffer = NFA(compile_pattern(pattern)), SharedBuffer({}, {})
    state = nfa.initial_state()
    matches: list[Found] = []
    for time, value in enumerate(values, 1):
        matches += nfa.advance_time(state, buffer, time)[0]
        matches += nfa.process(state, buffer, value, time)
    return matches + nfa.advance_time(state, buffer, len(values) + 10**6)[0]


NOTHING: Any = 5
REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: Pattern.begin("a").next("a"), "Duplicate pattern name: a. Names must be unique."),
    (lambda: Pattern.begin("a").not_followed_by("b"), "NotFollowedBy is not supported without windowTime as a last part"),
    (lambda: Pattern.begin("a").until(bool), "The until condition is only applicable to looping states."),
    (lambda: Pattern.begin("a").one_or_more().until(bool).until(bool), "Only one until condition can be applied."),
    (lambda: Pattern.begin("a").greedy(), "Option not applicable to singleton quantifier"),
    (lambda: Pattern.begin("a").one_or_more().allow_combinations().greedy(), "Option not applicable to FollowedByAny pattern"),
    (lambda: Pattern.begin("a").one_or_more().consecutive().allow_combinations(), "You can apply either combinations or consecutive, not both!"),
    (lambda: Pattern.begin("a").optional().optional(), "Optional already applied!"),
    (lambda: Pattern.begin("a").times(2).one_or_more(), "Already applied quantifier to this Pattern. Current quantifier is: Quantifier{"),
    (lambda: Pattern.begin("a").times(0), "You should give a positive number greater than 0."),
    (lambda: Pattern.begin("a").times(3, 2), "The to should be a number greater than or equal to from: 3."),
    (lambda: Pattern.begin("a").not_next("b").one_or_more(), "Option not applicable to NOT pattern"),
    (lambda: Pattern.begin("a").not_next("b").optional(), "NOT pattern cannot be optional"),
    (lambda: Pattern.begin("a").optional().not_next("b"), "Specifying a pattern with an optional path to NOT condition"),
    (lambda: Pattern.begin("a").one_or_more().greedy().next("b").optional(), "Optional pattern cannot be preceded by greedy pattern"),
    (lambda: Pattern.begin(Pattern.begin("a")).where(bool), "GroupPattern does not support where clause."),
    (lambda: Pattern.begin(Pattern.begin("a")).one_or_more().greedy(), "Option not applicable to group pattern"),
    (lambda: Pattern.begin("a", AfterMatchSkipStrategy.skip_to_first("x")), "The pattern name specified in AfterMatchSkipStrategy can not be found"),
    (lambda: Pattern.begin("a").next("b").within(5, WithinType.PREVIOUS_AND_CURRENT).within(2), "The window length between the previous and current event"),
    (lambda: Pattern.begin("a").where(NOTHING), "where takes a function of the event, or of the event and a context"),
    (lambda: Pattern.begin(NOTHING), "a stage of a pattern is given by a name or another pattern, not by 5"),
    (lambda: Pattern.begin("a").next(Pattern.begin("b").optional()).one_or_more(), "a group of the pattern repeats without end although"),
]  # fmt: skip


@pytest.mark.parametrize(("made", "words"), REFUSED, ids=[words[:40] for _, words in REFUSED])
def test_patterns_that_cannot_be_are_refused(made: Callable[[], Any], words: str) -> None:
    with pytest.raises(MalformedPatternException) as refusal:
        compile_pattern(made())
    assert refusal.value.message.startswith(words)


def test_conditions_are_functions_and_classes_of_the_event_and_of_what_was_matched() -> None:
    class Even(SimpleCondition):
        def filter(self, value: Any, ctx: Any = None) -> bool:
            return bool(value % 2 == 0)

    class Larger(IterativeCondition):
        def filter(self, value: Any, ctx: IterativeCondition.Context) -> bool:
            assert ctx.timestamp() > 0
            assert ctx.current_processing_time() == 0
            return bool(value > max(ctx.get_events_for_pattern("a")))

    pattern = Pattern.begin("a").where(Even()).next("b").where(Larger()).where(lambda event: event < 9)
    assert found(pattern, [2, 3, 4, 4, 6, 10]) == [{"a": [2], "b": [3]}, {"a": [4], "b": [6]}]
    summed = Pattern.begin("a").next("b").where(lambda event, ctx: event == sum(ctx.get_events_for_pattern("a")))
    assert found(summed, [1, 1, 2, 2]) == [{"a": [1], "b": [1]}, {"a": [2], "b": [2]}]


def test_a_condition_may_be_one_of_several_and_a_class() -> None:
    pattern = Pattern.begin("a").where(lambda event: event == 1).or_(lambda event: event == "x").subtype(str)
    assert found(pattern, [1, "x", 2]) == [{"a": ["x"]}]


def test_a_simple_condition_is_asked_once_for_an_event() -> None:
    asked: list[int] = []

    def is_any(event: int) -> bool:
        asked.append(event)
        return True

    found(Pattern.begin("a").where(is_any).one_or_more().allow_combinations(), [1, 2, 3])
    assert asked == [1, 2, 3]


def test_times_are_in_milliseconds_or_a_time_or_a_duration() -> None:
    for given in (2000, Time.seconds(2), Duration.of_seconds(2)):
        assert Pattern.begin("a").within(given).get_window_size() == 2000


def test_patterns_can_be_pickled() -> None:
    pattern = Pattern.begin("a").where(lambda event: event > 1).one_or_more().within(5)
    assert found(pickle.loads(cloudpickle.dumps(pattern)), [1, 2]) == found(pattern, [1, 2])


def test_what_may_match_nothing_is_known() -> None:
    assert compile_pattern(Pattern.begin("a").optional()).can_match_nothing()
    assert not compile_pattern(Pattern.begin("a").optional().next("b")).can_match_nothing()


def test_stages_of_a_match_are_in_the_order_in_which_they_took_events() -> None:
    pattern = Pattern.begin("z").where(lambda e: e == 1).next("a").where(lambda e: e == 2).next("m")
    assert [list(match) for match in found(pattern, [1, 2, 3])] == [["z", "a", "m"]]


def test_a_missed_stage_to_skip_to_can_fail_the_job() -> None:
    strategy = AfterMatchSkipStrategy.skip_to_first("b").throw_exception_on_miss()
    pattern = Pattern.begin("a", strategy).where(lambda e: e == 1).next("b").where(lambda e: e == 2).optional()
    with pytest.raises(Exception, match="Could not skip to b. No such element in the found match"):
        found(pattern, [1])
    itself = Pattern.begin("a", AfterMatchSkipStrategy.skip_to_first("a").throw_exception_on_miss())
    with pytest.raises(Exception, match="Could not skip to first element of a match"):
        found(itself, [1])
