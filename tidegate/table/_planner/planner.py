"""The Python side of the planner: a gateway to the Java process that translates its errors.

Java objects are what py4j gives (``Any``): the Table API passes them on, as PyFlink does.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from tidegate.table._planner.errors import PlannerUnavailable, chain_of, refusal
from tidegate.table._planner.process import PlannerProcess, start_planner

STARTING = "Starting Flink's planner (Java) ..."
ANSWER_LIMIT_S = 300.0
"""The limit for one call in seconds; compiling a plan takes less than one."""


class Planner:
    """A running planner. It raises ``InvalidStatement`` where Flink refuses something, ``PlannerUnavailable`` where the Java process is gone."""

    def __init__(self, process: PlannerProcess, limit_s: float = ANSWER_LIMIT_S) -> None:
        from py4j.java_gateway import CallbackServerParameters, GatewayParameters, JavaGateway

        from tidegate.table._planner.gateway import raise_exceptions_at_once

        logger = logging.getLogger("py4j")
        if logger.level == logging.NOTSET:  # a program that logs INFO would see each call that Java makes
            logger.setLevel(logging.WARNING)
        self._process = process
        # Without py4j's memory management. It tells Java of each object that Python has dropped, on a connection of its own: the next statement
        # may then be planned by that connection's thread, which lacks what Flink keeps for the thread of its planner, and an object that a table
        # of ours returns may be forgotten before Java takes it. Objects stay until the process ends, with the program.
        self._gateway = JavaGateway(
            gateway_parameters=GatewayParameters(
                port=process.port,
                auto_convert=True,
                auth_token=process.token,
                read_timeout=limit_s,
                enable_memory_management=False,
            ),
            callback_server_parameters=CallbackServerParameters(
                port=0,
                daemonize=True,
                daemonize_connections=True,
                auth_token=process.token,
                propagate_java_exceptions=True,
            ),
        )
        raise_exceptions_at_once(self._gateway)
        self._call_back(process.token)

    @property
    def jvm(self) -> Any:
        """Returns Java's packages, as attributes by name."""
        return self._gateway.jvm

    @property
    def api(self) -> Any:
        """Returns the Java package ``org.apache.flink.table.api``."""
        return self.jvm.org.apache.flink.table.api

    @property
    def process(self) -> PlannerProcess:
        return self._process

    def array(self, kind: Any, values: list[Any]) -> Any:
        """Creates a Java array of a class with these values."""
        made = self._gateway.new_array(kind, len(values))
        for index, value in enumerate(values):
            made[index] = value
        return made

    @contextlib.contextmanager
    def errors(self, sql: str = "") -> Iterator[None]:
        """Converts errors that py4j raises in the block to our errors. ``sql``: the statement concerned."""
        from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError

        with _without_logs_of_py4j():
            try:
                yield
            except Py4JJavaError as error:
                raise refusal(chain_of(error.java_exception), sql, str(error)) from None
            except (Py4JNetworkError, OSError, EOFError) as error:
                raise self._gone(str(error)) from None
            except Py4JError as error:
                if not self._answers():  # py4j takes a class for missing when it cannot ask
                    raise self._gone(str(error)) from None
                raise

    def stop(self) -> None:
        """Stops the planner. A second call does nothing."""
        self._disconnect()
        self._process.stop()

    def _call_back(self, token: str) -> None:
        """Sets the client by which Java calls Python, with the token; Java's ``resetCallbackClient`` would make one without it."""
        jvm, server = self._gateway.jvm, self._gateway.java_gateway_server
        port = self._gateway.get_callback_server().get_listening_port()
        client = jvm.py4j.CallbackClient(port, server.getCallbackClient().getAddress(), token)
        gateway = server.getGateway()
        place = gateway.getClass().getDeclaredField("cbClient")
        place.setAccessible(True)
        place.set(gateway, client)

    def _answers(self) -> bool:
        try:
            return bool(self.jvm.java.lang.System.currentTimeMillis())
        except Exception:  # noqa: BLE001 - whatever it is, it is no answer
            return False

    def _gone(self, reason: str) -> PlannerUnavailable:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.process.wait(1.0)
        log = self._process.log_tail()
        self._disconnect()
        if self._process.is_alive():
            self._process.kill()
            return PlannerUnavailable(
                "the Java process of Flink's planner does not answer, and was ended: run the program again",
                details=reason,
            )
        said = f": {log}" if log else ""
        message = f"the Java process of Flink's planner has ended{said}: run the program again"
        return PlannerUnavailable(message, details=reason)

    def _disconnect(self) -> None:
        """Stops garbage collection of Java objects from sending messages to the gateway."""
        with contextlib.suppress(Exception), _without_logs_of_py4j():
            self._gateway._gateway_client.is_connected = False
            self._gateway.shutdown_callback_server()
            self._gateway.close(keep_callback_server=True, close_callback_server_connections=True)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in record.pathname


@contextlib.contextmanager
def _without_logs_of_py4j() -> Iterator[None]:
    """Suppresses the stack traces that py4j logs for errors that it raises, in the block."""
    loggers = [logging.getLogger(name) for name in (None, "py4j", "py4j.java_gateway", "py4j.clientserver")]
    for logger in loggers:
        logger.addFilter(_is_not_of_py4j)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(_is_not_of_py4j)


_lock = threading.Lock()
_running: Planner | None = None
_running_in = 0


def running_planner(environment: Mapping[str, str] = os.environ) -> Planner:
    """Returns the planner of this program; the first call starts it. Raises ``PlannerUnavailable``."""
    global _running, _running_in
    with _lock:
        if _running is None or _running_in != os.getpid() or not _running.process.is_alive():
            sys.stderr.write(f"{STARTING}\n")
            _running, _running_in = Planner(start_planner(environment)), os.getpid()
            atexit.register(_running.stop)
        return _running
