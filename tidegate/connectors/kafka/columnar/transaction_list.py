"""Open transactions of a cluster by transactional id: each coordinator is asked for its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import DescribeTransactionsRequest, ListTransactionsRequest

from tidegate.connectors.kafka.client import library
from tidegate.connectors.kafka.columnar.connection import Connections, refusal
from tidegate.connectors.kafka.record_batches import Producer

ONGOING = "Ongoing"
"""The broker's state of a transaction that is neither being committed nor aborted."""
COMMITTED = ("PrepareCommit", "CompleteCommit")
"""The broker's states of a committed transaction: the decision is durable with the first."""
ASK_AGAIN_S = 0.1
"""Kafka's default of ``retry.backoff.ms``."""


@dataclass(frozen=True, slots=True)
class TransactionList:
    """Lists transactions over connected ``connections``. Every method raises ``KafkaException``."""

    connections: Connections
    limit_s: float
    clock: Callable[[], float] = time.monotonic

    def open_ids(self, prefix: str) -> list[str]:
        """Returns the transactional ids with this prefix that have an open transaction, in order."""
        return self.ids(prefix, [ONGOING])

    def ids(self, prefix: str, states: Sequence[str]) -> list[str]:
        """Returns the transactional ids with this prefix in one of the broker's states, in order."""
        found: set[str] = set()
        for node in self.connections.brokers():
            request = ListTransactionsRequest(state_filters=list(states), producer_id_filters=[], max_version=0)
            answer = self._request(node, request, lambda reply: int(reply.error_code))
            found.update(one.transactional_id for one in answer.transaction_states)
        return sorted(one for one in found if one.startswith(prefix))

    def described(self, transactional_ids: Collection[str]) -> dict[str, tuple[Producer, str]]:
        """Returns the last producer and the transaction's state of each known transactional id."""
        found = {}
        for one in transactional_ids:
            node = self.connections.coordinator(one, self.limit_s)
            request = DescribeTransactionsRequest(transactional_ids=[one], max_version=0)
            answer = self._request(node, request, lambda reply: 0)
            for reply in answer.transaction_states:
                if not reply.error_code:
                    found[one] = Producer(reply.producer_id, reply.producer_epoch), str(reply.transaction_state)
        return found

    def _request(self, node: Any, request: Any, code_of: Callable[[Any], int]) -> Any:
        """Sends a request; repeats it while the coordinator is starting."""
        codes = library().KafkaError
        gives_up_at = self.clock() + self.limit_s
        while True:
            answer = self.connections.ask(node, request, self.limit_s)
            code = code_of(answer)
            if not code:
                return answer
            is_soon = code in (codes.COORDINATOR_LOAD_IN_PROGRESS, codes.COORDINATOR_NOT_AVAILABLE)
            if not is_soon or self.clock() >= gives_up_at:
                raise refusal(code)
            self.connections.wait(lambda: False, ASK_AGAIN_S)
