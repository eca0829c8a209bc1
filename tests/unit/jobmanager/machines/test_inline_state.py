"""Inline state leaves the JobManager's memory once ``_metadata`` holds it, and only then."""

from __future__ import annotations

import pytest

from tests.unit.jobmanager.machines.cluster_kit import checkpointed, operator_id
from tidegate.jobmanager.machines import commands as c
from tidegate.jobmanager.machines import events as e
from tidegate.model.checkpoint import (
    OperatorSnapshot,
    OperatorStateHandle,
    StateHandle,
    StateRedistribution,
    SubtaskSnapshot,
)
from tidegate.model.handles.inline_state import needs_inline_state
from tidegate.model.states import ExecutionState

INLINE = OperatorStateHandle("splits", StateRedistribution.SPLIT, 1, StateHandle(3, "0" * 16, data=b"abc"))
SNAPSHOT = SubtaskSnapshot({operator_id("source"): OperatorSnapshot((), (INLINE,))})


@pytest.mark.parametrize("holds_inline_state", [True, False])
def test_a_restored_task_lacks_what_metadata_holds(holds_inline_state: bool) -> None:
    cluster = checkpointed()
    cluster.writes_manifests = False
    for attempt in cluster.attempts(ExecutionState.RUNNING, of="source"):
        cluster.acknowledge(attempt, 1, SNAPSHOT)
    for attempt in cluster.attempts(ExecutionState.RUNNING, of="sink"):
        cluster.acknowledge(attempt, 1)
    (write,) = cluster.of(c.WriteManifest)
    assert all(h.data == b"abc" for s in write.manifest.operators[0].subtasks.values() for h in s.handles)
    cluster.tell(e.ManifestWritten(write.job_id, write.checkpoint_id, 9, holds_inline_state=holds_inline_state))
    cluster.fail(cluster.attempt("source"))
    cluster.cancel_tasks()
    cluster.pass_time(10_000)
    again = [call.deployment for call in cluster.of(c.SubmitTask) if call.deployment.attempt.attempt == 1]
    restores = [d.restore for d in again if d.is_source]
    assert len(restores) == 2
    for restore in restores:
        assert restore is not None
        assert restore.location == write.location
        (handle,) = restore.operators[operator_id("source")].operator
        assert (handle.handle.size_bytes, handle.handle.checksum) == (3, "0" * 16)
        assert needs_inline_state(restore) == holds_inline_state
        assert handle.handle.data == (None if holds_inline_state else b"abc")
