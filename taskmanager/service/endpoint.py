"""Opens the endpoints of this process: a gRPC service for the JobManager and operators, and a socket for its own subtasks."""

from __future__ import annotations

import asyncio
import secrets

import grpc.aio

from tidegate.aio.admission import Admission, checks_of
from tidegate.aio.pool import Pool
from tidegate.aio.process import Services
from tidegate.aio.rolling import Rolling
from tidegate.aio.rpc import RequestLimits, start_server
from tidegate.aio.signing import signing_of
from tidegate.model.configuration import Configuration
from tidegate.model.options import JobManagerOptions, RuntimeOptions, SparkOptions, TaskManagerOptions
from tidegate.pb.taskmanager_pb2_grpc import (
    add_TaskManagerFaultsServicer_to_server,
    add_TaskManagerInspectionServicer_to_server,
    add_TaskManagerServicer_to_server,
)
from tidegate.taskmanager.service.blob_cache import BlobCache
from tidegate.taskmanager.service.inspection import InspectionService, ReadStacks
from tidegate.taskmanager.service.jobmanager.connection import JobManagerConnection
from tidegate.taskmanager.service.kv_states import start_kv_states
from tidegate.taskmanager.service.planned_faults import DelayedService
from tidegate.taskmanager.service.reporting.printing import Printer
from tidegate.taskmanager.service.requested_faults import FaultInjection, FaultServicer
from tidegate.taskmanager.service.subtask_control import SubtaskControl, listen_for_subtasks
from tidegate.taskmanager.service.subtasks.tls import SubtaskTls
from tidegate.taskmanager.service.task_executor import TaskExecutor

_AS_LONG_AS_ANY = (
    "SubmitTask", "ConnectTask", "TriggerCheckpoint", "ConfirmCheckpoint", "AbortCheckpoint", "SendOperatorEvent"
)  # fmt: skip
"""Methods whose requests may be as long as any message, since deployments carry state, and commands name many subtasks."""
_TOKEN_BYTES = 16
"""Bytes of a token: 128 bits cannot be guessed."""


async def start_endpoint(
    configuration: Configuration,
    executor: TaskExecutor,
    faults: FaultInjection,
    stacks: ReadStacks,
    job_manager: JobManagerConnection,
) -> tuple[grpc.aio.Server, int]:
    """Starts the gRPC server; returns it with its TCP port. Raises ``ExternalError`` when the port is not available, and ``ConfigurationError``."""
    service = DelayedService(
        executor, lambda: secrets.token_hex(_TOKEN_BYTES), faults.delays, signing_of(configuration)
    )
    servicer = FaultServicer(
        executor.local_pids,
        lambda: {attempt: stream.send for attempt, stream in executor.streams().items()},
        faults,
        lambda: job_manager.allows_faults,
        has_executors=not configuration.get(SparkOptions.MASTER).startswith("local"),
    )
    inspected = InspectionService(executor, Pool(1, "inspection"), stacks)

    def register(server: grpc.aio.Server) -> None:
        add_TaskManagerServicer_to_server(service, server)
        add_TaskManagerInspectionServicer_to_server(inspected, server)
        add_TaskManagerFaultsServicer_to_server(servicer, server)

    host, port = configuration.get(TaskManagerOptions.BIND_HOST), configuration.get(TaskManagerOptions.RPC_PORT)
    transport = job_manager.transport
    checks = checks_of(Admission.of(configuration), transport)
    return await start_server(
        host,
        port,
        register,
        "TaskManager",
        limits=request_limits(configuration),
        transport=transport,
        interceptors=checks,
        option=TaskManagerOptions.RPC_PORT.key,
    )


def request_limits(configuration: Configuration) -> RequestLimits:
    """Returns the greatest length of a gRPC request for each method of a TaskManager."""
    most_bytes = configuration.get(JobManagerOptions.MAX_MESSAGE_SIZE)
    return RequestLimits(most_bytes, dict.fromkeys(_AS_LONG_AS_ANY, most_bytes))


async def start_control(
    configuration: Configuration,
    executor: TaskExecutor,
    blobs: BlobCache,
    job_manager: JobManagerConnection,
    services: Services,
    unix: str | None,
    host: str,
    tls: SubtaskTls | None,
) -> tuple[asyncio.Server, str]:
    """Starts the listener that subtasks connect to; returns it with the address that they dial.

    It listens on the socket file ``unix`` if given, else on a TCP port of ``host``, with TLS if ``tls`` is given. Raises ``ExternalError`` when the port is
    not available.
    """
    kv_states = await start_kv_states(configuration, executor, job_manager, host, services)
    printing, show = Pool(1, "printing"), Printer(Rolling.of(configuration))
    control = SubtaskControl(executor, blobs, printing, show, job_manager.align_watermark, kv_states)
    port = configuration.get(RuntimeOptions.CONTROL_PORT)
    listen = unix or f"{configuration.get(TaskManagerOptions.BIND_HOST)}:{port}"
    return await listen_for_subtasks(control, listen, host, None if tls is None else tls.material)
