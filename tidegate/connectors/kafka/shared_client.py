"""The source's librdkafka client, which two threads share: the fetcher's polls it and fetches metadata, the subtask's commits the offsets of confirmed
checkpoints."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

from tidegate.connectors.kafka.client import library

_LOG = logging.getLogger(__name__)


class SharedClient:
    """A client of librdkafka that two threads use in turn."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._confirmed: SimpleQueue[list[Any]] = SimpleQueue()
        self._in_use = threading.Lock()

    def commit(self, offsets: list[Any]) -> None:
        """Commits offsets; called by the subtask's thread. The client is locked while it waits for messages, which may be minutes for a quiet topic:
        the fetcher's thread then commits as soon as it is free."""
        self._confirmed.put(offsets)
        self._commit_confirmed()

    @contextmanager
    def used(self) -> Iterator[Any]:
        """Yields the client, locked. Must not be held around a ``yield`` of records, which waits for the subtask."""
        self._commit_confirmed()
        with self._in_use:
            yield self._client
        self._commit_confirmed()

    def serve(self) -> None:
        """Serves the callbacks of a client that does not consume: its events, such as committed offsets, would pile up."""
        with self.used() as client:
            client.poll(0)

    def _commit_confirmed(self) -> None:
        """Commits confirmed offsets; repeats after releasing the client, since offsets that arrived meanwhile found it in use."""
        while not self._confirmed.empty() and self._in_use.acquire(blocking=False):
            try:
                latest: list[Any] = []
                while not self._confirmed.empty():
                    latest = self._confirmed.get()
                if latest:
                    _commit(self._client, latest)
            finally:
                self._in_use.release()


def _commit(client: Any, offsets: list[Any]) -> None:
    """Commits offsets without waiting: they are for monitoring and for ``committed_offsets``, not for recovery."""
    try:
        client.commit(offsets=offsets, asynchronous=True)
    except library().KafkaException as error:
        _LOG.warning(
            "could not commit the offsets of the group; the next checkpoint commits them: %s", error.args[0].str()
        )
