"""A task that finishes while a checkpoint still waits for it."""

from __future__ import annotations

from tests.unit.jobmanager.machines.cluster_kit import CHECKPOINTED, running_job, until_triggered
from tidegate.jobmanager.machines import commands as c
from tidegate.model.states import ExecutionState as E


def test_a_checkpoint_does_not_wait_for_a_task_that_has_finished() -> None:
    """The trigger reached the source when it was about to end: it was never answered, and nothing else would end the wait."""
    cluster = running_job(configuration=CHECKPOINTED)
    until_triggered(cluster, 1)
    source = cluster.attempt("source")
    cluster.state(source, E.FINISHED)
    aborted = {attempt for abort in cluster.of(c.AbortCheckpoint) for attempt in abort.attempts}
    assert {abort.checkpoint_id for abort in cluster.of(c.AbortCheckpoint)} == {1}
    assert source not in aborted
    assert cluster.attempt("sink") in aborted
    until_triggered(cluster, 2)


def test_a_finished_task_that_had_acknowledged_is_no_reason_to_abort() -> None:
    cluster = running_job(configuration=CHECKPOINTED)
    until_triggered(cluster, 1)
    source = cluster.attempt("source")
    cluster.acknowledge(source, 1)
    cluster.state(source, E.FINISHED)
    assert cluster.of(c.AbortCheckpoint) == []
