"""Connections to Kafka's brokers: kafka-python's, driven by the calling thread.

    Connections.send(node, request) ─▶ Future          nothing moves except during ``turn``, ``wait`` or ``ask``
    Connections.ask(node, request)  ─▶ answer, within a limit

Laws. One thread at a time. Nothing is sent twice by itself: the caller knows what may be repeated. What goes wrong is
raised as ``confluent_kafka.KafkaException``, with librdkafka's codes (its own for what is local, the protocol's for what a
broker said), so that both paths have the same errors and texts.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import kafka.errors as broken
from kafka.future import Future
from kafka.net.inet import KafkaNetSocket
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.protocol.metadata import CoordinatorType, FindCoordinatorRequest, MetadataRequest

from tidegate.connectors.kafka.client import library, note_protocol
from tidegate.connectors.kafka.columnar.client_properties import connection_settings
from tidegate.connectors.kafka.columnar.frames import take_over

PIECE_BYTES = 1 << 20
"""How many bytes one call to a socket transfers. Each call releases the GIL, and may wait long to get it back."""
TURN_MS = 1_000
"""The longest wait of a turn, in ms; it returns sooner whenever anything has moved. Chosen, not measured."""

for _room in ("kafka.net", "kafka.cluster", "kafka.protocol", "kafka.future"):
    if logging.getLogger(_room).level == logging.NOTSET:
        # it logs every failed connection, many times a second; what matters is raised, or logged once
        logging.getLogger(_room).setLevel(logging.CRITICAL + 1)


class _Plain(KafkaTCPTransport):
    def __init__(self, net: Any, sock: Any, host: str | None = None) -> None:
        super().__init__(net, sock, host=host)
        self._piece = memoryview(bytearray(PIECE_BYTES))

    async def _read_from_sock(self) -> None:
        take_over(self._protocol)
        await super()._read_from_sock()

    def _sock_recv(self) -> tuple[memoryview, Exception | None]:
        """Receives some bytes; the returned view is valid until the next call."""
        size, error = _received(lambda: self._sock.recv_into(self._piece), (BlockingIOError, InterruptedError))
        return self._piece[:size], error


class _Encrypted(KafkaSSLTransport):
    async def _read_from_sock(self) -> None:
        take_over(self._protocol)
        await super()._read_from_sock()

    def _sock_recv(self) -> tuple[bytes, Exception | None]:
        import ssl

        soon = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
        piece = bytearray(PIECE_BYTES)
        found: list[bytes] = []
        error = None
        while error is None:  # until it wants to wait: what is left inside of the cipher wakes nobody
            size, error = _received(lambda: self._sock.recv_into(piece), soon)
            if not size:
                break
            found.append(bytes(piece[:size]))
        return b"".join(found), error


def _received(receive: Callable[[], int], soon: tuple[type[Exception], ...]) -> tuple[int, Exception | None]:
    try:
        size = receive()
    except soon:
        return 0, None
    except OSError as error:
        return 0, broken.KafkaConnectionError(error)
    return size, None if size else broken.KafkaConnectionError("socket disconnected")


class _Sockets(KafkaNetSocket):
    """The sockets of connections; those that fail to connect are closed at once, not by the garbage collector."""

    SCHEMES = ()

    async def sock_connect(self, net: Any, sock: Any, sockaddr: Any, timeout_at: float | None = None) -> Any:
        try:
            return await super().sock_connect(net, sock, sockaddr, timeout_at=timeout_at)
        except BaseException:
            sock.close()
            raise

    async def connected(self, net: Any, node: Any, options: Any, timeout_at: float | None) -> Any:
        """Connects to the first address of a host that answers."""
        error: Exception = broken.KafkaConnectionError(f"{node.host} has no address")
        for address in self.dns_lookup(node.host, node.port, raise_error=True):
            try:
                return await self.connect(net, address, options, timeout_at=timeout_at)
            except (OSError, broken.KafkaConnectionError, broken.KafkaTimeoutError) as failed:
                error = broken.KafkaConnectionError(f"{node.host}:{node.port}: {failed}")
        raise error


class _Manager(KafkaConnectionManager):
    """A connection manager with our transports. What it overrides is not a public interface of kafka-python, whose minor version is pinned."""

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        sock = await _Sockets().connected(self._net, node, self.config["socket_options"], timeout_at)
        if self.ssl_enabled:
            made: Any = _Encrypted(self._net, sock, host=node.host, ssl_context=self.config["ssl_context"])
        else:
            made = _Plain(self._net, sock, host=node.host)
        try:
            await made.handshake()
        except Exception as error:
            sock.close()
            raise broken.KafkaConnectionError(f"Handshake failed: {error}") from error
        return made


class Connections:
    """Connections to the brokers of one cluster, on which the calling thread sends requests and awaits answers."""

    def __init__(
        self, servers: str, properties: Mapping[str, str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Prepares the connections without connecting. Raises ``ConfigurationError``."""
        settings = connection_settings(properties, servers)
        note_protocol(servers, properties)
        # each turn of ours may decode megabytes
        self._net = NetworkSelector(client_id=settings["client_id"], slow_task_threshold_secs=0)
        self._manager = _Manager(self._net, **settings)
        self._clock = clock

    def close(self) -> None:
        """Closes all connections."""
        self._manager.close()
        self._net.close()

    def turn(self, wait_s: float = 0.0) -> None:
        """Polls the network once, waiting up to ``wait_s``."""
        self._net.poll(timeout_ms=wait_s * 1000)

    def flush(self) -> None:
        """Writes queued requests to the sockets, as far as those take them, and notices closed connections."""
        for _ in range(3):  # a writer begins, waits for its socket, writes
            self.turn()

    def wait(self, is_done: Callable[[], bool], limit_s: float) -> bool:
        """Polls the network until ``is_done`` returns true; returns whether it did within the limit."""
        gives_up_at = self._clock() + limit_s
        while not is_done():
            left = gives_up_at - self._clock()
            if left <= 0:
                return False
            self._net.poll(timeout_ms=min(left * 1000, TURN_MS))
        return True

    def bootstrap(self) -> Future:
        """Starts to fetch the cluster's brokers."""
        return self._manager.bootstrap_async(timeout_ms=10_000)

    def connect(self, limit_s: float) -> None:
        """Connects and fetches the cluster's brokers. Raises ``KafkaException``."""
        self._answer(self._manager.bootstrap_async(timeout_ms=limit_s * 1000), limit_s)

    def is_paused(self, node: Any) -> bool:
        """Returns whether the broker is throttling this client."""
        try:
            return bool(self._manager.get_connection(node).paused)
        except broken.KafkaError:
            return False

    def send(self, node: Any, request: Any, limit_s: float | None = None) -> Future:
        """Sends a request to a node; ``None``: any. The returned future may have failed already. When the answer takes longer than ``limit_s``, the
        connection is closed."""
        limit_ms = None if limit_s is None else limit_s * 1000
        try:
            return self._manager.send(request, node, request_timeout_ms=limit_ms)
        except broken.KafkaError as error:
            return Future().failure(error)

    def ask(self, node: Any, request: Any, limit_s: float) -> Any:
        """Sends a request and returns its answer, which may be a refusal. Raises ``KafkaException`` when no answer comes."""
        return self._answer(self.send(node, request, limit_s), limit_s)

    def drop(self, node: Any) -> None:
        """Closes the connection to a broker that does not answer."""
        self._manager.close(node)

    def metadata(self, topics: Iterable[str], may_create: bool) -> Future:
        """Requests the metadata of topics from any broker; ``learn`` takes the answer."""
        wanted = [MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics]
        return self.send(None, MetadataRequest(topics=wanted, allow_auto_topic_creation=may_create, max_version=12))

    def learn(self, metadata: Any) -> None:
        """Takes the addresses of the brokers from a metadata answer."""
        self._manager.cluster.update_metadata(metadata)

    def brokers(self) -> list[Any]:
        """Returns the known nodes."""
        return [broker.node_id for broker in self._manager.cluster.brokers()]

    def coordinator(self, transactional_id: str, limit_s: float) -> Any:
        """Returns the node that coordinates a transactional id, over a connection of its own. Raises ``KafkaException``."""
        kind = CoordinatorType.TRANSACTION
        answer = self.ask(
            None, FindCoordinatorRequest(key=transactional_id, key_type=kind, min_version=1, max_version=3), limit_s
        )
        if answer.error_code:
            raise refusal(answer.error_code)
        return self._manager.cluster.add_coordinator(answer, kind, transactional_id)

    def _answer(self, future: Future, limit_s: float) -> Any:
        if not self.wait(lambda: bool(future.is_done), limit_s):
            raise failure(broken.KafkaTimeoutError(f"no answer in {limit_s:g} s"))
        if future.exception is not None:
            raise failure(future.exception)
        return future.value


def refusal(code: int, *, abort: bool = False) -> Exception:
    """Makes a ``KafkaException`` from a broker's error code. ``abort``: the current transaction must be aborted."""
    kafka = library()
    made: Exception = kafka.KafkaException(kafka.KafkaError(code, None, False, is_soon(code), abort))
    return made


def failure(error: BaseException, *, abort: bool = False) -> Exception:
    """Makes a ``KafkaException`` from the failure of a request."""
    kafka = library()
    codes = kafka.KafkaError
    if isinstance(error, TimeoutError | broken.KafkaTimeoutError | broken.RequestTimedOutError):
        code = codes._TIMED_OUT
    elif isinstance(error, broken.SaslAuthenticationFailedError):
        code = codes.SASL_AUTHENTICATION_FAILED
    elif isinstance(error, broken.IncompatibleBrokerVersion):
        code = codes._UNSUPPORTED_FEATURE
    elif isinstance(error, broken.BrokerResponseError):
        code = error.errno
    else:
        code = codes._TRANSPORT
    made: Exception = kafka.KafkaException(codes(code, str(error), False, code == codes._TRANSPORT, abort))
    return made


def is_soon(code: int) -> bool:
    """Returns whether an error code is temporary: the same or another broker may accept the request soon."""
    kind = broken.for_code(code)
    return bool(kind.retriable or kind.invalid_metadata)
