"""Splits that no reader had begun are never lost at a restore."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.jobmanager.machines.cluster_kit import JOB, graph, operator_id, vertex
from tidegate.model.checkpoint import CheckpointManifest, OperatorState, SnapshotType
from tidegate.model.coordinators.operator_events import CoordinatorState, SourceSplit
from tidegate.model.errors import InvalidJob
from tidegate.model.graph import JobGraph
from tidegate.model.ids import CheckpointId
from tidegate.model.restore_check import check_restore

LEFT_OVER = CoordinatorState((SourceSplit("a@0", b""),))
MANIFEST = CheckpointManifest(
    JOB,
    "job",
    CheckpointId(1),
    0,
    SnapshotType.SAVEPOINT,
    (OperatorState(operator_id("source"), "source", "source", 2, 128, coordinator=LEFT_OVER),),
)


def job(splits: tuple[SourceSplit, ...] | None) -> JobGraph:
    source = vertex("source", 2, source=True)
    return graph([replace(source, operators=(replace(source.operators[0], splits=splits),))])


def test_a_source_that_takes_splits_goes_on_with_them() -> None:
    check_restore(job(()), MANIFEST, allow_non_restored=False)


def test_a_source_that_has_its_splits_in_advance_is_refused() -> None:
    with pytest.raises(InvalidJob, match="1 splits in the checkpoint that no reader had begun"):
        check_restore(job(None), MANIFEST, allow_non_restored=True)
