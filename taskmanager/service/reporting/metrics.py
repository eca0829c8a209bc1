"""The figures of a TaskManager for Prometheus: of the process, and of every task that is here (scopes ``taskmanager``,
``taskmanager_job_task`` and ``taskmanager_job_task_operator``)."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.aio.prometheus import Sample
from tidegate.model.deployment import TaskDeployment
from tidegate.taskmanager.service.task_executor import TaskExecutor
from tidegate.wire.task_metrics import named


def task_manager_samples(executor: TaskExecutor) -> Iterator[Sample]:
    me = executor.identity
    own = {"host": me.host, "tm_id": me.task_manager_id}
    for name, value in executor.measures.process.items():
        yield Sample("taskmanager", name, own, value)
    for deployment, readings in executor.measured():
        labels = {**own, **_task_labels(deployment)}
        counters = readings.later[1]
        for name, figure in named(counters, readings.span()).items():
            if not isinstance(figure, str):
                yield Sample("taskmanager_job_task", name, labels, figure)
        for key, value in counters.user.items():
            operator, _, name = key.rpartition(".")
            yield Sample("taskmanager_job_task_operator", name, {**labels, "operator_name": operator}, value)


def _task_labels(deployment: TaskDeployment) -> dict[str, str]:
    attempt = deployment.attempt
    return {
        "job_id": attempt.job_id,
        "job_name": deployment.job_name,
        "task_id": attempt.vertex_id,
        "task_name": deployment.task_name,
        "task_attempt_id": str(attempt),
        "task_attempt_num": str(attempt.attempt),
        "subtask_index": str(attempt.subtask),
    }
