"""Connections that a test answers for, in the place of ``columnar.connection.Connections``; time passes only while somebody waits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

import kafka.errors as broken
from kafka.future import Future
from kafka.protocol.metadata import MetadataResponse

from tidegate.connectors.kafka.columnar.connection import failure


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


Answer = Callable[[Any, Any], Any]
"""(node, request): a response, an exception (the connection broke), or ``None`` (nothing yet)."""


class ScriptedBrokers:
    def __init__(self, answer: Answer, leaders: dict[str, list[int]], clock: Clock | None = None) -> None:
        self.clock = clock or Clock()
        self.requests: list[tuple[Any, Any]] = []
        self.open: list[tuple[Any, Any, Future]] = []
        self.dropped: list[Any] = []
        self.leaders = leaders
        self.looked_for_coordinator = 0
        self.is_closed = False
        self.topic_ids: dict[str, UUID] = {}
        self._answer = answer

    def bootstrap(self) -> Future:
        return Future().success(True)

    def connect(self, limit_s: float) -> None: ...

    def metadata(self, topics: Iterable[str], may_create: bool) -> Future:
        kind = MetadataResponse.MetadataResponseTopic
        found = []
        for topic in topics:
            nodes = self.leaders.get(topic)
            parts = [
                kind.MetadataResponsePartition(error_code=0, partition_index=n, leader_id=node)
                for n, node in enumerate(nodes or [])
            ]
            code, topic_id = 3 if nodes is None else 0, self.topic_ids.get(topic)
            found.append(kind(error_code=code, name=topic, topic_id=topic_id, partitions=parts))
        return Future().success(MetadataResponse(brokers=[], topics=found))

    def learn(self, metadata: Any) -> None: ...

    def brokers(self) -> list[int]:
        return sorted({node for nodes in self.leaders.values() for node in nodes})

    def coordinator(self, transactional_id: str, limit_s: float) -> Any:
        self.looked_for_coordinator += 1
        return "coordinator"

    def send(self, node: Any, request: Any, limit_s: float | None = None) -> Future:
        self.requests.append((node, request))
        future = Future()
        self.open.append((node, request, future))
        return future

    def ask(self, node: Any, request: Any, limit_s: float) -> Any:
        future = self.send(node, request, limit_s)
        if not self.wait(lambda: bool(future.is_done), limit_s):
            raise failure(broken.KafkaTimeoutError("no answer"))
        if future.exception is not None:
            raise failure(future.exception)
        return future.value

    def wait(self, is_done: Callable[[], bool], limit_s: float) -> bool:
        """One answer after the other, in the order of asking."""
        while not is_done():
            if not self._answer_one():
                self.clock.now_s += limit_s
                return is_done()
        return True

    def flush(self) -> None: ...

    def is_paused(self, node: Any) -> bool:
        return False

    def drop(self, node: Any) -> None:
        self.dropped.append(node)

    def close(self) -> None:
        self.is_closed = True

    def _answer_one(self) -> bool:
        for entry in self.open:
            node, request, future = entry
            found = self._answer(node, request)
            if found is None:
                continue
            self.open.remove(entry)
            if isinstance(found, Exception):
                future.failure(found)
            else:
                future.success(found)
            return True
        return False
