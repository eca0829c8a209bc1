"""Provides executors of a Spark cluster on demand: the JobManager declares the workers that it wants, and each gets an executor.

JobManager ──DeclareWorkers──▶ ┌──────────────┐ ──RequestTotal, KillExecutor──▶ Spark
what Spark has, every LOOK_S ─▶ │ ExecutorPool │
Member: it is over ───────────▶ └──────────────┘ ──OpenWorker, CloseWorker────▶ Member: a TaskManager that registers by itself
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import grpc.aio

from tidegate.aio.admission import Admission, checks_of
from tidegate.aio.pool import Pool
from tidegate.aio.process import Services
from tidegate.aio.rpc import REQUEST_MAX_BYTES, RequestLimits, start_server
from tidegate.aio.transports import transport_of
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ConfigurationError, ExternalError
from tidegate.model.ids import TaskManagerId
from tidegate.model.options import RuntimeOptions, TaskManagerOptions
from tidegate.pb import taskmanager_pb2, taskmanager_pb2_grpc
from tidegate.taskmanager.machines.executor_pool import (
    CloseWorker,
    ExecutorPool,
    KillExecutor,
    OpenWorker,
    PoolCommand,
    RequestTotal,
)
from tidegate.taskmanager.service import identity as own
from tidegate.taskmanager.service.executors.member import Member
from tidegate.taskmanager.service.subtasks.spark_service import SparkService
from tidegate.taskmanager.service.watches import watch_jvm
from tidegate.taskmanager.spark.executors.requests import ExecutorRequests
from tidegate.taskmanager.spark.session import Session

_log = logging.getLogger("taskmanager")
LOOK_S = 0.25
"""Seconds between two looks at Spark's executors. Chosen, not measured: short compared with the second in which an executor starts."""
_INSTANCES = "spark.executor.instances"


class ExecutorHost(taskmanager_pb2_grpc.ExecutorHostServicer):
    """The gRPC service for declared workers. It ends the process when no JobManager calls for ``taskmanager.registration.timeout``.

    It belongs to the loop's thread; calls of Spark are made in a thread of their own, one after the other.
    """

    def __init__(
        self,
        configuration: Configuration,
        session: Session,
        directory: Path,
        fatal: Callable[[BaseException], None],
    ) -> None:
        self._configuration = configuration
        self._session = session
        self._directory = directory
        self._fatal = fatal
        self._requests = ExecutorRequests(session)
        self._calls = Pool(1, "executors")
        self._pool = ExecutorPool()
        self._members: dict[TaskManagerId, Member] = {}
        self._give_up_s = configuration.get(TaskManagerOptions.REGISTRATION_TIMEOUT) / 1000
        self._last_request_s = time.monotonic()
        self._looking = asyncio.create_task(self._look(), name="executors")

    async def DeclareWorkers(
        self, request: taskmanager_pb2.DeclareWorkersRequest, context: object
    ) -> taskmanager_pb2.HostedWorkers:
        self._last_request_s = time.monotonic()
        if not request.is_question:
            self._execute(self._pool.on_declared([TaskManagerId(name) for name in request.worker_ids]))
        hosted = taskmanager_pb2.HostedWorkers.HostedWorker
        return taskmanager_pb2.HostedWorkers(
            workers=[hosted(worker_id=w.worker_id, state=w.state.value, detail=w.detail) for w in self._pool.workers()]
        )

    async def close(self) -> None:
        """Stops all TaskManagers of this process. Their executors end with the Spark context."""
        self._looking.cancel()
        for member in self._members.values():
            member.close("this process is shutting down")
        await asyncio.gather(*(member.closed() for member in list(self._members.values())))
        self._calls.close()

    async def _look(self) -> None:
        while True:
            try:
                ended = await self._calls.submit(self._requests.ended)
                seen = await self._calls.submit(self._requests.look)
            except ExternalError as error:
                self._fatal(error)
                return
            for executor_id, detail in ended.items():
                _log.info("executor %s has ended: %s", executor_id, detail)
                self._execute(self._pool.on_executor_ended(executor_id, detail))
            self._execute(self._pool.on_seen(seen))
            if time.monotonic() - self._last_request_s > self._give_up_s:
                self._fatal(
                    ExternalError(
                        f"no JobManager has connected for {self._give_up_s:g} s ({TaskManagerOptions.REGISTRATION_TIMEOUT.key})"
                    )
                )
                return
            await asyncio.sleep(LOOK_S)

    def _execute(self, commands: Iterable[PoolCommand]) -> None:
        for command in commands:
            match command:
                case RequestTotal(executors):
                    _log.info("asking Spark for %d executors", executors)
                    self._call(partial(self._requests.request_total, executors))
                case KillExecutor(executor_id):
                    _log.info("giving back executor %s", executor_id)
                    self._call(partial(self._requests.kill, [executor_id]))
                case OpenWorker(worker_id, executor):
                    place = self._directory / worker_id
                    self._members[worker_id] = Member(
                        worker_id, executor, self._configuration, self._session, place, self._on_end
                    )
                case CloseWorker(worker_id):
                    self._members[worker_id].close("")

    def _call(self, call: Callable[[], None]) -> None:
        called = self._calls.submit(call)

        def on_done(done: asyncio.Future[None]) -> None:
            error = None if done.cancelled() else done.exception()
            if error is not None:
                self._fatal(error)

        called.add_done_callback(on_done)

    def _on_end(self, worker_id: TaskManagerId, detail: str) -> None:
        _log.info("TaskManager %s, which ran on an executor, has ended%s", worker_id, f": {detail}" if detail else "")
        del self._members[worker_id]
        self._execute(self._pool.on_closed(worker_id, detail))


async def start_executor_host(
    configuration: Configuration,
    services: Services,
    directory: Path,
    spark: SparkService,
    fatal: Callable[[BaseException], None],
) -> None:
    """Starts the service, which runs until ``services`` stop it. Raises ``TidegateError``."""
    if _INSTANCES in configuration.spark_properties():
        raise ConfigurationError(
            f"bad configuration: {_INSTANCES} has no effect where executors are started when jobs need slots "
            "(tidegate.resourcemanager.driver is spark); leave it out"
        )
    session = await spark.ready(services.begins)
    watching = asyncio.create_task(watch_jvm(session, fatal), name="watch jvm")
    services.started("Spark: no executors yet", lambda: _cancel(watching))
    host = ExecutorHost(configuration, session, directory / "workers", fatal)
    services.started("executors: on demand", host.close, 9_000)

    def register(server: grpc.aio.Server) -> None:
        taskmanager_pb2_grpc.add_ExecutorHostServicer_to_server(host, server)

    bind_host = configuration.get(TaskManagerOptions.BIND_HOST)
    transport = transport_of(configuration)
    server, port = await start_server(
        bind_host,
        configuration.get(TaskManagerOptions.RPC_PORT),
        register,
        "TaskManager",
        transport=transport,
        interceptors=checks_of(Admission.of(configuration), transport),
        limits=RequestLimits(REQUEST_MAX_BYTES, {}),
        option=TaskManagerOptions.RPC_PORT.key,
    )
    services.started(f"asked for executors: gRPC port {port}", lambda: server.stop(0.2))
    host_file = configuration.get(RuntimeOptions.EXECUTOR_HOST)
    assert host_file is not None
    _write(Path(host_file), f"{own.find_host(configuration)}:{port}")


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()


def _write(file: Path, address: str) -> None:
    """Writes the address to a file atomically, since another process waits for the file. Raises ``ExternalError``."""
    try:
        new = file.with_suffix(".new")
        new.write_text(address, encoding="ascii")
        new.replace(file)
    except OSError as error:
        raise ExternalError(f"cannot write {error.filename}: {error.strerror}") from None
