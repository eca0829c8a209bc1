"""How batches of local windows are aggregated, batch by batch."""

from __future__ import annotations

import pytest

from tidegate.taskmanager.windows.columns.strategies import (
    HARDLY_REPEAT,
    MAX_WINDOWS_OF_BATCH,
    MIN_ROWS_TO_JUDGE,
    PAUSE_BATCHES,
    Strategy,
    StrategyChooser,
)


def chosen(
    chooser: StrategyChooser, share: float | None = 0.5, windows: int = 1, *, is_narrow: bool = False
) -> Strategy:
    return chooser.choose(windows, is_narrow=is_narrow, share_of_keys=lambda: share)


def never_asked() -> float | None:
    raise AssertionError("the keys were looked at")


def test_a_narrow_key_in_few_windows_goes_into_arrays_and_its_keys_are_not_sampled() -> None:
    chooser = StrategyChooser()
    assert chooser.choose(MAX_WINDOWS_OF_BATCH, is_narrow=True, share_of_keys=never_asked) is Strategy.RANGE


def test_many_windows_are_grouped_in_one_go() -> None:
    chooser = StrategyChooser()
    many = MAX_WINDOWS_OF_BATCH + 1
    assert chooser.choose(many, is_narrow=True, share_of_keys=never_asked) is Strategy.GROUPED


@pytest.mark.parametrize("share", [None, 0.0, HARDLY_REPEAT])
def test_keys_that_repeat_or_are_unknown_have_a_dictionary(share: float | None) -> None:
    assert chosen(StrategyChooser(), share) is Strategy.DICTIONARY


def test_keys_that_hardly_repeat_are_looked_at_again_after_a_pause() -> None:
    chooser = StrategyChooser()
    found = [chosen(chooser, HARDLY_REPEAT + 0.01)]
    found += [chooser.choose(1, is_narrow=False, share_of_keys=never_asked) for _ in range(PAUSE_BATCHES - 1)]
    assert found == [Strategy.UNGROUPED] * PAUSE_BATCHES
    assert chosen(chooser) is Strategy.DICTIONARY


def test_keys_without_room_in_a_dictionary_are_grouped_until_it_is_tried_again() -> None:
    chooser = StrategyChooser()
    assert chosen(chooser) is Strategy.DICTIONARY
    assert chooser.without_dictionary() is Strategy.GROUPED
    assert [chosen(chooser) for _ in range(PAUSE_BATCHES)] == [Strategy.GROUPED] * PAUSE_BATCHES
    assert chosen(chooser) is Strategy.DICTIONARY


@pytest.mark.parametrize(
    ("rows", "groups", "after"),
    [
        (MIN_ROWS_TO_JUDGE, MIN_ROWS_TO_JUDGE // 2, Strategy.DICTIONARY),
        (MIN_ROWS_TO_JUDGE, MIN_ROWS_TO_JUDGE // 2 + 1, Strategy.UNGROUPED),
        (MIN_ROWS_TO_JUDGE - 1, MIN_ROWS_TO_JUDGE - 1, Strategy.DICTIONARY),
    ],
)
def test_grouping_that_made_hardly_fewer_rows_is_left_out_for_a_while(rows: int, groups: int, after: Strategy) -> None:
    chooser = StrategyChooser()
    chooser.on_grouped(rows, groups)
    assert chosen(chooser) is after


def test_a_pause_goes_on_where_batches_have_narrow_keys_or_many_windows_meanwhile() -> None:
    chooser = StrategyChooser()
    chooser.on_grouped(MIN_ROWS_TO_JUDGE, MIN_ROWS_TO_JUDGE)
    assert chosen(chooser, is_narrow=True) is Strategy.RANGE, "it needs no grouping, and no batch of the pause"
    found = [chosen(chooser, windows=MAX_WINDOWS_OF_BATCH + 1) for _ in range(PAUSE_BATCHES + 1)]
    assert found == [*[Strategy.UNGROUPED] * PAUSE_BATCHES, Strategy.GROUPED]
