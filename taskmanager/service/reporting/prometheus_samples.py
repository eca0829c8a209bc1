"""The metrics of a TaskManager for Prometheus: of the process, and of every task on it (scopes ``taskmanager``, ``taskmanager_job_task`` and
``taskmanager_job_task_operator``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidegate.aio.prometheus import Sample
from tidegate.pb.common_pb2 import TaskMetrics
from tidegate.taskmanager.machines.task_events import SubmittedTask
from tidegate.taskmanager.service.task_executor import TaskExecutor
from tidegate.wire.task_metrics import MAIL_LATENCY, ReadingSpan, named, of_operators

_TASK = "taskmanager_job_task"
_QUANTILES = {"0.5": "median", "0.75": "p75", "0.95": "p95", "0.98": "p98", "0.99": "p99", "0.999": "p999"}


def task_manager_samples(executor: TaskExecutor) -> Iterator[Sample]:
    me = executor.identity
    own = {"host": me.host, "tm_id": me.task_manager_id}
    for name, value in executor.measures.process.items():
        yield Sample("taskmanager", name, own, value)
    for task, readings in executor.measured():
        yield from samples_of(readings.later[1], readings.span(), {**own, **_task_labels(task)})


def samples_of(counters: TaskMetrics, span: ReadingSpan | None, labels: Mapping[str, str]) -> Iterator[Sample]:
    """Yields the samples of one subtask."""
    for name, number in named(counters, span).items():
        if not isinstance(number, str) and not name.startswith(MAIL_LATENCY):
            yield Sample(_TASK, name, labels, number)
    yield from _mail_latency(counters, labels)
    for key, value in of_operators(counters, span).items():
        operator, _, name = key.rpartition(".")
        of_operator = {"operator_id": counters.operator_ids.get(operator, ""), "operator_name": operator}
        yield Sample(f"{_TASK}_operator", name, {**labels, **of_operator}, value)


def _mail_latency(counters: TaskMetrics, labels: Mapping[str, str]) -> Iterator[Sample]:
    """Yields the latency of mails as a histogram, as Flink's reporter writes one."""
    for quantile, part in _QUANTILES.items():
        if (number := counters.figures.get(f"{MAIL_LATENCY}_{part}")) is not None:
            yield Sample(_TASK, MAIL_LATENCY, {**labels, "quantile": quantile}, number)
    yield Sample(_TASK, f"{MAIL_LATENCY}_count", labels, counters.figures.get("mailboxMails", 0.0))


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
