"""Commits of one sink in their order, with retries, in a pool thread, so that a slow system delays nothing else.

    commit(n) ─▶ waiting ─▶ pool thread: try · wait · try again ─▶ mail: done(n), or the error that fails the attempt
                    ▲ all that came meanwhile is tried together next: a system slower than the checkpoints does not fall behind

Without a pool (``OperatorContext.run_async`` is ``None``), and for a committer that must run in the subtask's thread, commits run at once in the calling
thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidegate.connectors.base import Committer
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ExternalError, UserError
from tidegate.model.options import ExecutionOptions
from tidegate.model.values import Committable
from tidegate.taskmanager.operators.operator import OperatorContext, RunAsync
from tidegate.taskmanager.operators.sinks.outages import CommitOutage
from tidegate.taskmanager.operators.user_code.boundary import user_error

FIRST_BACKOFF_S = 0.01
"""Seconds before the first retry; the pause doubles from there. Chosen, not measured."""
MAX_BACKOFF_S = 0.5
"""Most seconds between two retries."""
_SHOWN = 3
"""Most committables that a message names; it counts the others."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    checkpoint_id: int
    committables: Sequence[Committable]
    done: Callable[[int], None]


class Commits:
    """Commits what a sink prepared, in order and with retries; in a pool thread if there is one."""

    def __init__(self, name: str, committer: Committer | None, context: OperatorContext) -> None:
        self._name = name
        self._committer = committer
        self._context = context
        self._retries = Configuration.from_strings(context.configuration).get(ExecutionOptions.SINK_COMMITTER_RETRIES)
        self._outage = CommitOutage(name, context)
        if committer is not None:
            context.metrics.watch("failingCommitTime", self._outage.lasting_ms)
        self._tried: list[_Wanted] = []
        self._waiting: list[_Wanted] = []

    @property
    def is_busy(self) -> bool:
        return bool(self._tried)

    def is_committing(self, checkpoint_id: int) -> bool:
        return any(wanted.checkpoint_id == checkpoint_id for wanted in (*self._tried, *self._waiting))

    def commit(self, checkpoint_id: int, committables: Sequence[Committable], done: Callable[[int], None]) -> None:
        """Commits committables. ``done(checkpoint_id)`` follows in the subtask's thread; a failure fails the attempt."""
        run_async = self._context.background.run_async
        if run_async is None or self._committer is None or self._committer.in_subtask_thread or not committables:
            self.commit_now(checkpoint_id, committables)
            done(checkpoint_id)
            return
        self._waiting.append(_Wanted(checkpoint_id, committables, done))
        if not self._tried:
            self._try_all(run_async)

    def _try_all(self, run_async: RunAsync) -> None:
        """Commits everything that waits, oldest first."""
        tried = self._tried = self._waiting
        self._waiting = []
        committables = [one for wanted in tried for one in wanted.committables]
        failures = 0

        def work() -> None:
            nonlocal failures
            failures = self._try([wanted.checkpoint_id for wanted in tried], committables)

        def ended(error: BaseException | None) -> None:
            self._tried = []
            self._outage.ended(succeeded=error is None)
            if isinstance(error, Exception):
                raise user_error(self._name, error) from error
            if error is not None:
                raise error
            self._count(failures, committables)
            for wanted in tried:
                wanted.done(wanted.checkpoint_id)
            if self._waiting and not self._tried:
                self._try_all(run_async)

        self._outage.begun(_named([wanted.checkpoint_id for wanted in tried]))
        run_async(work, ended)

    def commit_now(self, checkpoint_id: int, committables: Sequence[Committable]) -> None:
        """Commits in the calling thread. Raises the last failure, naming the committables."""
        if self._committer is not None and committables:
            self._outage.begun(_named([checkpoint_id]))
            failures = None
            try:
                failures = self._try([checkpoint_id], committables)
            finally:
                self._outage.ended(succeeded=failures is not None)
            self._count(failures, committables)

    def _count(self, failures: int, committables: Sequence[Committable]) -> None:
        if failures:
            self._context.metrics.add("retriedCommittables", failures * len(committables))
        self._context.metrics.add("successfulCommittables", len(committables))

    def _try(self, checkpoints: Sequence[int], committables: Sequence[Committable]) -> int:
        """Tries to commit until it succeeds or the retries are used up. Returns the number of failures. May run in any thread."""
        assert self._committer is not None
        failures, backoff_s = 0, FIRST_BACKOFF_S
        while True:
            try:
                self._committer.commit(committables)
                return failures
            except ExternalError as error:
                failures += 1
                if failures > self._retries:
                    raise self._given_up(checkpoints, committables, failures, error) from error
                self._outage.failed(error.message)
                threading.Event().wait(backoff_s)
                backoff_s = min(2 * backoff_s, MAX_BACKOFF_S)
            except UserError as error:
                if error.retriable:
                    raise
                raise type(error)(
                    f"operator '{self._name}': what {_held_by(checkpoints)} is refused, and would be again: {error.message}",
                    details=error.details,
                ) from error

    def _given_up(
        self, checkpoints: Sequence[int], committables: Sequence[Committable], failures: int, error: ExternalError
    ) -> ExternalError:
        assert self._committer is not None
        shown = ", ".join(self._committer.name_of(committable) for committable in committables[:_SHOWN])
        more = f" and {len(committables) - _SHOWN} more" if len(committables) > _SHOWN else ""
        return type(error)(
            f"operator '{self._name}': what {_held_by(checkpoints)} ({shown}{more}) could not be committed in "
            f"{failures} attempts: {error.message}",
            details=error.details,
        )


def _named(checkpoints: Sequence[int]) -> str:
    return f"checkpoint{'s' if len(checkpoints) > 1 else ''} {', '.join(map(str, checkpoints))}"


def _held_by(checkpoints: Sequence[int]) -> str:
    return f"{_named(checkpoints)} hold{'s' if len(checkpoints) == 1 else ''}"
