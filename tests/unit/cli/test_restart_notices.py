"""A cause is told when it changes, and loudly when it comes again and again and will not go away."""

from __future__ import annotations

import pytest

from tidegate.cli.restart_notices import LINE_CHARACTERS, Notice, RestartNotices
from tidegate.model.errors import (
    ConfigurationError,
    ErrorInfo,
    StateTooLarge,
    StorageError,
    StorageUnusable,
    SubtaskLost,
    TidegateError,
    Unreachable,
    UserFunctionError,
)

FULL = StorageUnusable("cannot write /c/chk-7/state-3: No space left on device")


def told(notices: RestartNotices, restarts: int, error: TidegateError | None, completed: int = 0) -> list[Notice]:
    return notices.on_status(restarts, completed, None if error is None else ErrorInfo.of(error))


def test_nothing_is_said_of_a_job_that_did_not_restart() -> None:
    notices = RestartNotices()
    assert told(notices, 0, None) == []
    assert told(notices, 0, FULL) == [], "it is about to end"
    assert told(notices, 1, None) == []


def test_a_cause_is_told_each_time_it_changes() -> None:
    notices = RestartNotices()
    lost, gone = SubtaskLost("map (1/2) is gone"), Unreachable("no broker at b:9092")
    assert told(notices, 1, lost) == [Notice("restart 1: map (1/2) is gone")]
    assert told(notices, 1, lost) == []
    assert told(notices, 2, lost) == []
    assert told(notices, 3, gone) == [Notice("restart 3: no broker at b:9092")]
    assert told(notices, 4, lost) == [Notice("restart 4: map (1/2) is gone")]


def test_ids_and_counters_make_no_other_cause() -> None:
    notices = RestartNotices()
    assert len(told(notices, 1, StorageError("cannot write /c/chk-7/a-0123456789abcdef_0_1: timed out"))) == 1
    assert told(notices, 2, StorageError("cannot write /c/chk-12/a-fedcba9876543210_0_2: timed out")) == []


@pytest.mark.parametrize("error", [FULL, StateTooLarge("too much"), UserFunctionError("no"), ConfigurationError("no")])
def test_a_cause_that_lasts_is_said_loudly_the_third_time_and_once(error: TidegateError) -> None:
    notices = RestartNotices()
    assert [notice.is_loud for notice in told(notices, 1, error)] == [False]
    assert told(notices, 2, error) == []
    (loud,) = told(notices, 3, error)
    assert loud.is_loud
    assert "restarted 3 times" in loud.text
    assert error.message in loud.text
    assert told(notices, 4, error) == []


@pytest.mark.parametrize("error", [SubtaskLost("gone"), Unreachable("nobody"), StorageError("timed out")])
def test_a_cause_that_may_go_away_is_never_loud(error: TidegateError) -> None:
    notices = RestartNotices()
    assert [notice.is_loud for n in range(1, 30) for notice in told(notices, n, error)] == [False]


def test_progress_begins_the_count_anew() -> None:
    notices = RestartNotices()
    for restarts in range(1, 20):
        assert not any(notice.is_loud for notice in told(notices, restarts, FULL, completed=restarts // 2))
    assert [n for n in range(20, 26) if told(notices, n, FULL, completed=9)] == [20]
    assert told(notices, 30, FULL, completed=10) != [], "after progress it is news again"


def test_restarts_between_two_statuses_of_one_cause_count() -> None:
    notices = RestartNotices()
    assert [notice.is_loud for notice in told(notices, 17, FULL)] == [False]
    (loud,) = told(notices, 25, FULL)
    assert "restarted 9 times" in loud.text
    assert "make room" in loud.text


def test_it_is_one_line_of_a_bearable_length() -> None:
    (notice,) = RestartNotices().on_status(1, 0, ErrorInfo("storage", "external", "a\n b", origin="map (1/2)"))
    assert notice.text == "restart 1: a b (map (1/2))"
    (notice,) = told(RestartNotices(), 1, StorageError("x" * 1000))
    assert len(notice.text) < LINE_CHARACTERS + 20


def test_what_is_said_loudly_says_what_to_set() -> None:
    notices = RestartNotices()
    said = [
        notice for n in (1, 2, 3) for notice in told(notices, n, StateTooLarge("state 'w' has more than 5242880 bytes"))
    ]
    assert "set execution.checkpointing.dir" in said[-1].text
