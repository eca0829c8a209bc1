"""Writes changes of jobs to the job store under the fencing token of a term, in order; each is granted when it is durable."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol, assert_never

from tidegate.aio.pool import Pool
from tidegate.high_availability.port import Deposed, Unavailable
from tidegate.jobmanager.machines import fenced_writes as writes
from tidegate.jobmanager.machines.events import ClientRequest
from tidegate.jobmanager.service.high_availability.job_store import JobStore
from tidegate.model.errors import DuplicateJob, TidegateError
from tidegate.model.ids import CheckpointId, JobId
from tidegate.model.rescaling.shape import Shape
from tidegate.model.states import JobState
from tidegate.pb import jobmanager_pb2 as pb

_log = logging.getLogger("jobmanager")


class Jobs(Protocol):
    """Stores changes of jobs. Methods return when the change is durable and raise ``StorageError``; ``Deposed`` once another JobManager leads."""

    async def add(self, job_id: JobId, request: pb.SubmitJobRequest) -> None: ...
    async def note_attempts(self, job_id: JobId, attempts: Mapping[int | None, int]) -> None: ...
    def is_noted(self, job_id: JobId, region: int | None, attempt: int) -> bool: ...
    async def reserve_id(self, job_id: JobId, checkpoint_id: CheckpointId) -> None: ...
    async def note_savepoint(self, job_id: JobId, checkpoint_id: CheckpointId, location: str) -> None: ...
    async def note_request(self, request: ClientRequest) -> None: ...
    async def forget_request(self, job_id: JobId, request_id: str) -> None: ...
    async def note_shape(self, job_id: JobId, shape: Shape) -> None: ...
    async def commit(self, job_id: JobId, checkpoint_id: CheckpointId, location: str) -> None: ...
    async def may_remove(self, job_id: JobId, checkpoint_id: CheckpointId) -> None: ...
    async def still_lead(self, job_id: JobId) -> None: ...
    async def end(self, job_id: JobId, state: JobState) -> None: ...
    async def remove(self, job_id: JobId) -> None: ...


class NoJobStore:
    """The job store without high availability: stores nothing, since jobs end with their JobManager. There is no other leader, so nothing waits for a
    write.
    """

    async def add(self, job_id: JobId, request: pb.SubmitJobRequest) -> None:
        """Does nothing."""

    async def note_attempts(self, job_id: JobId, attempts: Mapping[int | None, int]) -> None:
        """Does nothing."""

    def is_noted(self, job_id: JobId, region: int | None, attempt: int) -> bool:
        return True

    async def reserve_id(self, job_id: JobId, checkpoint_id: CheckpointId) -> None:
        """Does nothing."""

    async def note_savepoint(self, job_id: JobId, checkpoint_id: CheckpointId, location: str) -> None:
        """Does nothing."""

    async def note_request(self, request: ClientRequest) -> None:
        """Does nothing."""

    async def forget_request(self, job_id: JobId, request_id: str) -> None:
        """Does nothing."""

    async def note_shape(self, job_id: JobId, shape: Shape) -> None:
        """Does nothing."""

    async def commit(self, job_id: JobId, checkpoint_id: CheckpointId, location: str) -> None:
        """Does nothing: a durable ``_metadata`` is enough."""

    async def may_remove(self, job_id: JobId, checkpoint_id: CheckpointId) -> None:
        """Does nothing: every checkpoint may be removed."""

    async def still_lead(self, job_id: JobId) -> None:
        """Does nothing: there is no other JobManager."""

    async def end(self, job_id: JobId, state: JobState) -> None:
        """Does nothing."""

    async def remove(self, job_id: JobId) -> None:
        """Does nothing."""


class KeptJobs:
    """Stores the changes of jobs while this JobManager leads (one leadership term). Used in the event loop's thread; calls the store in threads of
    ``pool``.
    """

    def __init__(self, store: JobStore, pool: Pool, on_refused: Callable[[str], None]) -> None:
        """Creates it for one term. ``on_refused``: called when the store knows a later leader."""
        self._store = store
        self._pool = pool
        self._on_refused = on_refused
        self._machine = writes.FencedWrites()
        self._calls: dict[int, Callable[[], object]] = {}
        self._answers: dict[int, asyncio.Future[None]] = {}
        self._failures: dict[int, TidegateError] = {}
        self._last = 0
        self._why = ""

    # ---- what is kept ------------------------------------------------------------------------------------------------

    async def add(self, job_id: JobId, request: pb.SubmitJobRequest) -> None:
        """Stores a submitted job. Raises ``DuplicateJob`` when another leader has accepted a job of this id, or this submission."""

        plan, content = self._store.plan(job_id, request)

        def add() -> None:
            if not self._store.add(job_id, plan, content):
                raise DuplicateJob(f"job {job_id} was submitted before; build the graph again to get another id")

        await self._written(job_id, add)

    async def note_attempts(self, job_id: JobId, attempts: Mapping[int | None, int]) -> None:
        await self._written(job_id, partial(self._store.note_attempts, job_id, attempts))

    def is_noted(self, job_id: JobId, region: int | None, attempt: int) -> bool:
        return not self._machine.is_over and self._store.is_noted(job_id, region, attempt)

    async def reserve_id(self, job_id: JobId, checkpoint_id: CheckpointId) -> None:
        await self._written(job_id, partial(self._store.reserve_id, job_id, checkpoint_id))

    async def note_savepoint(self, job_id: JobId, checkpoint_id: CheckpointId, location: str) -> None:
        await self._written(job_id, partial(self._store.note_savepoint, job_id, checkpoint_id, location))

    async def note_request(self, request: ClientRequest) -> None:
        await self._written(request.job_id, partial(self._store.note_request, request))

    async def forget_request(self, job_id: JobId, request_id: str) -> None:
        await self._written(job_id, partial(self._store.forget_request, job_id, request_id))

    async def note_shape(self, job_id: JobId, shape: Shape) -> None:
        await self._written(job_id, partial(self._store.note_shape, job_id, shape))

    async def commit(self, job_id: JobId, checkpoint_id: CheckpointId, location: str) -> None:
        await self._written(job_id, partial(self._store.point, job_id, checkpoint_id, location))

    async def may_remove(self, job_id: JobId, checkpoint_id: CheckpointId) -> None:
        await self._written(job_id, partial(self._store.unpoint, job_id, checkpoint_id))

    async def still_lead(self, job_id: JobId) -> None:
        """Waits for all earlier writes of the job; raises ``Deposed`` when this process does not lead, as far as it knows."""
        await self._written(job_id, lambda: None)

    async def end(self, job_id: JobId, state: JobState) -> None:
        await self._written(job_id, partial(self._store.end, job_id, state))

    async def remove(self, job_id: JobId) -> None:
        await self._written(job_id, partial(self._store.remove, job_id))

    # ---- the lead ----------------------------------------------------------------------------------------------------

    def pause(self) -> None:
        self._on(writes.WritesPaused())

    def resume(self) -> None:
        self._on(writes.WritesResumed())

    def depose(self, reason: str) -> None:
        """Fails all waiting and later calls with ``Deposed``."""
        self._why = self._why or reason
        self._on(writes.TermOver())

    async def _written(self, lane: str, call: Callable[[], object]) -> None:
        self._last += 1
        number, answer = self._last, asyncio.get_running_loop().create_future()
        self._calls[number], self._answers[number] = call, answer
        self._on(writes.WriteRequested(lane, number))
        await answer

    def _on(self, event: writes.WritesEvent) -> None:
        for command in self._machine.on(event, 0):
            match command:
                case writes.Write():
                    asking = self._pool.submit(self._calls[command.number])
                    asking.add_done_callback(partial(self._answered, command.number))
                case writes.Grant():
                    self._settle(command.number, self._failures.pop(command.number, None))
                case writes.Abandon():
                    self._settle(command.number, Deposed(f"this JobManager leads no more: {self._why}"))
                case writes.WakeUp():
                    asyncio.get_running_loop().call_later(
                        command.delay_ms / 1000, self._on, writes.WriteDue(command.number)
                    )
                case writes.Resign():
                    self._on_refused(self._why)
                case _:
                    assert_never(command)

    def _answered(self, number: int, asking: asyncio.Future[object]) -> None:
        error = asking.exception()
        match error:
            case Unavailable():
                _log.warning("the job store does not answer: %s; asking again", error.message)
                self._on(writes.WriteUnanswered(number))
            case Deposed():
                self._why = error.message
                self._on(writes.WriteRefused(number))
            case TidegateError():
                self._failures[number] = error  # an answer like any other: the caller decides
                self._on(writes.WriteDone(number))
            case None:
                self._on(writes.WriteDone(number))
            case _:
                raise error

    def _settle(self, number: int, error: TidegateError | None) -> None:
        answer = self._answers.pop(number)
        del self._calls[number]
        if answer.done():
            return
        if error is None:
            answer.set_result(None)
        else:
            answer.set_exception(error)
