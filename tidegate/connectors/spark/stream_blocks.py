"""The rows of a batch on their way: Spark's workers send them by partition, the subtask takes them in one queue.

    worker of partition i ── WorkerHello, RowBlock, RowBlock, Ended ─▶ thread ─▶ queue (bounded) ─▶ subtask
                        ◀── RequestDone: the partition arrived whole

While the queue is full the connections stand still, and with them Spark's tasks: so what is read ahead is bounded.
"""

from __future__ import annotations

import logging
import queue
import secrets
import threading
from typing import TypeAlias

from tidegate.connectors.ports import bound
from tidegate.connectors.spark.stream_link import (
    WORKER_HELLO_MAX_BYTES,
    Message,
    PartitionEnded,
    RequestDone,
    RequestFailed,
    RowBlock,
    SparkLink,
    WorkerHello,
)
from tidegate.model.errors import CorruptFrame

_log = logging.getLogger(__name__)
_QUEUE = 4
"""Blocks: chosen, not measured, as for files."""
_LOOK_S = 0.2
"""Chosen, not measured: how late a thread whose block nobody takes sees that it is over."""
_BACKLOG = 1024
"""All partitions of a batch may connect at once."""

Arrived: TypeAlias = tuple[Message, bytearray]


class BlockServer:
    """Listens at ``host`` as long as the subtask lives, on one of ``ports``. ``secret``: what a worker must know."""

    def __init__(self, host: str, ports: range) -> None:
        self.secret = secrets.token_hex(16)
        self._listener = bound(host, ports)
        self._listener.listen(_BACKLOG)
        shown = f"[{host}]" if ":" in host else host
        self.address = f"{shown}:{self._listener.getsockname()[1]}"
        self._arrived: queue.Queue[Arrived] = queue.Queue(_QUEUE)
        self._closed = threading.Event()
        self._links: set[SparkLink] = set()
        self._lock = threading.Lock()
        self._batch = -1
        threading.Thread(target=self._accept, name="spark blocks", daemon=True).start()

    def begin(self, batch: int) -> None:
        """Takes the rows of this batch, and of no other, from now on."""
        self._batch = batch

    def put(self, message: Message, rest: bytearray) -> None:
        """From any thread. Waits for room. Raises ``EOFError`` when the server is closed."""
        while not self._closed.is_set():
            try:
                return self._arrived.put((message, rest), timeout=_LOOK_S)
            except queue.Full:
                continue
        raise EOFError

    def take(self) -> Arrived:
        """The next that arrived. Waits for it. Raises ``EOFError`` when the server is closed."""
        while not self._closed.is_set():
            try:
                return self._arrived.get(timeout=_LOOK_S)
            except queue.Empty:
                continue
        raise EOFError

    def close(self) -> None:
        """From any thread: ends all connections."""
        self._closed.set()
        with self._lock:
            links = list(self._links)
        SparkLink(self._listener).close()
        for link in links:
            link.close()

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            link = SparkLink(connection)
            with self._lock:
                if self._closed.is_set():
                    link.close()
                    return
                self._links.add(link)
            threading.Thread(target=self._serve, args=(link,), name="spark partition", daemon=True).start()

    def _serve(self, link: SparkLink) -> None:
        """What breaks here breaks the worker's connection, so its task fails, and the driver tells why."""
        try:
            hello = link.receive_first(WORKER_HELLO_MAX_BYTES)
            if not isinstance(hello, WorkerHello) or not secrets.compare_digest(
                hello.secret.encode(), self.secret.encode()
            ):
                return
            if hello.batch != self._batch:
                link.send(RequestFailed(f"batch {hello.batch} is over"))
                return
            while True:
                message, rest = link.receive()
                if isinstance(message, (RowBlock, PartitionEnded)) and hello.batch == self._batch:
                    self.put(message, rest)
                if isinstance(message, PartitionEnded):
                    link.send(RequestDone())
                    return
        except (OSError, EOFError):
            return
        except CorruptFrame as error:
            _log.warning("a connection of one of Spark's workers is closed: %s", error)
        finally:
            with self._lock:
                self._links.discard(link)
            link.close()
