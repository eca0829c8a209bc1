"""The coordinator's behaviours, told as sentences (the scenarios of Flink's ``CheckpointCoordinatorTest``)."""

from __future__ import annotations

from dataclasses import replace

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
from tidegate.model.checkpoint import Alignment, DeclineReason
from tidegate.model.errors import ErrorInfo, StorageError
from tidegate.model.states import ExecutionState as E
from tidegate.model.states import JobState as J

STORAGE = ErrorInfo.of(StorageError("disk full"))


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
