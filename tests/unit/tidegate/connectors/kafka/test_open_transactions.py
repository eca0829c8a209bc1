"""Names, numbers, ownership and deadlines of open transactions; what a builder takes; and what is asked of the brokers, in which order."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from kafka.protocol.admin import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)

from tests.unit.tidegate.connectors.kafka.scripted_brokers import ScriptedBrokers
from tests.unit.tidegate.connectors.kafka.test_builders import sink
from tests.unit.tidegate.connectors.kafka.test_columnar_transaction import Broker, batches, kinds, producer, records
from tidegate.connectors.base import DeliveryGuarantee
from tidegate.connectors.kafka.columnar.transaction_list import ONGOING, TransactionList
from tidegate.connectors.kafka.open_transactions.deadlines import check_deadline, least_timeout_ms
from tidegate.connectors.kafka.open_transactions.naming import (
    Bundle,
    Numbers,
    Ownership,
    TransactionName,
    TransactionNamingStrategy,
    lingering,
    mark_of,
)
from tidegate.connectors.kafka.open_transactions.prepared import Prepared, ProducerIdentity
from tidegate.connectors.kafka.record_batches import Producer
from tidegate.connectors.kafka.sink import KafkaSink, KafkaSinkBuilder
from tidegate.model.configuration import Configuration
from tidegate.model.errors import CorruptData, InvalidJob

INCREMENTING, POOLING = TransactionNamingStrategy.INCREMENTING, TransactionNamingStrategy.POOLING
MARK, BRANCH = mark_of("operator"), "b" * 16


def name(subtask: int, branch: str = "a" * 16, prefix: str = "p", mark: str = MARK) -> str:
    return str(TransactionName(prefix, mark, branch, subtask, 0))


def test_a_name_is_read_back_also_with_dashes_in_the_prefix_and_others_are_nobodys() -> None:
    ours = TransactionName("my-own-prefix", MARK, BRANCH, 3, 14)
    assert TransactionName.parse(str(ours)) == ours
    for other in ("tidegate-abc-3", "my-app-1-2-3-4", "", f"-{MARK}-{BRANCH}-0-0", f"p-{MARK}-{BRANCH}-0-x"):
        assert TransactionName.parse(other) is None


def test_incrementing_numbers_follow_the_checkpoints_and_are_never_used_again() -> None:
    numbers = Numbers(INCREMENTING, last_checkpoint=7)
    assert [numbers.next(()), numbers.next(())] == [8, 9]
    numbers.last_checkpoint = 20
    assert numbers.next(()) == 21


def test_pooled_numbers_are_the_first_that_are_free() -> None:
    numbers = Numbers(POOLING)
    assert [numbers.next(()), numbers.next({0}), numbers.next({0, 2}), numbers.next({1})] == [0, 1, 1, 0]


def test_every_number_of_a_subtask_has_one_owner_at_any_parallelism() -> None:
    bundles = [Bundle("p", n, 3) for n in range(3)]
    for held in ([[0], [1], [2]], [[0, 1], [2]], [[0, 1, 2]], [[2], [0], [1]]):
        owners = [Ownership(tuple(bundles[n] for n in one), i, len(held), True) for i, one in enumerate(held)]
        for subtask in range(10):
            assert sum(owner.owns(subtask) for owner in owners) == 1
    fresh = [Ownership((), n, 2, False) for n in range(2)]
    assert [[owner.owns(subtask) for owner in fresh] for subtask in (0, 1, 2)] == [
        [True, False],
        [False, True],
        [True, False],
    ]
    assert not Ownership((), 0, 1, is_restored=True).owns(0), "another subtask may have it to commit"


def test_what_lingers_is_of_this_operator_and_these_prefixes_and_not_of_this_attempt() -> None:
    ownership = Ownership((Bundle("before", 0, 1),), 0, 1, True)
    assert ownership.prefixes("p") == ["before", "p"]
    wanted = [name(0), name(5), name(1, prefix="before")]
    others = [name(0, branch=BRANCH), name(0, prefix="q"), name(0, mark="0" * 8), "somebody-elses"]
    assert lingering([*wanted, *others], ownership, MARK, BRANCH, ownership.prefixes("p")) == wanted


def test_state_and_committables_are_read_back_and_anything_else_is_corrupt() -> None:
    bundle, prepared = Bundle("p", 1, 2), Prepared(name(1), ProducerIdentity(5, 3), BRANCH, 1, 9, 1000, "notes")
    assert Bundle.of(bundle.as_list()) == bundle
    assert Prepared.of(prepared.as_list()) == prepared
    assert Prepared.fits(prepared.as_list())
    for other in ([], ["x"] * 4, None, "text", ["kafka-transaction", 1]):
        with pytest.raises(CorruptData):
            Bundle.of(other)
        with pytest.raises(CorruptData):
            Prepared.of(other)


@pytest.mark.parametrize(
    ("strategy", "delay_ms"),
    [
        ({}, 60_000),
        ({"restart-strategy.type": "none"}, 0),
        ({"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "7 s"}, 7_000),
        ({"restart-strategy.type": "failure-rate", "restart-strategy.failure-rate.delay": "8 s"}, 8_000),
    ],
)
def test_a_transaction_outlives_the_interval_and_a_restart(strategy: dict[str, str], delay_ms: int) -> None:
    given = {"execution.checkpointing.interval": "10 s", "heartbeat.timeout": "20 s", **strategy}
    configuration = Configuration.from_strings(given)
    assert least_timeout_ms(configuration) == 30_000 + delay_ms
    check_deadline(30_001 + delay_ms, configuration)
    with pytest.raises(InvalidJob, match=r"transaction.timeout.ms .* the interval of checkpoints \(10000 ms\)"):
        check_deadline(30_000 + delay_ms, configuration)


def exactly_once() -> KafkaSinkBuilder:
    made = sink().set_bootstrap_servers("a:1").set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
    return made.set_transactional_id_prefix("p")


def test_the_strategy_chooses_the_mode_and_the_default_keeps_nothing_open() -> None:
    plain = exactly_once().build()
    assert (plain.strategy, plain.keeps_together, plain.properties) == (None, False, {})
    made = exactly_once().set_transaction_naming_strategy(POOLING).build()
    assert (made.strategy, made.keeps_together) == (POOLING, True)
    assert made.properties == {"transaction.timeout.ms": "900000"}
    assert (
        exactly_once().set_property("sink.transaction-naming-strategy", "incrementing").build().strategy is INCREMENTING
    )


def test_what_contradicts_a_strategy_is_refused() -> None:
    def refused(builder: KafkaSinkBuilder, why: str) -> None:
        with pytest.raises(InvalidJob, match=why):
            builder.set_transaction_naming_strategy(POOLING).build()

    refused(exactly_once().set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE), "use it with .*EXACTLY_ONCE")
    refused(
        exactly_once().set_property("statistics.interval.ms", "0"),
        "'statistics.interval.ms' .*librdkafka cannot commit",
    )
    refused(exactly_once().set_property("transaction.timeout.ms", "1 h"), "transaction.timeout.ms is '1 h'")
    with pytest.raises(InvalidJob, match="'both': it is one of INCREMENTING, POOLING"):
        KafkaSink.builder().set_property("sink.transaction-naming-strategy", "both")


def test_the_next_transaction_has_an_epoch_of_its_own_and_counts_from_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    made, brokers = producer(Broker(), monkeypatch)
    for transactional_id in ("me", "me", "another"):
        made.take(transactional_id, 30)
        made.begin()
        made.send(records("t", [b"a"]))
        made.push()
        made.prepare(30)
        made.commit_prepared(30)
    asked = ["InitProducerId", "AddPartitionsToTxn", "Produce", "AddPartitionsToTxn", "EndTxn"]
    assert kinds(brokers) == ["InitProducerId", *asked * 3]
    assert [sequence for *_, sequence, _ in batches(brokers)] == [0, 0, 0]
    assert [request.transactional_id for _, request in brokers.requests[-4:] if hasattr(request, "transactional_id")][
        -1
    ] == "another"


def test_a_commit_whose_answer_is_lost_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made, brokers = producer(Broker(EndTxn=[ConnectionError("gone"), 0]), monkeypatch)
    made.begin()
    made.send(records("t", [b"a"]))
    made.flush(30)
    made.commit_prepared(30)
    assert kinds(brokers)[-2:] == ["EndTxn", "EndTxn"]


def test_a_transaction_is_prepared_when_all_is_acknowledged_and_its_coordinator_says_that_it_is_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, brokers = producer(Broker(AddPartitionsToTxn=[0, ConnectionError("gone"), 0]), monkeypatch)
    made.begin()
    made.send(records("t", [b"a"]))
    made.prepare(30)
    asks = "AddPartitionsToTxn"
    assert kinds(brokers) == ["InitProducerId", asks, "Produce", asks, asks], "again when the answer is lost"


def test_a_transaction_that_timed_out_behind_its_last_record_is_not_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint would hold it, and its records would be lost; so they are read again."""
    fenced = KafkaError.INVALID_PRODUCER_EPOCH
    made, _ = producer(Broker(AddPartitionsToTxn=[0, fenced]), monkeypatch)
    made.begin()
    made.send(records("t", [b"a"]))
    made.flush(30)
    with pytest.raises(KafkaException) as refused:
        made.prepare(30)
    assert refused.value.args[0].code() == fenced


class Coordinators:
    """Two of them, each with transactions of its own; the first is coming up."""

    def __init__(self) -> None:
        self.coming_up = 1

    def __call__(self, node: Any, request: Any) -> Any:
        if isinstance(request, DescribeTransactionsRequest):
            kind = DescribeTransactionsResponse.TransactionState
            (wanted,) = request.transactional_ids
            code = 0 if wanted.startswith("p-") else 105
            state = kind(
                error_code=code,
                transactional_id=wanted,
                transaction_state=ONGOING,
                transaction_timeout_ms=1,
                transaction_start_time_ms=1,
                producer_id=7,
                producer_epoch=2,
                topics=[],
            )
            return DescribeTransactionsResponse(transaction_states=[state])
        assert isinstance(request, ListTransactionsRequest)
        if node == 1 and self.coming_up:
            self.coming_up -= 1
            return ListTransactionsResponse(error_code=14, unknown_state_filters=[], transaction_states=[])
        kind = ListTransactionsResponse.TransactionState
        found = [kind(transactional_id=f"{one}-{node}", producer_id=1, transaction_state=ONGOING) for one in ("p", "q")]
        return ListTransactionsResponse(error_code=0, unknown_state_filters=[], transaction_states=found)


def test_open_transactions_are_asked_of_every_broker_and_of_one_that_comes_up_again() -> None:
    brokers: Any = ScriptedBrokers(Coordinators(), {"t": [1, 2]})
    listing = TransactionList(brokers, 30, brokers.clock)
    assert listing.open_ids("p-") == ["p-1", "p-2"]
    assert [node for node, _ in brokers.requests] == [1, 1, 2]
    assert listing.described(["p-1", "gone"]) == {"p-1": (Producer(7, 2), ONGOING)}


def test_a_broker_that_does_not_list_is_an_error() -> None:
    refused = ListTransactionsResponse(error_code=53, unknown_state_filters=[], transaction_states=[])
    brokers: Any = ScriptedBrokers(lambda node, request: refused, {"t": [1]})
    with pytest.raises(KafkaException):
        TransactionList(brokers, 30, brokers.clock).open_ids("p-")
