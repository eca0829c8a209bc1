"""Finds executors that Spark decommissions and the attempts that run on them.

A decommissioned executor gets no new tasks and waits for its running tasks to end (Spark: ``TaskSchedulerImpl.getExecutorDecommissionState``). A subtask does
not end by itself, so the JobManager moves it (``SubtaskMigration``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from tidegate.model.ids import AttemptId

if TYPE_CHECKING:
    from pyspark import SparkContext

_JavaObject: TypeAlias = Any
"""A Java object as Py4J shows it."""
MOST_TASKS = 8
"""Limit on how many tasks of a stage are looked at; each of our Spark jobs has one task."""


def leaving_executors(context: SparkContext) -> dict[str, int]:
    """Returns the executors that are being decommissioned: executor id -> number of cores."""
    spark: _JavaObject = context._jsc.sc()
    scheduler = spark.taskScheduler()
    found = {}
    for executor in _each(spark.statusStore().executorList(True)):
        name = str(executor.id())
        if scheduler.getExecutorDecommissionState(name).isDefined():
            found[name] = int(executor.totalCores())
    return found


def attempts_on(context: SparkContext, executors: Iterable[str], attempts: Iterable[AttemptId]) -> set[AttemptId]:
    """Returns those of ``attempts`` that run on one of ``executors``. Each attempt's Spark job group is named after it."""
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
    """Yields the elements of a Scala sequence."""
    for index in range(int(sequence.size())):
        yield sequence.apply(index)
