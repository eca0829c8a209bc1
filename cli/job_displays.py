"""Jobs in a notebook: the live view of a running job, and the jobs of a cell that is run again.

env.execute()            a view instead of the lines of `Progress`, replaced while the cell waits
client (JobClient)       a view that a thread keeps up to date until the job is over
the same cell once more  jobs that its last run has left running are cancelled first
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Protocol, TypeVar

import click

from tidegate.cli.progress import Rate, line_of, records_of
from tidegate.model.errors import TidegateError
from tidegate.model.graph import JobGraph
from tidegate.model.ids import JobId
from tidegate.model.states import JobState
from tidegate.notebook.display import LiveDisplay, kernel_shell
from tidegate.notebook.graph_svg import DrawnEdge
from tidegate.notebook.job_view import job_html
from tidegate.pb import jobmanager_pb2 as pb


class RunningJob(Protocol):
    """A submitted job, as a view and a cell see it."""

    @property
    def job_id(self) -> JobId:
        """The id of the job."""

    def state(self) -> JobState:
        """Returns the state in which the job is."""

    def cancel(self) -> None:
        """Cancels the job."""

    def wait(self) -> object:
        """Waits until the job is over. Raises its error when it did not finish."""

    def statuses(self) -> Iterator[pb.JobStatus]:
        """Yields the status now and after each change until the job is over."""


Job = TypeVar("Job", bound=RunningJob)


class JobDisplay:
    """The view of one job in a notebook, in place of `Progress`; it is updated with statuses likewise."""

    def __init__(self, graph: JobGraph, page: Callable[[], str], display: LiveDisplay | None = None) -> None:
        self._edges = [DrawnEdge(edge.source, edge.target, edge.partitioner.value) for edge in graph.edges]
        self._sources = frozenset(vertex.vertex_id for vertex in graph.vertices if vertex.is_source)
        self._page = page
        self._address: str | None = None
        self._rate = Rate()
        self._display = display or LiveDisplay()

    def __enter__(self) -> JobDisplay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leaves the view as it is."""

    def show(self, status: pb.JobStatus) -> None:
        """Shows the newest status."""
        self._rate.measure(records_of(status, self._sources))
        is_over = JobState(status.state).is_terminal
        if not (is_over or self._display.is_due()):
            return
        if self._address is None:
            self._address = self._page()
        rate = None if is_over else self._rate.per_second
        now_ms = time.time_ns() // 1_000_000
        html = job_html(status, self._edges, self._sources, rate, self._address, now_ms)
        self._display.update(html, line_of(status, rate), is_last=is_over)


def show_live(job: RunningJob, display: JobDisplay) -> None:
    """Shows a job, and updates the view until the job is over."""

    def follow(statuses: Iterator[pb.JobStatus]) -> None:
        with suppress(TidegateError):  # its cluster has ended: the view stays as it is
            for status in statuses:
                display.show(status)

    statuses = job.statuses()
    first = next(statuses, None)
    if first is None:
        return
    display.show(first)
    threading.Thread(target=follow, args=(statuses,), name="tidegate-job-view", daemon=True).start()


class JobsOfCells:
    """The jobs that notebook cells have left running. ``shell``: returns the IPython shell of this process; ``None``: it is no notebook."""

    def __init__(self, shell: Callable[[], Any | None] = kernel_shell) -> None:
        self._shell = shell
        self._runs: dict[str, tuple[str, list[RunningJob]]] = {}

    def replacing(self, submit: Callable[[], Job]) -> Job:
        """Submits a job that keeps running after its notebook cell has ended, after cancelling the running jobs of an earlier run of this cell."""
        self._cancel_replaced()
        job = submit()
        self._add(job)
        return job

    def _cancel_replaced(self) -> None:
        cell = self._cell()
        if cell is None:
            return
        cell_id, run = cell
        known, jobs = self._runs.get(cell_id, ("", []))
        if known == run:
            return
        self._runs[cell_id] = (run, [])
        for job in jobs:
            with suppress(TidegateError):  # its cluster has ended, or has forgotten it
                if not job.state().is_terminal:
                    click.echo(f"cancelling job {job.job_id} of the last run of this cell ...", err=True)
                    job.cancel()
                    job.wait()

    def _add(self, job: RunningJob) -> None:
        cell = self._cell()
        if cell is not None:
            cell_id, run = cell
            known, jobs = self._runs.get(cell_id, (run, []))
            self._runs[cell_id] = (run, [*(jobs if known == run else []), job])

    def _cell(self) -> tuple[str, str] | None:
        """Returns the id of the running cell, and that of this run of it. Frontends send a cell's id with the request (``cellId``: Jupyter, VS
        Code).
        """
        shell = self._shell()
        if shell is None:
            return None
        parent = shell.get_parent()
        cell_id = parent.get("metadata", {}).get("cellId", "")
        return (cell_id, parent.get("header", {}).get("msg_id", "")) if cell_id else None


jobs_of_cells = JobsOfCells()
