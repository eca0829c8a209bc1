"""The executor of programs that run by themselves: their jobs go to an embedded cluster, one for all jobs of the process.

python job.py            LocalClusterExecutor, found by name when nothing else is installed
tidegate run --local     the same, installed by the command
"""

from __future__ import annotations

from collections.abc import Mapping

import click

from tidegate.cli.embedded.process_clusters import clusters_of_this_process
from tidegate.cli.executor import SubmittedJob, tell_late_records, wait_attached
from tidegate.cli.job_displays import jobs_of_cells
from tidegate.cli.submission import SubmittedGraph, make_submission
from tidegate.common.job_execution_result import JobExecutionResult
from tidegate.model.graph import JobGraph
from tidegate.model.ids import BlobKey


class LocalClusterExecutor:
    """Submits jobs to the cluster of this process, which the first job starts."""

    def __init__(self, restore_path: str = "", allow_non_restored_state: bool = False) -> None:
        self._restore_path = restore_path
        self._allow_non_restored_state = allow_non_restored_state
        self.submitted = 0

    def execute(self, graph: JobGraph, blobs: Mapping[BlobKey, bytes]) -> JobExecutionResult:
        """Runs the job to its end. Raises its error when it does not finish."""
        submission = self._make_submission(graph)
        job = self._submit(submission, blobs)
        click.echo(f"Job has been submitted with JobID {job.job_id}", err=True)
        try:
            result = wait_attached(job, submission)
            click.echo(f"Job with JobID {job.job_id} has finished in {result.net_runtime_ms} ms", err=True)
        finally:
            tell_late_records(job.last_status)
        return result

    def execute_async(self, graph: JobGraph, blobs: Mapping[BlobKey, bytes]) -> SubmittedJob:
        """Submits the job and returns at once; its cluster ends with this process, whether the job is over or not."""
        return jobs_of_cells.replacing(lambda: self._submit(self._make_submission(graph), blobs))

    def _make_submission(self, graph: JobGraph) -> SubmittedGraph:
        return make_submission(graph, self._restore_path, self._allow_non_restored_state)

    def _submit(self, submission: SubmittedGraph, blobs: Mapping[BlobKey, bytes]) -> SubmittedJob:
        submission.print_warnings()
        graph = submission.graph
        client, settle = clusters_of_this_process().submit(
            graph, blobs, submission.restore_path, submission.allow_non_restored_state, submission.of_processes
        )
        self.submitted += 1
        return SubmittedJob(client, graph, settle)
