"""What was measured is told once, and the last figures stay."""

from __future__ import annotations

from tidegate.model.channel_events import NO_WATERMARK
from tidegate.model.ids import parse_attempt_id
from tidegate.pb.common_pb2 import CheckpointMetrics, TaskMetrics
from tidegate.taskmanager.service.subtasks.metric_store import PendingMetrics
from tidegate.wire.task_metrics import NANOS_PER_MS, named

ATTEMPT = parse_attempt_id(f"{'a' * 32}_{'b' * 32}_0_0")


def test_counters_are_told_once_and_kept() -> None:
    now = [0]
    measures = PendingMetrics(lambda: now[0])
    measures.measured(ATTEMPT, TaskMetrics(records_in=10, busy_ms=5))
    assert measures.take_tasks()[str(ATTEMPT)].records_in == 10
    assert measures.take_tasks() == {}
    now[0] = 2_000
    measures.measured(ATTEMPT, TaskMetrics(records_in=30, busy_ms=1_005))
    [(attempt, readings)] = measures.tasks()
    figures = named(readings.later[1], readings.span())
    assert attempt == ATTEMPT
    assert (figures["numRecordsIn"], figures["numRecordsInPerSecond"], figures["busyTimeMsPerSecond"]) == (30, 10, 500)
    assert figures["currentInputWatermark"] == NO_WATERMARK
    measures.keep_only({ATTEMPT})
    assert len(list(measures.tasks())) == 1
    measures.keep_only(set())
    assert list(measures.tasks()) == []
    assert measures.take_tasks() == {}


def test_how_the_last_checkpoint_went_travels_with_the_counters() -> None:
    measures = PendingMetrics(lambda: 0)
    measures.measured(ATTEMPT, TaskMetrics())
    assert "checkpointAlignmentTime" not in named(measures.take_tasks()[str(ATTEMPT)], None)
    measures.acknowledged(ATTEMPT, CheckpointMetrics(alignment_ms=1.5, start_delay_ms=0.25))
    measures.measured(ATTEMPT, TaskMetrics())
    figures = named(measures.take_tasks()[str(ATTEMPT)], None)
    assert figures["checkpointAlignmentTime"] == 1.5 * NANOS_PER_MS
    assert figures["checkpointStartDelayNanos"] == 0.25 * NANOS_PER_MS


def test_figures_of_the_process_are_told_once_and_kept() -> None:
    measures = PendingMetrics(lambda: 0)
    assert measures.take_process() == {}
    measures.process_measured({"Status.JVM.Threads.Count": 5.0})
    assert measures.take_process() == {"Status.JVM.Threads.Count": 5.0}
    assert measures.take_process() == {}
    assert measures.process == {"Status.JVM.Threads.Count": 5.0}
