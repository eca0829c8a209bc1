"""Errors of the planner's py4j gateway stay its own when PySpark runs in the same program.

PySpark replaces ``py4j.java_gateway.get_return_value`` for all gateways of the process, and asks Spark's JVM what an exception is: of one that is in
another JVM it says that it does not exist, or nothing at all once Spark has stopped.
"""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaObject
from py4j.protocol import REFERENCE_TYPE, Py4JJavaError, is_error


def raise_exceptions_at_once(gateway: Any) -> None:
    """Makes a ``JavaGateway`` raise ``Py4JJavaError`` for an answer that is an exception before anything else reads that answer."""
    client = gateway._gateway_client
    send = client.send_command

    def send_command(command: str, retry: bool = True, binary: bool = False) -> Any:
        answer = send(command, retry, binary)
        if not binary and is_error(answer)[0] and answer[1:2] == REFERENCE_TYPE:
            raise Py4JJavaError("Flink's planner raised an exception.\n", JavaObject(answer[2:], client))
        return answer

    client.send_command = send_command
