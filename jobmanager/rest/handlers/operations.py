"""Asynchronous operations: a trigger is answered at once with an id, under which the result can be requested.

    trigger ─▶ IN_PROGRESS ─▶ COMPLETED (a result, or a failure) ─▶ forgotten after rest.async.store-duration

A trigger that is repeated with the same id and job is the same operation (Flink: ``CompletedOperationCache.java``).
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine
from dataclasses import dataclass

from tidegate.jobmanager.rest.http.errors import RestError
from tidegate.jobmanager.rest.responses.java_throwable import failure_cause
from tidegate.model.errors import ErrorInfo
from tidegate.model.values import JsonObject

MAX_RUNNING = 1_000
"""How many operations may run at once, so that a client that triggers without end cannot fill the memory."""

Work = Callable[[], Coroutine[object, None, JsonObject]]
"""Performs an operation; returns its result, or raises."""


@dataclass(slots=True)
class Operation:
    """One operation. ``done_ms`` is ``None`` while it is in progress."""

    trigger_id: str
    task: asyncio.Task[JsonObject]
    done_ms: int | None = None

    def status(self, failure_key: str) -> JsonObject:
        """Returns the answer of a status path: the result, or the failure and nothing else."""
        if not self.task.done():
            return {"status": {"id": "IN_PROGRESS"}, "operation": None}
        error = asyncio.CancelledError() if self.task.cancelled() else self.task.exception()
        if error is None:
            return {"status": {"id": "COMPLETED"}, "operation": self.task.result()}
        return {"status": {"id": "COMPLETED"}, "operation": {failure_key: failure_cause(ErrorInfo.of(error))}}


class Operations:
    """Operations by kind and job, and by the trigger id that the client chose or was given."""

    def __init__(self, store_duration_ms: int, now_ms: Callable[[], int]) -> None:
        self._store_duration_ms = store_duration_ms
        self._now_ms = now_ms
        self._operations: dict[tuple[str, str], Operation] = {}

    def begin(self, kind: str, trigger_id: str | None, work: Work) -> JsonObject:
        """Starts an operation, unless it was started before; returns the answer of a trigger path. Raises ``RestError`` 503 when too many run."""
        self._forget_old()
        known = self._operations.get((kind, trigger_id)) if trigger_id is not None else None
        if known is not None:
            return {"request-id": known.trigger_id}
        if sum(operation.done_ms is None for operation in self._operations.values()) >= MAX_RUNNING:
            raise RestError(503, f"{MAX_RUNNING} operations are in progress; try again later.")
        operation = Operation(trigger_id or secrets.token_hex(16), asyncio.create_task(work(), name=f"rest-{kind}"))
        operation.task.add_done_callback(lambda _: self._on_done(operation))
        self._operations[kind, operation.trigger_id] = operation
        return {"request-id": operation.trigger_id}

    def find(self, kind: str, trigger_id: str) -> Operation | None:
        self._forget_old()
        return self._operations.get((kind, trigger_id))

    async def close(self) -> None:
        """Cancels all operations, since no client waits for them any longer."""
        tasks = [operation.task for operation in self._operations.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _on_done(self, operation: Operation) -> None:
        operation.done_ms = self._now_ms()
        if not operation.task.cancelled():
            operation.task.exception()  # retrieved, so that asyncio does not log it as unhandled

    def _forget_old(self) -> None:
        limit = self._now_ms() - self._store_duration_ms
        for key in [k for k, op in self._operations.items() if op.done_ms is not None and op.done_ms < limit]:
            del self._operations[key]
