"""Executors that Spark decommissions: their machine goes soon, and they take no more tasks (Spark: ``TaskSchedulerImpl.getExecutorDecommissionState``).

An executor waits for its tasks to end before it goes, and a subtask does not end by itself: it has to leave (``Moving`` in the JobManager).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from tidegate.model.ids import AttemptId

if TYPE_CHECKING:
    from pyspark import SparkContext

_JavaObject: TypeAlias = Any
"""As Py4J shows it."""
MOST_TASKS = 8
"""So many of a stage are looked at: a Spark job of ours has one task."""


def leaving_executors(context: SparkContext) -> dict[str, int]:
    """How many cores each has, by its id."""
    spark: _JavaObject = context._jsc.sc()
    scheduler = spark.taskScheduler()
    found = {}
    for executor in _each(spark.statusStore().executorList(True)):
        name = str(executor.id())
        if scheduler.getExecutorDecommissionState(name).isDefined():
            found[name] = int(executor.totalCores())
    return found


def attempts_on(context: SparkContext, executors: Iterable[str], attempts: Iterable[AttemptId]) -> set[AttemptId]:
    """Which of the attempts, whose names are those of their job groups, run there."""
    wanted = set(executors)
    return {attempt for attempt in attempts if not wanted.isdisjoint(_executors_of(context, str(attempt)))}


def _executors_of(context: SparkContext, group: str) -> Iterator[str]:
    tracker, store = context.statusTracker(), context._jsc.sc().statusStore()
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in () if info is None else info.stageIds:
            for task in _each(store.taskList(stage, 0, MOST_TASKS)):
                if str(task.status()) == "RUNNING":
                    yield str(task.executorId())


def _each(sequence: _JavaObject) -> Iterator[_JavaObject]:
    """The elements of a sequence of Scala's."""
    for index in range(int(sequence.size())):
        yield sequence.apply(index)
