"""The executor that `tidegate run` installs for a program: it submits jobs to a cluster and waits for them, or not."""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import click

from tidegate.cli.client import JobManagerClient, failure_of
from tidegate.cli.errors import cause_in_a_few_lines
from tidegate.cli.job_displays import JobDisplay, jobs_of_cells, show_live
from tidegate.cli.progress import Progress
from tidegate.cli.submission import SubmittedGraph, absolute, make_submission
from tidegate.common.job_execution_result import JobExecutionResult
from tidegate.model.accumulators import UserAccumulator, merged
from tidegate.model.errors import ErrorInfo, ExternalError, TidegateError, UserError
from tidegate.model.graph import JobGraph
from tidegate.model.ids import BlobKey, JobId, VertexId
from tidegate.model.late_records import LateRecords
from tidegate.model.states import ExecutionState, JobState
from tidegate.notebook.display import kernel_shell
from tidegate.pb import jobmanager_pb2 as pb
from tidegate.wire.accumulators import accumulators_from_pb

SNAPSHOT_LIMIT_S = 600.0
"""How long to wait for a snapshot, in seconds: Flink's default of ``execution.checkpointing.timeout``."""


class JobCanceled(UserError):
    """The job was cancelled while the program waited for it."""

    code = "job-canceled"


class SubmittedJob:
    """A job on a cluster, as `JobClient` and the attached run see it."""

    def __init__(self, client: JobManagerClient, graph: JobGraph, settle: Callable[[], None] = lambda: None) -> None:
        """``settle``: called when the job is over; returns when what it has printed is on the terminal."""
        self._client = client
        self._settle = settle
        self._job_id = graph.job_id
        self._graph = graph
        self.name = graph.name
        self.last_status: pb.JobStatus | None = None
        """The last status that ``wait`` saw."""

    @property
    def job_id(self) -> JobId:
        return self._job_id

    def state(self) -> JobState:
        return JobState(self._client.status(self._job_id).state)

    def cancel(self) -> None:
        self._client.cancel(self._job_id)

    def message_when_left(self) -> str:
        """Returns the message for a user who stops waiting: where the job is, and how to reach it."""
        address = self._client.address
        return (
            f"Job {self._job_id} goes on at {address}. `tidegate list -m {address}` shows it, "
            f"`tidegate cancel -m {address} {self._job_id}` ends it; -sae at `tidegate run` cancels it with Ctrl-C."
        )

    def accumulators(self) -> dict[str, UserAccumulator]:
        return _accumulators(self._client.status(self._job_id))

    def savepoint(self, directory: str) -> str:
        """Takes a savepoint; returns its path when it is complete."""
        return self._client.savepoint(self._job_id, absolute(directory) if directory else "", SNAPSHOT_LIMIT_S).path

    def stop_with_savepoint(self, directory: str, drain: bool) -> str:
        """Stops the job with a savepoint; returns its path when the job has FINISHED."""
        place = absolute(directory) if directory else ""
        return self._client.stop(self._job_id, place, drain, SNAPSHOT_LIMIT_S).path

    def secure(self, connection: socket.socket) -> socket.socket:
        return self._client.transport.secure(connection)

    def result_address(self, vertex_id: VertexId) -> str | None:
        """Returns where a collecting sink listens, once it does; ``None``: the job has FINISHED. Works across JobManagers."""
        with closing(self._client.watch_beyond(self._job_id)) as statuses:
            for status in statuses:
                if JobState(status.state).is_terminal:
                    self._result(status)
                    return None
                for subtask in (s for v in status.vertices if v.vertex_id == vertex_id for s in v.subtasks):
                    if subtask.data_address and not ExecutionState(subtask.state).is_terminal:
                        return str(subtask.data_address)
        raise ExternalError(f"the JobManager at {self._client.address} ended before job {self._job_id} did")

    def statuses(self) -> Iterator[pb.JobStatus]:
        """Yields the status now and after each change until the job is over, over a connection of its own. Raises ``Unreachable`` when the
        cluster has ended.
        """
        with self._client.another() as client, closing(client.watch_beyond(self._job_id)) as found:
            yield from found

    def display(self) -> JobDisplay:
        """Returns a view of the job for a notebook."""
        return JobDisplay(self._graph, self._page)

    def show_live(self) -> None:
        """Shows the job in a notebook, until it is over."""
        show_live(self, self.display())

    def _page(self) -> str:
        """Returns the address of the job's page; empty when the JobManager serves none."""
        url = self._client.page_url()
        return f"{url}/#/jobs/{self._job_id}" if url else ""

    def wait(self, progress: Progress | JobDisplay | None = None) -> JobExecutionResult:
        """Waits until the job has ended, also when another JobManager takes over meanwhile. Raises the error of a job that did not finish."""
        with closing(self._client.watch_beyond(self._job_id)) as statuses:
            for status in statuses:
                self.last_status = status
                is_over = JobState(status.state).is_terminal
                if is_over:
                    self._settle()
                if progress is not None:
                    progress.show(status)
                if is_over:
                    if progress is None:
                        tell_late_records(status)
                    return self._result(status)
        raise ExternalError(f"the JobManager at {self._client.address} ended before job {self._job_id} did")

    def _result(self, status: pb.JobStatus) -> JobExecutionResult:
        if status.state == JobState.FINISHED.value:
            return JobExecutionResult(self._job_id, status.end_ms - status.start_ms, _accumulators(status))
        failure = failure_of(status)
        if status.state == JobState.CANCELED.value:
            raise JobCanceled(f"job {self.name!r} ({self._job_id}) was canceled")
        raise job_error(f"job {self.name!r} ({self._job_id}) failed", failure)


def _accumulators(status: pb.JobStatus) -> dict[str, UserAccumulator]:
    return merged([accumulators_from_pb(status.accumulators)])


class ClusterExecutor:
    """Submits jobs to one JobManager. `submitted`: how many jobs the program has submitted."""

    def __init__(
        self,
        client: JobManagerClient,
        restore_path: str = "",
        allow_non_restored_state: bool = False,
        detached: bool = False,
        job_id: JobId | None = None,
        submitted_file: Path | None = None,
        names_async: bool = True,
    ) -> None:
        """Creates an executor.

        `job_id`: the id that the job gets. `submitted_file`: gets the id of each submitted job, a line each. `names_async`: whether the id of a
        job that the program does not wait for is printed, as ``flink run`` does (Flink: ``StreamContextEnvironment.executeAsync``).
        """
        self._client = client
        self._restore_path = restore_path
        self._allow_non_restored_state = allow_non_restored_state
        self._detached = detached
        self._job_id = job_id
        self._submitted_file = submitted_file
        self._names_async = names_async
        self.submitted = 0

    def execute(self, graph: JobGraph, blobs: Mapping[BlobKey, bytes]) -> JobExecutionResult:
        """Submits a job, and waits for it unless detached.

        Ctrl-C and SIGTERM end the wait and leave the job running, as in Flink's command line, unless ``execution.shutdown-on-attached-exit``
        is set: then they cancel it.
        """
        submission = self._make_submission(graph)
        job = self._submit(submission, blobs)
        _tell_submitted(job)
        if self._detached:
            return JobExecutionResult(job.job_id, 0)
        try:
            result = wait_attached(job, submission, cancels=submission.cancels_on_exit)
            click.echo(f"Job with JobID {job.job_id} has finished.\nJob Runtime: {result.net_runtime_ms} ms")
            tell_accumulators(result)
        finally:
            tell_late_records(job.last_status)
        return result

    def execute_async(self, graph: JobGraph, blobs: Mapping[BlobKey, bytes]) -> SubmittedJob:
        job = jobs_of_cells.replacing(lambda: self._submit(self._make_submission(graph), blobs))
        if self._names_async:
            _tell_submitted(job)
        return job

    def _make_submission(self, graph: JobGraph) -> SubmittedGraph:
        if self._job_id is not None:
            graph = replace(graph, job_id=self._job_id)
        return make_submission(graph, self._restore_path, self._allow_non_restored_state)

    def _submit(self, submission: SubmittedGraph, blobs: Mapping[BlobKey, bytes]) -> SubmittedJob:
        submission.print_warnings()
        graph = submission.graph
        self._client.submit(graph, blobs, submission.restore_path, submission.allow_non_restored_state)
        self.submitted += 1
        if self._submitted_file is not None:
            with self._submitted_file.open("a", encoding="utf-8") as file:
                file.write(f"{graph.job_id}\n")
        return SubmittedJob(self._client, graph)


def _tell_submitted(job: SubmittedJob) -> None:
    sys.stdout.flush()
    click.echo(f"Job has been submitted with JobID {job.job_id}")


def tell_accumulators(result: JobExecutionResult) -> None:
    """Prints the accumulators of a job, if it has any, as Flink's CLI does."""
    if result.accumulators:
        click.echo("Accumulator Results:")
    for name, accumulator in result.accumulators.items():
        click.echo(f"- {name} ({type(accumulator).__name__}): {accumulator.shown()}")


def tell_late_records(status: pb.JobStatus | None) -> None:
    """Prints a warning for each operator that dropped late records, which the results lack."""
    for late in status.late_records if status is not None else ():
        sys.stdout.flush()
        click.echo(f"warning: {LateRecords(late.operator, late.dropped, late.dropped_before)}", err=True)


def wait_attached(job: SubmittedJob, submission: SubmittedGraph, *, cancels: bool = True) -> JobExecutionResult:
    """Waits for a job with a progress line. Ctrl-C or SIGTERM ends the wait (``KeyboardInterrupt``).

    If it ``cancels``, they cancel the job and wait for its end first; a second one ends the wait at once.
    """
    sources = {vertex.vertex_id for vertex in submission.graph.vertices if vertex.is_source}
    shown = Progress(sources) if kernel_shell() is None else job.display()
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with shown as progress:
            try:
                return job.wait(progress)
            except KeyboardInterrupt:
                if not cancels:
                    click.echo(job.message_when_left(), err=True)
                    raise
                click.echo(f"cancelling job {job.job_id} ...", err=True)
                job.cancel()
                return job.wait(progress)
    finally:
        signal.signal(signal.SIGTERM, previous)
        if job.last_status is not None and submission.shows_profile:
            # Imported here since programs that ask for no profile would wait for it.
            from rich.console import Console

            from tidegate.cli.profile import show_profile

            show_profile(job.last_status, Console())


def job_error(what: str, failure: ErrorInfo | None) -> TidegateError:
    """Returns the error of a failed job, in a few lines."""
    if failure is None:
        return ExternalError(f"{what}: the JobManager gave no cause")
    error = failure.to_exception()
    return type(error)(f"{what}: {cause_in_a_few_lines(failure)}", details=failure.details)
