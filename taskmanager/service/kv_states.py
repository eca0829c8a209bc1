"""The queryable state server of this TaskManager (Flink: ``KvStateRegistry.java``, ``KvStateServerHandler.java``).

    subtask ──register──▶ KvStateServer ──RegisterKvState──▶ JobManager, and again to each JobManager that takes this TaskManager
    client ──GetKvState──▶ limits ──QueryState──▶ subtask, between two slices ──StateQueried──▶ client

Keys and values are passed on as bytes. A request beyond the limits is refused instead of queued; clients retry.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import grpc.aio

from tidegate.aio.admission import Admission, checks_of
from tidegate.aio.process import Services
from tidegate.aio.rpc import RequestLimits, start_server
from tidegate.aio.transport import Transport
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ErrorInfo, ExternalError, StateNotServed, TidegateError
from tidegate.model.ids import AttemptId, Generation
from tidegate.model.options import QueryableStateOptions, TaskManagerOptions
from tidegate.pb import common_pb2, jobmanager_pb2, subtask_pb2, taskmanager_pb2
from tidegate.pb.taskmanager_pb2_grpc import TaskManagerKvStateServicer, add_TaskManagerKvStateServicer_to_server
from tidegate.taskmanager.machines.queryable.lookup_limits import LookupLimits
from tidegate.taskmanager.service.inspection import Stream
from tidegate.taskmanager.service.jobmanager.connection import JobManagerConnection
from tidegate.wire.convert import attempt_from_text, error_to_pb

_log = logging.getLogger(__name__)

MAX_WAIT_MS = 10_000
"""Most milliseconds to wait for a subtask's answer: Flink's default of ``pekko.ask.timeout``."""
_KEYS_MAX_BYTES = 16 << 20
"""The longest request and answer. Chosen: a client asks for 1,000 keys at once."""
_LIMITS = RequestLimits(_KEYS_MAX_BYTES, {"GetKvState": _KEYS_MAX_BYTES})


class Served(Protocol):
    """The methods of the task executor that this service uses."""

    def streams(self) -> Mapping[AttemptId, Stream]: ...
    def task_name(self, attempt: AttemptId) -> str: ...


class KvStateServer(TaskManagerKvStateServicer):
    """Registers queryable states and serves clients. Belongs to the loop's thread. ``address``: of the server, for clients; empty: there is none."""

    def __init__(
        self, executor: Served, job_manager: JobManagerConnection, limits: LookupLimits, address: str = ""
    ) -> None:
        self.address = address
        self._executor = executor
        self._job_manager = job_manager
        self._limits = limits
        self._registered: dict[AttemptId, dict[str, common_pb2.KvStateInfo]] = {}
        self._open: dict[int, tuple[AttemptId, asyncio.Future[common_pb2.KvStateAnswer]]] = {}
        self._last_id = 0
        job_manager.on_accepted = self._tell_again

    # ---- what subtasks say -------------------------------------------------------------------------------------------

    async def register(self, attempt: AttemptId, info: common_pb2.KvStateInfo) -> None:
        """Registers a state. Raises ``InvalidJob`` when another operator of the job has a state of that name. A JobManager that is away is informed later."""
        if not self.address:
            _log.info("state '%s' of %s is not served: queryable-state.enable is false", info.name, info.operator)
            return
        self._registered.setdefault(attempt, {})[info.name] = info
        try:
            refusal = await self._job_manager.register_kv_state(self._request(attempt, info))
        except TidegateError as error:
            _log.warning("the JobManager does not know yet of state '%s' of %s: %s", info.name, info.operator, error)
            return
        if refusal is not None and refusal.code == "invalid-job":
            raise refusal.to_exception()

    def answered(self, queried: subtask_pb2.FromSubtask.StateQueried) -> None:
        _, answer = self._open.get(queried.query_id, (None, None))
        if answer is not None and not answer.done():
            answer.set_result(queried.answer)

    def lost(self, attempt: AttemptId) -> None:
        """Forgets the states of an attempt whose stream broke, and fails its open queries."""
        self._registered.pop(attempt, None)
        for of_attempt, answer in self._open.values():
            if of_attempt == attempt and not answer.done():
                answer.set_exception(_gone(attempt))

    def _tell_again(self, generation: Generation) -> None:
        for attempt, infos in self._registered.items():
            for info in infos.values():
                request = self._request(attempt, info)
                request.generation = generation
                self._job_manager.tell("RegisterKvState", request)

    def _request(self, attempt: AttemptId, info: common_pb2.KvStateInfo) -> jobmanager_pb2.RegisterKvStateRequest:
        return jobmanager_pb2.RegisterKvStateRequest(attempt=str(attempt), address=self.address, info=info)

    # ---- what clients ask --------------------------------------------------------------------------------------------

    async def GetKvState(self, request: taskmanager_pb2.GetKvStateRequest, context: object) -> common_pb2.KvStateAnswer:
        try:
            return await self._look_up(request)
        except TidegateError as error:
            return common_pb2.KvStateAnswer(error=error_to_pb(ErrorInfo.of(error)))

    async def _look_up(self, request: taskmanager_pb2.GetKvStateRequest) -> common_pb2.KvStateAnswer:
        attempt, count = attempt_from_text(request.attempt), max(1, request.count)
        stream = self._executor.streams().get(attempt)
        if stream is None or request.name not in self._registered.get(attempt, ()):
            raise _gone(attempt)
        refusal = self._limits.refusal(attempt, count, _now_ms())
        if refusal is not None:
            raise StateNotServed(f"{self._executor.task_name(attempt)}: {refusal}; ask again later")
        self._last_id += 1
        query_id, wait_ms = self._last_id, min(request.wait_ms or MAX_WAIT_MS, MAX_WAIT_MS)
        answer: asyncio.Future[common_pb2.KvStateAnswer] = asyncio.get_running_loop().create_future()
        self._open[query_id] = (attempt, answer)
        question = subtask_pb2.ToSubtask.QueryState(query_id=query_id, name=request.name, keys=request.keys)
        stream.send(subtask_pb2.ToSubtask(query_state=question))
        try:
            async with asyncio.timeout(wait_ms / 1000):
                return await answer
        except TimeoutError:
            name = self._executor.task_name(attempt)
            raise StateNotServed(f"{name} has not answered for {wait_ms:,} ms: it is busy with its records") from None
        finally:
            del self._open[query_id]
            self._limits.answered(attempt, count)


async def start_kv_states(
    configuration: Configuration,
    executor: Served,
    job_manager: JobManagerConnection,
    host: str,
    services: Services,
) -> KvStateServer:
    """Makes the registry, with a server if ``queryable-state.enable`` is true. Raises ``ExternalError`` when none of its ports is available."""
    limits = LookupLimits(configuration.get(QueryableStateOptions.MAX_RATE))
    states = KvStateServer(executor, job_manager, limits)
    if not configuration.get(QueryableStateOptions.ENABLE):
        return states

    def register(server: grpc.aio.Server) -> None:
        add_TaskManagerKvStateServicer_to_server(states, server)

    bind = configuration.get(TaskManagerOptions.BIND_HOST)
    checks = checks_of(Admission.of(configuration), job_manager.transport)
    server, port = await _first_free(
        bind, configuration.get(QueryableStateOptions.SERVER_PORTS), register, job_manager.transport, checks
    )
    shown = f"[{host}]" if ":" in host else host
    states.address = f"{shown}:{port}"
    services.started(f"queryable state: gRPC port {port}", lambda: server.stop(0.2))
    return states


async def _first_free(
    host: str,
    ports: range,
    register: Callable[[grpc.aio.Server], None],
    transport: Transport,
    checks: Sequence[grpc.aio.ServerInterceptor],
) -> tuple[grpc.aio.Server, int]:
    for port in ports:
        try:
            return await start_server(
                host,
                port,
                register,
                "KvState server",
                limits=_LIMITS,
                transport=transport,
                interceptors=checks,
                option=QueryableStateOptions.SERVER_PORTS.key,
            )
        except ExternalError as error:
            if port == ports[-1]:
                raise ExternalError(
                    f"{error.message}, and a range such as 9067-9099 has a port for each TaskManager of this machine"
                ) from None
    raise AssertionError("a range of ports must hold at least one port")


def _gone(attempt: AttemptId) -> StateNotServed:
    return StateNotServed(f"{attempt} does not run here now; ask the JobManager where its key groups are")


def _now_ms() -> int:
    return int(time.monotonic() * 1000)
