"""Replaces a running job by its next version, and goes back to the old one if that fails.

    last checkpoint ─▶ does the new program read it? ── no ──▶ nothing was touched
                              │ yes
    old program kept here ─▶ stop with a savepoint ─▶ new job from it ─▶ its first checkpoint ─▶ done
                                                          └── fails, or comes to none ─▶ cancelled ─▶ old program from the same savepoint

Sinks commit only with checkpoints, so a version without a completed checkpoint has published nothing, and going back is exact.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, replace

from tidegate.cli.client import JobManagerClient, failure_of
from tidegate.cli.errors import cause_in_a_few_lines
from tidegate.cli.submission import make_submission
from tidegate.model.errors import CorruptData, ExternalError, Misuse, StorageError, TidegateError
from tidegate.model.graph import JobGraph
from tidegate.model.ids import BlobKey, JobId
from tidegate.model.states import JobState
from tidegate.pb import jobmanager_pb2 as pb
from tidegate.state_reader import Checkpoint, open_checkpoint
from tidegate.taskmanager.compatibility.operators import Finding
from tidegate.taskmanager.compatibility.states import StateOutcome

MAX_RESTARTS = 2
"""How often the new version may restart. Chosen, not measured: after a third failure the old one should not be away for longer."""
CHECKPOINTS_TRIED = 5
"""How many checkpoints are tried when they are replaced meanwhile. Chosen, not measured: examining one takes less than a second."""
END_LIMIT_S = 60.0
"""How long a job may take to be CANCELED, in seconds: twice Flink's ``task.cancellation.interval``."""

Program = tuple[JobGraph, dict[BlobKey, bytes]]
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Upgraded:
    """The outcome. ``is_new``: the new version runs; else the old one goes on, and ``reason`` says why."""

    job_id: JobId
    savepoint: str
    is_new: bool
    reason: str = ""


class Upgrade:
    """The upgrade of one job. ``tell`` gets a line for each step."""

    def __init__(self, client: JobManagerClient, job_id: str, timeout_s: float, tell: Tell) -> None:
        self._client = client
        self._job_id = job_id
        self._timeout_s = timeout_s
        self._tell = tell

    def last_checkpoint(self) -> str:
        """Returns the path of the job's last checkpoint; takes one if there is none.

        Raises ``Misuse`` for a job that is over, or whose checkpoints have no files.
        """
        status = self._client.status(self._job_id)
        if JobState(status.state).is_terminal:
            raise Misuse(f"job {self._job_id} is {status.state}: start the new version with `tidegate run -s`")
        if not status.HasField("last_completed"):
            self._client.checkpoint(self._job_id, full=False, timeout_s=self._timeout_s)
            status = self._client.status(self._job_id)
        path = str(status.last_completed.path)
        if not path or path.startswith("memory:"):
            raise Misuse("the job's checkpoints are in the JobManager's memory: set execution.checkpointing.dir for it")
        return path

    def examined(self, examine: Callable[[Checkpoint], list[Finding]]) -> tuple[Checkpoint, list[Finding]]:
        """Opens the last checkpoint and applies ``examine``; if the next checkpoint has replaced it meanwhile, tries that one.

        Raises what ``last_checkpoint`` and ``open_checkpoint`` raise.
        """
        for left in reversed(range(CHECKPOINTS_TRIED)):
            path = self.last_checkpoint()
            try:
                checkpoint = open_checkpoint(path)
                findings = examine(checkpoint)
            except (StorageError, CorruptData):
                if not left or _is_there(path):
                    raise
                continue
            unread = any(StateOutcome.CANNOT_BE_READ.name in finding.outcomes for finding in findings)
            if not left or not unread or _is_there(path):
                return checkpoint, findings
        raise AssertionError("the check of the savepoint ended without a result and without an error")

    def run(self, new: Program, directory: str, *, allow_non_restored_state: bool) -> Upgraded:
        """Stops the job with a savepoint and starts the new version from it, or the old one again.

        Raises errors from before the old job was stopped, and ``ExternalError`` when neither version runs.
        """
        old = self._client.program_of(self._job_id)
        savepoint = self._client.stop(self._job_id, directory, drain=False, timeout_s=self._timeout_s).path
        self._tell(f"Job {self._job_id} is stopped. Savepoint: {savepoint}")
        reason, new_id = "", None
        try:
            submission = make_submission(new[0], savepoint, allow_non_restored_state)
            new_id = self._client.submit(submission.graph, new[1], savepoint, submission.allow_non_restored_state)
            self._tell(f"The new version is job {new_id}.")
            reason = self._why_not(new_id)
        except TidegateError as error:
            reason = error.message
        if new_id is not None and not reason:
            return Upgraded(new_id, savepoint, is_new=True)
        if new_id is not None:
            self._end(new_id, savepoint, reason)
        self._tell(f"Rolling back: {reason}")
        return Upgraded(self._start_old(old, savepoint), savepoint, is_new=False, reason=reason)

    def _why_not(self, job_id: JobId) -> str:
        """Returns why the job has not completed a checkpoint in time; empty when it has, or has finished."""
        until_s, last = time.monotonic() + self._timeout_s, pb.JobStatus()
        with closing(self._client.watch_beyond(job_id)) as statuses:
            for last in statuses:
                if last.checkpoints_completed or last.state == JobState.FINISHED.value:
                    return ""
                if JobState(last.state).is_terminal or last.restarts > MAX_RESTARTS:
                    break
                if time.monotonic() > until_s:
                    return f"the new version has no checkpoint after {self._timeout_s:g} s"
                if _runs(last):
                    left_s = max(1.0, until_s - time.monotonic())
                    with suppress(TidegateError):  # the next status says whether it has failed
                        self._client.checkpoint(job_id, full=False, timeout_s=min(left_s, 10.0))
        failure = failure_of(last)
        return f"the new version failed: {cause_in_a_few_lines(failure) if failure else last.state}"

    def _end(self, job_id: JobId, savepoint: str, reason: str) -> None:
        """Cancels the new version. Raises ``ExternalError`` when it has completed a checkpoint: what was committed with it cannot be taken back."""
        until_s = time.monotonic() + END_LIMIT_S
        if not JobState(self._client.status(job_id).state).is_terminal:
            self._client.cancel(job_id)
        with closing(self._client.watch_beyond(job_id)) as statuses:
            for status in statuses:
                if JobState(status.state).is_terminal or time.monotonic() > until_s:
                    break
        if self._client.checkpoints(job_id).completed:
            raise ExternalError(
                f"{reason}; but it completed a checkpoint while it was cancelled, and its sinks may have committed: decide "
                f"yourself, and start a version with `tidegate run -s {savepoint}`, or from a checkpoint of job {job_id}"
            )

    def _start_old(self, old: Program, savepoint: str) -> JobId:
        graph = replace(old[0], job_id=JobId(secrets.token_hex(16)))
        try:
            return self._client.submit(graph, old[1], savepoint, hidden_in=self._job_id)
        except TidegateError as error:
            raise ExternalError(
                f"the old version cannot be started either: {error.message}; start it with `tidegate run -s {savepoint}`"
            ) from error


def _is_there(path: str) -> bool:
    try:
        open_checkpoint(path)
    except StorageError:
        return False
    except CorruptData:
        return True
    return True


def _runs(status: pb.JobStatus) -> bool:
    counts = [dict(vertex.task_counts) for vertex in status.vertices]
    return bool(counts) and all(set(of) <= {"RUNNING", "FINISHED"} for of in counts)
