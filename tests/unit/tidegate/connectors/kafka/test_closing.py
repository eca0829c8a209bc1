"""Connections are closed when a client comes to nothing."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError
from kafka.protocol.admin import ListTransactionsResponse

from tests.unit.tidegate.connectors.kafka.scripted_brokers import ScriptedBrokers
from tests.unit.tidegate.connectors.kafka.test_builders import sink
from tests.unit.tidegate.connectors.kafka.test_columnar_transaction import Broker, records
from tidegate.common.typeinfo import Types
from tidegate.connectors.base import DeliveryGuarantee, SinkContext
from tidegate.connectors.kafka.columnar import transaction
from tidegate.connectors.kafka.markers import Markers
from tidegate.connectors.kafka.open_transactions import columnar_broker
from tidegate.connectors.kafka.open_transactions.columnar_broker import ColumnarTransactionBroker
from tidegate.connectors.kafka.open_transactions.naming import Bundle, TransactionNamingStrategy
from tidegate.connectors.kafka.open_transactions.subtask_transactions import SubtaskTransactions, TransactionSettings
from tidegate.connectors.kafka.publisher import Epoch, EpochPublisher
from tidegate.model.errors import ExternalError, InvalidJob


def connections(monkeypatch: pytest.MonkeyPatch, **planned: list[Any]) -> ScriptedBrokers:
    brokers = ScriptedBrokers(Broker(**planned), {"t": [1]})
    monkeypatch.setattr(transaction, "Connections", lambda *_: brokers)
    return brokers


def test_a_producer_whose_timeout_is_refused_for_good_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = connections(monkeypatch, InitProducerId=[KafkaError.INVALID_TRANSACTION_TIMEOUT])
    settings = TransactionSettings("p", TransactionNamingStrategy.POOLING, "notes", 900_000, "x:1")
    context = SinkContext(0, 1, job_id="job", attempt="0-0", operator_id="sink")
    transactions = SubtaskTransactions(ColumnarTransactionBroker("x:1", {}, 900_000), settings, context)
    with pytest.raises(InvalidJob, match=r"transaction\.max\.timeout\.ms"):
        transactions.write(records("t", [b"a"]))
    assert brokers.is_closed


class _Unreadable(Markers):
    def read(self, since_ms: int) -> dict[str, str]:
        raise ExternalError("the markers cannot be read")


def test_a_producer_whose_markers_cannot_be_read_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = connections(monkeypatch)
    publisher = EpochPublisher("x:1", {}, "words", _Unreadable("x:1", {}), "own")
    with pytest.raises(ExternalError, match="cannot be read"):
        publisher.commit([Epoch("another", 0, 1, 0, b"").as_list()])
    assert brokers.is_closed


def test_a_sink_that_keeps_nothing_open_any_more_looks_what_is_and_closes_what_it_looked_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nothing = ListTransactionsResponse(error_code=0, unknown_state_filters=[], transaction_states=[])
    brokers = ScriptedBrokers(lambda node, request: nothing, {"t": [1]})
    monkeypatch.setattr(columnar_broker, "Connections", lambda *_: brokers)
    made = sink().set_bootstrap_servers("x:1").set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
    context = SinkContext(0, 1, job_id="job", attempt="0-0", operator_id="sink", restored_checkpoint_id=1)
    state = [Bundle("p", 0, 1).as_list()]
    made.set_transactional_id_prefix("p").build().make_writer(context, state, Types.STRING()).close()
    assert len(brokers.requests) == 1
    assert brokers.is_closed
