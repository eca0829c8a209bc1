"""The messages between a subtask and its TaskManager's Spark driver about a stream, over one connection.

    subtask ── OpenOperator ─▶ OperatorOpened    once, with what the sources wrote about themselves up to the restored position
            ── PlanBatch ─▶ BatchPlanned         the next one; without new data its ends are its starts
            ── RunBatch ─▶ RequestDone           its rows come meanwhile, from Spark's workers, to the subtask's own address
            ── ForgetBefore ─▶ RequestDone       a checkpoint is complete
            ── WriteEpoch, rows ─▶ RequestDone   of ``to_spark``: the user's function has returned
            ── WriteFrame ─▶ RequestDone         the same, of a job that Spark runs as one: there are no rows here
                             └▶ RequestFailed    instead of any answer

    frame: length of the message, length of what comes with it (both ``!II``), message (msgpack), what comes with it

The subtask asks, one request at a time; when it goes, the driver sees the connection end and cancels what it does for it.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from typing import TypeAlias

import msgspec

from tidegate.model.errors import CorruptFrame, ExternalError, TidegateError, Unreachable, UserFunctionError
from tidegate.wire.unreadable import UNREADABLE

Offsets: TypeAlias = tuple[str | None, ...]
"""The offset of each source in the query, as Spark's JSON; ``None`` before its first batch."""
Written: TypeAlias = dict[str, bytes]
"""Files that sources wrote about their progress, compressed, by path relative to their common directory."""

_LENGTHS = struct.Struct("!II")
HELLO_TIMEOUT_S = 20.0
"""The limit for the first message of a connection, in seconds: chosen as the one below."""
WORKER_HELLO_MAX_BYTES = 4 << 10
"""The largest first message of a worker, which has a secret and two numbers."""
OPENING_MAX_BYTES = 64 << 20
"""The largest first message of a subtask, with the sources' files, some kilobytes each."""
CONNECT_TIMEOUT_S = 20.0
"""The connect timeout in seconds, as for a control stream: a busy TaskManager accepts in turn."""


class OpenOperator(msgspec.Struct, tag=True, frozen=True):
    """Subtask to driver, first message: opens an operator."""

    token: str
    operator_id: str
    written: Written
    ends: Offsets | None = None
    """The offsets of the restored job; ``None``: it is new."""


class OperatorOpened(msgspec.Struct, tag=True, frozen=True):
    """Driver to subtask: the operator is open. The range of ports to receive Spark's rows on; 0: any free one."""

    first_port: int = 0
    last_port: int = 0


class PlanBatch(msgspec.Struct, tag=True, frozen=True):
    """Subtask to driver: plans the next batch."""

    starts: Offsets | None
    """The start of the batch; ``None``: where the sources begin."""
    ends: Offsets | None = None
    """The end of a batch that is read again; ``None``: the sources decide."""


class BatchPlanned(msgspec.Struct, tag=True, frozen=True):
    """Driver to subtask: the planned batch; without new data its ends equal its starts."""

    starts: Offsets
    ends: Offsets
    written: Written
    """The new files of the sources."""
    partitions: int = 0
    lags: dict[str, float] = {}
    """The lag of the sources, by their own metric names."""


class RunBatch(msgspec.Struct, tag=True, frozen=True):
    """Subtask to driver: runs the planned batch."""

    address: str
    secret: str
    batch: int


class ForgetBefore(msgspec.Struct, tag=True, frozen=True):
    """Subtask to driver: a checkpoint completed at this position, before which the sources need nothing."""

    ends: Offsets


class WriteEpoch(msgspec.Struct, tag=True, frozen=True):
    """Subtask to driver: writes an epoch, whose rows follow as an Arrow stream."""

    application_id: str
    epoch: int


class WriteFrame(msgspec.Struct, tag=True, frozen=True):
    """Subtask to driver: writes the rows of a whole job, which Spark computes itself."""

    application_id: str
    epoch: int


class RequestDone(msgspec.Struct, tag=True, frozen=True):
    """Driver to subtask: the request was executed."""


class RequestFailed(msgspec.Struct, tag=True, frozen=True):
    """Driver to subtask: an error of Spark or of the job's function."""

    message: str
    details: str = ""
    is_users: bool = False
    """Whether the user's query or function raised it."""


class RowBlock(msgspec.Struct, tag=True, frozen=True):
    """Worker to subtask: a block of a partition. ``digest``: of all blocks of the partition up to this one."""

    partition: int
    block: int
    digest: str


class WorkerHello(msgspec.Struct, tag=True, frozen=True):
    """Worker to subtask, first message: authenticates the worker."""

    secret: str
    batch: int
    partition: int


class PartitionEnded(msgspec.Struct, tag=True, frozen=True):
    """Worker to subtask: the partition was sent completely."""

    partition: int
    blocks: int


def error_of(failed: RequestFailed) -> TidegateError:
    """Returns the error to raise for a failed request."""
    kind = UserFunctionError if failed.is_users else ExternalError
    return kind(failed.message, details=failed.details)


Message: TypeAlias = (
    OpenOperator
    | OperatorOpened
    | PlanBatch
    | BatchPlanned
    | RunBatch
    | ForgetBefore
    | WriteEpoch
    | WriteFrame
    | RequestDone
    | RequestFailed
    | RowBlock
    | WorkerHello
    | PartitionEnded
)
_DECODER: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)
_ENCODER = msgspec.msgpack.Encoder()


def _decoded(content: bytearray) -> Message:
    try:
        return _DECODER.decode(content)
    except UNREADABLE as error:
        raise CorruptFrame(f"a message of {len(content)} bytes about a Spark stream cannot be read: {error}") from None


class SparkLink:
    """One end of a connection between subtask, driver and workers. Blocking; for one thread at a time."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.ports = range(1)
        """On which an operator that was opened by this link listens."""

    @staticmethod
    def to(address: str) -> SparkLink:
        """Connects to ``host:port``. Raises ``Unreachable``."""
        host, port = address.rsplit(":", 1)
        try:
            connection = socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT_S)
        except OSError as error:
            raise Unreachable(f"the Spark driver at {address}: {error}") from error
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return SparkLink(connection)

    @staticmethod
    def opened(
        service: str, operator_id: str, written: Written | None = None, ends: Offsets | None = None
    ) -> SparkLink:
        """Connects an operator to the driver at ``service`` (``host:port/token``). Raises ``EOFError``, ``OSError``, and the driver's errors."""
        address, token = service.rsplit("/", 1)
        link = SparkLink.to(address)
        try:
            answer = link.ask(OpenOperator(token, operator_id, written or {}, ends))
            if isinstance(answer, OperatorOpened):
                link.ports = range(answer.first_port, answer.last_port + 1)
        except BaseException:
            link.close()
            raise
        return link

    def ask(self, request: Message, rest: bytes = b"") -> Message:
        """Sends a request and returns its answer. Raises ``EOFError``, ``OSError``, and the error of a failed request."""
        self.send(request, rest)
        answer, _ = self.receive()
        if isinstance(answer, RequestFailed):
            raise error_of(answer)
        return answer

    def send(self, message: Message, rest: bytes | memoryview = b"") -> None:
        """Sends a message and bytes. Raises ``OSError``."""
        head = _ENCODER.encode(message)
        self.socket.sendall(_LENGTHS.pack(len(head), len(rest)) + head)
        if rest:
            self.socket.sendall(rest)

    def receive(self) -> tuple[Message, bytearray]:
        """Receives a message and bytes. Raises ``EOFError`` at the end, ``OSError``, ``CorruptFrame``."""
        head, rest = _LENGTHS.unpack(self._exactly(_LENGTHS.size))
        return _decoded(self._exactly(head)), self._exactly(rest)

    def receive_first(self, most_bytes: int) -> Message:
        """Receives the first message of a peer that is not authenticated, within ``HELLO_TIMEOUT_S``. Raises ``EOFError``, ``OSError``, and
        ``CorruptFrame`` for a longer one before it is received."""
        self.socket.settimeout(HELLO_TIMEOUT_S)
        head, rest = _LENGTHS.unpack(self._exactly(_LENGTHS.size))
        if head > most_bytes or rest:
            raise CorruptFrame(
                f"the first message of a connection for a Spark stream has {head} bytes and {rest} bytes of rows, and may have {most_bytes} and none: "
                "the peer is probably no process of tidegate"
            )
        message = _decoded(self._exactly(head))
        self.socket.settimeout(None)
        return message

    def close(self) -> None:
        """Closes the connection, which wakes a thread that receives."""
        with contextlib.suppress(OSError):  # it is closed already
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()

    def _exactly(self, count: int) -> bytearray:
        found = bytearray(count)
        rest = memoryview(found)
        while rest:
            received = self.socket.recv_into(rest)
            if not received:
                raise EOFError("the other process closed the connection of a Spark stream")
            rest = rest[received:]
        return found
