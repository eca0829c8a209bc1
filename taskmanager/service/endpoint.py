"""The port of this process: the service for the JobManager and, on a Unix socket too, the one for its own subtasks."""

from __future__ import annotations

import secrets

import grpc.aio

from taskmanager.service.blob_cache import BlobCache
from taskmanager.service.faults import DelayedService, Delays
from taskmanager.service.inspection import InspectionService
from taskmanager.service.printing import print_lines
from taskmanager.service.subtask_stream import Align, SubtaskControlService
from taskmanager.service.task_executor import TaskExecutor
from tidegate.aio.pool import Pool
from tidegate.aio.rpc import start_server
from tidegate.model.configuration import Configuration
from tidegate.model.options import TaskManagerOptions
from tidegate.pb.subtask_pb2_grpc import add_SubtaskControlServicer_to_server
from tidegate.pb.taskmanager_pb2_grpc import (
    add_TaskManagerInspectionServicer_to_server,
    add_TaskManagerServicer_to_server,
)

_TOKEN_BYTES = 16


async def start_endpoint(
    configuration: Configuration,
    executor: TaskExecutor,
    blobs: BlobCache,
    control_socket: str | None,
    delays: Delays,
    align: Align | None = None,
) -> tuple[grpc.aio.Server, int]:
    """The running server and its TCP port. Raises ``ExternalError`` when the port cannot be had."""
    service = DelayedService(executor, lambda: secrets.token_hex(_TOKEN_BYTES), delays)
    control = SubtaskControlService(executor, blobs, Pool(1, "printing"), print_lines, align)
    inspected = InspectionService(executor, Pool(1, "inspection"))

    def register(server: grpc.aio.Server) -> None:
        add_TaskManagerServicer_to_server(service, server)
        add_TaskManagerInspectionServicer_to_server(inspected, server)
        add_SubtaskControlServicer_to_server(control, server)
        if control_socket is not None:
            server.add_insecure_port(control_socket)

    host, port = configuration.get(TaskManagerOptions.BIND_HOST), configuration.get(TaskManagerOptions.RPC_PORT)
    return await start_server(host, port, register, "TaskManager")
