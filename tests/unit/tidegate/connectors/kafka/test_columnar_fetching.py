"""Fetches by column against scripted brokers: what is asked, when, and what becomes of refusals."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import kafka.errors as broken
import pyarrow as pa
import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError
from kafka.protocol.consumer import FetchRequest, FetchResponse, ListOffsetsResponse

from tests.unit.tidegate.connectors.kafka.scripted_brokers import Answer, ScriptedBrokers
from tidegate.connectors.kafka.columnar import fetching
from tidegate.connectors.kafka.columnar.fetch_requests import end_of
from tidegate.connectors.kafka.consumer_port import FETCH_WAIT_S, PollResult
from tidegate.connectors.kafka.record_batches import Producer, decode, encode
from tidegate.connectors.kafka.shared_client import SharedClient
from tidegate.connectors.kafka.topic_ids import shown
from tidegate.model.errors import CorruptData, ExternalError

T0, T1 = ("t", 0), ("t", 1)


class Client:
    def __init__(self) -> None:
        self.assigned: list[tuple[str, int, int]] = []

    def poll(self, wait_s: float) -> None: ...

    def get_watermark_offsets(self, part: Any, timeout: float) -> tuple[int, int]:
        return 5, 9

    def assign(self, parts: Any) -> None:
        self.assigned = [(part.topic, part.partition, part.offset) for part in parts]

    def consume(self, count: int, wait_s: float) -> list[Any]:
        return []


def batch(first: int, *values: bytes) -> bytes:
    column = pa.array(values, pa.binary())
    nothing = pa.nulls(len(values), pa.binary())
    made = bytes(encode(nothing, column, pa.nulls(len(values), pa.int64()), Producer(1, 0), 0, "none", 5))
    return first.to_bytes(8, "big") + made[8:]


def answer(found: dict[tuple[str, int], bytes | int], topic_id: UUID | None = None) -> Any:
    """Contents, or errors, by partition."""
    topic = "t" if topic_id is None else ""
    kind = FetchResponse.FetchableTopicResponse
    parts = [
        kind.PartitionData(
            partition_index=partition,
            error_code=what if isinstance(what, int) else 0,
            aborted_transactions=None,
            records=b"" if isinstance(what, int) else what,
        )
        for (_, partition), what in found.items()
    ]
    return FetchResponse(error_code=0, responses=[kind(topic=topic, topic_id=topic_id, partitions=parts)])


def asked_for(request: Any) -> dict[tuple[str, int], int]:
    return {(topic.topic, one.partition): one.fetch_offset for topic in request.topics for one in topic.partitions}


class Log:
    """Two partitions, led by broker 1 unless told otherwise: what lies in them, by offset of the batch."""

    def __init__(self) -> None:
        self.batches: dict[tuple[str, int], dict[int, bytes]] = {T0: {}, T1: {}}
        self.refusals: list[int | Exception] = []

    def __call__(self, node: Any, request: Any) -> Any:
        if not isinstance(request, FetchRequest):
            kind = ListOffsetsResponse.ListOffsetsTopicResponse
            parts = [
                kind.ListOffsetsPartitionResponse(partition_index=one.partition_index, error_code=0, offset=7)
                for topic in request.topics
                for one in topic.partitions
            ]
            return ListOffsetsResponse(topics=[kind(name="t", partitions=parts)])
        wanted, topic_id = asked_for(request), request.topics[0].topic_id
        if self.refusals:
            refusal = self.refusals.pop(0)
            return refusal if isinstance(refusal, Exception) else answer(dict.fromkeys(wanted, refusal), topic_id)
        found = {place: self.batches[place].get(offset, b"") for place, offset in wanted.items()}
        return answer(dict(found), topic_id) if any(found.values()) else None


def reading(
    script: Answer, monkeypatch: pytest.MonkeyPatch, leaders: tuple[int, int] = (1, 1)
) -> tuple[fetching.ColumnarConsumer, ScriptedBrokers, Client]:
    brokers = ScriptedBrokers(script, {"t": list(leaders)})
    monkeypatch.setattr(fetching, "Connections", lambda *_: brokers)
    client = Client()
    made = fetching.ColumnarConsumer(
        SharedClient(client), "x:1", {}, "read_committed", with_keys=False, clock=brokers.clock
    )
    return made, brokers, client


def values(arrived: PollResult) -> dict[tuple[str, int], list[Any]]:
    found = {}
    for one in arrived.records:
        assert isinstance(one.values, pa.Array)
        found[one.topic, one.partition] = one.values.to_pylist()
    return found


def taken(made: fetching.ColumnarConsumer, tries: int = 50) -> PollResult:
    """The next that is not empty."""
    for _ in range(tries):
        arrived = made.take()
        if arrived.reached:
            return arrived
    raise AssertionError("nothing comes")


def test_the_next_fetch_is_out_before_an_answer_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log()
    log.batches[T0] = {0: batch(0, b"a", b"b") + batch(2, b"c"), 3: batch(3, b"d")}
    made, brokers, _ = reading(log, monkeypatch)
    made.add({T0: 0})

    def noted(*given: Any, **more: Any) -> Any:
        assert [asked_for(request) for _, request, _ in brokers.open] == [{T0: 3}]
        monkeypatch.setattr(fetching, "decode", decode)
        return decode(*given, **more)

    monkeypatch.setattr(fetching, "decode", noted)
    first = taken(made)
    assert values(first) == {T0: [b"a", b"b", b"c"]}
    assert first.reached == [(T0, 3)]
    assert values(taken(made)) == {T0: [b"d"]}


def test_each_leader_has_one_fetch_and_nobody_waits_for_the_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log()
    log.batches[T1] = {5: batch(5, b"x"), 6: batch(6, b"y")}
    made, brokers, _ = reading(log, monkeypatch, (1, 2))
    made.add({T0: 0, T1: 5})
    assert values(taken(made)) == {T1: [b"x"]}
    assert values(taken(made)) == {T1: [b"y"]}
    assert [asked_for(request) for node, request in brokers.requests if node == 1] == [{T0: 0}]


def test_the_beginning_of_a_partition_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log()
    log.batches[T0] = {7: batch(7, b"h")}
    made, _, _ = reading(log, monkeypatch)
    made.add({T0: OFFSET_BEGINNING})
    assert values(taken(made)) == {T0: [b"h"]}


@pytest.mark.parametrize(
    "refusal",
    [
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        broken.KafkaConnectionError("gone"),
    ],
)
def test_who_leads_no_longer_or_went_away_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, refusal: int | Exception
) -> None:
    log = Log()
    log.batches[T0] = {0: batch(0, b"a")}
    log.refusals = [refusal, refusal]
    made, brokers, _ = reading(log, monkeypatch)
    made.add({T0: 0})
    begun = brokers.clock.now_s
    assert values(taken(made)) == {T0: [b"a"]}
    assert brokers.clock.now_s > begun, "it was asked again after a moment"


def test_a_broker_that_never_answers_loses_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    made, brokers, _ = reading(lambda *_: None, monkeypatch)
    made.add({T0: 0})
    for _ in range(int(fetching.ANSWER_LIMIT_S / FETCH_WAIT_S) + 5):
        made.take()
    assert brokers.dropped == [1]


def test_records_that_are_gone_and_what_may_not_be_read_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for code, at, kind, text in (
        (KafkaError.OFFSET_OUT_OF_RANGE, 0, CorruptData, "to read from, 0: it begins at 5, so 5 offsets .* retention"),
        (KafkaError.OFFSET_OUT_OF_RANGE, 10, CorruptData, "to read from, 10: it ends at 9. .* lost records"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, 0, ExternalError, "cannot read topic 't' .* lacks this permission"),
    ):
        log = Log()
        log.refusals = [code]
        made, _, _ = reading(log, monkeypatch)
        made.add({T0: at})
        with pytest.raises(kind, match=text):
            taken(made)


def test_topics_are_asked_for_by_their_ids_so_that_another_of_the_same_name_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = Log()
    log.batches[T0] = {0: batch(0, b"a")}
    made, brokers, _ = reading(log, monkeypatch)
    brokers.topic_ids = {"t": UUID(int=1)}
    made.add({T0: 0})
    found = taken(made)
    assert (found.topic_ids, values(found)) == ({"t": shown(UUID(int=1))}, {T0: [b"a"]})
    fetches = [request for _, request in brokers.requests if isinstance(request, FetchRequest)]
    assert {(topic.topic_id, request._max_version) for request in fetches for topic in request.topics} == {
        (UUID(int=1), 13)
    }
    log.refusals = [broken.UnknownTopicIdError.errno]
    log.batches[T0][1] = batch(1, b"b")
    brokers.topic_ids = {"t": UUID(int=2)}
    first = next(arrived for arrived in iter(made.take, None) if arrived.topic_ids or arrived.records)
    assert first.topic_ids == {"t": shown(UUID(int=2))}, "it comes before records of that topic do, or with them"


def test_a_topic_without_an_id_is_asked_for_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log()
    log.batches[T0] = {0: batch(0, b"a")}
    made, brokers, _ = reading(log, monkeypatch)
    made.add({T0: 0})
    arrived = taken(made)
    assert arrived.topic_ids == {}
    fetches = [request for _, request in brokers.requests if isinstance(request, FetchRequest)]
    assert {request._max_version for request in fetches} == {12}


def test_a_topic_that_stays_unknown_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    made, brokers, _ = reading(Log(), monkeypatch)
    brokers.leaders = {}
    made.add({T0: 0})
    with pytest.raises(ExternalError, match="create the topic, or correct its name"):
        taken(made, tries=1_000)


def test_what_comes_for_a_partition_that_was_removed_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log()
    log.batches = {T0: {0: batch(0, b"a")}, T1: {0: batch(0, b"b"), 1: batch(1, b"c")}}
    made, _brokers, _ = reading(log, monkeypatch)
    made.add({T0: 0, T1: 0})
    assert values(taken(made)) == {T0: [b"a"], T1: [b"b"]}
    log.batches[T0] = {1: batch(1, b"never")}
    made.remove([T0])
    assert values(taken(made)) == {T1: [b"c"]}


def test_records_in_an_old_format_go_by_librdkafka(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log()
    old = bytearray(batch(4, b"old"))
    old[16] = 1
    log.batches = {T0: {4: bytes(old)}, T1: {0: batch(0, b"new")}}
    made, brokers, client = reading(log, monkeypatch)
    made.add({T0: 4, T1: 0})
    assert values(taken(made)) == {T1: [b"new"]}
    made.take()
    assert sorted(client.assigned) == [("t", 0, 4), ("t", 1, 1)]
    assert brokers.is_closed


def test_the_end_of_an_answer_is_told_by_the_heads_of_its_whole_batches() -> None:
    content = batch(3, b"a", b"b") + batch(5, b"c")
    assert end_of(content, 4) == 6
    assert end_of(content[:-1], 4) == 5
    assert end_of(b"", 4) == 4
    assert end_of(content[:20], 4) == 4
