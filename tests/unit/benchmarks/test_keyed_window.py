"""What the window benchmark tells of a checkpoint's phases."""

from __future__ import annotations

from benchmarks.keyed_window import add_phases
from tidegate.pb import common_pb2
from tidegate.pb import jobmanager_pb2 as pb


def subtask(vertex_id: str, barrier_ms: int, ack_ms: int) -> pb.SubtaskCheckpoint:
    metrics = common_pb2.CheckpointMetrics(barrier_timestamp_ms=barrier_ms, async_ms=3.0)
    return pb.SubtaskCheckpoint(vertex_id=vertex_id, metrics=metrics, ack_ms=ack_ms)


def test_the_slowest_subtask_of_each_vertex_counts() -> None:
    found: dict[str, list[float]] = {}
    subtasks = [subtask("a", 105, 110), subtask("a", 107, 109), subtask("b", 112, 130), subtask("b", 120, 125)]
    add_phases(pb.CheckpointStatus(trigger_ms=100, completed_ms=137, subtasks=subtasks), found)
    assert found["source: trigger to its barrier"] == [7.0]
    assert found["window and sink: trigger to its barrier"] == [20.0]
    assert found["window and sink: trigger to acknowledgement"] == [30.0]
    assert found["last acknowledgement to durable _metadata"] == [7.0]


def test_a_checkpoint_behind_the_end_of_the_sources_is_left_out() -> None:
    found: dict[str, list[float]] = {}
    add_phases(pb.CheckpointStatus(trigger_ms=100, completed_ms=137, subtasks=[subtask("b", 112, 130)]), found)
    assert found == {}
