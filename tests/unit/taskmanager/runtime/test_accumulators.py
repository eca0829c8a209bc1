"""Accumulators of functions in running subtasks."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.taskmanager.runtime.collecting import CollectingSink
from tests.unit.taskmanager.runtime.in_process import InProcessJob
from tests.unit.tidegate.datastream.graph_kit import make_env, numbers
from tidegate.common import Types
from tidegate.common.accumulators import AverageAccumulator, Histogram, IntCounter, ListAccumulator
from tidegate.datastream import MapFunction, RuntimeContext
from tidegate.model.accumulators import merged, results
from tidegate.model.errors import InvalidJob
from tidegate.taskmanager.runtime.measuring.subtask_metrics import OperatorMetrics, TaskCounters


@pytest.fixture
def directory() -> Iterator[Path]:
    """Short, since the path of a Unix socket may be 100 characters long."""
    with tempfile.TemporaryDirectory(prefix="tg-") as path:
        yield Path(path)


class Counts(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_int_counter("seen")
        assert runtime_context.get_int_counter("seen") is self.seen
        self.long = runtime_context.get_long_counter("long")
        self.half = runtime_context.get_double_counter("half")
        self.rests = runtime_context.get_histogram("rests")
        self.mean = AverageAccumulator()
        runtime_context.add_accumulator("mean", self.mean)
        self.fifties = ListAccumulator()
        runtime_context.add_accumulator("fifties", self.fifties)
        assert runtime_context.get_accumulator("mean") is self.mean

    def map(self, value: Any) -> Any:
        self.seen.add(1)
        self.long.add(value)
        self.half.add(0.5)
        self.rests.add(value % 3)
        self.mean.add(value)
        if value % 50 == 0:
            self.fifties.add(value)
        return value


class Misnames(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        runtime_context.get_int_counter("seen")
        runtime_context.get_histogram("seen")

    def map(self, value: Any) -> Any:
        return value


def test_every_record_is_counted_once_by_all_subtasks_together(directory: Path) -> None:
    """Two operators of the chain have the same names."""
    env = make_env(2)
    env.enable_checkpointing(3_600_000)
    twice = numbers(env).rebalance().map(Counts(), Types.LONG()).map(Counts(), Types.LONG())
    twice.sink_to(CollectingSink("accumulators"))
    job = InProcessJob(env.build(), directory)
    job.start_failing()
    job.finish()
    found = results(merged(task.port.last_metrics.accumulators for task in job.tasks.values()))
    assert sorted(found.pop("fifties")) == [50, 50, 100, 100]
    assert found == {
        "seen": 200,
        "long": 10_100,
        "half": 100.0,
        "rests": {0: 66, 1: 68, 2: 66},
        "mean": 50.5,
    }


def test_another_type_under_the_name_fails_the_job(directory: Path) -> None:
    env = make_env(1)
    numbers(env).map(Misnames(), Types.LONG()).sink_to(CollectingSink("misnamed"))
    job = InProcessJob(env.build(), directory)
    job.start_failing()
    job.until(lambda: bool(job.errors), "the failure", failing=True)
    job.cut_off()
    assert "accumulator 'seen' of operator" in job.errors[0].message
    assert "is a IntCounter, not a Histogram" in job.errors[0].message


def test_operators_of_one_subtask_agree_about_the_type() -> None:
    counters = TaskCounters()
    OperatorMetrics(counters, "one").accumulate("seen", IntCounter())
    with pytest.raises(InvalidJob, match="IntCounter in one operator and a Histogram in another"):
        OperatorMetrics(counters, "other").accumulate("seen", Histogram())
