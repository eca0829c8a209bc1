"""The Spark driver's service for one subtask: serves its Spark sources and sinks, whose work only the driver can do.

    subtask ── one connection for each operator ─▶ thread ─▶ SparkStreamSource: plan, run, commit     SparkSink, SparkFrameJob: write

Laws: the service listens before the subtask starts, and is closed when its Spark job ends. When a connection ends, the Spark jobs that run for it are
cancelled.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import select
import socket
import tempfile
import threading
import traceback
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.connectors.ports import listening
from tidegate.connectors.spark.frame_job import SparkFrameJob
from tidegate.connectors.spark.query import frame_of_job, frame_of_rows, session_for_rows
from tidegate.connectors.spark.sink import SparkSink
from tidegate.connectors.spark.spark_errors import explained
from tidegate.connectors.spark.stream_link import (
    OPENING_MAX_BYTES,
    Message,
    OpenOperator,
    OperatorOpened,
    RequestFailed,
    SparkLink,
)
from tidegate.connectors.spark.stream_source import SparkStreamSource
from tidegate.model.errors import CorruptFrame, InternalError, TidegateError
from tidegate.taskmanager.exchange.addresses import ANY_PORT
from tidegate.taskmanager.spark.streams.reading import StreamRequests
from tidegate.taskmanager.spark.streams.writing import FrameRequests, WriteRequests

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegate.taskmanager.spark.session import Session

_log = logging.getLogger(__name__)

SparkOperators = Mapping[str, object]
"""Operators of the job that use the Spark driver, by operator id: ``SparkSource``, ``SparkStreamSource``, ``SparkSink``, ``SparkFrameJob``."""


class SparkDoor:
    """Listens for the connections of one subtask and serves each in a thread.

    ``address`` (``host:port/token``) is what the subtask gets. ``name``: of the attempt. ``ports``: for this listener and for those that the subtask opens.
    """

    def __init__(
        self,
        session: Session,
        host: str,
        name: str,
        task_name: str,
        operators: SparkOperators,
        ports: range = ANY_PORT,
    ) -> None:
        self._session = session
        self._name = name
        self._task_name = task_name
        self._operators = operators
        self._token = secrets.token_hex(16)
        self._ports = ports
        self._listener = listening(host, ports, "listener for Spark's rows")
        shown = f"[{host}]" if ":" in host else host
        self.address = f"{shown}:{self._listener.getsockname()[1]}/{self._token}"
        self._lock = threading.Lock()
        self._links: set[SparkLink] = set()
        self._closed = False
        threading.Thread(target=self._accept, name=f"spark service {name}", daemon=True).start()

    def close(self) -> None:
        SparkLink(self._listener).close()
        with self._lock:
            self._closed = True
            links = list(self._links)
        for link in links:
            link.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link = SparkLink(connection)
            with self._lock:
                if self._closed:
                    link.close()
                    return
                self._links.add(link)
            threading.Thread(target=self._serve, args=(link,), name=f"spark requests {self._name}", daemon=True).start()

    def _serve(self, link: SparkLink) -> None:
        try:
            opening = link.receive_first(OPENING_MAX_BYTES)
            if isinstance(opening, OpenOperator) and secrets.compare_digest(
                opening.token.encode(), self._token.encode()
            ):
                self._converse(link, opening)
        except (OSError, EOFError):
            pass  # the subtask is gone, and it tells its own end
        except CorruptFrame as error:
            _log.warning("closed a connection that did not ask for a stream of Spark as subtasks do: %s", error)
        finally:
            with self._lock:
                self._links.discard(link)
            link.close()

    def _converse(self, link: SparkLink, opening: OpenOperator) -> None:
        group = f"{self._name} {opening.operator_id}"
        context = self._session.context
        context.setJobGroup(group, self._task_name, True)
        _when_gone(link.socket, lambda: context.cancelJobGroup(group))
        with tempfile.TemporaryDirectory(
            prefix="stream-", dir=self._session.directory, ignore_cleanup_errors=True
        ) as place:
            requests: StreamRequests | WriteRequests | FrameRequests | None = None
            message: Message = opening
            rest = bytearray()
            try:
                while True:
                    try:
                        if requests is None:
                            requests = self._requests(opening, Path(place))
                        answer: Message = requests.answer(message, rest)
                        if message is opening:
                            answer = OperatorOpened(self._ports[0], self._ports[-1])
                    except (Exception, SystemExit) as error:  # noqa: BLE001  (whatever Spark, py4j, or the user's code raise)
                        answer = self._failed(error)
                    link.send(answer)
                    message, rest = link.receive()
            finally:
                if requests is not None:
                    with contextlib.suppress(Exception):  # the JVM may be gone
                        requests.close()

    def _requests(self, opening: OpenOperator, place: Path) -> StreamRequests | WriteRequests | FrameRequests:
        found = self._operators.get(opening.operator_id)
        if isinstance(found, SparkStreamSource):
            return StreamRequests(self._session.sql(), found, place / "written")
        if isinstance(found, SparkSink):
            return WriteRequests(found, partial(frame_of_rows, session_for_rows(self._session.sql())))
        if isinstance(found, SparkFrameJob):
            frame = partial(
                frame_of_job, self._session.sql(), found.source, found.steps, found.schema, found.parallelism
            )
            return FrameRequests(found.sink, frame)
        raise InternalError(
            f"{self._task_name}: operator {opening.operator_id} asked the Spark driver, but is a {type(found).__name__}, which does not run there"
        )

    def _failed(self, error: Exception | SystemExit) -> RequestFailed:
        details = "".join(traceback.format_exception(error))
        if isinstance(error, TidegateError):
            return RequestFailed(error.message, error.details or details, is_users=error.domain == "user")
        return RequestFailed(explained(error), details)


def _when_gone(connection: socket.socket, act: Callable[[], None]) -> None:
    """Starts a thread that calls ``act`` when the peer has closed the connection; does nothing where the system cannot detect that (no POLLRDHUP)."""
    if not hasattr(select, "POLLRDHUP"):
        return
    copy = connection.dup()

    def watch() -> None:
        poller = select.poll()
        poller.register(copy, select.POLLRDHUP)
        poller.poll()
        copy.close()
        with contextlib.suppress(Exception):  # the JVM may be gone
            act()

    threading.Thread(target=watch, name="spark service, watching", daemon=True).start()
