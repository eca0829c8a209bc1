"""Stop with a savepoint, as the JobManager sees it."""

from __future__ import annotations

import pytest

from tests.unit.jobmanager.machines.cluster_kit import JOB, Cluster, checkpointed, running_job, until_triggered
from tidegate.jobmanager.machines import commands as c
from tidegate.jobmanager.machines import events as e
from tidegate.model.checkpoint import DeclineReason, SnapshotType
from tidegate.model.errors import ErrorInfo, StorageError
from tidegate.model.ids import CheckpointId
from tidegate.model.states import ExecutionState as E
from tidegate.model.states import JobState as J

SUSPEND, TERMINATE, SAVEPOINT = SnapshotType.SUSPEND, SnapshotType.TERMINATE, SnapshotType.SAVEPOINT


def ask(cluster: Cluster, kind: SnapshotType = SUSPEND, name: str = "stop") -> list[c.Command]:
    return cluster.tell(e.SnapshotRequested(JOB, name, kind, "/sp")) + cluster.settle()


def reports(cluster: Cluster) -> dict[str, c.ReportSnapshot]:
    found = {report.request_id: report for report in cluster.of(c.ReportSnapshot)}
    assert len(found) == len(cluster.of(c.ReportSnapshot)), "told twice"
    return found


def failure(cluster: Cluster, name: str = "stop") -> str:
    error = reports(cluster)[name].error
    assert error is not None
    return error.message


def finish(cluster: Cluster) -> None:
    for attempt in cluster.attempts(E.RUNNING):
        cluster.state(attempt, E.FINISHED)


def stopping(**settings: str) -> Cluster:
    """Checkpoint 1 is complete, the savepoint 2 of a stop is triggered."""
    cluster = checkpointed(**settings)
    cluster.complete_checkpoint(1)
    ask(cluster)
    assert cluster.of(c.TriggerCheckpoint)[-1].checkpoint_id == 2
    return cluster


def restarted(cluster: Cluster, after_ms: int = 10) -> bool:
    """Every task has a new attempt, and the job runs and checkpoints again."""
    cluster.cancel_tasks()
    cluster.pass_time(after_ms)
    cluster.start_tasks()
    if [a.attempt for a in cluster.attempts()] != [1, 1, 1, 1] or cluster.job_state() is not J.RUNNING:
        return False
    until_triggered(cluster, 3)
    return True


@pytest.mark.parametrize("kind", [SUSPEND, TERMINATE])
def test_a_stop_ends_the_job_with_a_confirmed_savepoint_and_tells_its_path_at_the_end(kind: SnapshotType) -> None:
    cluster = checkpointed()
    ask(cluster, kind)
    assert [a.checkpoint_id for a in cluster.of(c.AbortCheckpoint)] == [1], "what is pending is given up"
    [_, trigger] = cluster.of(c.TriggerCheckpoint)
    assert (trigger.options.snapshot_type, trigger.options.is_full) == (kind, True)
    assert trigger.advance_to_end_of_event_time is (kind is TERMINATE)
    commands = cluster.complete_checkpoint(2)
    [confirm] = cluster.of(c.ConfirmCheckpoint, commands)
    assert sorted(confirm.may_finish) == sorted(cluster.attempts()), "all of them, wherever they are in their data"
    assert cluster.checkpoints().latest_completed_id is None, "it is not in the store"
    assert not reports(cluster), "not before the tasks have finished"
    finish(cluster)
    assert cluster.job_state() is J.FINISHED
    assert (reports(cluster)["stop"].path, reports(cluster)["stop"].error) == ("/cp/chk-2", None)
    assert not any(d.location == "/cp/chk-2" for d in cluster.of(c.DiscardCheckpoint))


def test_nothing_else_starts_while_a_job_is_being_stopped() -> None:
    cluster = stopping()
    ask(cluster, SAVEPOINT, "savepoint")
    ask(cluster, TERMINATE, "again")
    for attempt in cluster.attempts():
        cluster.tell(e.EndOfDataReached(attempt))
    cluster.pass_time(5_000)
    assert cluster.of(c.CreateLocation)[-1].checkpoint_id == 2
    assert "being stopped" in failure(cluster, "savepoint")
    assert "being stopped" in failure(cluster, "again")


def test_a_pending_savepoint_of_a_user_is_given_up_for_the_stop() -> None:
    cluster = checkpointed()
    ask(cluster, SAVEPOINT, "savepoint")
    ask(cluster)
    assert "Checkpoint Coordinator is suspending." in failure(cluster, "savepoint")


def test_a_savepoint_that_cannot_be_placed_changes_nothing() -> None:
    cluster = checkpointed()
    cluster.complete_checkpoint(1)
    cluster.makes_locations = False
    ask(cluster)
    error = ErrorInfo.of(StorageError("the disk is full"))
    cluster.makes_locations = True
    cluster.inbox = [command for command in cluster.inbox if not isinstance(command, c.CreateLocation)]
    cluster.tell(e.LocationCreated(JOB, CheckpointId(2), "", error))
    cluster.settle()
    assert "the disk is full" in failure(cluster)
    assert cluster.job_state() is J.RUNNING
    until_triggered(cluster, 3)
    assert not cluster.of(c.CancelTask)


@pytest.mark.parametrize("how", ["declined", "expired", "not written"])
@pytest.mark.parametrize("strategy", ["none", "fixed-delay"])
def test_a_savepoint_that_fails_restarts_all_tasks_without_asking_the_strategy(how: str, strategy: str) -> None:
    cluster = checkpointed(timeout="400 ms")
    cluster.complete_checkpoint(1)
    ask(cluster)
    if how == "declined":
        cluster.decline(cluster.attempt("sink"), 2, DeclineReason.ASYNC_EXCEPTION)
    elif how == "expired":
        cluster.pass_time(400)
    else:
        cluster.writes_manifests = False
        cluster.complete_checkpoint(2)
        assert not reports(cluster)
        cluster.writes_manifests = True
        cluster.inbox = [command for command in cluster.inbox if not isinstance(command, c.WriteManifest)]
        cluster.tell(e.ManifestWriteFailed(JOB, CheckpointId(2), ErrorInfo.of(StorageError("the disk is full"))))
        cluster.settle()
    assert failure(cluster)
    assert restarted(cluster)
    assert {s.deployment.restore.checkpoint_id for s in cluster.of(c.SubmitTask)[-4:] if s.deployment.restore} == {1}


def test_a_task_that_fails_during_the_savepoint_restarts_all_tasks() -> None:
    cluster = stopping()
    cluster.fail(cluster.attempt("sink"))
    assert "FailoverRegion is restarting." in failure(cluster)
    assert restarted(cluster, 1_100)


def test_a_task_that_fails_after_the_savepoint_fails_the_job_and_tells_where_it_is() -> None:
    cluster = stopping()
    cluster.complete_checkpoint(2)
    cluster.state(cluster.attempt("source"), E.FINISHED)
    cluster.fail(cluster.attempt("sink"))
    cluster.cancel_tasks()
    assert cluster.job_state() is J.FAILED
    assert failure(cluster).startswith("A savepoint has been created at: /cp/chk-2, but")
    assert "/cp/chk-2" in cluster.job().failures[-1].error.message


def test_a_task_that_fails_while_the_savepoint_is_written_fails_the_job_once_it_is_there() -> None:
    cluster = stopping()
    cluster.writes_manifests = False
    cluster.complete_checkpoint(2)
    cluster.fail(cluster.attempt("sink"))
    cluster.cancel_tasks()
    assert cluster.job_state() is J.RESTARTING
    cluster.writes_manifests = True
    cluster.settle()
    cluster.cancel_tasks()
    assert cluster.job_state() is J.FAILED
    assert "/cp/chk-2" in failure(cluster)


def test_a_task_that_fails_while_a_savepoint_is_written_that_then_fails_restarts_all_tasks() -> None:
    cluster = stopping()
    cluster.writes_manifests = False
    cluster.complete_checkpoint(2)
    cluster.fail(cluster.attempt("sink"))
    cluster.inbox = [command for command in cluster.inbox if not isinstance(command, c.WriteManifest)]
    cluster.tell(e.ManifestWriteFailed(JOB, CheckpointId(2), ErrorInfo.of(StorageError("the disk is full"))))
    cluster.writes_manifests = True
    assert "the disk is full" in failure(cluster)
    assert restarted(cluster, 1_100)


@pytest.mark.parametrize("is_complete", [False, True])
def test_a_job_that_is_canceled_while_it_stops_tells_so(is_complete: bool) -> None:
    cluster = stopping()
    if is_complete:
        cluster.complete_checkpoint(2)
    cluster.tell(e.JobCancelRequested(JOB))
    cluster.settle()
    cluster.cancel_tasks()
    assert cluster.job_state() is J.CANCELED
    assert ("/cp/chk-2" in failure(cluster)) is is_complete


@pytest.mark.parametrize("is_durable", [False, True])
def test_a_job_that_is_canceled_while_its_savepoint_is_written_tells_when_that_is_decided(is_durable: bool) -> None:
    cluster = stopping()
    cluster.writes_manifests = False
    cluster.complete_checkpoint(2)
    cluster.tell(e.JobCancelRequested(JOB))
    cluster.cancel_tasks()
    assert cluster.job_state() is J.CANCELED
    assert not cluster.of(c.ReportSnapshot), "whether there is a savepoint is not known yet"
    number = CheckpointId(2)
    if is_durable:
        cluster.tell(e.ManifestWritten(JOB, number, 9))
    else:
        cluster.tell(e.ManifestWriteFailed(JOB, number, ErrorInfo.of(StorageError("the disk is full"))))
    assert ("/cp/chk-2" if is_durable else "the disk is full") in failure(cluster)


def test_a_job_without_checkpoints_or_whose_tasks_do_not_all_run_is_not_stopped() -> None:
    cluster = running_job()
    ask(cluster)
    assert "execution.checkpointing.interval" in failure(cluster)
    cluster = checkpointed()
    cluster.fail(cluster.attempt("sink"))
    ask(cluster)
    assert "Not all required tasks are currently running." in failure(cluster)
    cluster.cancel_tasks()
    cluster.pass_time(1_100)
    cluster.start_tasks()
    until_triggered(cluster, 2)


def test_the_strategy_is_not_asked_twice() -> None:
    """A stop that failed leaves nothing behind: the next failure is judged as ever."""
    cluster = stopping(tolerable_failed_checkpoints="0")
    cluster.decline(cluster.attempt("sink"), 2, DeclineReason.ASYNC_EXCEPTION)
    assert restarted(cluster)
    assert cluster.job().restarts == 1
    assert cluster.checkpoints().failed == 1
