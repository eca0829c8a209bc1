"""Answers are put together from pieces of any size, and are those that kafka-python's own parser gives."""

from __future__ import annotations

from typing import Any

import kafka.errors as broken
import pytest
from kafka.protocol.consumer import FetchRequest, FetchResponse
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse
from kafka.protocol.parser import KafkaProtocol

from tidegate.connectors.kafka.columnar.frames import take_over

VERSION = 12


class Connection:
    def __init__(self) -> None:
        self.parser: Any = KafkaProtocol(client_id="me", receive_message_max_bytes=1_000_000)


def request() -> Any:
    made = FetchRequest(replica_id=-1, max_wait_ms=1, min_bytes=1, topics=[], session_id=0, session_epoch=-1)
    made.API_VERSION = VERSION
    return made


def answer(correlation_id: int, records: bytes) -> bytes:
    one = FetchResponse.FetchableTopicResponse
    partition = one.PartitionData(partition_index=3, error_code=0, high_watermark=9, records=records)
    made = FetchResponse(
        throttle_time_ms=0, error_code=0, session_id=0, responses=[one(topic="t", partitions=[partition])]
    )
    made.API_VERSION = VERSION
    made.with_header(correlation_id=correlation_id)
    encoded: bytes = made.encode(framed=True, header=True)
    return encoded


@pytest.mark.parametrize("piece", [1, 7, 50, 10_000, 100_000])
def test_pieces_of_any_size_are_put_together(piece: int) -> None:
    connection = Connection()
    first = connection.parser.send_request(request())  # before it is taken over
    take_over(connection)
    second = connection.parser.send_request(request())
    large = b"one" * 10_000
    stream = answer(first, large) + answer(second, b"two")
    found = []
    room = bytearray(piece)
    for at in range(0, len(stream), piece):
        part = stream[at : at + piece]
        room[: len(part)] = part
        found += connection.parser.receive_bytes(memoryview(room)[: len(part)])
    told = [(which, one.responses[0].topic, one.responses[0].partitions[0].records) for which, one in found]
    assert told == [(first, "t", large), (second, "t", b"two")]


def test_kinds_of_answers_that_read_by_themselves_are_understood() -> None:
    connection = Connection()
    asked = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    asked.API_VERSION = 3
    take_over(connection)
    which = connection.parser.send_request(asked)
    made = ApiVersionsResponse(error_code=0, api_keys=[], throttle_time_ms=0)
    made.API_VERSION = 3
    made.with_header(correlation_id=which)
    (found,) = connection.parser.receive_bytes(made.encode(framed=True, header=True))
    assert (found[0], found[1].error_code) == (which, 0)


def test_a_length_out_of_range_and_an_answer_that_nobody_asked_for_are_refused() -> None:
    connection = Connection()
    take_over(connection)
    with pytest.raises(broken.InvalidReceiveError):
        connection.parser.receive_bytes((1_000_001).to_bytes(4, "big"))
    connection = Connection()
    take_over(connection)
    with pytest.raises(broken.CorrelationIdError):
        connection.parser.receive_bytes(answer(1, b""))
