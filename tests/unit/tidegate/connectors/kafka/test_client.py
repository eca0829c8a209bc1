"""What a broker answers that is not ready yet, and one that never is."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress

import pytest
from confluent_kafka import KafkaError, KafkaException

from tidegate.connectors.kafka.client import (
    ASK_AGAIN_S,
    METADATA_TIMEOUT_S,
    admin,
    answer,
    kafka_errors,
    note_protocol,
    typed_error,
)
from tidegate.connectors.kafka.columnar.connection import Connections
from tidegate.model.errors import ExternalError, Unreachable


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


@contextmanager
def listening(serve: Callable[[socket.socket], object]) -> Iterator[str]:
    """A server that does this with each connection, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection, suppress(OSError):
                    serve(connection)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(10)


def encrypted(connection: socket.socket) -> None:
    """A server of TLS; it has no certificate, which it finds out after it has understood the client."""
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).wrap_socket(connection, server_side=True)


TO_TLS = "; the broker speaks TLS: set security.protocol to SSL, or to SASL_SSL"


def away(servers: str, properties: Mapping[str, str]) -> list[str]:
    """What is said by both clients of a broker that does not answer."""
    found = []
    with closing(Connections(servers, properties)) as connections:
        for ask in (connections.connect, lambda limit_s: admin(servers, properties).list_topics(timeout=limit_s)):
            with pytest.raises(Unreachable) as raised, kafka_errors("connect", servers):
                ask(0.5)
            found.append(raised.value.message)
    return found


def test_a_broker_that_speaks_tls_to_a_client_that_does_not_is_hinted_at() -> None:
    with listening(encrypted) as servers:
        assert all(message.endswith(TO_TLS) for message in away(servers, {}))
        assert all(
            message.endswith(TO_TLS) for message in away(f"127.0.0.1:1, {servers}", {"security.protocol": "plaintext"})
        )


def test_a_broker_that_is_away_or_does_not_speak_tls_is_not() -> None:
    with listening(lambda connection: connection.recv(1)) as servers:
        for place in (servers, "127.0.0.1:1"):
            assert all(message.endswith("is the broker up, and the address right?") for message in away(place, {}))


def test_a_client_that_speaks_tls_is_not_told_to() -> None:
    with listening(encrypted) as servers:
        note_protocol(servers, {"security.protocol": "SASL_SSL"})
        error = typed_error(KafkaError(KafkaError._TRANSPORT), "connect", servers)
        assert str(error).endswith("is the broker up, and the address right?")
