"""Tasks that finish: while a checkpoint still waits for them, and after one that let them."""

from __future__ import annotations

import pytest

from tests.unit.jobmanager.machines.cluster_kit import CHECKPOINTED, JOB, Cluster, P, running_job, until_triggered
from tidegate.jobmanager.machines import commands as c
from tidegate.jobmanager.machines import events as e
from tidegate.model.checkpoint import SnapshotType
from tidegate.model.errors import ErrorInfo, UnknownAttempt
from tidegate.model.states import ExecutionState as E
from tidegate.model.states import JobState as J


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


TIMER = f"job/{JOB}/checkpoint-trigger"


def at_end(cluster: Cluster, of: str | None = None) -> None:
    for attempt in cluster.attempts(of=of):
        cluster.tell(e.EndOfDataReached(attempt))
    cluster.settle()


def failures(cluster: Cluster) -> list[str]:
    return [checkpoint.failure for checkpoint in cluster.checkpoints().history if checkpoint.failure]


def test_no_checkpoint_starts_while_tasks_that_were_let_finish_are_on_their_way() -> None:
    """Their processes take a while to end, and answer nothing any more."""
    cluster = running_job(configuration=CHECKPOINTED)
    at_end(cluster, of="source")
    until_triggered(cluster, 1)
    cluster.complete_checkpoint(1)
    first, second = cluster.attempts(of="source")
    cluster.pass_time(5_000)
    cluster.state(first, E.FINISHED)
    cluster.pass_time(5_000)
    assert len(cluster.of(c.CreateLocation)) == 1
    cluster.state(second, E.FINISHED)
    [create] = cluster.of(c.CreateLocation)[1:]
    assert create.checkpoint_id == 2, "it starts at once: it was due long ago"
    assert list(cluster.of(c.TriggerCheckpoint)[-1].attempts) == cluster.attempts(of="sink")
    cluster.complete_checkpoint(2)
    assert failures(cluster) == []


def test_a_savepoint_waits_for_tasks_that_finish_and_its_user_is_told_when_that_ends_the_job() -> None:
    cluster = running_job(configuration=CHECKPOINTED)
    at_end(cluster)
    cluster.complete_checkpoint(1)
    cluster.tell(e.SnapshotRequested(JOB, "ask", SnapshotType.SAVEPOINT, "/sp"))
    assert len(cluster.of(c.CreateLocation)) == 1
    for attempt in cluster.attempts():
        cluster.state(attempt, E.FINISHED)
    [report] = cluster.of(c.ReportSnapshot)
    assert report.error is not None
    assert report.error.message.startswith("CheckpointCoordinator shutdown.")


def test_tasks_that_wait_for_producers_which_may_not_finish_yet_hold_nothing_up() -> None:
    """What told of their end overtook what told of their producers'; without another checkpoint these would never end."""
    cluster = running_job(configuration=CHECKPOINTED)
    at_end(cluster, of="sink")
    until_triggered(cluster, 1)
    [confirm] = cluster.of(c.ConfirmCheckpoint, cluster.complete_checkpoint(1))
    assert list(confirm.may_finish) == cluster.attempts(of="sink")
    at_end(cluster, of="source")
    [confirm] = cluster.of(c.ConfirmCheckpoint, cluster.complete_checkpoint(2))
    assert sorted(confirm.may_finish) == sorted(cluster.attempts())


def test_nobody_is_let_finish_whom_the_next_checkpoint_counts_on_that_is_about_to_be_triggered() -> None:
    cluster = running_job(configuration={**CHECKPOINTED, f"{P}.interval": "1 h"})
    at_end(cluster)
    cluster.makes_locations = False
    cluster.tell(e.SnapshotRequested(JOB, "ask", SnapshotType.SAVEPOINT, "/sp"))
    [confirm] = cluster.of(c.ConfirmCheckpoint, cluster.complete_checkpoint(1))
    assert confirm.may_finish == ()
    cluster.makes_locations = True
    cluster.settle()
    cluster.complete_checkpoint(2)
    [confirm] = cluster.of(c.ConfirmCheckpoint, cluster.complete_checkpoint(3))
    assert sorted(confirm.may_finish) == sorted(cluster.attempts()), "and not a whole interval later"
    assert failures(cluster) == []


def test_a_trigger_that_comes_too_late_for_a_task_is_no_failure_that_counts() -> None:
    """Without a final checkpoint tasks finish by themselves, whoever asks for a savepoint meanwhile."""
    cluster = running_job(configuration={f"{P}.tolerable-failed-checkpoints": "0"})
    cluster.answers_calls = False
    cluster.tell(e.SnapshotRequested(JOB, "ask", SnapshotType.SAVEPOINT, "/sp"))
    cluster.settle()
    [trigger] = cluster.of(c.TriggerCheckpoint)
    gone = ErrorInfo.of(UnknownAttempt("attempt source does not run on this TaskManager"))
    cluster.tell(e.CallAnswered(trigger.call_id, None, {trigger.attempts[0]: gone}))
    [report] = cluster.of(c.ReportSnapshot)
    assert report.error is not None
    assert report.error.message.startswith("Checkpoint was declined (task is closing)")
    assert cluster.job_state() is J.RUNNING


@pytest.mark.parametrize(
    ("interval", "pause", "next_ms"), [("9 s", "0 ms", 1_000), ("200 ms", "0 ms", 200), ("9 s", "5 s", 5_000)]
)
def test_what_waited_behind_a_checkpoint_that_failed_does_not_start_at_once(
    interval: str, pause: str, next_ms: int
) -> None:
    settings = {f"{P}.interval": interval, f"{P}.min-pause": pause, f"{P}.tolerable-failed-checkpoints": "9"}
    cluster = running_job(configuration=settings)
    cluster.pass_time(9_000)
    [create] = cluster.of(c.CreateLocation)
    cluster.tell(e.TimerFired(TIMER))  # a request waits, and the next is an interval away
    cluster.decline(cluster.attempt("sink"), create.checkpoint_id)
    cluster.settle()
    assert len(cluster.of(c.CreateLocation)) == 1
    assert cluster.timers[TIMER] - cluster.now_ms == next_ms
