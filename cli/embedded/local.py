"""The executor of programs that run by themselves: their jobs go to an embedded cluster, one for all jobs of the process.

python job.py            LocalClusterExecutor, found by name when nothing else is installed
tidegate run --local     the same, installed by the command
"""

from __future__ import annotations

from collections.abc import Mapping

import click

from tidegate.cli.embedded.process_clusters import clusters_of_this_process
from tidegate.cli.executor import (
    SubmittedJob,
    restore_of,
    tell_late_records,
    tell_warnings,
    wait_attached,
    with_absolute_directories,
)
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
        job = self.execute_async(graph, blobs)
        click.echo(f"Job has been submitted with JobID {job.job_id}", err=True)
        try:
            result = wait_attached(job, graph)
            click.echo(f"Job with JobID {job.job_id} has finished in {result.net_runtime_ms} ms", err=True)
        finally:
            tell_late_records(job.last_status)
        return result

    def execute_async(self, graph: JobGraph, blobs: Mapping[BlobKey, bytes]) -> SubmittedJob:
        """Submits the job and returns at once; its cluster ends with this process, whether the job is over or not."""
        graph = with_absolute_directories(graph)
        tell_warnings(graph)
        restore = restore_of(graph, self._restore_path, self._allow_non_restored_state)
        client = clusters_of_this_process().submit(graph, blobs, *restore)
        self.submitted += 1
        return SubmittedJob(client, graph.job_id, graph.name)
