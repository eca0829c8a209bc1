"""What clients had asked the earlier JobManager for is finished by the next one."""

from __future__ import annotations

from tests.unit.jobmanager.machines.checkpoint.test_jobmanager_recovery import whole
from tests.unit.jobmanager.machines.checkpoint.test_stop_with_savepoint import failure, finish, reports
from tests.unit.jobmanager.machines.cluster_kit import CHECKPOINTED, JOB, Cluster, two_stage
from tests.unit.jobmanager.machines.job.test_adoption import (
    LAST,
    NUMBER,
    all_register,
    both,
    numbers,
    recovering,
    registers,
)
from tidegate.jobmanager.machines import commands as c
from tidegate.jobmanager.machines import events as e
from tidegate.model.checkpoint import SnapshotType
from tidegate.model.ids import CheckpointId
from tidegate.model.states import ExecutionState as E
from tidegate.model.states import JobState as J

CANCEL = e.JobCancelRequested(JOB)
STOP = e.SnapshotRequested(JOB, "stop", SnapshotType.SUSPEND, "/sp")
SAVEPOINT = e.SnapshotRequested(JOB, "save", SnapshotType.SAVEPOINT, "/sp")


def complete(cluster: Cluster) -> CheckpointId:
    newest = max(command.checkpoint_id for command in cluster.of(c.CreateLocation))
    cluster.complete_checkpoint(newest)
    return newest


def test_a_cancellation_waits_for_the_subtasks_that_run_and_cancels_them() -> None:
    cluster = recovering(requests=(CANCEL,))
    registers(cluster, "tm-1", 0, both(0))
    assert cluster.job_state() is J.RECONCILING, "the others run, too, as far as it is known"
    registers(cluster, "tm-2", 1, both(1))
    assert cluster.job_state() is J.CANCELLING
    assert len(cluster.of(c.CancelTask)) == 4
    cluster.cancel_tasks()
    assert cluster.job_state() is J.CANCELED
    assert cluster.of(c.SubmitTask) == []


def test_a_cancellation_of_which_no_subtask_is_left_ends_the_job_and_deploys_nothing() -> None:
    cluster = recovering(requests=(CANCEL,))
    cluster.register("tm-1", 2)
    cluster.pass_time(5_000)
    cluster.settle()
    assert cluster.job_state() is J.CANCELED
    assert cluster.of(c.SubmitTask) == []
    assert cluster.of(c.AllocateSlot) == []


def test_a_cancellation_ends_although_a_subtask_failed_meanwhile() -> None:
    cluster = recovering(requests=(CANCEL,))
    registers(cluster, "tm-1", 0, both(0, state=E.FAILED))
    registers(cluster, "tm-2", 1, both(1))
    cluster.cancel_tasks()
    assert cluster.job_state() is J.CANCELED


def test_without_a_grace_a_cancellation_ends_the_job_at_once() -> None:
    cluster = Cluster()
    options = {**CHECKPOINTED, "tidegate.jobmanager.loss-grace": "0 ms"}
    submitted = e.JobSubmitted(two_stage(), options)
    cluster.tell(e.JobRecovered(submitted, (whole(8),), first_attempt=LAST + 1, requests=(CANCEL,)))
    cluster.settle()
    assert cluster.job_state() is J.CANCELED
    assert cluster.of(c.SubmitTask) == []


def test_a_stop_that_no_subtask_had_heard_of_stops_the_adopted_ones() -> None:
    cluster = recovering(requests=(STOP,))
    all_register(cluster)
    assert set(numbers(cluster).values()) == {NUMBER}
    complete(cluster)
    finish(cluster)
    assert cluster.job_state() is J.FINISHED
    assert reports(cluster)["stop"].error is None


def test_a_stop_under_way_restarts_the_job_and_stops_it() -> None:
    """Its sources have ended their data: no subtask can go on."""
    cluster = recovering(requests=(STOP,))
    registers(cluster, "tm-1", 0, both(0, is_being_stopped=True))
    registers(cluster, "tm-2", 1, both(1, is_being_stopped=True))
    cluster.cancel_tasks()
    cluster.pass_time(1)
    cluster.start_tasks()
    assert min(numbers(cluster).values()) > LAST
    complete(cluster)
    finish(cluster)
    assert cluster.job_state() is J.FINISHED
    assert reports(cluster)["stop"].error is None


def test_a_savepoint_is_taken_once_the_job_runs() -> None:
    cluster = recovering(requests=(SAVEPOINT,))
    registers(cluster, "tm-1", 0, both(0))
    assert cluster.of(c.CreateLocation) == []
    registers(cluster, "tm-2", 1, both(1))
    complete(cluster)
    assert reports(cluster)["save"].error is None
    assert cluster.job_state() is J.RUNNING


def test_who_waits_for_a_savepoint_of_a_job_that_ends_first_is_told() -> None:
    cluster = recovering(requests=(SAVEPOINT, STOP))
    registers(cluster, "tm-1", 0, both(0))
    cluster.tell(CANCEL)
    cluster.cancel_tasks()
    assert cluster.job_state() is J.CANCELED
    for name in ("save", "stop"):
        assert "was lost, and the job is CANCELED" in failure(cluster, name)


def test_a_stop_and_a_cancellation_cancel() -> None:
    cluster = recovering(requests=(CANCEL, STOP))
    all_register(cluster)
    cluster.cancel_tasks()
    assert cluster.job_state() is J.CANCELED
    assert "CANCELED" in failure(cluster)
