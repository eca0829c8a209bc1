"""What checkpoints leave behind: retention, savepoints, the final checkpoint of bounded jobs, and the history."""

from __future__ import annotations

import pytest

from tests.unit.jobmanager.machines.cluster_kit import (
    CHECKPOINTED,
    JOB,
    Cluster,
    P,
    checkpointed,
    running_job,
    two_stage,
    until_triggered,
)
from tidegate.jobmanager.machines import commands as c
from tidegate.jobmanager.machines import events as e
from tidegate.model.checkpoint import CheckpointMetrics, DeclineReason, SnapshotType, SubtaskSnapshot
from tidegate.model.graph import Partitioner
from tidegate.model.states import ExecutionState as E
from tidegate.model.states import JobState as J

# ---- retention -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("retention", "end", "is_kept"),
    [
        ("NO_EXTERNALIZED_CHECKPOINTS", "cancel", False),
        ("NO_EXTERNALIZED_CHECKPOINTS", "fail", False),
        ("NO_EXTERNALIZED_CHECKPOINTS", "finish", False),
        ("DELETE_ON_CANCELLATION", "cancel", False),
        ("DELETE_ON_CANCELLATION", "fail", True),
        ("DELETE_ON_CANCELLATION", "finish", False),
        ("RETAIN_ON_CANCELLATION", "cancel", True),
        ("RETAIN_ON_CANCELLATION", "fail", True),
        ("RETAIN_ON_CANCELLATION", "finish", False),
    ],
)
def test_what_is_left_when_the_job_ends(retention: str, end: str, is_kept: bool) -> None:
    job = {f"{P}.externalized-checkpoint-retention": retention, "restart-strategy.type": "none"}
    cluster = running_job(configuration={**CHECKPOINTED, **job})
    until_triggered(cluster, 1)
    cluster.complete_checkpoint(1)
    cluster.removes_files = False
    if end == "cancel":
        cluster.tell(e.JobCancelRequested(JOB))
    elif end == "fail":
        cluster.fail(cluster.attempt("sink"))
    else:
        for attempt in cluster.attempts():
            cluster.state(attempt, E.FINISHED)
    cluster.cancel_tasks()
    assert cluster.job_state().is_terminal
    assert [d.checkpoint_id for d in cluster.of(c.DiscardCheckpoint)] == ([] if is_kept else [1])
    assert bool(cluster.of(c.JobTerminated)) is is_kept, "the end is told when the files are gone"
    cluster.removes_files = True
    cluster.settle()
    assert len(cluster.of(c.JobTerminated)) == 1


def test_num_retained_are_kept_and_the_oldest_goes() -> None:
    cluster = checkpointed(num_retained="2")
    for number in range(1, 5):
        until_triggered(cluster, number)
        cluster.complete_checkpoint(number)
    assert [d.checkpoint_id for d in cluster.of(c.DiscardCheckpoint)] == [1, 2]


# ---- savepoints and users -----------------------------------------------------------------------------------------------------


def ask(cluster: Cluster, kind: SnapshotType = SnapshotType.SAVEPOINT) -> list[c.Command]:
    return cluster.tell(e.SnapshotRequested(JOB, f"ask-{kind.value}", kind, "/sp")) + cluster.settle()


def test_a_savepoint_passes_the_queue_is_never_confirmed_and_its_path_is_told() -> None:
    cluster = checkpointed()
    commands = ask(cluster)
    [create] = cluster.of(c.CreateLocation, commands)
    assert (create.checkpoint_id, create.target_directory) == (2, "/sp")
    commands = cluster.complete_checkpoint(2)
    assert not cluster.of(c.ConfirmCheckpoint, commands)
    assert [(r.request_id, r.path, r.error) for r in cluster.of(c.ReportSnapshot)] == [
        ("ask-SAVEPOINT", "/cp/chk-2", None)
    ]
    assert cluster.checkpoints().latest_completed_id is None, "it is not in the store"
    cluster.complete_checkpoint(1)
    assert cluster.checkpoints().latest_completed_id == 1, "it does not subsume checkpoints"


def test_a_pending_savepoint_survives_newer_checkpoints() -> None:
    cluster = checkpointed(max_concurrent_checkpoints="2")
    ask(cluster)
    cluster.complete_checkpoint(1)
    until_triggered(cluster, 3)
    cluster.complete_checkpoint(3)
    cluster.complete_checkpoint(2)
    assert cluster.of(c.ReportSnapshot)[0].error is None


def test_who_asked_for_a_savepoint_is_told_when_the_job_fails_over() -> None:
    cluster = checkpointed()
    ask(cluster)
    cluster.fail(cluster.attempt("sink"))
    [report] = cluster.of(c.ReportSnapshot)
    assert report.error is not None
    assert "FailoverRegion is restarting." in report.error.message


def test_a_users_checkpoint_works_without_periodic_ones() -> None:
    cluster = running_job()
    ask(cluster, SnapshotType.CHECKPOINT)
    commands = cluster.complete_checkpoint(1)
    assert cluster.of(c.ConfirmCheckpoint, commands)
    assert cluster.of(c.ReportSnapshot, commands)[0].path == "/cp/chk-1"


def test_a_snapshot_of_tasks_that_do_not_run_is_refused_without_an_id() -> None:
    cluster = Cluster()
    cluster.register("tm-1", 2)
    cluster.submit(two_stage(), CHECKPOINTED)
    ask(cluster)
    [report] = cluster.of(c.ReportSnapshot)
    assert report.error is not None
    assert report.error.message.startswith("Not all required tasks are currently running. Cause: source (1/2)#0")
    assert not cluster.of(c.CreateLocation)


# ---- the end of bounded jobs ----------------------------------------------------------------------------------------------------


def test_the_final_checkpoint_starts_when_everybody_is_at_the_end_and_lets_them_finish() -> None:
    cluster = running_job(configuration={f"{P}.interval": "1 h"})
    for attempt in cluster.attempts():
        assert not cluster.of(c.TriggerCheckpoint)
        cluster.tell(e.EndOfDataReached(attempt))
        cluster.settle()
    commands = cluster.complete_checkpoint(1)
    [confirm] = cluster.of(c.ConfirmCheckpoint, commands)
    assert sorted(confirm.may_finish) == sorted(cluster.attempts())


def test_a_final_checkpoint_that_failed_is_not_repeated_after_a_whole_interval_only() -> None:
    cluster = running_job(configuration={f"{P}.interval": "1 h"})
    for attempt in cluster.attempts():
        cluster.tell(e.EndOfDataReached(attempt))
    cluster.settle()
    cluster.decline(cluster.attempt("sink"), 1, DeclineReason.TASK_NOT_READY)
    cluster.pass_time(1_000)
    [confirm] = cluster.of(c.ConfirmCheckpoint, cluster.complete_checkpoint(2))
    assert len(confirm.may_finish) == 4


def test_only_vertices_that_were_wholly_at_the_end_before_the_trigger_may_finish() -> None:
    cluster = running_job(configuration=CHECKPOINTED)
    for attempt in cluster.attempts(of="source"):
        cluster.tell(e.EndOfDataReached(attempt))
    cluster.tell(e.EndOfDataReached(cluster.attempt("sink", 0)))
    until_triggered(cluster, 1)
    cluster.tell(e.EndOfDataReached(cluster.attempt("sink", 1)))
    [confirm] = cluster.of(c.ConfirmCheckpoint, cluster.complete_checkpoint(1))
    assert list(confirm.may_finish) == cluster.attempts(of="source")


def test_the_final_checkpoint_waits_for_the_one_that_runs() -> None:
    cluster = checkpointed()
    for attempt in cluster.attempts():
        cluster.tell(e.EndOfDataReached(attempt))
    assert len(cluster.of(c.CreateLocation)) == 1
    cluster.complete_checkpoint(1)
    until_triggered(cluster, 2)
    commands = cluster.complete_checkpoint(2)
    assert len(cluster.of(c.ConfirmCheckpoint, commands)[0].may_finish) == 4


def test_checkpoints_go_on_after_some_tasks_finished_and_trigger_the_next_in_line() -> None:
    cluster = checkpointed()
    cluster.complete_checkpoint(1)
    for attempt in cluster.attempts(of="source"):
        cluster.state(attempt, E.FINISHED)
    until_triggered(cluster, 2)
    trigger = cluster.of(c.TriggerCheckpoint)[-1]
    assert list(trigger.attempts) == cluster.attempts(of="sink")
    cluster.complete_checkpoint(2)
    finished = {s.name: s.finished for s in cluster.of(c.WriteManifest)[-1].manifest.operators}
    assert finished == {"source": frozenset({0, 1})}


def test_finished_tasks_refuse_checkpoints_where_that_is_configured() -> None:
    cluster = checkpointed(checkpoints_after_tasks_finish="false")
    cluster.complete_checkpoint(1)
    cluster.state(cluster.attempt("source"), E.FINISHED)
    cluster.pass_time(3_000)
    assert len(cluster.of(c.TriggerCheckpoint)) == 1


def test_a_vertex_with_union_state_that_finished_in_part_fails_the_checkpoint_uncounted() -> None:
    cluster = running_job(two_stage(union=True), CHECKPOINTED)
    until_triggered(cluster, 1)
    cluster.complete_checkpoint(1)
    cluster.state(cluster.attempt("source"), E.FINISHED)
    until_triggered(cluster, 2)
    cluster.complete_checkpoint(2)
    assert len(cluster.of(c.WriteManifest)) == 1
    assert "only some subtasks of source have finished" in cluster.checkpoints().history[0].failure
    assert cluster.job_state() is J.RUNNING


def test_subtasks_that_finish_together_restart_together() -> None:
    cluster = running_job(two_stage(2, Partitioner.FORWARD, union=True), CHECKPOINTED)
    for attempt in cluster.attempts():
        cluster.tell(e.EndOfDataReached(attempt))
    cluster.settle()
    until_triggered(cluster, 1)
    cluster.complete_checkpoint(1)
    cluster.state(cluster.attempt("source", 0), E.FINISHED)
    cluster.state(cluster.attempt("sink", 0), E.FINISHED)
    cluster.fail(cluster.attempt("sink", 1))
    cluster.cancel_tasks()
    cluster.pass_time(1_100)
    assert [a.attempt for a in cluster.attempts()] == [1, 1, 1, 1]


def test_operators_that_had_finished_are_restored_as_finished() -> None:
    cluster = checkpointed()
    cluster.complete_checkpoint(1)
    for attempt in cluster.attempts(of="source"):
        cluster.state(attempt, E.FINISHED)
    until_triggered(cluster, 2)
    cluster.complete_checkpoint(2)
    cluster.fail(cluster.attempt("sink"))
    cluster.cancel_tasks()
    cluster.pass_time(1_100)
    again = [s.deployment for s in cluster.of(c.SubmitTask)][-4:]
    assert [(d.task_name, d.finished_on_restore) for d in again] == [
        ("source", True),
        ("source", True),
        ("sink", False),
        ("sink", False),
    ]


# ---- what is shown --------------------------------------------------------------------------------------------------------------


def test_the_history_shows_times_sizes_and_subtasks_newest_first() -> None:
    cluster = checkpointed()
    ended_ms = cluster.now_ms
    cluster.complete_checkpoint(1)
    until_triggered(cluster, 2)
    newest, oldest = cluster.checkpoints().history
    assert (newest.checkpoint_id, newest.status, newest.end_ms) == (2, "IN_PROGRESS", None)
    assert (oldest.status, oldest.location) == ("COMPLETED", "/cp/chk-1")
    assert oldest.trigger_ms < ended_ms == oldest.end_ms
    assert [s.ack_ms for s in oldest.subtasks] == [oldest.end_ms] * 4
    assert (oldest.acknowledged, oldest.expected) == (4, 4)


def test_the_history_is_bounded() -> None:
    cluster = checkpointed()
    for number in range(1, 15):
        until_triggered(cluster, number)
        cluster.complete_checkpoint(number)
    view = cluster.checkpoints()
    assert [s.checkpoint_id for s in view.history] == list(range(14, 4, -1))
    assert (view.completed, view.in_progress) == (14, 0)


def test_figures_of_a_late_acknowledgement_are_still_shown() -> None:
    cluster = checkpointed(tolerable_failed_checkpoints="5")
    cluster.decline(cluster.attempt("sink"), 1)
    attempt = cluster.attempt("source")
    metrics = CheckpointMetrics(alignment_ms=7)
    checkpoint_id = cluster.of(c.CreateLocation)[0].checkpoint_id
    cluster.tell(e.SubtaskAcknowledged(attempt, checkpoint_id, SubtaskSnapshot(), metrics))
    assert cluster.checkpoints().history[0].subtasks[0].metrics == metrics


def test_an_acknowledgement_counts_from_when_its_task_manager_had_it() -> None:
    cluster = checkpointed()
    cluster.pass_time(100)
    attempt, checkpoint_id = cluster.attempt("source"), cluster.of(c.CreateLocation)[0].checkpoint_id
    cluster.tell(e.SubtaskAcknowledged(attempt, checkpoint_id, SubtaskSnapshot(), CheckpointMetrics(), held_ms=30))
    (told,) = cluster.checkpoints().history[0].subtasks
    assert told.ack_ms == cluster.now_ms - 30
