"""The way of the slowest barrier, from a source to the subtask that acknowledged last."""

from __future__ import annotations

from tests.unit.jobmanager.machines.cluster_kit import graph, two_stage, vertex, vertex_id
from tidegate.jobmanager.machines.views import CheckpointView
from tidegate.model.checkpoint import CheckpointMetrics, SnapshotType
from tidegate.model.checkpoint_travel import (
    Track,
    critical_path,
    explained,
    job_manager_track,
    kept_aligned,
    subtask_track,
)
from tidegate.model.graph import Partitioner
from tidegate.model.ids import CheckpointId


def track(name: str, index: int, ack_ms: int, waited_for: str = "") -> Track:
    metrics = CheckpointMetrics(start_delay_ms=ack_ms / 2, alignment_ms=ack_ms / 4, waited_for=waited_for)
    return subtask_track(name, (vertex_id(name), index), 1_000, 1_000 + ack_ms, metrics, 10)


def test_it_goes_back_over_the_channel_that_was_waited_for() -> None:
    tracks = [track("source", 0, 5), track("source", 1, 9), track("sink", 0, 20), track("sink", 1, 30, "source (1/2)")]
    assert [found.name for found in critical_path(tracks, two_stage())] == ["source (1)", "sink (2)"]


def test_one_channel_needs_no_name() -> None:
    tracks = [track("source", 0, 5), track("source", 1, 9), track("sink", 0, 20), track("sink", 1, 30)]
    forward = two_stage(partitioner=Partitioner.FORWARD)
    assert [found.name for found in critical_path(tracks, forward)] == ["source (2)", "sink (2)"]


def test_it_begins_where_nothing_is_known() -> None:
    tracks = [track("source", 0, 5), track("sink", 1, 30)]
    assert [found.name for found in critical_path(tracks, two_stage())] == ["sink (2)"]
    assert critical_path([], two_stage()) == []


def test_a_longer_way() -> None:
    three = graph(
        [vertex("source", 1, source=True), vertex("map", 2), vertex("sink", 2)],
        [("source", "map", Partitioner.REBALANCE), ("map", "sink", Partitioner.HASH)],
    )
    tracks = [track("source", 0, 5), track("map", 0, 8), track("map", 1, 12), track("sink", 0, 40, "map (2/2)")]
    assert [found.name for found in critical_path(tracks, three)] == ["source (1)", "map (2)", "sink (1)"]


def test_the_job_manager_has_no_track_before_the_end() -> None:
    begun = CheckpointView(
        CheckpointId(1), "IN_PROGRESS", SnapshotType.CHECKPOINT, True, trigger_ms=1_000, expected=2, sent_ms=1_001
    )
    assert job_manager_track(begun, 30) is None


def test_who_acknowledged_too_late_is_not_said_to_be_missing() -> None:
    view = CheckpointView(
        CheckpointId(1), "FAILED", SnapshotType.CHECKPOINT, True, 1_000, 3, end_ms=1_010, failure="Expired."
    )
    late = [track("source", 0, 50), track("sink", 0, 60)]
    assert explained(view, late, ["sink (2)"], 2_000) == (
        "It failed: Expired; 2 acknowledged too late; no acknowledgement of sink (2)."
    )
    assert explained(view, [*late, track("sink", 1, 70)], [], 2_000) == "It failed: Expired; 3 acknowledged too late."


def test_an_input_that_keeps_the_others_aligned_is_named_where_a_subtask_waited_there() -> None:
    vertices = [vertex("main", 2, source=True), vertex("rules", 1, source=True), vertex("join", 2)]
    edges = [("main", "join", Partitioner.HASH), ("rules", "join", Partitioner.BROADCAST)]
    waited = subtask_track("join", (vertex_id("join"), 0), 1_000, 1_030, CheckpointMetrics(alignment_ms=25), 10)
    tracks = [track("main", 0, 5), waited]
    assert kept_aligned(tracks, graph(vertices, edges)) == (
        "All inputs of join are aligned although unaligned checkpoints are on, since that from rules is broadcast"
    )
    keyed = [("main", "join", Partitioner.HASH), ("rules", "join", Partitioner.HASH)]
    assert kept_aligned(tracks, graph(vertices, keyed)) == ""
    at_once = subtask_track("join", (vertex_id("join"), 0), 1_000, 1_030, CheckpointMetrics(start_delay_ms=25), 10)
    assert kept_aligned([at_once], graph(vertices, edges)) == ""
    assert kept_aligned([], graph(vertices, edges)) == ""
