"""The identity of this TaskManager: its id, names, addresses and sockets."""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import dataclass
from pathlib import Path

import psutil

from tidegate.aio.listening import is_loopback
from tidegate.model.configuration import Configuration
from tidegate.model.ids import TaskManagerId
from tidegate.model.options import JobManagerOptions, TaskManagerOptions
from tidegate.taskmanager.exchange.addresses import ANY_PORT, OWN_HOST, listen_on
from tidegate.wire.versions import PYTHON_VERSION, VERSION

_ANY = ("0.0.0.0", "::", "")  # noqa: S104  (to be recognised)
SOCKET_PATH_MAX = 100
"""Longest path of a Unix socket. The system's limit is 107 bytes on Linux, 103 on macOS."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of this TaskManager, as it is sent to the JobManager."""

    task_manager_id: TaskManagerId
    session: str
    address: str
    host: str
    pid: int
    memory_bytes: int
    version: str
    python_version: str


def job_manager_address(configuration: Configuration) -> str:
    """Returns the configured address of the JobManager, ``host:port``."""
    host = configuration.get(JobManagerOptions.RPC_ADDRESS)
    return f"{host}:{configuration.get(JobManagerOptions.RPC_PORT)}"


def find_host(configuration: Configuration) -> str:
    """Returns the host under which others reach this process: the configured one, the bound one, or that of the route to the JobManager."""
    configured = configuration.get(TaskManagerOptions.HOST)
    if configured:
        return configured
    bound = configuration.get(TaskManagerOptions.BIND_HOST)
    if bound not in _ANY:
        return bound
    host = configuration.get(JobManagerOptions.RPC_ADDRESS)
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, 6123, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(address)  # a datagram socket sends nothing; this only asks for the route
            return str(probe.getsockname()[0])
    except OSError:
        return socket.gethostname()


def make_identity(configuration: Configuration, host: str, port: int) -> Identity:
    """Returns the identity under which the TaskManager registers (Flink: ``TaskManagerRunner.getTaskManagerResourceID``)."""
    named = configuration.get(TaskManagerOptions.RESOURCE_ID)
    size = configuration.get(TaskManagerOptions.PROCESS_SIZE)
    return Identity(
        task_manager_id=TaskManagerId(named or f"{host}:{port}-{secrets.token_hex(3)}"),
        session=secrets.token_hex(16),
        address=f"{host}:{port}",
        host=socket.gethostname(),
        pid=os.getpid(),
        memory_bytes=size or psutil.virtual_memory().total,
        version=VERSION,
        python_version=PYTHON_VERSION,
    )


def control_socket(directory: Path) -> str | None:
    """Returns the Unix socket that subtasks on this machine dial; ``None`` when its path would be too long for the system."""
    path = directory / "control"
    return f"unix:{path}" if len(os.fsencode(path)) <= SOCKET_PATH_MAX else None


def data_listen(host: str, is_embedded: bool, directory: Path, ports: range = ANY_PORT) -> str:
    """Returns where subtasks serve their data: Unix sockets when all of them are on this machine, otherwise TCP; in executors at an address of their own
    machine.
    """
    sockets = directory / "s"
    fits = len(str(sockets)) + 40 <= SOCKET_PATH_MAX
    if is_embedded and is_loopback(host) and fits:
        sockets.mkdir(parents=True, exist_ok=True)
        return f"unix:{sockets}"
    return listen_on(host if is_embedded else OWN_HOST, ports)
