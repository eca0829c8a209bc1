"""Injects faults for tests: into subtasks and TaskManagers through the TaskManager, into storage in this process and in subtasks.

Keeps the last ones for display. Available only if the JobManager was started with ``--allow-faults``.
"""

from __future__ import annotations

import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, assert_never

from tidegate.aio.driver import wall_clock_ms
from tidegate.aio.rpc import call, open_channel
from tidegate.aio.transport import Transport
from tidegate.jobmanager.machines.views import AttemptView, ClusterView, JobView, TaskManagerView, VertexView
from tidegate.jobmanager.rest.fault_service import FaultKind, FaultRequest, MadeFault
from tidegate.jobmanager.service.storage.faulty_storage import FaultyStorage
from tidegate.model.checkpoint_travel import subtask_name
from tidegate.model.errors import Misuse, TidegateError, UnknownJob
from tidegate.model.ids import JobId, TaskManagerId
from tidegate.model.units import show_duration_ms
from tidegate.pb import taskmanager_pb2 as pb
from tidegate.pb.common_pb2 import SubtaskFault
from tidegate.pb.taskmanager_pb2_grpc import TaskManagerFaultsStub
from tidegate.wire.convert import error_from_pb

KEPT = 100
"""How many injected faults are remembered. Chosen, not measured: more than are made by hand in a day."""
TIMEOUT_S = 10.0
"""The timeout of a call to a TaskManager, in seconds: Flink's default of ``pekko.ask.timeout``."""

_log = logging.getLogger(__name__)

Send = Callable[[str, pb.InjectFaultRequest], Awaitable[None]]


class JobViews(Protocol):
    """The views of jobs and of the cluster that fault injection reads to find subtasks and TaskManagers."""

    def job(self, job_id: JobId) -> JobView | None: ...
    def jobs(self) -> list[JobView]: ...
    def cluster(self) -> ClusterView: ...


class FaultInjector:
    """Implements ``tidegate.jobmanager.rest.fault_service.FaultService``."""

    def __init__(
        self,
        views: JobViews,
        storage: FaultyStorage,
        send: Send,
        now_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        self._views = views
        self._storage = storage
        self._send = send
        self._now_ms = now_ms
        self._made: deque[MadeFault] = deque(maxlen=KEPT)

    def made(self) -> Sequence[MadeFault]:
        return tuple(self._made)

    async def make(self, requested: FaultRequest) -> MadeFault:
        at_ms = self._now_ms()  # before its consequences
        match requested.kind:
            case FaultKind.KILL_SUBTASK | FaultKind.KILL_EXECUTOR:
                job_ids, text = await self._kill(requested)
            case FaultKind.SLOW_STATE | FaultKind.FULL_STATE:
                job_ids, text = await self._spoil_state(requested)
            case (
                FaultKind.KILL_TASK_MANAGER
                | FaultKind.DELAY_CHANNELS
                | FaultKind.CUT_CHANNELS
                | FaultKind.DELAY_MESSAGES
                | FaultKind.DROP_ACKNOWLEDGEMENTS
                | FaultKind.SKEW_CLOCK
            ):
                task_manager = self._place(requested)
                job_ids = self._running(task_manager.task_manager_id)
                request, text = _of_task_manager(requested, task_manager.task_manager_id)
                await self._send(task_manager.address, request)
            case _:
                assert_never(requested.kind)
        made = MadeFault(at_ms, requested.kind, f"on purpose: {text}", job_ids)
        self._made.append(made)
        _log.warning("fault %s", made.text)
        return made

    async def _kill(self, requested: FaultRequest) -> tuple[tuple[JobId, ...], str]:
        """Kills a subtask, or the Spark executor in which it runs."""
        job, name, attempt = self._subtask(requested)
        task_manager, text = self._task_manager(attempt.task_manager_id or ""), str(attempt.attempt)
        if requested.kind is FaultKind.KILL_SUBTASK:
            await self._send(task_manager.address, pb.InjectFaultRequest(kill_subtask=text))
            return (job.job_id,), f"{name} was killed on TaskManager {task_manager.task_manager_id}"
        await self._send(task_manager.address, pb.InjectFaultRequest(kill_executor=text))
        where = f"on {attempt.host}, of TaskManager {task_manager.task_manager_id}"
        return self._running(task_manager.task_manager_id), f"the executor of {name} was killed {where}"

    async def _spoil_state(self, requested: FaultRequest) -> tuple[tuple[JobId, ...], str]:
        """Makes storage slow or full for the subtasks of the named TaskManager, or for all subtasks and the JobManager."""
        is_full, fault = requested.kind is FaultKind.FULL_STATE, SubtaskFault(for_ms=requested.for_ms)
        if is_full:
            fault.full_state = True
        else:
            fault.slow_state_ms = requested.delay_ms
        request = pb.InjectFaultRequest(of_subtasks=fault)
        if requested.task_manager:
            one = self._task_manager(requested.task_manager)
            await self._send(one.address, request)
            return self._running(one.task_manager_id), _of_state(requested, f"the subtasks on {one.task_manager_id}")
        if is_full:
            self._storage.fill(requested.for_ms)
        else:
            self._storage.slow(requested.delay_ms, requested.for_ms)
        running = {s.current.task_manager_id for job in self._views.jobs() for v in job.vertices for s in v.subtasks}
        for each in self._views.cluster().task_managers:
            if each.task_manager_id in running:
                with contextlib.suppress(TidegateError):  # one without a subtask by now, or lost: the others have it
                    await self._send(each.address, request)
        return self._running(), _of_state(requested, "the JobManager and all subtasks")

    def _subtask(self, requested: FaultRequest) -> tuple[JobView, str, AttemptView]:
        """Returns the job, the name and the current attempt of the subtask. Raises ``UnknownJob`` or ``Misuse``."""
        job = None if requested.job_id is None else self._views.job(requested.job_id)
        if job is None:
            raise UnknownJob(f"job {requested.job_id or ''} is not known; `tidegate list` shows those that are")
        vertex = vertex_named(job, requested.vertex)
        if requested.subtask >= len(vertex.subtasks):
            raise Misuse(f"{vertex.name} has the subtasks 0 to {len(vertex.subtasks) - 1}, not {requested.subtask}")
        name, attempt = subtask_name(vertex.name, requested.subtask), vertex.subtasks[requested.subtask].current
        if attempt.task_manager_id is None or attempt.state.is_terminal:
            raise Misuse(f"{name} is {attempt.state.value}, so it has no process")
        return job, name, attempt

    def _place(self, requested: FaultRequest) -> TaskManagerView:
        """Returns the named TaskManager, that of the named subtask, or the only one."""
        if not requested.task_manager and requested.job_id is not None:
            return self._task_manager(self._subtask(requested)[2].task_manager_id or "")
        return self._task_manager(requested.task_manager)

    def _task_manager(self, text: str) -> TaskManagerView:
        known = self._views.cluster().task_managers
        wanted = text.casefold()
        found = [one for one in known if wanted in (one.task_manager_id.casefold(), "")]
        if len(found) == 1:
            return found[0]
        names = ", ".join(one.task_manager_id for one in known) or "none"
        raise Misuse(f"TaskManager {text!r} is not registered; registered are: {names}")

    def _running(self, on: TaskManagerId | None = None) -> tuple[JobId, ...]:
        """Returns the jobs that are not terminal; with ``on`` only those with a subtask on that TaskManager."""
        return tuple(
            job.job_id
            for job in self._views.jobs()
            if not job.state.is_terminal
            and (on is None or any(s.current.task_manager_id == on for v in job.vertices for s in v.subtasks))
        )


def _of_task_manager(requested: FaultRequest, name: TaskManagerId) -> tuple[pb.InjectFaultRequest, str]:
    lag = pb.InjectFaultRequest.Lag(delay_ms=requested.delay_ms, for_ms=requested.for_ms)
    match requested.kind:
        case FaultKind.DELAY_CHANNELS:
            return pb.InjectFaultRequest(
                delay_channels=lag
            ), f"what subtasks on {name} receive comes {_lag(requested, 'late')}"
        case FaultKind.CUT_CHANNELS:
            return pb.InjectFaultRequest(cut_channels=True), f"connections from other subtasks to those on {name} broke"
        case FaultKind.DELAY_MESSAGES:
            return pb.InjectFaultRequest(
                delay_messages=lag
            ), f"what {name} tells the JobManager comes {_lag(requested, 'late')}"
        case FaultKind.DROP_ACKNOWLEDGEMENTS:
            request = pb.InjectFaultRequest(drop_acknowledgements=requested.count)
            return request, f"acknowledgements from {name} are lost, of the next {requested.count} checkpoints"
        case FaultKind.SKEW_CLOCK:
            fault = SubtaskFault(skew_clock_ms=requested.skew_ms, for_ms=requested.for_ms)
            way = "behind" if requested.skew_ms < 0 else "ahead"
            off = f"{show_duration_ms(abs(requested.skew_ms))} {way}, for {show_duration_ms(requested.for_ms)}"
            return pb.InjectFaultRequest(of_subtasks=fault), f"the clock of the subtasks on {name} is {off}"
        case _:
            return pb.InjectFaultRequest(kill_task_manager=True), f"TaskManager {name} was killed"


def _of_state(requested: FaultRequest, whose: str) -> str:
    if requested.kind is FaultKind.FULL_STATE:
        return f"the checkpoint directory is full for {whose}, for {show_duration_ms(requested.for_ms)}"
    return f"files in the checkpoint directory take {_lag(requested, 'longer')}, for {whose}"


def _lag(requested: FaultRequest, what: str) -> str:
    return f"{show_duration_ms(requested.delay_ms)} {what}, for {show_duration_ms(requested.for_ms)}"


def vertex_named(job: JobView, text: str) -> VertexView:
    """Finds a vertex by id, name or part of the name. Raises ``Misuse`` when there is none or more than one."""
    exact = [vertex for vertex in job.vertices if text in (vertex.vertex_id, vertex.name)]
    wanted = text.casefold()
    same = [vertex for vertex in job.vertices if wanted in (vertex.vertex_id, vertex.name.casefold())]
    found = exact or same or [vertex for vertex in job.vertices if wanted in vertex.name.casefold()]
    if len(found) == 1:
        return found[0]
    names = "; ".join(vertex.name for vertex in (found or job.vertices))
    raise Misuse(f"{text!r} is {'the name of several vertices' if found else 'no vertex of the job'}: {names}")


async def send_fault(transport: Transport, address: str, request: pb.InjectFaultRequest) -> None:
    """Asks a TaskManager to inject a fault. Raises ``TidegateError`` when it does not answer or refuses."""
    channel = open_channel(address, transport)
    try:
        answer = await call(TaskManagerFaultsStub(channel).InjectFault(request, timeout=TIMEOUT_S), address)
    finally:
        await channel.close()
    if answer.HasField("error"):
        raise error_from_pb(answer.error).to_exception()
