"""The Kafka sink conforms, against a real broker; and what only Kafka can do to it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pytest

from tests.conformance.sink_suite import SinkConformance, Subject
from tests.servers.kafka_broker import KafkaBroker
from tests.servers.kafka_reading import read_topic
from tests.unit.taskmanager.operators.harness import Pool
from tidegate.common.serialization import SimpleStringSchema
from tidegate.connectors.base import DeliveryGuarantee, Sink, SinkContext
from tidegate.connectors.kafka.producer_port import TransactionalProducer
from tidegate.connectors.kafka.publisher import EpochPublisher
from tidegate.connectors.kafka.records import KafkaRecordSerializationSchema
from tidegate.connectors.kafka.sink import KafkaSink
from tidegate.connectors.kafka.topic_rules import batch_bytes
from tidegate.connectors.kafka.transactional_producers import make_transactional_producer
from tidegate.connectors.kafka.transactions import KafkaTransactions
from tidegate.connectors.transactions import TransactionLog
from tidegate.model.errors import InvalidJob, TidegateError, UserError

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]  # the first may have to fetch the server

_topics = itertools.count()


WAYS: dict[str, dict[str, str]] = {"columns": {}, "messages": {"statistics.interval.ms": "0"}}
"""Properties that let records go by column, and one that only librdkafka knows."""


class Topic(Subject):
    def __init__(self, broker: KafkaBroker, properties: Mapping[str, str]) -> None:
        self.name = f"words-{next(_topics)}"
        self._broker = broker
        self._properties = properties
        broker.create_topic(self.name, 2)

    def sink(self) -> Sink:
        words = KafkaRecordSerializationSchema.builder().set_topic(self.name)
        words.set_value_serialization_schema(SimpleStringSchema())
        builder = KafkaSink.builder().set_bootstrap_servers(self._broker.servers).set_record_serializer(words.build())
        builder.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_transactional_id_prefix("words")
        for name, value in self._properties.items():
            builder.set_property(name, value)
        return builder.build()

    def visible(self) -> list[str]:
        return [message.value for message in read_topic(self._broker.servers, self.name)]

    def log(self) -> TransactionLog:
        return KafkaTransactions(self._broker.servers, {})


class TestKafkaSink(SinkConformance):
    @pytest.fixture(params=list(WAYS))
    def subject(self, request: pytest.FixtureRequest, broker: KafkaBroker) -> Subject:
        return Topic(broker, WAYS[request.param])

    def test_a_publisher_that_hangs_in_the_middle_is_fenced_by_its_successor(
        self, subject: Subject, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The records are in the broker, in an open transaction, when the process stops; it goes on after the restart."""
        successors: list[Any] = []

        def hanging(*arguments: Any, **named: Any) -> TransactionalProducer:
            producer = make_transactional_producer(*arguments, **named)
            send = producer.send

            def hang(records: Any) -> None:
                send(records)
                if not successors:
                    producer.flush(30)
                    successors.append(None)
                    successors.append(self.begin(subject, [snapshot], 1))

            monkeypatch.setattr(producer, "send", hang)
            return producer

        monkeypatch.setattr("tidegate.connectors.kafka.publisher.make_transactional_producer", hanging)
        zombie = self.begin(subject)
        zombie.feed(["a"])
        snapshot = zombie.snapshot(1)
        zombie.operator.notify_checkpoint_complete(1)  # fenced at first, and then it sees that the work is done
        assert subject.visible() == ["a"]
        successor = successors[1]
        successor.feed(["b"])
        successor.snapshot(2)
        successor.operator.notify_checkpoint_complete(2)
        assert sorted(subject.visible()) == ["a", "b"]

    def test_epochs_that_waited_share_a_transaction_and_are_told_apart_after_a_restart(
        self, subject: Subject, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pool = Pool()
        one = self.begin(subject)
        one.operator.context.background.run_async = pool.submit
        published: list[int] = []
        publish = EpochPublisher._publish

        def noted(publisher: EpochPublisher, epochs: Any, **more: Any) -> None:
            published.append(len(epochs))
            publish(publisher, epochs, **more)

        monkeypatch.setattr(EpochPublisher, "_publish", noted)
        for n, value in enumerate("abc", 1):
            one.feed([value])
            snapshot = one.snapshot(n)
            one.operator.notify_checkpoint_complete(n)
        pool.run_one()
        pool.run_one()
        assert (published, pool.jobs) == ([1, 2], [])
        assert sorted(subject.visible()) == ["a", "b", "c"]
        self.begin(subject, [snapshot], 3)
        assert published == [1, 2, 1, 1, 1], "the snapshot still held all of them"
        assert sorted(subject.visible()) == ["a", "b", "c"]

    def test_a_broker_that_crashes_between_vote_and_commit_loses_nothing(
        self, subject: Subject, broker: KafkaBroker
    ) -> None:
        one = self.begin(subject)
        one.feed(["a"])
        snapshot = one.snapshot(1)
        broker.kill9()
        broker.start()
        one.operator.notify_checkpoint_complete(1)
        assert subject.visible() == ["a"]
        self.begin(subject, [snapshot], 1)
        assert subject.visible() == ["a"]

    def test_a_job_that_is_down_for_longer_than_transactions_last_loses_nothing(
        self, subject: Subject, broker: KafkaBroker
    ) -> None:
        """A transaction that was opened when the job went down is the clock: the broker has ended it meanwhile."""
        from confluent_kafka import Producer

        one = self.begin(subject)
        one.feed(["a"])
        snapshot = one.snapshot(1)
        one.operator.close()
        assert isinstance(subject, Topic)
        topic = f"clock-of-{subject.name}"
        broker.create_topic(topic)
        clock = Producer(
            {"bootstrap.servers": broker.servers, "transactional.id": topic, "transaction.timeout.ms": 1000}
        )
        clock.init_transactions(30)
        clock.begin_transaction()
        clock.produce(topic, "never committed")
        clock.flush(30)
        assert read_topic(broker.servers, topic) == []  # reads on until the transaction is over
        self.begin(subject, [snapshot], 1).operator.close()
        assert subject.visible() == ["a"]

    def test_an_epoch_that_the_topic_refuses_is_published_when_the_topic_takes_it(
        self, subject: Subject, broker: KafkaBroker
    ) -> None:
        """The topic's limit is lowered after the vote: the job fails for good, and nothing is lost."""
        assert isinstance(subject, Topic)
        one = self.begin(subject)
        large = "x" * 5_000
        one.feed(["a", large])
        snapshot = one.snapshot(1)
        broker.configure_topic(subject.name, max_message_bytes="1000")
        with pytest.raises(
            UserError, match="record 2 .* raise max.message.bytes of the topic.*tidegate txn abort"
        ) as raised:
            one.operator.notify_checkpoint_complete(1)
        assert not raised.value.retriable
        assert "operator 'op': what checkpoint 1 holds is refused" in raised.value.message
        assert subject.visible() == []
        broker.configure_topic(subject.name, max_message_bytes="10000")
        self.begin(subject, [snapshot], 1).operator.close()
        assert sorted(subject.visible()) == ["a", large]

    def test_what_the_topic_refuses_fails_before_the_vote(self, subject: Subject, broker: KafkaBroker) -> None:
        """The largest record that the topic takes is published; the broker itself refuses one more byte."""
        assert isinstance(subject, Topic)
        broker.configure_topic(subject.name, max_message_bytes="1000")
        taken = next(n for n in range(1000, 0, -1) if batch_bytes(-1, n) == 1000)
        one = self.begin(subject)
        one.feed(["x" * taken])
        one.snapshot(1)
        one.operator.notify_checkpoint_complete(1)
        assert subject.visible() == ["x" * taken]
        one.feed(["a", "x" * (taken + 1)])
        with pytest.raises(UserError, match=r"record 2 since the last checkpoint takes 1001 bytes.* takes 1000"):
            one.snapshot(2)
        broker.configure_topic(subject.name, max_message_bytes="10000", cleanup_policy="compact")
        with pytest.raises(UserError, match="record 1 since the last checkpoint has no key.*compacted"):
            self.begin(subject).feed(["a"] * 2_000)

    def test_a_topic_that_is_deleted_after_the_vote_fails_the_job_for_good(
        self, subject: Subject, broker: KafkaBroker
    ) -> None:
        assert isinstance(subject, Topic)
        one = self.begin(subject)
        one.feed(["a"])
        one.snapshot(1)
        client = broker.admin()
        client.delete_topics([subject.name])[subject.name].result(30)
        with pytest.raises(
            UserError, match=f"has no topic '{subject.name}'.*tidegate txn abort CHECKPOINT --kafka"
        ) as raised:
            one.operator.notify_checkpoint_complete(1)
        assert not raised.value.retriable

    def test_a_record_above_the_limit_of_the_client_fails_when_it_is_written(self, subject: Subject) -> None:
        one = self.begin(subject)
        with pytest.raises(TidegateError, match="a record for topic .* takes .* bytes; the limit is 1000000"):
            one.feed(["x" * 1_100_000])

    def test_a_topic_that_nobody_may_write_to_is_named_with_the_missing_permission(
        self, subject: Subject, broker: KafkaBroker
    ) -> None:
        assert isinstance(subject, Topic)
        one = self.begin(subject)
        one.feed(["a"])
        one.snapshot(1)
        broker.deny(subject.name, "write")
        with pytest.raises(TidegateError, match=f"to topic '{subject.name}' .* lacks this permission"):
            one.operator.notify_checkpoint_complete(1)


@pytest.mark.parametrize("way", list(WAYS))
def test_a_transaction_timeout_that_the_broker_does_not_allow_is_refused_by_name(broker: KafkaBroker, way: str) -> None:
    """At submission, and at the start of a sink whose broker was set otherwise meanwhile. 15 minutes are Kafka's default."""
    sink = Topic(broker, {"transaction.timeout.ms": "3600000", **WAYS[way]}).sink()
    with pytest.raises(
        InvalidJob, match=r"transaction.timeout.ms of the sink is 3600000 ms.* allows 900000 ms"
    ) as refused:
        sink.validate()
    assert "transaction.max.timeout.ms" in refused.value.message
    context = SinkContext(subtask_index=0, parallelism=1, job_id="job", attempt="0-0", operator_id="sink")
    with pytest.raises(InvalidJob, match=r"more than the broker's transaction.max.timeout.ms allows"):
        sink.make_committer(context)
