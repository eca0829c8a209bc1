"""The figures of a TaskManager for Prometheus: of the process, and of every task that is here (scopes ``taskmanager``,
``taskmanager_job_task`` and ``taskmanager_job_task_operator``)."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.aio.prometheus import Sample
from tidegate.taskmanager.machines.task_events import SubmittedTask
from tidegate.taskmanager.service.task_executor import TaskExecutor
from tidegate.wire.task_metrics import named


def task_manager_samples(executor: TaskExecutor) -> Iterator[Sample]:
    me = executor.identity
    own = {"host": me.host, "tm_id": me.task_manager_id}
    for name, value in executor.measures.process.items():
        yield Sample("taskmanager", name, own, value)
    for task, readings in executor.measured():
        labels = {**own, **_task_labels(task)}
        counters = readings.later[1]
        for name, figure in named(counters, readings.span()).items():
            if not isinstance(figure, str):
                yield Sample("taskmanager_job_task", name, labels, figure)
        for key, value in counters.user.items():
            operator, _, name = key.rpartition(".")
            yield Sample("taskmanager_job_task_operator", name, {**labels, "operator_name": operator}, value)


def _task_labels(task: SubmittedTask) -> dict[str, str]:
    attempt = task.attempt
    return {
        "job_id": attempt.job_id,
        "job_name": task.job_name,
        "task_id": attempt.vertex_id,
        "task_name": task.task_name,
        "task_attempt_id": str(attempt),
        "task_attempt_num": str(attempt.attempt),
        "subtask_index": str(attempt.subtask),
    }
