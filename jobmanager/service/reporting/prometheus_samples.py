"""The JobManager's metrics for Prometheus: of the process, the cluster, and every job that is not terminal.

Scopes ``jobmanager`` and ``jobmanager_job``. There are none once another JobManager leads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tidegate.aio.prometheus import Sample
from tidegate.jobmanager.rest.responses.metrics import cluster_metrics, job_metrics
from tidegate.jobmanager.service.core import JobManagerCore


def job_manager_samples(core: JobManagerCore, host: str, now_ms: Callable[[], int]) -> Iterator[Sample]:
    if core.is_deposed:
        return
    own = {"host": host}
    jobs = core.machine.jobs()
    for name, value in {**core.process.look(), **cluster_metrics(core.machine.cluster(), jobs)}.items():
        if not isinstance(value, str):
            yield Sample("jobmanager", name, own, value)
    for job in jobs:
        if job.state.is_terminal:
            continue
        labels = {**own, "job_id": job.job_id, "job_name": job.name}
        for name, value in job_metrics(job, now_ms()).items():
            number = 0 if isinstance(value, str) else value  # as Flink's reporter does; REST has the text
            yield Sample("jobmanager_job", name, labels, number)
