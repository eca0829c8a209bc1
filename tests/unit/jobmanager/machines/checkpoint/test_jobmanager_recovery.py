"""A job that goes on after its JobManager was lost, and what becomes of checkpoints that cannot be read."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.unit.jobmanager.machines.cluster_kit import (
    CHECKPOINTED,
    JOB,
    Cluster,
    checkpointed,
    operator_id,
    running_job,
    two_stage,
    until_triggered,
)
from tidegate.jobmanager.machines import commands as c
from tidegate.jobmanager.machines import events as e
from tidegate.jobmanager.machines.checkpoint.jobmanager_recovery import take_inventory
from tidegate.model.checkpoint import (
    CheckpointManifest,
    OperatorSnapshot,
    OperatorState,
    SegmentHandle,
    SnapshotType,
    StateHandle,
)
from tidegate.model.errors import CorruptData, ErrorInfo, StorageError
from tidegate.model.ids import CheckpointId
from tidegate.model.keygroups import KeyGroupRange
from tidegate.model.states import ExecutionState as E
from tidegate.model.states import JobState as J

DAMAGE = ErrorInfo.of(CorruptData("/cp/chk-9/_metadata is damaged: its checksum is 0, the header says 1"))
AT_ONCE = {**CHECKPOINTED, "tidegate.jobmanager.loss-grace": "0 ms"}
TWO_KEPT = {**AT_ONCE, "execution.checkpointing.num-retained": "2"}


def manifest(
    checkpoint_id: int, *, kind: SnapshotType = SnapshotType.CHECKPOINT, shared: str = ""
) -> CheckpointManifest:
    handle = StateHandle(8, "0" * 16, shared, is_shared=True)
    keyed = (SegmentHandle("s", KeyGroupRange(0, 63), (*range(64), 64), handle),) if shared else ()
    state = OperatorState(operator_id("sink"), "sink", "sink", 2, 128, {0: OperatorSnapshot(keyed=keyed)})
    return CheckpointManifest(JOB, "job", CheckpointId(checkpoint_id), 0, kind, (state,))


def whole(checkpoint_id: int, *, kind: SnapshotType = SnapshotType.CHECKPOINT, shared: str = "") -> e.FoundCheckpoint:
    content = manifest(checkpoint_id, kind=kind, shared=shared)
    return e.FoundCheckpoint(CheckpointId(checkpoint_id), f"/cp/chk-{checkpoint_id}", content)


def cut_off(checkpoint_id: int) -> e.FoundCheckpoint:
    return e.FoundCheckpoint(CheckpointId(checkpoint_id), f"/cp/chk-{checkpoint_id}")


def damaged(checkpoint_id: int) -> e.FoundCheckpoint:
    return e.FoundCheckpoint(CheckpointId(checkpoint_id), f"/cp/chk-{checkpoint_id}", damage=DAMAGE)


def recovered(
    *found: e.FoundCheckpoint, restore: e.RestoreFrom | None = None, options: dict[str, str] | None = None
) -> Cluster:
    cluster = Cluster()
    cluster.register("tm-1", 2)
    submitted = e.JobSubmitted(two_stage(), options or TWO_KEPT, restore)
    cluster.tell(e.JobRecovered(submitted, found, first_attempt=40))
    cluster.settle()
    return cluster


def restored_ids(cluster: Cluster) -> set[int | None]:
    restores = [s.deployment.restore for s in cluster.of(c.SubmitTask)]
    return {r.checkpoint_id if r else None for r in restores}


def discarded(cluster: Cluster) -> list[str]:
    return [d.location for d in cluster.of(c.DiscardCheckpoint)]


def test_the_newest_whole_checkpoint_is_restored_and_the_counter_goes_on_behind_everything() -> None:
    cluster = recovered(whole(7), whole(8), cut_off(9))
    assert restored_ids(cluster) == {8}
    assert {s.deployment.attempt.attempt for s in cluster.of(c.SubmitTask)} == {40}, "above every earlier attempt"
    assert discarded(cluster) == ["/cp/chk-9"], "never completed"
    cluster.start_tasks()
    until_triggered(cluster, 10)
    cluster.complete_checkpoint(10)
    assert discarded(cluster) == ["/cp/chk-9", "/cp/chk-7"], "subsumed as if nothing had happened"


def test_the_counter_of_the_earlier_life_wins_if_it_was_kept() -> None:
    cluster = Cluster()
    cluster.register("tm-1", 2)
    found = (whole(8),)
    cluster.tell(e.JobRecovered(e.JobSubmitted(two_stage(), TWO_KEPT), found, next_id=CheckpointId(12)))
    cluster.settle()
    cluster.start_tasks()
    until_triggered(cluster, 12)
    assert [t.checkpoint_id for t in cluster.of(c.TriggerCheckpoint)] == [12]


def test_without_a_completed_checkpoint_it_starts_where_it_started_first() -> None:
    savepoint = manifest(3, kind=SnapshotType.SAVEPOINT)
    cluster = recovered(cut_off(4), restore=e.RestoreFrom("/sp/savepoint-x", savepoint))
    assert restored_ids(cluster) == {3}
    cluster.start_tasks()
    until_triggered(cluster, 5)
    assert cluster.of(c.TriggerCheckpoint)[-1].options.is_full, "nothing may refer to what is not ours"
    assert restored_ids(recovered()) == {None}


def test_the_savepoint_that_it_was_being_stopped_with_is_newer_than_its_checkpoints() -> None:
    cluster = recovered(whole(7), whole(8, kind=SnapshotType.SUSPEND))
    assert restored_ids(cluster) == {8}
    cluster.start_tasks()
    until_triggered(cluster, 9)
    cluster.complete_checkpoint(9)
    until_triggered(cluster, 10)
    cluster.complete_checkpoint(10)
    assert discarded(cluster) == ["/cp/chk-7"], "a savepoint is never removed"


def test_shared_files_of_an_earlier_life_go_when_their_last_user_does() -> None:
    options = {**AT_ONCE, "execution.checkpointing.incremental": "true"}
    cluster = recovered(whole(7, shared="/cp/shared/a"), options=options)
    cluster.start_tasks()
    until_triggered(cluster, 8)
    cluster.complete_checkpoint(8)
    assert [d.paths for d in cluster.of(c.DiscardSharedFiles)] == [("/cp/shared/a",)]


def test_a_file_that_the_newest_checkpoint_shares_with_the_one_before_the_last_stays() -> None:
    """Of concurrent checkpoints each builds on what was confirmed when it was triggered: 9 on 7, while 8 was under way."""
    options = {**AT_ONCE, "execution.checkpointing.incremental": "true"}
    a, b = "/cp/shared/a", "/cp/shared/b"
    cluster = recovered(whole(7, shared=a), whole(8, shared=b), whole(9, shared=a), options=options)
    assert discarded(cluster) == ["/cp/chk-7", "/cp/chk-8"]
    assert [d.paths for d in cluster.of(c.DiscardSharedFiles)] == [(b,)]


def test_a_damaged_newest_checkpoint_is_refused_by_name() -> None:
    cluster = recovered(whole(7), damaged(9))
    job = cluster.job()
    assert job.state is J.FAILED
    assert job.failure is not None
    assert "/cp/chk-9/_metadata is damaged" in job.failure.message
    assert (discarded(cluster), cluster.of(c.SubmitTask)) == ([], []), "nothing is touched"


def test_a_damaged_older_checkpoint_is_left_alone() -> None:
    cluster = recovered(damaged(6), whole(7))
    assert (restored_ids(cluster), discarded(cluster)) == ({7}, [])


def test_the_inventory_is_in_the_order_of_ids() -> None:
    found = take_inventory([whole(8), cut_off(9), whole(7)])
    assert [x.checkpoint_id for x in found.completed] == [7, 8]
    assert found.next_id == 10
    with pytest.raises(CorruptData, match="newest"):
        take_inventory([whole(8), damaged(9)])


def test_a_damaged_newest_checkpoint_is_passed_over_where_the_user_allows_it() -> None:
    found = take_inventory([whole(7), whole(8), damaged(9)], restores_older=True)
    assert [x.checkpoint_id for x in found.completed] == [7, 8]
    assert found.incomplete == (), "nothing is removed"
    assert found.next_id == 10, "ids are never used again"


def test_the_refusal_names_what_there_is() -> None:
    with pytest.raises(CorruptData, match=r"Intact ones are: .*chk-8, .*chk-7\. Start the job"):
        take_inventory([whole(7), whole(8), damaged(9)])
    with pytest.raises(CorruptData, match="The JobManager knows no other intact checkpoint or savepoint"):
        take_inventory([damaged(9)])


# ---- a task cannot read its state -------------------------------------------------------------------------------------------------


def restarted(options: Mapping[str, str] | None = None, savepoint: str = "") -> Cluster:
    """Two completed checkpoints are kept; every task is restored from the second and not yet running."""
    two_kept = {"execution.checkpointing.num-retained": "2"}
    cluster = running_job(configuration={**CHECKPOINTED, **two_kept, **(options or {})})
    for number in (1, 2):
        until_triggered(cluster, number)
        cluster.complete_checkpoint(number)
    if savepoint:
        cluster.tell(e.SnapshotRequested(JOB, "r", SnapshotType.SAVEPOINT, savepoint))
        cluster.settle()
        cluster.complete_checkpoint(3)
    cluster.fail(cluster.attempt("sink"))
    cluster.cancel_tasks()
    cluster.pass_time(5_000)
    for attempt in cluster.attempts(E.DEPLOYING):
        cluster.state(attempt, E.INITIALIZING)
    return cluster


def fail_over_damage(cluster: Cluster) -> None:
    broken = ErrorInfo.of(CorruptData("/cp/chk-2/s-1 is damaged: its checksum is not what the manifest says"))
    cluster.fail(cluster.attempt("sink"), broken)
    cluster.cancel_tasks()


def test_state_that_is_damaged_fails_the_job_without_a_restart_and_nothing_is_removed() -> None:
    cluster = restarted()
    cluster.whole = {"/cp/chk-1"}
    fail_over_damage(cluster)
    job = cluster.job()
    assert job.state is J.FAILED
    assert job.restarts == 1, "that of the test"
    assert job.failure is not None
    assert "/cp/chk-2/s-1 is damaged" in job.failure.message
    assert "Intact ones are: /cp/chk-1. Start the job from one of them with run -s PATH" in job.failure.message
    assert (discarded(cluster), len(cluster.of(c.JobTerminated))) == ([], 1)


def test_what_is_gone_too_is_not_named_as_a_choice() -> None:
    cluster = restarted()
    cluster.whole = ()
    fail_over_damage(cluster)
    failure = cluster.job().failure
    assert failure is not None
    assert "The JobManager knows no other intact checkpoint or savepoint of the job" in failure.message
    assert "/cp/chk-1" not in failure.message


def test_a_savepoint_of_the_job_is_a_choice_and_never_gone_on_from_by_itself() -> None:
    cluster = restarted({"tidegate.state-recovery.older-checkpoints": "true"}, savepoint="/sp")
    (savepoint,) = {w.location for w in cluster.of(c.WriteManifest) if w.manifest.snapshot_type.is_savepoint}
    cluster.whole = {savepoint}
    fail_over_damage(cluster)
    failure = cluster.job().failure
    assert failure is not None
    assert cluster.job_state() is J.FAILED
    assert f"Intact ones are: {savepoint}." in failure.message


def test_the_job_goes_on_from_an_older_checkpoint_where_the_user_allows_it() -> None:
    cluster = restarted({"tidegate.state-recovery.older-checkpoints": "true"})
    cluster.whole = {"/cp/chk-1"}
    fail_over_damage(cluster)
    cluster.pass_time(5_000)
    assert cluster.job_state() is J.RUNNING
    again = [call.deployment for call in cluster.of(c.SubmitTask) if call.deployment.attempt.attempt == 2]
    assert len(again) == 4, "every subtask goes back, not those of one region alone"
    assert {d.restore.checkpoint_id for d in again if d.restore is not None} == {1}
    assert discarded(cluster) == ["/cp/chk-2"], "it is given up"
    assert cluster.job().restarts == 2
    cluster.start_tasks()
    until_triggered(cluster, 3)
    cluster.complete_checkpoint(3)
    assert [x.checkpoint_id for x in cluster.of(c.ConfirmCheckpoint)][-1] == 3, "ids are never used again"


def test_a_job_that_is_canceled_while_the_storage_is_asked_is_canceled() -> None:
    cluster = restarted({"tidegate.state-recovery.older-checkpoints": "true"})
    cluster.whole = None
    fail_over_damage(cluster)
    assert cluster.job_state() is J.RESTARTING
    cluster.pass_time(60_000)
    assert cluster.job_state() is J.RESTARTING, "it waits for the answer"
    cluster.tell(e.JobCancelRequested(JOB))
    assert cluster.job_state() is J.CANCELED
    cluster.tell(e.CheckpointsInspected(JOB, ("/cp/chk-1",)))
    assert cluster.job_state() is J.CANCELED


def test_state_that_cannot_be_read_now_is_read_again_after_the_restart_delay() -> None:
    cluster = restarted()
    cluster.fail(cluster.attempt("sink"), ErrorInfo.of(StorageError("cannot read /cp/chk-2/s-1: Input/output error")))
    cluster.cancel_tasks()
    assert cluster.job_state() is J.RESTARTING
    cluster.pass_time(10_000)
    assert cluster.job_state() is J.RUNNING
    restore = cluster.of(c.SubmitTask)[-1].deployment.restore
    assert restore is not None
    assert restore.checkpoint_id == 2, "the same one: what it holds may have been published"


def test_damaged_input_of_a_running_task_does_not_keep_checkpoints() -> None:
    cluster = checkpointed()
    cluster.complete_checkpoint(1)
    cluster.fail(cluster.attempt("source"), ErrorInfo.of(CorruptData("in.parquet is damaged")))
    cluster.cancel_tasks()
    assert (cluster.job_state(), discarded(cluster)) == (J.FAILED, ["/cp/chk-1"])
