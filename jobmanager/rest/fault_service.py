"""Injected faults: what can be requested, and what happened to a job after each.

asked (REST, page, `tidegate fault`) ─▶ FaultService ─▶ a TaskManager, or the storage of this process ─▶ MadeFault
                                                    ╰▶ what the job went through since ─▶ ``followed``
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from tidegate.jobmanager.machines.views import JobView
from tidegate.model.checkpoint_travel import subtask_name
from tidegate.model.ids import JobId
from tidegate.model.states import ExecutionState
from tidegate.model.units import show_duration_ms

NOT_ALLOWED = (
    "Faults on purpose are not allowed here: start the JobManager with --allow-faults (tidegate.testing.allow-faults)."
)
MAX_FOLLOWED = 12
"""How many lines of consequences are shown; the exceptions have the rest."""


class FaultKind(Enum):
    """The kinds of faults that a client can inject; the values are the names in REST and on the command line."""

    KILL_SUBTASK = "kill-subtask"
    KILL_TASK_MANAGER = "kill-taskmanager"
    KILL_EXECUTOR = "kill-executor"
    DELAY_CHANNELS = "delay-channels"
    CUT_CHANNELS = "cut-channels"
    DELAY_MESSAGES = "delay-messages"
    DROP_ACKNOWLEDGEMENTS = "drop-acknowledgements"
    SLOW_STATE = "slow-state"
    FULL_STATE = "full-state"
    SKEW_CLOCK = "skew-clock"


@dataclass(frozen=True, slots=True)
class FaultRequest:
    """A request for a fault; fields that its kind does not need are ignored.

    ``vertex``: its id, its name, or a unique part of the name, in any case. ``skew_ms``: by how much a clock is ahead, negative: behind.
    """

    kind: FaultKind
    job_id: JobId | None = None
    vertex: str = ""
    subtask: int = 0
    task_manager: str = ""
    delay_ms: int = 0
    for_ms: int = 0
    count: int = 1
    skew_ms: int = 0


@dataclass(frozen=True, slots=True)
class MadeFault:
    """A fault that was injected. ``job_ids``: the jobs that it can affect."""

    at_ms: int
    kind: FaultKind
    text: str
    job_ids: tuple[JobId, ...]


class FaultService(Protocol):
    """Injects faults for the REST handlers, and lists the injected ones."""

    def made(self) -> Sequence[MadeFault]:
        """Returns the last injected faults, oldest first."""

    async def make(self, requested: FaultRequest) -> MadeFault:
        """Injects a fault. Raises ``TidegateError`` when it cannot."""


def followed(fault: MadeFault, made: Iterable[MadeFault], job: JobView) -> list[str]:
    """Describes what happened to ``job`` from the fault to the next one, oldest first, each line with the time since the fault.

    These are failures, restarts, failed checkpoints, and the first checkpoint that completed after all of them.
    """
    later = [other.at_ms for other in made if other.at_ms > fault.at_ms and job.job_id in other.job_ids]
    until_ms = min(later, default=2**63)
    running = [one for one in _restarts(job) if fault.at_ms <= one[0] < until_ms]
    found = [one for one in (*_failures(job), *_checkpoints(job)) if fault.at_ms <= one[0] < until_ms]
    found += [(max(at_ms for at_ms, _ in running), _together([name for _, name in running]))] if running else []
    bad_until_ms = max((at_ms for at_ms, text in found if not _is_good(text)), default=fault.at_ms)
    good = [one for one in found if _is_good(one[1]) and one[0] >= bad_until_ms]
    shown = sorted([*(one for one in found if not _is_good(one[1])), *sorted(good)[:1]])
    lines = [f"+{show_duration_ms(at_ms - fault.at_ms)}: {text}" for at_ms, text in shown]
    more = len(lines) - MAX_FOLLOWED
    return lines if more <= 0 else [*lines[: MAX_FOLLOWED - 1], f"and {more} more", lines[-1]]


_COMPLETED = "checkpoint {} completed"


def _is_good(text: str) -> bool:
    return text.startswith("checkpoint ") and text.endswith(" completed")


def _failures(job: JobView) -> Iterable[tuple[int, str]]:
    names = {vertex.vertex_id: vertex.name for vertex in job.vertices}
    for failure in job.failures:
        attempt = failure.attempt
        who = "the job" if attempt is None else subtask_name(names.get(attempt.vertex_id, "a task"), attempt.subtask)
        yield failure.at_ms, f"{who} failed: {failure.error.message.splitlines()[0]}"


def _restarts(job: JobView) -> Iterable[tuple[int, str]]:
    """Yields when attempts other than the first began to run, with the names of their subtasks."""
    for vertex in job.vertices:
        for subtask in vertex.subtasks:
            for view in (subtask.current, *subtask.earlier):
                at_ms = view.state_timestamps_ms.get(ExecutionState.RUNNING)
                if at_ms and view.attempt.attempt > 0:
                    yield at_ms, subtask_name(vertex.name, subtask.index)


def _together(names: Sequence[str]) -> str:
    known = list(dict.fromkeys(names))
    more = f" and {len(known) - 3} more" if len(known) > 3 else ""
    return f"running again: {', '.join(known[:3])}{more}"


def _checkpoints(job: JobView) -> Iterable[tuple[int, str]]:
    for view in {view.checkpoint_id: view for view in (*job.checkpoints.beyond, *job.checkpoints.history)}.values():
        if view.end_ms is None:
            continue
        if view.status == "COMPLETED":
            yield view.end_ms, _COMPLETED.format(view.checkpoint_id)
        else:
            yield view.end_ms, f"checkpoint {view.checkpoint_id} failed: {view.failure}"
