"""The socket of a sink whose results the client of the job fetches (``tidegate.connectors.collect``)."""

from __future__ import annotations

import socket
from contextlib import ExitStack

from tidegate.model.deployment import TaskDeployment
from tidegate.model.program import VertexProgram
from tidegate.operator_options import SinkOptions
from tidegate.taskmanager.exchange.addresses import make_listener, remove
from tidegate.taskmanager.runtime.environment import SubtaskEnvironment


def open_listener(
    program: VertexProgram,
    deployment: TaskDeployment,
    environment: SubtaskEnvironment,
    advertised_host: str,
    resources: ExitStack,
) -> tuple[socket.socket | None, str]:
    """Opens the listening socket of a sink whose results the client fetches. Returns it with its address; ``None`` and an empty address for any other task."""
    options = program.operators[0].options
    if deployment.finished_on_restore or not (isinstance(options, SinkOptions) and options.sink.listens):
        return None, ""
    listener, address = make_listener(environment.listen, str(deployment.attempt), advertised_host, environment.tls)
    resources.callback(remove, address)
    resources.callback(listener.close)
    return listener, address
