"""Batches the acknowledgements of one TaskManager, so that it sends one message for each checkpoint.

    keep ─▶ kept ──all of the job here acknowledged · HOLD_S after the first of them · another message follows──▶ send

A message to the JobManager costs both sides a millisecond of processor time or more, which subtasks that have not acknowledged yet need for the same
checkpoint. The last acknowledgement of a checkpoint is sent at once, with the others (docs/internals/performance.md).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Protocol

from tidegate.model.ids import AttemptId, JobId
from tidegate.pb.common_pb2 import Acknowledgement

HOLD_S = 0.025
"""Seconds for which an acknowledgement waits for others: about what a checkpoint without much state takes."""


class DelayedCall(Protocol):
    """A scheduled call, as ``asyncio.TimerHandle``."""

    def cancel(self) -> None: ...


class AckBatcher:
    """Gathers the acknowledgements of one TaskManager, on its loop's thread. ``send``: sends in order, before any later message. ``call_later``: the loop's."""

    def __init__(
        self,
        send: Callable[[list[Acknowledgement]], None],
        call_later: Callable[[float, Callable[[], None]], DelayedCall],
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._send = send
        self._call_later = call_later
        self._clock_s = clock_s
        self._timer: DelayedCall | None = None
        self._kept: list[tuple[float, Acknowledgement]] = []
        self._missing: dict[JobId, tuple[int, set[AttemptId]]] = {}
        """The newest checkpoint of each job, and the attempts that have not acknowledged it yet."""

    def keep(self, attempt: AttemptId, one: Acknowledgement, here: Callable[[], Iterable[AttemptId]]) -> None:
        """Keeps an acknowledgement until the others of its checkpoint are there. ``here``: returns the subtasks of its job in this TaskManager; called once for
        each checkpoint.
        """
        newest, missing = self._missing.get(attempt.job_id, (0, set()))
        if one.checkpoint_id > newest:
            newest, missing = self._missing[attempt.job_id] = (one.checkpoint_id, set(here()))
        if one.checkpoint_id == newest:
            missing.discard(attempt)
        self._kept.append((self._clock_s(), one))
        if not missing or one.checkpoint_id < newest:  # of several at once the newest is waited for
            self.release()
        elif self._timer is None:
            self._timer = self._call_later(HOLD_S, self.release)

    def release(self) -> None:
        """Sends the kept acknowledgements; each carries how long it waited."""
        kept = self._take()
        now_s = self._clock_s()
        for since_s, one in kept:
            one.held_ms = round(1000 * (now_s - since_s))
        if kept:
            self._send([one for _, one in kept])

    def drop(self) -> None:
        """Drops the kept acknowledgements, since the session has ended."""
        self._take()

    def forget(self, attempt: AttemptId, *, is_last: bool) -> None:
        """Forgets an attempt that is gone. ``is_last``: no other attempt of its job is here."""
        if is_last:
            self._missing.pop(attempt.job_id, None)
        elif attempt.job_id in self._missing:
            self._missing[attempt.job_id][1].discard(attempt)

    def _take(self) -> list[tuple[float, Acknowledgement]]:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        kept, self._kept = self._kept, []
        return kept
