"""Transport of a batch's rows: Spark's workers send them by partition, the subtask takes them from one queue.

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

from tidegate.connectors.ports import listening
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
"""How many blocks the queue holds. Chosen, not measured: as for files."""
_LOOK_S = 0.2
"""How often, in seconds, a waiting thread checks whether the server is closed. Chosen, not measured."""
_BACKLOG = 1024
"""The listen backlog: all partitions of a batch may connect at once."""

Arrived: TypeAlias = tuple[Message, bytearray]


class BlockServer:
    """Receives rows of Spark's workers; listens at ``host`` on one of ``ports`` as long as the subtask lives. ``secret``: authenticates workers."""

    def __init__(self, host: str, ports: range) -> None:
        self.secret = secrets.token_hex(16)
        self._listener = listening(host, ports, "listener for rows of Spark's workers", _BACKLOG)
        shown = f"[{host}]" if ":" in host else host
        self.address = f"{shown}:{self._listener.getsockname()[1]}"
        self._arrived: queue.Queue[Arrived] = queue.Queue(_QUEUE)
        self._closed = threading.Event()
        self._links: set[SparkLink] = set()
        self._lock = threading.Lock()
        self._batch = -1
        threading.Thread(target=self._accept, name="spark blocks", daemon=True).start()

    def begin(self, batch: int) -> None:
        """Accepts the rows of this batch, and of no other, from now on."""
        self._batch = batch

    def put(self, message: Message, rest: bytearray) -> None:
        """Adds a message to the queue; waits for space. Thread-safe. Raises ``EOFError`` when the server is closed."""
        while not self._closed.is_set():
            try:
                return self._arrived.put((message, rest), timeout=_LOOK_S)
            except queue.Full:
                continue
        raise EOFError

    def take(self) -> Arrived:
        """Waits for the next message and returns it. Raises ``EOFError`` when the server is closed."""
        while not self._closed.is_set():
            try:
                return self._arrived.get(timeout=_LOOK_S)
            except queue.Empty:
                continue
        raise EOFError

    def close(self) -> None:
        """Ends all connections. Thread-safe."""
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
        """Takes the rows that one of Spark's Python workers sends; an error closes the connection, so that Spark's task fails and the driver reports why."""
        try:
            hello = link.receive_first(WORKER_HELLO_MAX_BYTES)
            if not isinstance(hello, WorkerHello) or not secrets.compare_digest(
                hello.secret.encode(), self.secret.encode()
            ):
                return
            if hello.batch != self._batch:
                link.send(RequestFailed(f"batch {hello.batch} of the stream has already ended"))
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
            _log.warning(
                "closed the connection over which one of Spark's workers sends rows of a from_spark_stream source: %s",
                error,
            )
        finally:
            with self._lock:
                self._links.discard(link)
            link.close()
