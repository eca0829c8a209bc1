"""Messages of readers arrive once each and in order, whatever is lost on the way."""

from __future__ import annotations

import pickle

import pytest

from tidegate.connectors.source.protocol import (
    FIRST_REPEAT_MS,
    LAST_REPEAT_MS,
    Arrivals,
    AskForSplit,
    Heard,
    ReaderLink,
    Register,
)
from tidegate.model.errors import CorruptData

ASK = AskForSplit("host")


class Clock:
    def __init__(self) -> None:
        self.now_ms = 0.0

    def __call__(self) -> float:
        return self.now_ms


def linked() -> tuple[ReaderLink, list[bytes], Clock]:
    sent: list[bytes] = []
    clock = Clock()
    return ReaderLink(sent.append, clock), sent, clock


def test_what_is_not_acknowledged_is_repeated_in_order_less_and_less_often() -> None:
    link, sent, clock = linked()
    link.say(Register("host"))
    link.say(ASK)
    first = list(sent)
    link.repeat_when_due()
    assert sent == first, "not yet"
    for waits in (FIRST_REPEAT_MS, 2 * FIRST_REPEAT_MS, 4 * FIRST_REPEAT_MS):
        clock.now_ms += waits - 1
        link.repeat_when_due()
        assert sent == first
        clock.now_ms += 1
        link.repeat_when_due()
        assert sent == first + first
        del sent[2:]
    for _ in range(10):
        clock.now_ms += LAST_REPEAT_MS
        link.repeat_when_due()
    assert sent == 11 * first


def test_what_is_acknowledged_is_not_repeated() -> None:
    link, sent, clock = linked()
    link.say(Register("host"))
    link.say(ASK)
    link.on_acknowledged(1)
    del sent[:]
    clock.now_ms += FIRST_REPEAT_MS
    link.repeat_when_due()
    assert [pickle.loads(content) for content in sent] == [(2, ASK)]
    link.on_acknowledged(2)
    clock.now_ms += LAST_REPEAT_MS
    link.repeat_when_due()
    assert len(sent) == 1


def test_each_message_of_each_reader_is_taken_once_in_order() -> None:
    arrivals = Arrivals()
    first, second = pickle.dumps((1, Register("host"))), pickle.dumps((2, ASK))
    assert arrivals.take(0, second) == (None, Heard(0)), "one before it is missing"
    assert arrivals.take(0, first) == (Register("host"), Heard(1))
    assert arrivals.take(0, first) == (None, Heard(1))
    assert arrivals.take(1, first) == (Register("host"), Heard(1))
    assert arrivals.take(0, second) == (ASK, Heard(2))


def test_what_is_no_message_is_refused() -> None:
    with pytest.raises(CorruptData, match="which this version of tidegate does not know"):
        Arrivals().take(0, pickle.dumps((1, "hello")))
