"""The client of a collecting sink: an iterator over results, exactly once across restarts of the job.

    exactly-once   a result is given out when a confirmed checkpoint covers it, or the job has FINISHED; what a failure took
                   back is forgotten (Flink: ``CheckpointedCollectResultBuffer``)
    at-least-once  at once; after a failure results may come again
    no checkpoints at once; a failure of the job after the first result is an error, since it would begin anew

What waits for its checkpoint is spooled: beyond 32 MiB it lies in a temporary file.
"""

from __future__ import annotations

import socket
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import pyarrow as pa

from tidegate.common.typeinfo import TypeInformation
from tidegate.connectors.collect.messages import (
    NO_VERSION,
    Request,
    ResultBatch,
    ResultsResponse,
    receive_answer,
    send_request,
)
from tidegate.model.errors import ExternalError
from tidegate.model.values import Record
from tidegate.records.record_codec import decode

_SPOOL_BYTES = 32 * 1024 * 1024
"""How many bytes of results that wait for their checkpoint stay in memory; more go to a file (docs/adr/0075). Chosen, not measured."""
_CONNECT_LIMIT_S = 10.0
"""The limit for connecting, in seconds. Chosen, not measured: far more than a connection within a cluster takes."""
_ANSWER_LIMIT_S = 60.0
"""The limit for an answer, in seconds. Chosen, not measured: a sink that is busy with a checkpoint answers well within it."""
_PAUSE_S = 0.05
"""The pause between two requests without results, in seconds; chosen, not measured."""


class ResultGuarantee(Enum):
    """Says what collected results survive: a restart exactly once, a restart with repetitions, or none at all."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"
    NOT_RESTARTABLE = "not-restartable"


class ResultSource(Protocol):
    """The job as seen by the iterator over its results."""

    def sink_address(self) -> str | None:
        """Returns the address on which the sink listens now; ``None``: the job has FINISHED. Waits while it is being started or restarted. Raises the
        job's error."""

    def secure(self, connection: socket.socket) -> socket.socket:
        """Applies the cluster's TLS to a TCP connection to the sink. Raises ``ExternalError``."""


class CollectedResults:
    """Iterates over the results of a job; ``close`` releases the connection. For one thread."""

    def __init__(
        self, source: ResultSource, token: bytes, type_info: TypeInformation, guarantee: ResultGuarantee
    ) -> None:
        self._source = source
        self._token = token
        self._type_info = type_info
        self._guarantee = guarantee
        self._socket: socket.socket | None = None
        self._version = NO_VERSION
        self._offset = 0
        self._checkpointed = 0
        self._waiting = _Spool()
        self._over = False

    def __iter__(self) -> Iterator[Record]:
        for data in self.batches():
            yield from decode(self._type_info, data)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the results as they arrive, as batches with the columns of their type."""
        while True:
            for batch in self._visible():
                with pa.ipc.open_stream(batch.content) as reader:
                    yield from reader
            if self._over:
                return
            self._fetch()

    def connect(self) -> None:
        """Waits until the job runs, or has FINISHED. Raises the job's error."""
        if self._socket is None and not self._over:
            try:
                self._over = not self._connect()
            except OSError:  # the sink has ended already: the next request asks the job
                self._socket = None

    def close(self) -> None:
        """Closes the connection to the sink."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._waiting.close()

    def _visible(self) -> Iterator[ResultBatch]:
        while (end := self._waiting.first_end) is not None:
            is_certain = self._over or end <= self._checkpointed
            if not is_certain and self._guarantee is ResultGuarantee.EXACTLY_ONCE:
                return
            yield self._waiting.take()

    def _fetch(self) -> None:
        try:
            if self._socket is None and not self._connect():
                self._over = True
                return
            assert self._socket is not None
            send_request(self._socket, Request(self._version, self._offset))
            self._on_answer(receive_answer(self._socket))
        except OSError:  # the sink ended, or is being restarted: the job knows
            if self._socket is not None:
                self._socket.close()
                self._socket = None
            else:
                time.sleep(_PAUSE_S)

    def _connect(self) -> bool:
        address = self._source.sink_address()
        if address is None:
            return False
        self._socket = _dial(address, self._source.secure)
        self._socket.sendall(self._token)
        return True

    def _on_answer(self, answer: ResultsResponse) -> None:
        if answer.version != self._version:
            self._on_new_version(answer)
        self._checkpointed = max(self._checkpointed, answer.checkpointed)
        at = answer.offset
        for batch in answer.batches:
            if at >= self._offset:
                self._waiting.put(batch, at + batch.rows)
                self._offset = at + batch.rows
            at += batch.rows

    def _on_new_version(self, answer: ResultsResponse) -> None:
        is_restart = self._version != NO_VERSION
        if is_restart and self._guarantee is ResultGuarantee.NOT_RESTARTABLE and self._offset > 0:
            raise ExternalError(
                "the job was restarted while its results were collected, and without checkpoints it starts from the beginning: "
                "env.enable_checkpointing(...) makes execute_and_collect exactly-once"
            )
        self._version = answer.version
        if is_restart:
            self._waiting.truncate(answer.checkpointed)
        self._offset = answer.checkpointed


@dataclass(frozen=True, slots=True)
class _Place:
    at: int
    rows: int
    size: int
    end: int


class _Spool:
    """A queue of batches, in memory and beyond a limit in a file."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=_SPOOL_BYTES)  # noqa: SIM115  (closed by ``close``)
        self._places: deque[_Place] = deque()
        self._end = 0

    @property
    def first_end(self) -> int | None:
        """Returns the offset after the first batch; ``None``: there is none."""
        return self._places[0].end if self._places else None

    def put(self, batch: ResultBatch, end: int) -> None:
        self._file.seek(self._end)
        self._file.write(batch.content)
        self._places.append(_Place(self._end, batch.rows, len(batch.content), end))
        self._end += len(batch.content)

    def take(self) -> ResultBatch:
        place = self._places.popleft()
        self._file.seek(place.at)
        content = self._file.read(place.size)
        if not self._places:
            self._end = 0
            self._file.seek(0)
            self._file.truncate()
        return ResultBatch(place.rows, content)

    def truncate(self, offset: int) -> None:
        """Drops the batches that end after ``offset``."""
        while self._places and self._places[-1].end > offset:
            self._places.pop()

    def close(self) -> None:
        self._file.close()


def _dial(address: str, secure: Callable[[socket.socket], socket.socket]) -> socket.socket:
    if address.startswith("unix:"):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.connect(address.removeprefix("unix:"))
    else:
        host, port = address.rsplit(":", 1)
        sock = socket.create_connection((host.strip("[]"), int(port)), _CONNECT_LIMIT_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock = secure(sock)
    sock.settimeout(_ANSWER_LIMIT_S)
    return sock
