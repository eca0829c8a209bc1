"""Scenarios of Flink's ``CheckpointCoordinatorTest``, by sentence; docs/scenarios.md says which test stands for which."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.jobmanager.machines.cluster_kit import (
    CHECKPOINTED,
    JOB,
    Cluster,
    P,
    checkpointed,
    graph,
    operator_id,
    running_job,
    until_triggered,
    vertex,
)
from tidegate.jobmanager.machines import commands as c
from tidegate.jobmanager.machines import events as e
from tidegate.model.checkpoint import (
    CheckpointMetrics,
    OperatorSnapshot,
    OperatorStateHandle,
    SnapshotType,
    StateHandle,
    StateRedistribution,
    SubtaskSnapshot,
)
from tidegate.model.errors import ErrorInfo, StorageError
from tidegate.model.graph import Partitioner
from tidegate.model.ids import CheckpointId, JobId
from tidegate.model.states import ExecutionState as E
from tidegate.model.states import JobState as J

FULL = ErrorInfo.of(StorageError("No space left on device"))


def ask(cluster: Cluster, name: str, kind: SnapshotType = SnapshotType.SAVEPOINT) -> list[c.Command]:
    return cluster.tell(e.SnapshotRequested(JOB, name, kind, "/sp")) + cluster.settle()


def triggered(cluster: Cluster) -> list[int]:
    return [t.checkpoint_id for t in cluster.of(c.TriggerCheckpoint)]


def confirmed(cluster: Cluster) -> list[int]:
    return [x.checkpoint_id for x in cluster.of(c.ConfirmCheckpoint)]


def timeouts(cluster: Cluster) -> list[str]:
    return sorted(name.rpartition("/")[2] for name in cluster.timers if "timeout" in name)


def naming(*paths: str) -> SubtaskSnapshot:
    """State in shared files."""
    handles = (StateHandle(1, "", path=path, is_shared=True) for path in paths)
    states = tuple(OperatorStateHandle("s", StateRedistribution.SPLIT, 1, handle) for handle in handles)
    return SubtaskSnapshot({operator_id("sink"): OperatorSnapshot(operator=states)})


def test_a_checkpoint_that_all_tasks_acknowledge_is_complete_confirmed_once_and_the_next_has_the_next_id() -> None:
    cluster = checkpointed()
    assert timeouts(cluster) == ["1"]
    for attempt in cluster.attempts()[:-1]:
        assert not cluster.of(c.WriteManifest, cluster.acknowledge(attempt, 1))
    cluster.acknowledge(cluster.attempts()[-1], 1)
    assert confirmed(cluster) == [1]
    assert timeouts(cluster) == []
    assert cluster.checkpoints().in_progress == 0
    until_triggered(cluster, 2)
    cluster.complete_checkpoint(2)
    assert (triggered(cluster), confirmed(cluster)) == ([1, 2], [1, 2])
    assert cluster.checkpoints().latest_completed_id == 2


def test_when_the_older_of_two_pending_is_declined_the_newer_goes_on_with_its_own_timer() -> None:
    cluster = checkpointed(max_concurrent_checkpoints="2", tolerable_failed_checkpoints="5")
    until_triggered(cluster, 2)
    cluster.acknowledge(cluster.attempt("sink", 1), 2)
    commands = cluster.decline(cluster.attempt("sink", 0), 1)
    assert [a.checkpoint_id for a in cluster.of(c.AbortCheckpoint, commands)] == [1]
    assert "2" in timeouts(cluster)
    assert "1" not in timeouts(cluster)
    assert not cluster.of(c.AbortCheckpoint, cluster.decline(cluster.attempt("sink", 1), 1))
    for attempt in cluster.attempts():
        cluster.acknowledge(attempt, 2)
    assert 2 in confirmed(cluster)


def test_two_checkpoints_whose_acknowledgements_are_interleaved_complete_in_order() -> None:
    cluster = checkpointed(max_concurrent_checkpoints="2")
    until_triggered(cluster, 2)
    first, second, third, fourth = cluster.attempts()
    for attempt, number in (
        (first, 1),
        (first, 2),
        (second, 1),
        (third, 2),
        (third, 1),
        (second, 2),
        (fourth, 1),
        (fourth, 2),
    ):
        cluster.acknowledge(attempt, number)
    assert confirmed(cluster)[:2] == [1, 2]


def test_a_checkpoint_that_expires_drops_what_was_acknowledged_and_is_never_confirmed() -> None:
    cluster = checkpointed(timeout="500 ms", tolerable_failed_checkpoints="5")
    cluster.acknowledge(cluster.attempt("source"), 1, naming("/shared/f"))
    commands = cluster.pass_time(500)
    assert [a.checkpoint_id for a in cluster.of(c.AbortCheckpoint, commands)] == [1]
    assert [d.checkpoint_id for d in cluster.of(c.DiscardCheckpoint, commands)] == [1]
    assert [d.paths for d in cluster.of(c.DiscardSharedFiles, commands)] == [("/shared/f",)]
    cluster.acknowledge(cluster.attempt("sink"), 1)
    assert 1 not in confirmed(cluster)
    assert cluster.checkpoints().history[-1].failure == "Checkpoint expired before completing."


def test_messages_for_an_unknown_checkpoint_or_an_unknown_job_are_ignored() -> None:
    cluster = checkpointed()
    stranger = replace(cluster.attempt("sink"), job_id=JobId("f" * 32))
    for attempt, number in ((cluster.attempt("sink"), 30_078), (stranger, 1)):
        assert not cluster.of(c.AbortCheckpoint, cluster.decline(attempt, number))
        assert not cluster.of(c.WriteManifest, cluster.acknowledge(attempt, number))
    assert cluster.checkpoints().in_progress == 1
    assert cluster.job_state() is J.RUNNING
    cluster.complete_checkpoint(1)
    assert confirmed(cluster) == [1]


def test_state_of_late_and_unknown_acknowledgements_is_deleted_and_duplicates_delete_nothing() -> None:
    cluster = checkpointed(incremental="true", tolerable_failed_checkpoints="5")
    sink, unknown = cluster.attempt("sink"), replace(cluster.attempt("sink"), attempt=9)
    assert not cluster.of(c.DiscardSharedFiles, cluster.acknowledge(sink, 1, naming("/shared/live")))
    assert not cluster.of(c.DiscardSharedFiles, cluster.acknowledge(sink, 1, naming("/shared/live"))), "a duplicate"
    deleted = [
        d.paths for d in cluster.of(c.DiscardSharedFiles, cluster.acknowledge(unknown, 1, naming("/shared/strange")))
    ]
    assert deleted == [("/shared/strange",)]
    commands = cluster.decline(cluster.attempt("source"), 1)
    assert [d.paths for d in cluster.of(c.DiscardSharedFiles, commands)] == [("/shared/live",)]
    late = cluster.acknowledge(cluster.attempt("sink", 1), 1, naming("/shared/late"))
    assert [d.paths for d in cluster.of(c.DiscardSharedFiles, late)] == [("/shared/late",)]
    assert [d.checkpoint_id for d in cluster.of(c.DiscardCheckpoint, late)] == [1], "files of its own as well"


@pytest.mark.parametrize("most", [1, 2, 5])
def test_never_more_than_so_many_are_pending_and_a_place_that_becomes_free_is_filled_at_once(most: int) -> None:
    cluster = checkpointed(max_concurrent_checkpoints=str(most))
    cluster.pass_time(1_000 * (most + 3))
    assert triggered(cluster) == list(range(1, most + 1))
    commands = cluster.complete_checkpoint(1)
    assert [t.checkpoint_id for t in cluster.of(c.TriggerCheckpoint, commands)] == [most + 1]
    assert cluster.checkpoints().in_progress == most


def test_a_completion_that_subsumes_another_frees_two_places() -> None:
    cluster = checkpointed(max_concurrent_checkpoints="2")
    cluster.pass_time(6_000)
    assert triggered(cluster) == [1, 2]
    cluster.complete_checkpoint(2)
    assert triggered(cluster) == [1, 2, 3, 4]


def test_savepoints_mind_neither_the_pause_nor_the_number_of_pending_ones() -> None:
    cluster = running_job(configuration={f"{P}.interval": "1 h", f"{P}.min-pause": "1 h"})
    for number in range(1, 5):
        ask(cluster, f"sp-{number}")
    assert triggered(cluster) == [1, 2, 3, 4]
    for number in range(1, 5):
        cluster.complete_checkpoint(number)
    assert [r.path for r in cluster.of(c.ReportSnapshot)] == [f"/cp/chk-{n}" for n in range(1, 5)]
    ask(cluster, "again")
    assert triggered(cluster)[-1] == 5, "though one has just been completed"


def test_a_pending_savepoint_survives_newer_checkpoints_and_newer_savepoints() -> None:
    cluster = checkpointed(max_concurrent_checkpoints="3")
    ask(cluster, "old")
    ask(cluster, "new")
    assert triggered(cluster) == [1, 2, 3]
    cluster.complete_checkpoint(3)
    assert [r.request_id for r in cluster.of(c.ReportSnapshot)] == ["new"]
    assert not cluster.of(c.AbortCheckpoint), "a savepoint subsumes nothing, not even checkpoint 1"
    cluster.complete_checkpoint(1)
    until_triggered(cluster, 4)
    cluster.complete_checkpoint(4)
    assert not cluster.of(c.AbortCheckpoint)
    cluster.complete_checkpoint(2)
    assert [(r.request_id, r.error) for r in cluster.of(c.ReportSnapshot)] == [("new", None), ("old", None)]


def test_an_abort_carries_the_latest_completed_id() -> None:
    cluster = checkpointed(tolerable_failed_checkpoints="5")
    cluster.complete_checkpoint(1)
    until_triggered(cluster, 2)
    [abort] = cluster.of(c.AbortCheckpoint, cluster.decline(cluster.attempt("sink"), 2))
    assert (abort.checkpoint_id, abort.latest_completed_id) == (2, 1)
    ask(cluster, "savepoint")
    cluster.complete_checkpoint(3)
    until_triggered(cluster, 4)
    [abort] = cluster.of(c.AbortCheckpoint, cluster.decline(cluster.attempt("sink"), 4))
    assert (abort.checkpoint_id, abort.latest_completed_id) == (4, 1), "a savepoint was confirmed to nobody"


def test_a_checkpoint_that_could_not_be_stored_is_removed_and_the_one_before_it_stays() -> None:
    cluster = checkpointed(tolerable_failed_checkpoints="5")
    cluster.complete_checkpoint(1)
    until_triggered(cluster, 2)
    cluster.writes_manifests = False
    cluster.complete_checkpoint(2)
    commands = cluster.tell(e.ManifestWriteFailed(JOB, CheckpointId(2), FULL))
    assert [d.checkpoint_id for d in cluster.of(c.DiscardCheckpoint, commands)] == [2]
    assert [(a.checkpoint_id, a.latest_completed_id) for a in cluster.of(c.AbortCheckpoint, commands)] == [(2, 1)]
    assert cluster.checkpoints().latest_completed_id == 1
    assert 2 not in confirmed(cluster)


def test_the_next_tasks_in_line_are_triggered_level_by_level_as_those_before_them_finish() -> None:
    job = graph(
        [vertex("a", 2, source=True), vertex("b", 2, source=True), vertex("c", 2), vertex("d", 1)],
        [("a", "c", Partitioner.FORWARD), ("b", "c", Partitioner.HASH), ("c", "d", Partitioner.HASH)],
    )
    cluster = running_job(job, CHECKPOINTED)

    def next_trigger(number: int) -> list[str]:
        until_triggered(cluster, number)
        attempts = [a for t in cluster.of(c.TriggerCheckpoint) if t.checkpoint_id == number for a in t.attempts]
        cluster.complete_checkpoint(number)
        return [name for name in "abcd" for a in cluster.attempts(of=name) if a in attempts]

    assert next_trigger(1) == ["a", "a", "b", "b"]
    cluster.state(cluster.attempt("a", 0), E.FINISHED)
    assert next_trigger(2) == ["a", "b", "b"]
    cluster.state(cluster.attempt("a", 1), E.FINISHED)
    cluster.state(cluster.attempt("b", 0), E.FINISHED)
    assert next_trigger(3) == ["b"], "c has a running predecessor still"
    cluster.state(cluster.attempt("b", 1), E.FINISHED)
    assert next_trigger(4) == ["c", "c"]
    for index in range(2):
        cluster.state(cluster.attempt("c", index), E.FINISHED)
    assert next_trigger(5) == ["d"]


def test_periodic_checkpoints_stop_while_a_task_is_not_running_and_start_again_when_all_run() -> None:
    cluster = checkpointed()
    cluster.complete_checkpoint(1)
    cluster.fail(cluster.attempt("sink"))
    cluster.cancel_tasks()
    cluster.pass_time(10_000)
    assert triggered(cluster) == [1], "deployed, but not running"
    cluster.start_tasks()
    until_triggered(cluster, 2)


def test_figures_of_an_acknowledgement_that_comes_after_the_end_are_shown_and_change_nothing_else() -> None:
    cluster = checkpointed(timeout="500 ms", tolerable_failed_checkpoints="5")
    cluster.pass_time(500)
    metrics = CheckpointMetrics(alignment_ms=7)
    cluster.tell(e.SubtaskAcknowledged(cluster.attempt("sink"), CheckpointId(1), SubtaskSnapshot(), metrics))
    shown = next(x for x in cluster.checkpoints().history if x.checkpoint_id == 1)
    assert metrics in [s.metrics for s in shown.subtasks]
    assert shown.status == "FAILED"
