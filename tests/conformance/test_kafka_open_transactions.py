"""The Kafka sink conforms when it keeps transactions open, against a real broker; and what only Kafka can do to it."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.conformance.sink_suite import SinkConformance, Subject, as_checkpoint
from tests.e2e.waiting import wait_until
from tests.servers.kafka_broker import KafkaBroker
from tests.servers.kafka_reading import read_now, read_topic
from tidegate.common.serialization import SimpleStringSchema
from tidegate.connectors.base import DeliveryGuarantee, Sink, SinkContext
from tidegate.connectors.kafka.columnar.connection import Connections
from tidegate.connectors.kafka.columnar.transaction_list import ONGOING, TransactionList
from tidegate.connectors.kafka.open_transactions.naming import TransactionNamingStrategy
from tidegate.connectors.kafka.records import KafkaRecordSerializationSchema
from tidegate.connectors.kafka.sink import KafkaSink
from tidegate.connectors.kafka.transactions import KafkaTransactions
from tidegate.connectors.transactions import TransactionLog, TransactionStatus, listed_in
from tidegate.model.configuration import Configuration
from tidegate.model.errors import InvalidJob, TidegateError

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]  # the first may have to fetch the server

_topics = itertools.count()
ENDING = ("PrepareCommit", "PrepareAbort")
"""The broker has decided, and tells the partitions."""


class OpenTopic(Subject):
    def __init__(self, broker: KafkaBroker, strategy: TransactionNamingStrategy, timeout_ms: int | None = None) -> None:
        self.name = f"open-words-{next(_topics)}"
        self.servers = broker.servers
        self._strategy = strategy
        self._timeout_ms = timeout_ms
        broker.create_topic(self.name, 2)
        wait_until(self._has_leaders, 30, "the new topic's partitions have leaders that know it")

    def sink(self, strategy: TransactionNamingStrategy | str | None = "own") -> KafkaSink:
        words = KafkaRecordSerializationSchema.builder().set_topic(self.name)
        words.set_value_serialization_schema(SimpleStringSchema())
        builder = KafkaSink.builder().set_bootstrap_servers(self.servers).set_record_serializer(words.build())
        builder.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_transactional_id_prefix(self.name)
        if self._timeout_ms is not None:
            builder.set_property("transaction.timeout.ms", str(self._timeout_ms))
        chosen = self._strategy if isinstance(strategy, str) else strategy
        return (builder if chosen is None else builder.set_transaction_naming_strategy(chosen)).build()

    def visible(self) -> list[str]:
        self.settle()
        return [message.value for message in read_now(self.servers, self.name)]

    def log(self) -> TransactionLog:
        return KafkaTransactions(self.servers, {})

    def _has_leaders(self) -> bool:
        from confluent_kafka import KafkaException

        try:
            return read_now(self.servers, self.name) == []
        except KafkaException:
            return False

    def settle(self) -> None:
        """What was decided reaches the partitions a moment later."""
        wait_until(lambda: not self.listed(*ENDING), 30, "the broker has ended what was decided")

    def listed(self, *states: str) -> list[str]:
        connections = Connections(self.servers, {})
        try:
            connections.connect(30)
            return TransactionList(connections, 30).ids(f"{self.name}-", states)
        finally:
            connections.close()


@pytest.fixture(params=list(TransactionNamingStrategy), ids=lambda found: found.name)
def strategy(request: pytest.FixtureRequest) -> TransactionNamingStrategy:
    found: TransactionNamingStrategy = request.param
    return found


class TestOpenTransactions(SinkConformance):
    @pytest.fixture
    def subject(self, broker: KafkaBroker, strategy: TransactionNamingStrategy) -> OpenTopic:
        return OpenTopic(broker, strategy)

    def test_uncommitted_records_are_seen_at_once_and_committed_ones_after_the_confirm(
        self, subject: OpenTopic
    ) -> None:
        one = self.begin(subject)
        one.feed(["a", "b"])
        assert wait_until(lambda: len(self._uncommitted(subject)) == 2, 30, "they are seen before the barrier")
        one.snapshot(1)
        assert subject.visible() == []
        one.operator.notify_checkpoint_complete(1)
        assert sorted(subject.visible()) == ["a", "b"]

    def test_a_restart_aborts_what_no_checkpoint_holds_and_commits_what_one_does(self, subject: OpenTopic) -> None:
        """Also of subtasks that the new parallelism lacks."""
        olds = [self.begin(subject, subtask=i, parallelism=3) for i in range(3)]
        for i, old in enumerate(olds):
            old.feed([f"kept-{i}"])
        snapshots = [old.snapshot(1) for old in olds]
        for i, old in enumerate(olds):
            old.feed([f"lost-{i}"])
            old.snapshot(2)
            old.feed([f"lost too-{i}"])
        assert len(subject.listed(ONGOING)) == 9
        new = self.begin(subject, snapshots, 1)
        assert subject.listed(ONGOING) == []
        assert sorted(m.value for m in read_topic(subject.servers, subject.name)) == ["kept-0", "kept-1", "kept-2"]
        new.operator.close()

    def test_a_checkpoint_that_was_committed_is_restored_when_its_ids_are_in_use_again(
        self, subject: OpenTopic
    ) -> None:
        """A late commit must not commit the beginning of the next transaction of its id."""
        one = self.begin(subject)
        one.feed(["a"])
        first = one.snapshot(1)
        one.operator.notify_checkpoint_complete(1)
        one.feed(["b"])
        one.snapshot(2)
        one.operator.notify_checkpoint_complete(2)
        one.feed(["lost"])
        self.begin(subject, [first], 1).operator.close()
        assert sorted(subject.visible()) == ["a", "b"]
        assert subject.listed(ONGOING) == []

    def test_a_broker_that_crashes_at_any_step_loses_nothing(self, subject: OpenTopic, broker: KafkaBroker) -> None:
        one = self.begin(subject)
        one.feed(["a"])
        snapshot = one.snapshot(1)
        one.feed(["lost"])
        broker.kill9()
        broker.start()
        one.operator.notify_checkpoint_complete(1)
        two = self.begin(subject, [snapshot], 1)
        two.feed(["b"])
        two.snapshot(2)
        two.operator.notify_checkpoint_complete(2)
        assert sorted(subject.visible()) == ["a", "b"]

    def test_the_mode_may_change_over_a_restore(self, subject: OpenTopic) -> None:
        """Epochs of a checkpoint are published by a sink that keeps transactions open, and the other way round."""
        one = self.begin(_Other(subject))
        one.feed(["a"])
        epochs = one.snapshot(1)
        two = self.begin(subject, [epochs], 1)
        two.feed(["b"])
        prepared = two.snapshot(2)
        two.feed(["lost"])
        three = self.begin(_Other(subject), [prepared], 2)
        three.feed(["c"])
        three.snapshot(3)
        three.operator.notify_checkpoint_complete(3)
        assert sorted(subject.visible()) == ["a", "b", "c"]

    def _uncommitted(self, subject: OpenTopic) -> list[str]:
        return [message.value for message in read_now(subject.servers, subject.name, "read_uncommitted")]


def test_a_transaction_that_the_broker_timed_out_is_told_with_the_option_until_it_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Data loss is never passed over: each restart says the same, until somebody decides."""
    monkeypatch.setattr("tidegate.connectors.kafka.sink.check_deadline", lambda timeout_ms, configuration: None)
    with KafkaBroker(transaction_abort_timed_out_transaction_cleanup_interval_ms="200") as broker:
        suite, subject = SinkConformance(), OpenTopic(broker, TransactionNamingStrategy.POOLING, timeout_ms=1_000)
        with suite.ended():
            one = suite.begin(subject)
            one.feed(["a"])
            snapshot = one.snapshot(1)
            wait_until(lambda: not subject.listed(ONGOING), 60, "the broker has timed it out")
            for _ in range(2):
                with pytest.raises(TidegateError, match=r"records are lost.*transaction.timeout.ms \(1000 ms\)"):
                    suite.begin(subject, [snapshot], 1)
            with pytest.raises(TidegateError, match="records are lost"):
                one.operator.notify_checkpoint_complete(1)
            log, path = subject.log(), as_checkpoint(snapshot, tmp_path)
            (gone,) = log.transactions(listed_in(path))
            assert gone.status is TransactionStatus.LOST
            log.abort(gone)
            assert [t.status for t in log.transactions(listed_in(path))] == [TransactionStatus.ABORTED]
            two = suite.begin(subject, [snapshot], 1)
            two.feed(["b"])
            two.snapshot(2)
            two.operator.notify_checkpoint_complete(2)
            assert subject.visible() == ["b"]
            two.feed(["c"])
            wait_until(lambda: not subject.listed(ONGOING), 60, "the broker has timed out the open one, too")
            with pytest.raises(TidegateError, match=r"was ended .* while it was written.*transaction.timeout.ms"):
                two.snapshot(3)


def test_a_timeout_that_is_shorter_than_interval_and_restart_is_refused_at_submission_and_start(
    broker: KafkaBroker,
) -> None:
    sink = OpenTopic(broker, TransactionNamingStrategy.POOLING, timeout_ms=120_000).sink()
    sink.validate_configuration(Configuration.from_strings({"execution.checkpointing.interval": "1 s"}))
    slow = {"execution.checkpointing.interval": "30 s"}
    with pytest.raises(InvalidJob, match=r"transaction.timeout.ms of the Kafka sink is 120000 ms.* for 140000 ms"):
        sink.validate_configuration(Configuration.from_strings(slow))
    context = SinkContext(0, 1, job_id="job", attempt="0-0", operator_id="sink", configuration=slow)
    with pytest.raises(InvalidJob, match=r"transaction.timeout.ms of the Kafka sink is 120000 ms"):
        sink.make_committer(context)


def test_the_default_timeout_of_either_mode_above_a_brokers_limit_is_refused_by_name() -> None:
    """A limit below one minute leaves neither any room: at submission, and where the job starts, instead of restarts for ever."""
    with KafkaBroker(transaction_max_timeout_ms="50000") as broker:
        topic = OpenTopic(broker, TransactionNamingStrategy.INCREMENTING)
        for strategy, default_ms in ((TransactionNamingStrategy.INCREMENTING, 900_000), (None, 60_000)):
            sink = topic.sink(strategy)
            with pytest.raises(InvalidJob, match=rf"is {default_ms} ms, and the broker .* allows 50000 ms"):
                sink.validate()
            context = SinkContext(0, 1, job_id="job", attempt="0-0", operator_id="sink")
            with pytest.raises(InvalidJob, match="transaction.max.timeout.ms"):
                sink.make_committer(context)


class _Other(Subject):
    """The same topic, where epochs travel in the checkpoint."""

    def __init__(self, subject: OpenTopic) -> None:
        self._subject = subject

    def sink(self) -> Sink:
        return self._subject.sink(None)

    def visible(self) -> list[str]:
        return self._subject.visible()

    def log(self) -> TransactionLog:
        return self._subject.log()
