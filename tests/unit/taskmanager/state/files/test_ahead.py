"""Work is done before it is asked for, in the order in which it is wanted; what a later wish leaves out is not begun."""

from __future__ import annotations

import threading

import pytest

from tidegate.model.errors import CorruptData
from tidegate.taskmanager.state.files.ahead import Ahead


class Work:
    """Doubles numbers; 2 cannot be. ``gate``: nothing ends before it is open."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.begun = threading.Semaphore(0)
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self, number: int) -> int:
        self.seen.append(number)
        self.begun.release()
        assert self.gate.wait(10)
        if number == 2:
            raise CorruptData("damaged")
        return 2 * number


def test_what_is_wanted_is_done_in_its_order_until_it_is_closed() -> None:
    work = Work()
    ahead = Ahead(work, "ahead")
    ahead.want([])
    ahead.want([1, 2])
    for _ in range(2):
        assert work.begun.acquire(timeout=10)
    ahead.want([3])
    assert work.begun.acquire(timeout=10)
    assert work.seen == [1, 2, 3]
    ahead.close()
    ahead.want([4])
    assert work.seen == [1, 2, 3]


def test_who_takes_it_gets_the_result_or_the_error_and_it_is_done_once() -> None:
    work = Work()
    ahead = Ahead(work, "ahead")
    ahead.want([1, 2, 5])
    assert ahead.take(1) == 2
    with pytest.raises(CorruptData, match="damaged"):
        ahead.take(2)
    ahead.want([5])
    assert ahead.take(5) == 10
    ahead.close(waits=True)
    assert work.seen == [1, 2, 5]


def test_what_is_not_wanted_any_more_is_not_begun() -> None:
    work = Work()
    work.gate.clear()
    ahead = Ahead(work, "ahead")
    ahead.want([1, 3])
    assert work.begun.acquire(timeout=10)
    ahead.want([4])
    work.gate.set()
    assert ahead.take(4) == 8
    ahead.close(waits=True)
    assert work.seen == [1, 4]


def test_closing_does_not_wait_for_what_is_under_way_unless_it_is_told_to() -> None:
    work = Work()
    work.gate.clear()
    ahead = Ahead(work, "ahead under way")
    ahead.want([1])
    assert work.begun.acquire(timeout=10)
    ahead.close()
    assert any(thread.name == "ahead under way" for thread in threading.enumerate())
    work.gate.set()
    ahead.close(waits=True)
    assert all(thread.name != "ahead under way" for thread in threading.enumerate())
