"""What ``assert_exactly_once`` says."""

from __future__ import annotations

from operator import itemgetter

import pytest

from tidegate.testing import assert_exactly_once


def test_each_once_in_any_order() -> None:
    assert_exactly_once([1, 2, 2, 3], [3, 2, 1, 2])
    assert_exactly_once(iter([("a", 1)]), iter([("a", 1)]))


def test_what_is_lost_repeated_and_strange_is_counted_and_shown() -> None:
    with pytest.raises(AssertionError) as raised:
        assert_exactly_once([1, 2, 3, 4], [2, 2, 2, 3, 9])
    assert str(raised.value).splitlines() == [
        "not exactly once (4 expected, 5 found):",
        "  lost: 2, such as 1, 4",
        "  more than once: 2, such as 2",
        "  not expected: 1, such as 9",
    ]


def test_order_counts_within_a_key_only() -> None:
    expected = [("a", 1), ("b", 1), ("a", 2)]
    assert_exactly_once(expected, [("b", 1), ("a", 1), ("a", 2)], in_order_by=itemgetter(0))
    with pytest.raises(AssertionError, match=r"out of order: 1 keys, such as 'a': \[\('a', 2\), \('a', 1\)\]"):
        assert_exactly_once(expected, [("a", 2), ("b", 1), ("a", 1)], in_order_by=itemgetter(0))
