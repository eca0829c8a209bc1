"""What a broker answers that is not ready yet, and one that never is."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException

from tidegate.connectors.kafka.client import ASK_AGAIN_S, METADATA_TIMEOUT_S, answer
from tidegate.model.errors import ExternalError


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def wait(self, seconds: float) -> None:
        self.now_s += seconds


def broker(*codes: int) -> Callable[[], str]:
    """Answers so many errors, the last one for ever unless it is 0, then an answer."""
    left = list(codes)

    def ask() -> str:
        code = left.pop(0) if len(left) > 1 else left[0]
        if code:
            raise KafkaException(KafkaError(code))
        return "the answer"

    return ask


def test_a_broker_that_is_not_yet_the_coordinator_is_asked_again() -> None:
    clock = Clock()
    ask = broker(KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS, 0)
    assert answer(ask, "read offsets", "x:1", clock, clock.wait) == "the answer"
    assert clock.now_s == pytest.approx(2 * ASK_AGAIN_S)


def test_it_is_given_up_when_an_answer_may_not_take_longer() -> None:
    clock = Clock()
    with pytest.raises(ExternalError, match=r"cannot read offsets \(Kafka at x:1\)"):
        answer(broker(KafkaError.NOT_COORDINATOR), "read offsets", "x:1", clock, clock.wait)
    assert clock.now_s == pytest.approx(METADATA_TIMEOUT_S, abs=ASK_AGAIN_S)


def test_an_error_that_stays_is_told_at_once() -> None:
    clock = Clock()
    with pytest.raises(ExternalError, match="lacks this permission"):
        answer(broker(KafkaError.GROUP_AUTHORIZATION_FAILED), "read offsets", "x:1", clock, clock.wait)
    assert clock.now_s == 0
