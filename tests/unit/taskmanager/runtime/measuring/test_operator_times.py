"""Each moment of the subtask's thread counts for the operator that it is in."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.unit.taskmanager.runtime.collecting import CollectingSink
from tests.unit.taskmanager.runtime.in_process import InProcessJob
from tests.unit.tidegate.datastream.graph_kit import make_env, numbers
from tidegate.common import Types
from tidegate.pb.common_pb2 import TaskMetrics
from tidegate.taskmanager.runtime.measuring.operator_times import OUTSIDE, OperatorTimers, OperatorTimes
from tidegate.taskmanager.runtime.timers import TimerQueue
from tidegate.wire.convert_deployment import task_metrics_to_pb
from tidegate.wire.task_metrics import ReadingSpan, busy_operators, of_operators


class HandClock:
    def __init__(self) -> None:
        self.at_ms = 100.0

    def now_ms(self) -> int:
        return int(self.at_ms)

    def monotonic_ms(self) -> float:
        return self.at_ms

    def work(self, ms: float) -> None:
        self.at_ms += ms


def test_an_operator_that_emits_is_not_busy_with_what_comes_behind_it() -> None:
    clock = HandClock()
    times = OperatorTimes(2, clock.monotonic_ms)
    clock.work(1)
    outside = times.enter(0)
    clock.work(2)
    first = times.enter(1)
    clock.work(30)
    times.leave(first)
    clock.work(4)
    times.leave(outside)
    clock.work(50)
    times.leave(times.enter(0))
    assert [times.spent_ms(0), times.spent_ms(1), times.spent_ms(OUTSIDE)] == [6, 30, 51]


def test_what_a_timer_does_is_the_work_of_its_operator() -> None:
    clock = HandClock()
    queue, times = TimerQueue(clock), OperatorTimes(2, clock.monotonic_ms)
    timers = OperatorTimers(queue, times, 1)
    timers.schedule(100, lambda at_ms: clock.work(7))
    timers.cancel(timers.schedule(100, lambda at_ms: clock.work(1000)))
    assert queue.fire()
    assert [times.spent_ms(0), times.spent_ms(1)] == [0, 7]


def test_the_busy_operator_of_a_real_chain_is_told_with_the_metrics() -> None:
    with tempfile.TemporaryDirectory(prefix="tg-") as path:
        env = make_env(1)
        light = numbers(env).map(lambda n: n, Types.LONG()).name("light")
        heavy = light.map(lambda n: n + 0 * sum(range(20_000)), Types.LONG()).name("heavy")
        heavy.map(lambda n: n, Types.LONG()).name("last").sink_to(CollectingSink("times"))
        job = InProcessJob(env.build(), Path(path))
        job.start()
        job.finish()
        (counters,) = (task_metrics_to_pb(task.port.last_metrics) for task in job.tasks.values())
    busy = {name: counters.user[f"{name}.accumulateBusyTimeMs"] for name in ("light", "heavy", "last")}
    assert busy["heavy"] > 5 * (busy["light"] + busy["last"]), busy
    assert sum(busy.values()) <= counters.busy_ms + 1


def test_shares_and_rates_are_of_the_time_between_two_reports() -> None:
    def told(heavy_ms: float) -> TaskMetrics:
        return TaskMetrics(user={"heavy.accumulateBusyTimeMs": heavy_ms}, operator_ids={"heavy": "f" * 32})

    span = ReadingSpan(told(100), told(4_100), 5_000, 5_000)
    assert busy_operators(span) == {"heavy": pytest.approx(0.8)}
    assert of_operators(span.later, span)["heavy.busyTimeMsPerSecond"] == pytest.approx(800)
