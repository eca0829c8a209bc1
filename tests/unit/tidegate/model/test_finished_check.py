"""What had finished in a checkpoint must not get data again in the job that starts from it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.jobmanager.machines.cluster_kit import JOB, graph, operator_id, vertex
from tidegate.model.checkpoint import CheckpointManifest, OperatorState, SnapshotType
from tidegate.model.errors import InvalidJob
from tidegate.model.graph import Partitioner
from tidegate.model.ids import CheckpointId
from tidegate.model.restore_check import check_restore

RUNNING, PARTLY, FULLY = frozenset[int](), frozenset({1}), frozenset({0, 1})
HASH, FORWARD = Partitioner.HASH, Partitioner.FORWARD


@pytest.mark.parametrize(
    ("source", "target", "partitioner", "fits"),
    [
        (RUNNING, RUNNING, HASH, True),
        (FULLY, RUNNING, HASH, True),
        (PARTLY, RUNNING, HASH, True),
        (FULLY, FULLY, HASH, True),
        (PARTLY, FULLY, HASH, False),
        (RUNNING, FULLY, HASH, False),
        (RUNNING, FULLY, FORWARD, False),
        (PARTLY, FULLY, FORWARD, False),
        (FULLY, PARTLY, HASH, True),
        (PARTLY, PARTLY, HASH, False),
        (PARTLY, PARTLY, FORWARD, True),
        (RUNNING, PARTLY, FORWARD, False),
        (FULLY, PARTLY, FORWARD, True),
    ],
)
def test_who_may_feed_a_finished_vertex(
    source: frozenset[int], target: frozenset[int], partitioner: Partitioner, fits: bool
) -> None:
    job = graph([vertex("source", 2, source=True), vertex("sink", 2)], [("source", "sink", partitioner)])
    states = tuple(
        OperatorState(operator_id(name), name, name, 2, 128, {}, finished)
        for name, finished in (("source", source), ("sink", target))
    )
    manifest = CheckpointManifest(JOB, "job", CheckpointId(1), 0, SnapshotType.CHECKPOINT, states)
    if fits:
        check_restore(job, manifest, allow_non_restored=False)
        return
    with pytest.raises(InvalidJob, match="it would get data after its end"):
        check_restore(job, manifest, allow_non_restored=True)


def test_a_new_source_cannot_feed_what_is_over() -> None:
    job = graph(
        [vertex("source", 2, source=True), vertex("new", 1, source=True), vertex("sink", 2)],
        [("source", "sink", HASH), ("new", "sink", HASH)],
    )
    states = tuple(OperatorState(operator_id(name), name, name, 2, 128, {}, FULLY) for name in ("source", "sink"))
    manifest = CheckpointManifest(JOB, "job", CheckpointId(1), 0, SnapshotType.CHECKPOINT, states)
    with pytest.raises(InvalidJob, match="its producer 'new' is all running"):
        check_restore(job, manifest, allow_non_restored=False)


def test_operators_that_had_not_finished_alike_cannot_be_chained() -> None:
    job = graph([vertex("source", 2, source=True)])
    merged = graph([vertex("source", 2, source=True), vertex("map", 2)])
    chained = job.vertices[0].operators + merged.vertices[1].operators
    states = (
        OperatorState(operator_id("source"), "source", "source", 2, 128, {}, FULLY),
        OperatorState(operator_id("map"), "map", "map", 2, 128, {}, RUNNING),
    )
    manifest = CheckpointManifest(JOB, "job", CheckpointId(1), 0, SnapshotType.CHECKPOINT, states)
    with pytest.raises(InvalidJob, match="had not finished alike"):
        check_restore(
            replace(job, vertices=(replace(job.vertices[0], operators=chained),)), manifest, allow_non_restored=False
        )
