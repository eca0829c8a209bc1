"""The coordinator's behaviours, told as sentences (the scenarios of Flink's ``CheckpointCoordinatorTest``)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jobmanager.machines import commands as c
from jobmanager.machines import events as e
from tests.unit.jobmanager.machines.cluster_kit import CHECKPOINTED, JOB, Cluster, running_job, two_stage
from tidegate.model.checkpoint import Alignment, CheckpointMetrics, DeclineReason, SnapshotType, SubtaskSnapshot
from tidegate.model.errors import ErrorInfo, StorageError
from tidegate.model.graph import Partitioner
from tidegate.model.states import ExecutionState as E
from tidegate.model.states import JobState as J

P = "execution.checkpointing"
STORAGE = ErrorInfo.of(StorageError("disk full"))


def checkpointed(**settings: str) -> Cluster:
    """A running job whose first checkpoint is pending; keys are the last part of the option's name."""
    options = {f"{P}.{key.replace('_', '-')}": text for key, text in settings.items()}
    cluster = running_job(configuration={**CHECKPOINTED, **options})
    until_triggered(cluster, 1)
    return cluster


def until_triggered(cluster: Cluster, checkpoint_id: int) -> None:
    for _ in range(100):
        if any(t.checkpoint_id == checkpoint_id for t in cluster.of(c.TriggerCheckpoint)):
            return
        cluster.pass_time(50)
    raise AssertionError(f"checkpoint {checkpoint_id} was never triggered")


# ---- trigger, acknowledge, complete --------------------------------------------------------------------------------------


def test_only_sources_are_triggered_and_everybody_is_confirmed() -> None:
    cluster = checkpointed()
    [trigger] = cluster.of(c.TriggerCheckpoint)
    assert list(trigger.attempts) == cluster.attempts(of="source")
    assert trigger.options.location == "/cp/chk-1"
    assert trigger.options.alignment is Alignment.ALIGNED
    commands = cluster.complete_checkpoint(1)
    [confirm] = cluster.of(c.ConfirmCheckpoint, commands)
    assert sorted(confirm.attempts) == sorted(cluster.attempts())
    assert confirm.timestamp_ms == trigger.timestamp_ms
    assert confirm.may_finish == ()
    assert cluster.checkpoints().latest_completed_id == 1


def test_one_message_for_each_task_manager_and_phase() -> None:
    cluster = running_job(configuration=CHECKPOINTED, slots=1, task_managers=2)
    until_triggered(cluster, 1)
    assert len(cluster.of(c.TriggerCheckpoint)) == 2
    assert len(cluster.of(c.ConfirmCheckpoint, cluster.complete_checkpoint(1))) == 2


def test_at_least_once_is_told_to_the_tasks() -> None:
    cluster = checkpointed(mode="AT_LEAST_ONCE")
    assert cluster.of(c.TriggerCheckpoint)[0].options.alignment is Alignment.AT_LEAST_ONCE


def test_nothing_is_confirmed_before_the_manifest_is_durable() -> None:
    cluster = checkpointed()
    cluster.writes_manifests = False
    cluster.complete_checkpoint(1)
    assert len(cluster.of(c.WriteManifest)) == 1
    assert not cluster.of(c.ConfirmCheckpoint)
    assert cluster.checkpoints().latest_completed_id is None
    assert cluster.of(
        c.ConfirmCheckpoint, cluster.tell(e.ManifestWritten(JOB, cluster.of(c.WriteManifest)[0].checkpoint_id, 9))
    )


def test_acknowledgements_that_are_repeated_or_strange_change_nothing() -> None:
    cluster = checkpointed()
    first, stranger = cluster.attempt("sink", 0), replace(cluster.attempt("sink", 1), attempt=9)
    cluster.acknowledge(first, 1)
    cluster.acknowledge(first, 1)
    cluster.acknowledge(stranger, 1)
    cluster.acknowledge(cluster.attempt("source", 0), 77)
    assert not cluster.of(c.WriteManifest)
    assert cluster.checkpoints().history[0].acknowledged == 1


def test_the_manifest_names_job_generation_and_operators_with_state_only() -> None:
    cluster = checkpointed()
    cluster.complete_checkpoint(1)
    manifest = cluster.of(c.WriteManifest)[0].manifest
    assert (manifest.job_id, manifest.checkpoint_id, manifest.operators) == (JOB, 1, ())
    assert manifest.generation == cluster.machine.cluster().generation


# ---- periodic schedule -----------------------------------------------------------------------------------------------------


def test_the_rate_is_fixed_and_does_not_depend_on_the_duration() -> None:
    cluster = checkpointed()
    first_ms = cluster.of(c.TriggerCheckpoint)[0].timestamp_ms
    for number in range(1, 5):
        until_triggered(cluster, number)
        cluster.now_ms += 130
        cluster.complete_checkpoint(number)
    assert [t.timestamp_ms - first_ms for t in cluster.of(c.TriggerCheckpoint)] == [0, 1000, 2000, 3000]


def test_the_first_delay_is_drawn_between_pause_and_interval() -> None:
    cluster = running_job(configuration={**CHECKPOINTED, f"{P}.min-pause": "400 ms"})
    start_ms = cluster.now_ms
    until_triggered(cluster, 1)
    assert 400 <= cluster.of(c.TriggerCheckpoint)[0].timestamp_ms - start_ms <= 1000


def test_nothing_starts_before_every_task_runs() -> None:
    cluster = Cluster()
    cluster.register("tm-1", 2)
    cluster.submit(two_stage(), CHECKPOINTED)
    for attempt in cluster.attempts()[:-1]:
        cluster.state(attempt, E.RUNNING)
    cluster.pass_time(5_000)
    assert not cluster.of(c.CreateLocation)
    cluster.state(cluster.attempts()[-1], E.RUNNING)
    cluster.pass_time(1_000)
    assert cluster.of(c.CreateLocation)


def test_a_periodic_checkpoint_waits_for_a_free_place() -> None:
    cluster = checkpointed()
    cluster.pass_time(3_000)
    assert len(cluster.of(c.TriggerCheckpoint)) == 1, "max-concurrent-checkpoints is 1"
    commands = cluster.complete_checkpoint(1)
    assert cluster.of(c.TriggerCheckpoint, commands), "the queued one starts at once"


def test_the_pause_counts_from_the_end_of_the_last_checkpoint() -> None:
    cluster = checkpointed(min_pause="600 ms")
    cluster.now_ms += 700
    cluster.complete_checkpoint(1)
    ended_ms = cluster.now_ms
    until_triggered(cluster, 2)
    assert cluster.of(c.TriggerCheckpoint)[-1].timestamp_ms == ended_ms + 600


def test_two_at_once_complete_in_order() -> None:
    cluster = checkpointed(max_concurrent_checkpoints="2")
    until_triggered(cluster, 2)
    cluster.pass_time(2_000)
    assert len(cluster.of(c.TriggerCheckpoint)) == 2
    cluster.complete_checkpoint(1)
    cluster.complete_checkpoint(2)
    assert [x.checkpoint_id for x in cluster.of(c.ConfirmCheckpoint)] == [1, 2]


def test_the_newer_subsumes_the_older_that_is_pending() -> None:
    cluster = checkpointed(max_concurrent_checkpoints="2")
    until_triggered(cluster, 2)
    cluster.acknowledge(cluster.attempt("source"), 1)
    commands = cluster.complete_checkpoint(2)
    [abort] = cluster.of(c.AbortCheckpoint, commands)
    assert (abort.checkpoint_id, abort.latest_completed_id) == (1, 2)
    assert [d.checkpoint_id for d in cluster.of(c.DiscardCheckpoint, commands)] == [1]
    late = cluster.acknowledge(cluster.attempt("sink"), 1)
    assert [d.checkpoint_id for d in cluster.of(c.DiscardCheckpoint, late)] == [1], "what it wrote late goes too"


def test_too_many_checkpoints_being_cleaned_hold_the_next_back() -> None:
    cluster = checkpointed()
    cluster.removes_files = False
    for number in range(1, 4):
        until_triggered(cluster, number)
        cluster.complete_checkpoint(number)
    cluster.pass_time(3_000)
    assert len(cluster.of(c.TriggerCheckpoint)) == 3, "two are being cleaned, max-concurrent is 1"
    cluster.removes_files = True
    cluster.settle()
    assert len(cluster.of(c.TriggerCheckpoint)) == 4


# ---- abort -----------------------------------------------------------------------------------------------------------------


def test_a_decline_aborts_at_once_and_a_second_one_is_harmless() -> None:
    cluster = checkpointed(tolerable_failed_checkpoints="5")
    commands = cluster.decline(cluster.attempt("sink"), 1)
    [abort] = cluster.of(c.AbortCheckpoint, commands)
    assert sorted(abort.attempts) == sorted(cluster.attempts())
    assert abort.latest_completed_id is None
    assert cluster.of(c.DiscardCheckpoint, commands)
    assert not cluster.of(c.AbortCheckpoint, cluster.decline(cluster.attempt("sink", 1), 1))
    assert cluster.checkpoints().failed == 1


def test_a_checkpoint_that_takes_too_long_expires() -> None:
    cluster = checkpointed(timeout="500 ms", tolerable_failed_checkpoints="5")
    cluster.acknowledge(cluster.attempt("source"), 1)
    commands = cluster.pass_time(500)
    assert cluster.of(c.AbortCheckpoint, commands)
    assert cluster.checkpoints().history[0].failure == "Checkpoint expired before completing."
    assert not cluster.of(c.ConfirmCheckpoint)
    assert cluster.job_state() is J.RUNNING


def test_a_failed_trigger_aborts_and_is_not_counted() -> None:
    cluster = running_job(configuration=CHECKPOINTED)
    cluster.refusal = lambda command: STORAGE if isinstance(command, c.TriggerCheckpoint) else None
    cluster.pass_time(4_000)
    assert cluster.checkpoints().failed >= 3
    assert cluster.job_state() is J.RUNNING


def test_more_counted_failures_than_tolerable_restart_the_job() -> None:
    cluster = checkpointed(tolerable_failed_checkpoints="1")
    cluster.decline(cluster.attempt("sink"), 1)
    assert cluster.job_state() is J.RUNNING
    until_triggered(cluster, 2)
    cluster.decline(cluster.attempt("sink"), 2)
    assert cluster.job_state() is J.RESTARTING
    failure = cluster.job().failure
    assert failure is not None
    assert failure.message.startswith("Exceeded checkpoint tolerable failure threshold.")


@pytest.mark.parametrize(
    "reason",
    [r for r in DeclineReason if r not in (DeclineReason.DECLINED, DeclineReason.ASYNC_EXCEPTION)],
)
def test_declines_that_say_not_now_are_not_counted(reason: DeclineReason) -> None:
    cluster = checkpointed()
    cluster.decline(cluster.attempt("sink"), 1, reason)
    assert cluster.checkpoints().failed == 1
    assert cluster.job_state() is J.RUNNING


def test_a_location_that_cannot_be_made_counts() -> None:
    cluster = running_job(configuration=CHECKPOINTED)
    cluster.makes_locations = False
    cluster.pass_time(1_000)
    [create] = cluster.of(c.CreateLocation)
    cluster.tell(e.LocationCreated(JOB, create.checkpoint_id, "", STORAGE))
    assert cluster.job_state() is J.RESTARTING
    assert not cluster.of(c.DiscardCheckpoint)


def test_a_location_that_comes_after_the_abort_is_removed() -> None:
    cluster = running_job(
        configuration={**CHECKPOINTED, f"{P}.timeout": "100 ms", f"{P}.tolerable-failed-checkpoints": "9"}
    )
    cluster.makes_locations = False
    cluster.pass_time(1_300)
    cluster.makes_locations = True
    commands = cluster.settle()
    assert [d.checkpoint_id for d in cluster.of(c.DiscardCheckpoint, commands)] == [1]
    assert not any(t.checkpoint_id == 1 for t in cluster.of(c.TriggerCheckpoint))


# ---- the manifest's fate -----------------------------------------------------------------------------------------------------


def test_a_manifest_that_could_not_be_written_fails_the_checkpoint() -> None:
    cluster = checkpointed(tolerable_failed_checkpoints="5")
    cluster.writes_manifests = False
    cluster.complete_checkpoint(1)
    commands = cluster.tell(e.ManifestWriteFailed(JOB, cluster.of(c.WriteManifest)[0].checkpoint_id, STORAGE))
    assert cluster.of(c.AbortCheckpoint, commands)
    assert cluster.of(c.DiscardCheckpoint, commands)
    assert "disk full" in cluster.checkpoints().history[0].failure


def test_an_unknown_outcome_is_read_back_and_nothing_is_deleted_or_confirmed_meanwhile() -> None:
    cluster = checkpointed(timeout="500 ms")
    cluster.writes_manifests = False
    cluster.complete_checkpoint(1)
    number = cluster.of(c.WriteManifest)[0].checkpoint_id
    commands = cluster.tell(e.ManifestWriteFailed(JOB, number, STORAGE, outcome_unknown=True))
    commands += cluster.pass_time(2_000)
    assert cluster.of(c.ReadBackManifest, commands)
    assert not cluster.of(c.DiscardCheckpoint, commands)
    assert not cluster.of(c.ConfirmCheckpoint, commands)
    assert not cluster.of(c.AbortCheckpoint, commands), "the timeout does not decide any more"
    assert cluster.of(c.ConfirmCheckpoint, cluster.tell(e.ManifestWritten(JOB, number, 9)))


def test_a_restart_waits_until_the_write_is_settled_and_restores_what_it_brought() -> None:
    cluster = checkpointed()
    cluster.writes_manifests = False
    cluster.complete_checkpoint(1)
    cluster.fail(cluster.attempt("sink"))
    cluster.cancel_tasks()
    cluster.pass_time(3_000)
    assert cluster.job_state() is J.RESTARTING
    cluster.tell(e.ManifestWritten(JOB, cluster.of(c.WriteManifest)[0].checkpoint_id, 9))
    assert cluster.job_state() is J.RUNNING
    restored = [s.deployment.restore for s in cluster.of(c.SubmitTask)][-4:]
    assert {r.checkpoint_id for r in restored if r} == {1}
    assert None not in restored


# ---- failover ------------------------------------------------------------------------------------------------------------------


def test_a_failover_aborts_what_is_pending_and_restores_the_latest() -> None:
    cluster = checkpointed()
    cluster.complete_checkpoint(1)
    until_triggered(cluster, 2)
    cluster.acknowledge(cluster.attempt("sink", 1), 2)
    commands = cluster.fail(cluster.attempt("sink"))
    assert [a.checkpoint_id for a in cluster.of(c.AbortCheckpoint, commands)] == [2]
    cluster.cancel_tasks()
    cluster.pass_time(1_100)
    cluster.start_tasks()
    assert {s.deployment.restore.checkpoint_id for s in cluster.of(c.SubmitTask)[-4:] if s.deployment.restore} == {1}
    assert cluster.checkpoints().restored == 1
    cluster.pass_time(0)
    assert cluster.of(c.TriggerCheckpoint)[-1].checkpoint_id == 3, "after a failover the first delay is the pause alone"


def test_acknowledgements_of_earlier_attempts_do_not_count() -> None:
    cluster = checkpointed()
    old = cluster.attempts()
    cluster.fail(cluster.attempt("sink"))
    cluster.cancel_tasks()
    cluster.pass_time(1_100)
    cluster.start_tasks()
    until_triggered(cluster, 2)
    for attempt in old:
        cluster.acknowledge(attempt, 2)
    assert not cluster.of(c.WriteManifest)


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


def test_stop_with_savepoint_is_refused_by_name() -> None:
    cluster = running_job()
    ask(cluster, SnapshotType.SUSPEND)
    [report] = cluster.of(c.ReportSnapshot)
    assert report.error is not None
    assert "SUSPEND" in report.error.message


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
