"""Transactions by column against scripted brokers: what is asked in which order, what is asked again, and what never is."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import kafka.errors as broken
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException
from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
)

from tests.unit.tidegate.connectors.kafka.scripted_brokers import ScriptedBrokers
from tidegate.connectors.kafka.columnar import transaction
from tidegate.connectors.kafka.columnar.topics import pieces
from tidegate.connectors.kafka.producer_port import BatchLimit
from tidegate.connectors.kafka.records import SCHEMA


class Broker:
    """Answers every request with success, but for what was planned for its kind: error codes, exceptions, or silence."""

    def __init__(self, **planned: Sequence[Any]) -> None:
        self._planned = {kind: list(found) for kind, found in planned.items()}

    def __call__(self, node: Any, request: Any) -> Any:
        kind = type(request).__name__.removesuffix("Request")
        planned = self._planned.get(kind, [])
        code = planned.pop(0) if planned else 0
        if not isinstance(code, int):
            return code
        if isinstance(request, InitProducerIdRequest):
            return InitProducerIdResponse(error_code=code, producer_id=9, producer_epoch=3)
        if isinstance(request, EndTxnRequest):
            return EndTxnResponse(error_code=code)
        if isinstance(request, AddPartitionsToTxnRequest):
            return _added(request, code)
        assert isinstance(request, ProduceRequest)
        return _produced(request, code)


def _added(request: Any, code: int) -> Any:
    kind = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
    results = [
        kind(
            name=topic.name,
            results_by_partition=[
                kind.AddPartitionsToTxnPartitionResult(partition_index=n, partition_error_code=code)
                for n in topic.partitions
            ],
        )
        for topic in request.v3_and_below_topics
    ]
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)


def _produced(request: Any, code: int) -> Any:
    kind = ProduceResponse.TopicProduceResponse
    return ProduceResponse(
        responses=[
            kind(
                name=topic.name,
                partition_responses=[
                    kind.PartitionProduceResponse(index=one.index, error_code=code) for one in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def records(topic: str, values: Sequence[bytes], keys: Sequence[bytes | None] | None = None) -> pa.RecordBatch:
    rows = len(values)
    columns = [[topic] * rows, keys or [None] * rows, values, [None] * rows]
    return pa.RecordBatch.from_arrays(
        [pa.array(column, one.type) for column, one in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def producer(
    broker: Broker,
    monkeypatch: pytest.MonkeyPatch,
    limit: BatchLimit | None = None,
    properties: dict[str, str] | None = None,
) -> tuple[transaction.ColumnarProducer, ScriptedBrokers]:
    brokers = ScriptedBrokers(broker, {"t": [1, 2], "m": [1]})
    monkeypatch.setattr(transaction, "Connections", lambda *_: brokers)
    made = transaction.ColumnarProducer(
        "x:1", properties or {}, "me", limit or BatchLimit(), monotonic=lambda: brokers.clock.now_s
    )
    made.init(30)
    return made, brokers


def publish(made: transaction.ColumnarProducer, found: pa.RecordBatch) -> None:
    made.begin()
    made.send(found)
    made.commit(60)


def kinds(brokers: ScriptedBrokers) -> list[str]:
    return [type(request).__name__.removesuffix("Request") for _, request in brokers.requests]


def batches(brokers: ScriptedBrokers) -> list[tuple[Any, str, int, int, int]]:
    """(node, topic, partition, base sequence, count) of everything produced."""
    return [
        (node, topic.name, one.index, *struct.unpack_from(">ii", one.records, 53))
        for node, request in brokers.requests
        if isinstance(request, ProduceRequest)
        for topic in request.topic_data
        for one in topic.partition_data
    ]


def test_a_transaction_touches_its_partitions_at_once_before_it_writes_and_ends_when_all_is_acknowledged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, brokers = producer(Broker(), monkeypatch)
    made.begin()
    made.send(records("t", [b"a", b"b"]))
    made.mark("m", {"key": "value"})
    made.commit(60)
    assert kinds(brokers) == ["InitProducerId", "AddPartitionsToTxn", "Produce", "EndTxn"]
    assert brokers.requests[-1][1].committed
    assert batches(brokers) == [(1, "t", 0, 0, 2), (1, "m", 0, 0, 1)]


def test_what_comes_after_the_first_request_is_touched_before_it_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    made, brokers = producer(Broker(), monkeypatch, BatchLimit(1_000))
    made.begin()
    made.send(records("t", [b"x" * 900] * 3))
    made.mark("m", {"key": "value"})
    made.commit(60)
    touched: set[tuple[str, int]] = set()
    for _, request in brokers.requests:
        if isinstance(request, AddPartitionsToTxnRequest):
            asked = {(topic.name, n) for topic in request.v3_and_below_topics for n in topic.partitions}
            assert not asked & touched
            touched |= asked
        elif isinstance(request, ProduceRequest):
            assert {(topic.name, one.index) for topic in request.topic_data for one in topic.partition_data} <= touched
    assert touched == {("t", 0), ("t", 1), ("m", 0)}


def test_sequence_numbers_go_on_over_transactions_and_pieces_without_a_key_go_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, brokers = producer(Broker(), monkeypatch)
    for _ in range(4):
        made.begin()
        made.send(records("t", [b"a"] * 3))
        made.commit(60)
    assert batches(brokers) == [(1, "t", 0, 0, 3), (2, "t", 1, 0, 3), (1, "t", 0, 3, 3), (2, "t", 1, 3, 3)]


def test_no_more_than_five_requests_are_on_their_way_to_a_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    most = 0

    class Slow(Broker):
        def __call__(self, node: Any, request: Any) -> Any:
            nonlocal most
            if isinstance(request, ProduceRequest):
                most = max(most, sum(isinstance(one, ProduceRequest) for _, one, _ in brokers.open))
            return super().__call__(node, request)

    made, brokers = producer(Slow(), monkeypatch, BatchLimit(1_000))
    made.begin()
    made.send(records("m", [b"x" * 900] * 20))
    made.commit(60)
    assert most == transaction.ON_THEIR_WAY
    assert [sequence for _, _, _, sequence, _ in batches(brokers)] == list(range(20))


@pytest.mark.parametrize(
    ("kind", "codes"),
    [
        ("InitProducerId", [KafkaError.CONCURRENT_TRANSACTIONS, KafkaError.COORDINATOR_LOAD_IN_PROGRESS]),
        ("InitProducerId", [broken.KafkaConnectionError("gone"), KafkaError.NOT_COORDINATOR]),
        ("AddPartitionsToTxn", [KafkaError.CONCURRENT_TRANSACTIONS] * 3),
        ("EndTxn", [KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE]),
    ],
)
def test_a_coordinator_that_says_not_now_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, kind: str, codes: list[Any]
) -> None:
    made, brokers = producer(Broker(**{kind: codes}), monkeypatch)
    made.begin()
    made.send(records("m", [b"a"]))
    made.commit(60)
    assert kinds(brokers).count(kind) == len(codes) + 1
    assert kinds(brokers)[-1] == "EndTxn"


@pytest.mark.parametrize("kind", ["AddPartitionsToTxn", "Produce", "EndTxn"])
def test_a_lost_answer_ends_the_producer(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    made, brokers = producer(Broker(**{kind: [broken.KafkaConnectionError("gone")]}), monkeypatch)
    with pytest.raises(KafkaException) as raised:
        publish(made, records("m", [b"a"]))
    assert raised.value.args[0].code() == KafkaError._TRANSPORT
    made.give_up(raised.value.args[0])
    assert kinds(brokers).count(kind) == 1
    assert not [
        request for _, request in brokers.requests if isinstance(request, EndTxnRequest) and not request.committed
    ]
    with pytest.raises(KafkaException, match="is still open"):
        made.begin()


def test_what_a_topic_refuses_is_aborted_told_by_its_topic_and_cut_smaller_by_the_next_producer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limit = BatchLimit(10_000)
    made, brokers = producer(Broker(Produce=[KafkaError.MSG_SIZE_TOO_LARGE]), monkeypatch, limit)
    made.begin()
    made.send(records("m", [b"x" * 100] * 10))
    with pytest.raises(KafkaException) as raised:
        made.commit(60)
    made.give_up(raised.value.args[0])
    refusal = made.refusal()
    assert refusal is not None
    assert (refusal[0].code(), refusal[1]) == (KafkaError.MSG_SIZE_TOO_LARGE, "m")
    assert [request.committed for _, request in brokers.requests if isinstance(request, EndTxnRequest)] == [False]
    assert 500 < limit.size_bytes < 700


def test_one_record_that_is_too_large_alone_leaves_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = BatchLimit(10_000)
    made, _ = producer(Broker(Produce=[KafkaError.MSG_SIZE_TOO_LARGE]), monkeypatch, limit)
    made.begin()
    made.send(records("m", [b"x" * 5_000]))
    with pytest.raises(KafkaException):
        made.commit(60)
    assert limit.size_bytes == 10_000


def test_who_was_fenced_does_not_abort(monkeypatch: pytest.MonkeyPatch) -> None:
    made, brokers = producer(Broker(Produce=[KafkaError.INVALID_PRODUCER_EPOCH]), monkeypatch)
    made.begin()
    made.send(records("m", [b"a"]))
    with pytest.raises(KafkaException) as raised:
        made.commit(60)
    made.give_up(raised.value.args[0])
    assert "EndTxn" not in kinds(brokers)


def test_a_topic_that_may_not_be_touched_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    made, _ = producer(Broker(AddPartitionsToTxn=[KafkaError.TOPIC_AUTHORIZATION_FAILED]), monkeypatch)
    made.begin()
    made.send(records("t", [b"a"]))
    with pytest.raises(KafkaException):
        made.commit(60)
    refusal = made.refusal()
    assert refusal is not None
    assert (refusal[0].code(), refusal[1]) == (KafkaError.TOPIC_AUTHORIZATION_FAILED, "t")


def test_records_with_a_key_keep_their_partition_and_their_order() -> None:
    keys = [None if n % 3 == 2 else b"%d" % (n % 7) for n in range(300)]
    given = records("t", [b"%d" % n for n in range(300)], keys)
    found = list(pieces(given, 4, 1, 2_000))
    where: dict[bytes, set[int]] = {}
    for partition, piece in found:
        numbers = [int(value) for value in piece.column("value").to_pylist()]
        assert numbers == sorted(numbers)
        for key in piece.column("key").to_pylist():
            if key is not None:
                where.setdefault(key, set()).add(partition)
    assert all(len(partitions) == 1 for partitions in where.values())
    assert sum(piece.num_rows for _, piece in found) == 300
    without = [partition for partition, piece in found if piece.column("key").null_count]
    assert without == [(1 + n) % 4 for n in range(len(without))]


def test_batches_of_one_row_are_gathered_before_they_are_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer of open transactions pushes after each batch, and batches may have one row each."""
    made, brokers = producer(Broker(), monkeypatch)
    made.begin()
    for n in range(2_000):
        made.send(records("m", [b"%d" % n]))
        made.push()
    made.prepare(60)
    assert [one[3:] for one in batches(brokers)] == [(0, 1), (1, 1_999)]


def test_few_records_leave_ten_times_a_second_and_many_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made, brokers = producer(Broker(), monkeypatch)
    made.begin()
    for n in range(6):
        made.send(records("m", [b"%d" % n]))
        made.push()
        brokers.clock.now_s += transaction.GATHER_S * 0.6
    assert [one[3:] for one in batches(brokers)] == [(0, 1), (1, 2), (3, 2)], "every second push is due"
    made.send(records("m", [b"x" * transaction.GATHER_BYTES]))
    made.push()
    assert [one[3:] for one in batches(brokers)][3:] == [(5, 2)]


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_gathered_records_are_cut_into_batches_that_the_broker_takes(
    monkeypatch: pytest.MonkeyPatch, compression: str
) -> None:
    made, brokers = producer(Broker(), monkeypatch, BatchLimit(1_000), {"compression.type": compression})
    made.begin()
    for n in range(100):
        made.send(records("t", [b"%03d" % n * 30], [b"k%d" % n]))
        made.push()
    made.prepare(60)
    found = batches(brokers)
    for partition in (0, 1):
        sequence = 0
        for _, _, _, base, count in [one for one in found if one[2] == partition]:
            assert base == sequence
            sequence += count
    assert sum(count for *_, count in found) == 100
    assert max(count for *_, count in found) > 1
    requests = [request for _, request in brokers.requests if isinstance(request, ProduceRequest)]
    produced = [one for request in requests for topic in request.topic_data for one in topic.partition_data]
    assert all(len(one.records) <= 1_000 for one in produced)


def test_what_an_abandoned_transaction_had_gathered_is_not_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    made, brokers = producer(Broker(), monkeypatch)
    made.begin()
    made.send(records("m", [b"a"]))
    made.abort()
    made._is_open = False
    made.begin()
    made.send(records("m", [b"b"]))
    made.commit(60)
    assert [one[3:] for one in batches(brokers)] == [(0, 1)]
