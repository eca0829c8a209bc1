"""Connections: nobody at the other end, and what errors are called."""

from __future__ import annotations

import kafka.errors as broken
import pytest
from confluent_kafka import KafkaError, KafkaException

from tidegate.connectors.kafka.client import typed_error
from tidegate.connectors.kafka.columnar.connection import Connections, failure
from tidegate.model.errors import ExternalError, Unreachable


def test_nobody_at_that_address_is_unreachable() -> None:
    connections = Connections("127.0.0.1:1", {})
    with pytest.raises(KafkaException) as raised:
        connections.connect(0.3)
    told = typed_error(raised.value.args[0], "take the transactional id me", "127.0.0.1:1")
    assert isinstance(told, Unreachable)
    assert "is the broker up" in told.message
    connections.close()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (broken.KafkaConnectionError("reset"), KafkaError._TRANSPORT),
        (broken.NodeNotReadyError("1"), KafkaError._TRANSPORT),
        (broken.RequestTimedOutError("late"), KafkaError._TIMED_OUT),
        (broken.SaslAuthenticationFailedError("no"), KafkaError.SASL_AUTHENTICATION_FAILED),
        (broken.TopicAuthorizationFailedError("no"), KafkaError.TOPIC_AUTHORIZATION_FAILED),
    ],
)
def test_what_goes_wrong_has_librdkafkas_codes(error: Exception, code: int) -> None:
    made = failure(error)
    assert isinstance(made, KafkaException)
    assert made.args[0].code() == code
    assert isinstance(typed_error(made.args[0], "read", "x:1"), ExternalError)
