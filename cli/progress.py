"""The progress of an attached `run`: one line that is rewritten on a terminal; elsewhere a line for each
change of state and each tenth checkpoint.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Collection
from types import TracebackType
from typing import TYPE_CHECKING

from tidegate.cli.client import failure_of
from tidegate.cli.restart_notices import RestartNotices
from tidegate.pb import jobmanager_pb2 as pb
from tidegate.wire.task_metrics import failing_commits

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

_RATE_WINDOW_S = 1.0
"""Over how many seconds a rate is measured. Chosen, not measured: with less, it flickers."""
Milestone = tuple[str, str, int | None, tuple[str, ...], int]
_OVER = frozenset({"FAILED", "CANCELED", "FINISHED"})


class Rate:
    """Computes records per second from counts."""

    def __init__(self) -> None:
        self.per_second: float | None = None
        """The rate; ``None`` while it is not known."""
        self._since = time.monotonic()
        self._counted = 0

    def measure(self, records: int) -> None:
        """Updates the rate with the current count."""
        now = time.monotonic()
        if records < self._counted:  # a restart: the counters began anew
            self._since, self._counted = now, records
        elif now - self._since >= _RATE_WINDOW_S:
            self.per_second = (records - self._counted) / (now - self._since)
            self._since, self._counted = now, records


class Progress:
    """Shows statuses of a job. `sources`: the ids of the vertices whose records are counted."""

    def __init__(self, sources: Collection[str], console: Console | None = None) -> None:
        self._sources = sources
        self._given = console
        self._live: Status | None = None
        self._milestone: Milestone | None = None
        """Of the last line, where output is no terminal."""
        self._notices = RestartNotices()
        self._rate = Rate()

    def __enter__(self) -> Progress:
        if self._given is not None or sys.stderr.isatty():
            console = self._console()
            if console.is_terminal:
                self._live = console.status("submitting ...")
                self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def show(self, status: pb.JobStatus) -> None:
        """Shows the newest status."""
        self._rate.measure(records_of(status, self._sources))
        self._tell_restart(status)
        if self._live is not None:
            self._live.update(line_of(status, self._rate.per_second))
            return
        milestone = _milestone_of(status)
        if milestone != self._milestone:
            self._milestone = milestone
            print(line_of(status, None, is_lasting=True), file=sys.stderr, flush=True)

    def _tell_restart(self, status: pb.JobStatus) -> None:
        """Prints why the job restarts, on lines that stay."""
        if status.state in _OVER:
            return
        for notice in self._notices.on_status(status.restarts, status.checkpoints_completed, failure_of(status)):
            style = "bold red" if notice.is_loud else None
            self._console().print(notice.text, markup=False, soft_wrap=True, style=style)

    def _console(self) -> Console:
        if self._given is None:
            # Imported here, when the job is submitted: where output is no terminal, programs would wait for what they do not need.
            from rich.console import Console

            self._given = Console(stderr=True, highlight=False)
        return self._given


def records_of(status: pb.JobStatus, sources: Collection[str]) -> int:
    """Returns the number of records that the sources have read so far."""
    return sum(
        subtask.metrics.records_in
        for vertex in status.vertices
        if vertex.vertex_id in sources
        for subtask in vertex.subtasks
    )


def failing_sinks(status: pb.JobStatus) -> list[str]:
    """Returns the names of sinks whose commits fail, so that readers see nothing new of them."""
    subtasks = [subtask for vertex in status.vertices for subtask in vertex.subtasks]
    return sorted({name for subtask in subtasks for name in failing_commits(subtask.metrics)})


def waiting_of(status: pb.JobStatus, now_ms: int) -> str:
    """Describes what the job waits for, such as `6 of 9 slots; 2 TaskManagers starting for 4 s`."""
    if not status.HasField("starting_since_ms"):
        return status.waiting_for
    return f"{status.waiting_for} for {max(0, now_ms - status.starting_since_ms) // 1000} s"


def _milestone_of(status: pb.JobStatus) -> Milestone:
    """Returns what a line of its own is printed for when it changes: all of the line, but of checkpoints each tenth only."""
    number = status.last_completed.checkpoint_id // 10 if status.HasField("last_completed") else None
    return status.state, status.waiting_for, number, tuple(failing_sinks(status)), status.restarts


def line_of(status: pb.JobStatus, rate: float | None, is_lasting: bool = False) -> str:
    """Returns a line such as `RUNNING  1,234,567 records/s  checkpoint 12  1 restart`. `is_lasting`: the line stays where it is, so it
    has nothing that counts on from moment to moment."""
    parts = [f"{status.name}: {status.state}"]
    if status.waiting_for:
        parts.append(
            f"waiting for {status.waiting_for if is_lasting else waiting_of(status, time.time_ns() // 1_000_000)}"
        )
    if rate is not None:
        parts.append(f"{rate:,.0f} records/s")
    if status.HasField("last_completed"):
        parts.append(f"checkpoint {status.last_completed.checkpoint_id}")
    if status.checkpoints_failed and not is_lasting:
        parts.append(f"{status.checkpoints_failed} failed")
    if failing := failing_sinks(status):
        parts.append(f"commits fail at {', '.join(failing)}")
    if status.restarts:
        parts.append(f"{status.restarts} restart{'s' if status.restarts > 1 else ''}")
    return "  ".join(parts)
