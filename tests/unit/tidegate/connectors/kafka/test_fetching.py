"""How the fetcher asks its client: a calm topic does not wait for a full piece, a full one is taken by pieces."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import count, islice
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from tests.e2e.waiting import wait_until
from tidegate.connectors.base import ReaderContext, Split, SplitState
from tidegate.connectors.fetcher import Fetcher
from tidegate.connectors.formats.messages import ByteArraySchema, Counts, Values
from tidegate.connectors.kafka import fetching
from tidegate.connectors.kafka.consumer_port import FETCH_MESSAGES, GATHER_S, PIECE, MessageConsumer
from tidegate.connectors.kafka.decoding import Fetched, ReaderSettings
from tidegate.connectors.kafka.fetching import Fetch
from tidegate.connectors.kafka.partition_records import PoisonAction
from tidegate.connectors.kafka.reader import KafkaReader
from tidegate.connectors.kafka.shared_client import SharedClient
from tidegate.connectors.kafka.splits import KafkaSubscription, split_of, topic_id_of, with_topic_id
from tidegate.model.errors import CorruptData, Unreachable
from tidegate.records.batch import ArrowBatch

CONTEXT = ReaderContext(0, 1, 128, "job", "attempt", "op")


@pytest.fixture(autouse=True)
def ids(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The ids of topics that a broker gives, by name: none, unless a test puts one there."""
    found: dict[str, str] = {}
    monkeypatch.setattr(fetching, "topic_ids", lambda servers, properties, topics: dict(found))
    return found


class Client:
    """Gives what is there, as librdkafka does: at most what was asked for; waits (here: notes that it would) for more."""

    def __init__(self, *arrivals: int) -> None:
        self._arrivals = list(arrivals)
        self._next = 0
        self.requests: list[tuple[int, float]] = []

    def assign(self, parts: Any) -> None:
        self._next = parts[0].offset

    def close(self) -> None:
        pass

    def incremental_unassign(self, parts: Any) -> None:
        pass

    def get_watermark_offsets(self, partition: Any, cached: bool) -> tuple[int, int]:
        assert cached, "a question to the broker would keep the fetcher waiting"
        return 0, self._next + sum(self._arrivals)

    def consume(self, count: int, wait_s: float) -> list[Any]:
        self.requests.append((count, wait_s))
        if not self._arrivals:
            return []
        given = min(count, self._arrivals[0])
        self._arrivals[0] -= given
        if not self._arrivals[0]:
            del self._arrivals[0]
        found = [_message(offset) for offset in range(self._next, self._next + given)]
        self._next += given
        return found


def _message(offset: int) -> Any:
    make: Any = Message  # its stubs do not know the constructor
    return make(topic="t", partition=0, offset=offset, key=None, value=b"%d" % offset, timestamp=(1, offset))


def fetch_of(
    settings: ReaderSettings, client: Client, split: Split, clock: Callable[[], float] = time.monotonic
) -> Fetch:
    shared = SharedClient(client)
    incoming = MessageConsumer(shared, settings.servers, with_keys=False)
    return Fetch(settings, CONTEXT, shared, incoming, [SplitState(split)], {split.split_id}, clock)


def fetched(client: Client, stop: int) -> list[Fetched]:
    """All of partition 0, up to offset ``stop``."""
    settings = ReaderSettings(
        "x:1", "", {}, KafkaSubscription(topics=("t",)), ByteArraySchema(), PoisonAction.FAIL, False, None
    )
    fetch = fetch_of(settings, client, split_of("t", 0, 0, stop))
    return list(islice(fetch.run(), 100))


def values(found: list[Fetched]) -> list[Any]:
    return [value for one in found if one.data is not None for value in one.data.column(0).to_pylist()]


def test_one_message_is_waited_for_and_what_comes_with_it_hardly() -> None:
    client = Client(3)
    found = fetched(client, 3)
    assert values(found) == [b"0", b"1", b"2"]
    (first, wait_s), *rest = client.requests
    assert first == 1
    assert wait_s > GATHER_S
    assert rest == [(PIECE, GATHER_S)]


def test_a_full_topic_is_taken_by_pieces_without_waiting() -> None:
    count = FETCH_MESSAGES + 1_000
    client = Client(count)
    found = fetched(client, count)
    assert values(found) == [b"%d" % n for n in range(count)]
    assert {asked for asked, _ in client.requests} == {1, PIECE}
    assert [wait_s for asked, wait_s in client.requests if asked == PIECE].count(GATHER_S) == 2
    assert [one.next_offset for one in found if one.data is not None][-1] == count


def test_records_behind_the_end_are_left_out() -> None:
    found = fetched(Client(10), 4)
    assert values(found) == [b"0", b"1", b"2", b"3"]
    assert found[-1].data is None


def test_how_far_a_partition_goes_is_known_from_the_answers_of_the_broker() -> None:
    settings = ReaderSettings(
        "x:1", "", {}, KafkaSubscription(topics=("t",)), ByteArraySchema(), PoisonAction.FAIL, False, None
    )
    fetch = fetch_of(settings, Client(10), split_of("t", 0, 0, 4))
    assert list(fetch.run())
    assert fetch.ends == {"t-0": 10}


class Committing(Client):
    def __init__(self, *waiting: int) -> None:
        super().__init__(*waiting)
        self.committed: list[tuple[str, int]] = []

    def commit(self, offsets: Any, asynchronous: bool) -> None:
        assert asynchronous
        self.committed.append((threading.current_thread().name, offsets[0].offset))


class Held(Committing):
    """Is waiting for messages until it is let go, as a client is most of the time on a calm topic."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = threading.Event()
        self.waits = threading.Event()

    def consume(self, count: int, wait_s: float) -> list[Any]:
        self.waits.set()
        self.goes_on.wait(60)
        return super().consume(count, wait_s)


def test_the_thread_that_waits_for_messages_commits_the_newest_offsets_and_the_subtask_does_not_wait() -> None:
    client = Held()
    settings = ReaderSettings(
        "x:1", "", {}, KafkaSubscription(topics=("t",)), ByteArraySchema(), PoisonAction.FAIL, True, None
    )
    fetch = fetch_of(settings, client, split_of("t", 0, 0, None))
    fetcher = Fetcher(fetch.run, 1)
    assert client.waits.wait(60)
    fetch.commit([TopicPartition("t", 0, 5)])
    fetch.commit([TopicPartition("t", 0, 7)])
    assert client.committed == [], "the client is locked while it waits for messages"
    client.goes_on.set()
    wait_until(lambda: bool(client.committed), 60, lambda: "a commit")
    fetcher.close()
    assert client.committed == [("tidegate-fetcher", 7)]


@pytest.mark.parametrize("taken", [0, 1])
def test_offsets_are_committed_while_what_was_fetched_waits_for_a_subtask_that_cannot_go_on(taken: int) -> None:
    """The queue is full (nothing taken), or everything was fetched and the end was not taken yet."""
    client = Committing(1)
    settings = ReaderSettings(
        "x:1", "", {}, KafkaSubscription(topics=("t",)), ByteArraySchema(), PoisonAction.FAIL, True, None
    )
    fetch = fetch_of(settings, client, split_of("t", 0, 0, 1))
    woken = threading.Semaphore(0)
    fetcher = Fetcher(fetch.run, 1 + 2 * taken, woken.release)
    for _ in range(1 + 2 * taken):  # the records; and the end of the partition and of the iterator
        assert woken.acquire(timeout=60)
    fetch.commit([TopicPartition("t", 0, 1)])
    wait_until(lambda: bool(client.committed), 60, lambda: "a commit")
    assert [offset for _, offset in client.committed] == [1]
    fetcher.close()


class RegistryDown(ByteArraySchema):
    """As formats are while the registry of their schemas is down: what they know already, they read."""

    def decode(self, values: Values) -> pa.RecordBatch:
        if b"2" in values:
            raise Unreachable("the registry is down")
        return super().decode(values)


def reader_at(position: int | list[int] | None, decoder: ByteArraySchema) -> KafkaReader:
    librdkafkas = {"statistics.interval.ms": "0"}
    settings = ReaderSettings(
        "x:1", "", librdkafkas, KafkaSubscription(("t",)), decoder, PoisonAction.SKIP, False, None
    )
    reader = KafkaReader(settings, CONTEXT)
    reader.open([SplitState(split_of("t", 0, 0, 4), position)])
    return reader


def next_values(reader: KafkaReader) -> list[Any]:
    polled = wait_until(reader.poll, 30, "records are read")
    assert polled is not None
    assert isinstance(polled.batch, ArrowBatch)
    reader.advance(len(polled.batch))
    found: list[Any] = polled.batch.data.column(0).to_pylist()
    return found


def refusal(reader: KafkaReader) -> str:
    try:
        reader.poll()
    except Unreachable as error:
        return error.message
    return ""


def test_a_registry_that_goes_away_while_it_runs_is_no_poison_and_the_next_attempt_goes_on_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tidegate.connectors.kafka.reader.consumer", lambda *_, **more: Client(2, 2))
    reader = reader_at(None, RegistryDown())
    assert next_values(reader) == [b"0", b"1"]
    assert wait_until(partial(refusal, reader), 30, "the reader fails") == "the registry is down"
    (left,) = reader.snapshot_state()
    assert left.position == 2
    again = reader_at(left.position, ByteArraySchema())
    assert next_values(again) == [b"2", b"3"]


class Twice(ByteArraySchema):
    """Three rows of each message."""

    def decode_rows(self, values: Values) -> tuple[pa.RecordBatch, Counts | None]:
        data = self.decode(values)
        return data.take(pa.array(np.repeat(np.arange(len(values)), 3))), np.full(len(values), 3)


def test_a_checkpoint_between_rows_of_one_message_goes_on_behind_those_that_were_emitted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tidegate.connectors.kafka.reader.consumer", lambda *_, **more: Client(2, 2))
    reader = reader_at(None, Twice())
    polled = wait_until(reader.poll, 30, "records are read")
    assert polled is not None
    reader.advance(4)
    assert [state.position for state in reader.snapshot_state()] == [[1, 1]]
    monkeypatch.setattr("tidegate.connectors.kafka.reader.consumer", lambda *_, **more: Client(3))
    again = reader_at([1, 1], Twice())
    polled = wait_until(again.poll, 30, "records are read")
    assert polled is not None
    assert isinstance(polled.batch, ArrowBatch)
    assert polled.batch.data.column(0).to_pylist() == [b"1", b"1", b"2", b"2", b"2", b"3", b"3", b"3"]
    again.advance(1)
    assert [state.position for state in again.snapshot_state()] == [[1, 2]], "counted from the record's first row"
    again.advance(1)
    assert [state.position for state in again.snapshot_state()] == [2]


class SilentClient(Client):
    """Does not say for a while which partitions there are."""

    def __init__(self, *arrivals: int, failures: int) -> None:
        super().__init__(*arrivals)
        self.failures = failures

    def list_topics(self, topic: str, timeout: float) -> Any:
        if self.failures:
            self.failures -= 1
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions={0: None, 1: None})})

    def assignment(self) -> list[str]:
        return ["t-0"]

    def poll(self, timeout: float) -> Any:
        raise AssertionError("a record is taken, and lost")

    def incremental_assign(self, parts: Any) -> None:
        pass


def test_a_look_for_new_partitions_that_fails_is_repeated_and_what_is_known_is_read_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = SilentClient(3, failures=2)
    settings = ReaderSettings(
        "x:1", "", {}, KafkaSubscription(topics=("t",)), ByteArraySchema(), PoisonAction.FAIL, False, 3600.0
    )
    fetch = fetch_of(settings, client, split_of("t", 0, 0, None), clock=count(0, 1800).__next__)
    read, found = islice(fetch.run(), 2)
    assert values([read]) == [b"0", b"1", b"2"]
    assert found.found is not None
    assert found.split_id == "t-1"
    assert len([message for message in caplog.messages if "could not look for new partitions" in message]) == 2


class Growing(Client):
    """Notes the partitions that it is given later."""

    def __init__(self) -> None:
        super().__init__()
        self.added: list[tuple[int, int]] = []

    def incremental_assign(self, parts: Any) -> None:
        self.added += [(part.partition, part.offset) for part in parts]


def test_a_partition_that_is_added_while_nothing_is_read_is_read_from_its_beginning() -> None:
    settings = ReaderSettings(
        "x:1", "", {}, KafkaSubscription(topics=("t",)), ByteArraySchema(), PoisonAction.FAIL, False, None, True
    )
    client = Growing()
    fetch = fetch_of(settings, client, split_of("t", 0, 0, 0))
    found = fetch.run()
    assert (next(found).split_id, client.added) == ("t-0", []), (
        "the only one is at its end, and the reader waits for others"
    )
    fetch.add(split_of("t", 1, 7, 7))
    assert (next(found).split_id, client.added) == ("t-1", [(1, 7)])


def test_a_split_without_an_id_takes_that_of_its_topic_and_one_of_another_topic_fails(ids: dict[str, str]) -> None:
    settings = ReaderSettings(
        "x:1", "", {}, KafkaSubscription(topics=("t",)), ByteArraySchema(), PoisonAction.FAIL, False, None
    )
    ids["t"] = "new"
    fetch = fetch_of(settings, Client(10), split_of("t", 0, 0, 4))
    assert next(fetch.run()).topic_id == "new"
    fetch = fetch_of(settings, Client(10), split_of("t", 0, 0, 4, "new"))
    assert [one.topic_id for one in fetch.run()] == ["", ""]
    fetch = fetch_of(settings, Client(10), split_of("t", 0, 2, 4, "old"))
    with pytest.raises(CorruptData, match="topic 't' was deleted and made again: offset 2 of partition 0"):
        next(fetch.run())


def test_an_offset_out_of_the_range_of_another_topic_blames_that(ids: dict[str, str]) -> None:
    class Shorter(Client):
        def consume(self, count: int, wait_s: float) -> list[Any]:
            ids["t"] = "new"
            raise CorruptData("the offset is out of its range")

    settings = ReaderSettings(
        "x:1", "", {}, KafkaSubscription(topics=("t",)), ByteArraySchema(), PoisonAction.FAIL, False, None
    )
    with pytest.raises(CorruptData, match="was deleted and made again"):
        list(fetch_of(settings, Shorter(), split_of("t", 0, 2, 4, "old")).run())
    with pytest.raises(CorruptData, match="out of its range"):
        list(fetch_of(settings, Shorter(), split_of("t", 0, 2, 4, "new")).run())


def test_the_id_that_a_split_takes_is_in_the_next_snapshot(ids: dict[str, str]) -> None:
    old = Split("t-0", ["t", 0, 0, 4])
    assert topic_id_of(old) == ""
    assert with_topic_id(old, "new") == split_of("t", 0, 0, 4, "new")
