"""`CollectSink`: keeps results until the client has taken them (Flink: ``CollectSinkFunction``).

    write ─▶ buffer (2 MiB, then the sink has no room) ─▶ served to the client ─▶ dropped when the client asks for what follows
                └─ snapshot n: offset of the first result in it, and the buffer itself ─▶ confirmed: covered up to that offset

Laws: every result has an offset; after a restore the sink offers again exactly what the checkpoint held and what is made
anew behind it, so the client that went back to the covered offset sees each result once. The subtask does not finish before
the client has everything.
"""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

import pyarrow as pa

from tidegate.common.typeinfo import TypeInformation
from tidegate.connectors.base import Sink, SinkContext, SinkWriter
from tidegate.connectors.collect.messages import Request, ResultBatch, ResultsResponse
from tidegate.connectors.collect.server import CollectServer
from tidegate.model.errors import InternalError
from tidegate.model.values import StateValue
from tidegate.records.batch import ArrowBatch, Batch

BUFFER_BYTES = 2 * 1024 * 1024
"""Flink's default of ``collect-sink.batch-size.max``."""
ANSWER_BYTES = 4 * 1024 * 1024
"""Chosen, not measured: twice the buffer, so that one answer can empty it."""
WAIT_S = 0.2
"""How many seconds a request waits for new results."""


class CollectSink(Sink):
    """The sink of collected results, with parallelism 1 and alone in its task. ``token``: authenticates the client."""

    listens = True

    def __init__(self, token: bytes, buffer_bytes: int = BUFFER_BYTES) -> None:
        self.token = token
        self._buffer_bytes = buffer_bytes

    def make_writer(self, context: SinkContext, state: Sequence[StateValue], input_type: TypeInformation) -> SinkWriter:
        if context.listener is None:
            raise InternalError(
                "the sink of execute_and_collect() has no TaskManager that listens for its client, so it can run in a cluster only"
            )
        wakeup = context.wakeup or _nothing
        return CollectWriter(self.token, self._buffer_bytes, state, context.listener, wakeup)


class CollectWriter(SinkWriter):
    """The writer of a collecting sink: filled by the subtask's thread, read by the server's."""

    works_on = "arrow"
    takes_row_kinds = True

    def __init__(
        self,
        token: bytes,
        buffer_bytes: int,
        state: Sequence[StateValue],
        listener: socket.socket,
        wakeup: Callable[[], None],
    ) -> None:
        self._limit = buffer_bytes
        self._wakeup = wakeup
        self._changed = threading.Condition()
        self._version = secrets.token_bytes(16)
        self._offset = 0  # of the first result in the buffer
        self._batches: deque[ResultBatch] = deque()
        self._bytes = 0
        self._closed = False
        for offset, batches in state:
            self._offset = offset
            self._batches.extend(ResultBatch(rows, content) for rows, content in batches)
        self._bytes = sum(len(batch.content) for batch in self._batches)
        self._checkpointed = self._reported = self._offset
        self._unconfirmed: dict[int, int] = {}
        self._server = CollectServer(listener, token, self.answer)

    def write(self, batch: Batch) -> None:
        """Keeps a batch for the client, and wakes the server that waits for one."""
        assert isinstance(batch, ArrowBatch)
        content = _ipc(batch.data)
        with self._changed:
            self._batches.append(ResultBatch(batch.data.num_rows, content))
            self._bytes += len(content)
            self._changed.notify_all()

    def has_room(self) -> bool:
        return self._bytes < self._limit

    def is_drained(self) -> bool:
        return not self._batches

    def snapshot_state(self, checkpoint_id: int) -> list[StateValue]:
        with self._changed:
            self._unconfirmed[checkpoint_id] = self._offset
            return [[self._offset, [[batch.rows, batch.content] for batch in self._batches]]]

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        with self._changed:
            for found in sorted(n for n in self._unconfirmed if n <= checkpoint_id):
                self._checkpointed = max(self._checkpointed, self._unconfirmed.pop(found))
            self._changed.notify_all()

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        with self._changed:
            self._unconfirmed.pop(checkpoint_id, None)

    def answer(self, request: Request) -> ResultsResponse:
        """Answers a request in the server's thread: drops the results that the client has, then returns the next ones as soon as there are some."""
        with self._changed:
            if request.version != self._version:
                return ResultsResponse(self._version, self._offset, self._checkpointed)
            had_room = self.has_room()
            self._forget(request.offset)
            if not self._batches or (not had_room and self.has_room()):
                self._wakeup()
            deadline = time.monotonic() + WAIT_S
            while not self._batches and self._reported == self._checkpointed and not self._closed:
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    break
            self._reported = self._checkpointed
            return ResultsResponse(self._version, self._offset, self._checkpointed, self._some())

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._server.close()

    def _forget(self, offset: int) -> None:
        while self._batches and self._offset + self._batches[0].rows <= offset:
            taken = self._batches.popleft()
            self._offset += taken.rows
            self._bytes -= len(taken.content)

    def _some(self) -> tuple[ResultBatch, ...]:
        found: list[ResultBatch] = []
        size = 0
        for batch in self._batches:
            found.append(batch)
            size += len(batch.content)
            if size >= ANSWER_BYTES:
                break
        return tuple(found)


def _ipc(data: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, data.schema) as writer:
        writer.write_batch(data)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _nothing() -> None:
    pass
