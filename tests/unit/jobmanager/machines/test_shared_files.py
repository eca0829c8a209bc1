"""Shared files of incremental checkpoints, through the whole machine: where they go, and when they are removed."""

from __future__ import annotations

from collections.abc import Callable

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
from tidegate.model.checkpoint import (
    CheckpointManifest,
    CheckpointOptions,
    DeclineReason,
    OperatorSnapshot,
    OperatorState,
    SegmentHandle,
    SnapshotType,
    StateHandle,
    SubtaskSnapshot,
)
from tidegate.model.errors import CheckpointFilesMissing, ErrorInfo, StorageError
from tidegate.model.ids import CheckpointId
from tidegate.model.keygroups import KeyGroupRange
from tidegate.model.options import ClaimMode
from tidegate.model.states import ExecutionState, JobState

RETAINED = {"incremental": "true", "externalized_checkpoint_retention": "RETAIN_ON_CANCELLATION"}


def shared(*names: str) -> OperatorSnapshot:
    groups = KeyGroupRange(0, 0)
    return OperatorSnapshot(
        keyed=tuple(
            SegmentHandle("s", groups, (0, 1), StateHandle(8, "0" * 16, f"/cp/shared/{n}", is_shared=True))
            for n in names
        )
    )


def snapshot(*names: str) -> SubtaskSnapshot:
    return SubtaskSnapshot({operator_id("sink"): shared(*names)})


def complete(cluster: Cluster, checkpoint_id: int, *names: str) -> list[c.Command]:
    until_triggered(cluster, checkpoint_id)
    seen = []
    for attempt in cluster.attempts(ExecutionState.RUNNING):
        is_first_sink = attempt == cluster.attempt("sink")
        seen += cluster.acknowledge(attempt, checkpoint_id, snapshot(*names) if is_first_sink else None)
    return seen


def removed(cluster: Cluster, commands: list[c.Command] | None = None) -> list[str]:
    return [p for d in cluster.of(c.DiscardSharedFiles, commands) for p in d.paths]


def options_of(cluster: Cluster, checkpoint_id: int) -> CheckpointOptions:
    return next(t.options for t in cluster.of(c.TriggerCheckpoint) if t.checkpoint_id == checkpoint_id)


def test_only_incremental_checkpoints_are_told_where_shared_files_go() -> None:
    plain, incremental = checkpointed(), checkpointed(incremental="true")
    assert options_of(plain, 1).shared_location == ""
    assert (options_of(incremental, 1).shared_location, options_of(incremental, 1).is_full) == ("/cp/shared", False)
    complete(incremental, 1)
    incremental.tell(e.SnapshotRequested(JOB, "r", SnapshotType.SAVEPOINT))
    incremental.settle()
    assert (options_of(incremental, 2).shared_location, options_of(incremental, 2).is_full) == ("", True)


def test_a_file_goes_when_the_last_checkpoint_that_names_it_is_subsumed() -> None:
    cluster = checkpointed(incremental="true")
    complete(cluster, 1, "a", "b")
    assert removed(cluster, complete(cluster, 2, "b", "c")) == ["/cp/shared/a"]
    assert options_of(cluster, 2).oldest_base_id == 1
    assert removed(cluster, complete(cluster, 3, "c")) == ["/cp/shared/b"]
    last = cluster.of(c.DiscardCheckpoint)[-1]
    assert cluster.sent.index(last) < cluster.sent.index(cluster.of(c.DiscardSharedFiles)[-1]), (
        "the manifest goes first"
    )


@pytest.mark.parametrize(
    ("named", "gone"), [(("a", "c"), ["/cp/shared/b"]), (("c",), ["/cp/shared/a", "/cp/shared/b"])]
)
def test_a_file_that_a_pending_checkpoint_may_still_name_stays(named: tuple[str, ...], gone: list[str]) -> None:
    cluster = checkpointed(incremental="true", max_concurrent_checkpoints="2")
    complete(cluster, 1, "a")
    until_triggered(cluster, 3)
    assert options_of(cluster, 3).oldest_base_id == 1
    complete(cluster, 2, "b")
    assert removed(cluster) == [], "the first is subsumed, but who has not heard of the second builds on it"
    complete(cluster, 3, *named)
    assert removed(cluster) == gone


def test_what_an_aborted_checkpoint_wrote_goes_and_what_it_reused_stays() -> None:
    cluster = checkpointed(incremental="true", tolerable_failed_checkpoints="9")
    complete(cluster, 1, "a")
    until_triggered(cluster, 2)
    cluster.acknowledge(cluster.attempt("sink"), 2, snapshot("a", "b"))
    cluster.decline(cluster.attempt("source"), 2)
    assert removed(cluster) == ["/cp/shared/b"]
    cluster.acknowledge(cluster.attempt("sink", 1), 2, snapshot("a", "late"))
    assert removed(cluster) == ["/cp/shared/b", "/cp/shared/late"]


def test_what_an_aborted_checkpoint_wrote_and_never_told_of_is_looked_for_twice() -> None:
    cluster = checkpointed(incremental="true", tolerable_failed_checkpoints="9", timeout="100 ms")
    cluster.pass_time(100)
    assert [(d.checkpoint_id, d.shared_location) for d in cluster.of(c.DiscardCheckpoint)] == [(1, "/cp/shared")]
    told = complete(cluster, 2, "a")
    assert [(d.checkpoint_id, d.shared_location) for d in cluster.of(c.DiscardCheckpoint, told)] == [
        (1, "/cp/shared")
    ], "its subtasks have heard of the abort by now"
    told = complete(cluster, 3, "a")
    assert [(d.checkpoint_id, d.shared_location) for d in cluster.of(c.DiscardCheckpoint, told)] == [(2, "")], (
        "subsumed"
    )


def test_what_tasks_wrote_until_they_were_canceled_goes_after_they_are_over() -> None:
    cluster = checkpointed(incremental="true")
    cluster.removes_files = False
    cluster.tell(e.JobCancelRequested(JOB))
    cluster.settle()
    assert [d.checkpoint_id for d in cluster.of(c.DiscardCheckpoint)] == [1], "its tasks may still write"
    cluster.cancel_tasks()
    assert not cluster.of(c.JobTerminated)
    told = cluster.tell(e.CheckpointDiscarded(JOB, CheckpointId(1)))
    assert [(d.checkpoint_id, d.shared_location) for d in cluster.of(c.DiscardCheckpoint, told)] == [(1, "/cp/shared")]
    assert not cluster.of(c.JobTerminated)
    told = cluster.tell(e.CheckpointDiscarded(JOB, CheckpointId(1)))
    assert len(cluster.of(c.JobTerminated, told)) == 1


def test_the_end_of_the_job_removes_what_the_retention_does_not_keep() -> None:
    for settings, gone in (({"incremental": "true"}, ["/cp/shared/a"]), (RETAINED, [])):
        cluster = checkpointed(**settings)
        complete(cluster, 1, "a")
        cluster.tell(e.JobCancelRequested(JOB))
        cluster.settle()
        assert not cluster.of(c.JobTerminated)
        cluster.cancel_tasks()
        assert removed(cluster) == gone
        assert len(cluster.of(c.JobTerminated)) == 1


def test_what_could_not_be_removed_is_told_and_is_not_called_gone() -> None:
    cluster = checkpointed()
    complete(cluster, 1)
    cluster.removes_files = False
    cluster.tell(e.JobCancelRequested(JOB))
    cluster.settle()
    cluster.cancel_tasks()
    disk = ErrorInfo.of(StorageError("cannot remove /cp/chk-1: Permission denied"))
    told = cluster.tell(e.CheckpointDiscarded(JOB, CheckpointId(1), disk))
    assert [(log.level, log.message) for log in cluster.of(c.Log, told)] == [
        ("WARN", "checkpoint 1 could not be removed: cannot remove /cp/chk-1: Permission denied")
    ]
    assert len(cluster.of(c.JobTerminated, told)) == 1
    assert not cluster.checkpoints().history[0].discarded


def test_the_job_is_over_only_when_its_shared_files_are_gone() -> None:
    cluster = checkpointed(incremental="true")
    complete(cluster, 1, "a")
    cluster.removes_files = False
    cluster.tell(e.JobCancelRequested(JOB))
    cluster.settle()
    cluster.cancel_tasks()
    cluster.tell(e.CheckpointDiscarded(JOB, CheckpointId(1)))
    assert not cluster.of(c.JobTerminated)
    cluster.tell(e.SharedFilesDiscarded(JOB, CheckpointId(1)))
    assert len(cluster.of(c.JobTerminated)) == 1


@pytest.mark.parametrize(
    ("mode", "is_full", "gone"),
    [
        (ClaimMode.CLAIM, False, ["/cp/shared/old"]),
        (ClaimMode.NO_CLAIM, True, []),
        (ClaimMode.LEGACY, False, []),
    ],
)
def test_files_of_the_checkpoint_that_a_job_starts_from(mode: ClaimMode, is_full: bool, gone: list[str]) -> None:
    state = OperatorState(operator_id("sink"), "sink", "sink", 2, 128, {0: shared("old")})
    manifest = CheckpointManifest(JOB, "job", CheckpointId(5), 0, SnapshotType.CHECKPOINT, (state,))
    cluster = Cluster()
    cluster.register("tm-1", 2)
    options = {**CHECKPOINTED, "execution.checkpointing.incremental": "true"}
    cluster.submit(two_stage(), options, e.RestoreFrom("/cp/chk-5", manifest, claim_mode=mode))
    cluster.start_tasks()
    complete(cluster, 6, "new")
    assert options_of(cluster, 6).is_full is is_full
    assert removed(cluster) == gone
    complete(cluster, 7, "new", "newer")
    assert not options_of(cluster, 7).is_full, "once one is complete"


def test_unaligned_settings_reach_the_barrier() -> None:
    found = []
    for settings in (
        {"unaligned.enabled": "true"},
        {"unaligned.enabled": "true", "aligned_checkpoint_timeout": "50 ms"},
        {"unaligned.enabled": "true", "mode": "AT_LEAST_ONCE"},
        {},
    ):
        options = options_of(checkpointed(**settings), 1)
        found.append((options.alignment.value, options.aligned_timeout_ms))
    assert found == [("UNALIGNED", None), ("ALIGNED", 50), ("AT_LEAST_ONCE", None), ("ALIGNED", None)]


def test_savepoints_of_an_unaligned_job_are_aligned_and_wait_for_their_turn() -> None:
    cluster = checkpointed(**{"unaligned.enabled": "true"})
    cluster.tell(e.SnapshotRequested(JOB, "r", SnapshotType.SAVEPOINT))
    cluster.settle()
    assert [t.checkpoint_id for t in cluster.of(c.TriggerCheckpoint)] == [1]
    complete(cluster, 1)
    assert options_of(cluster, 2).alignment.value == "ALIGNED"
    aligned = running_job(configuration=CHECKPOINTED)
    until_triggered(aligned, 1)
    aligned.tell(e.SnapshotRequested(JOB, "r", SnapshotType.SAVEPOINT))
    aligned.settle()
    assert [t.checkpoint_id for t in aligned.of(c.TriggerCheckpoint)] == [1, 2], "aligned: it passes the limit"


GONE = ErrorInfo.of(CheckpointFilesMissing("state file /cp/shared/a is missing: it was removed"))


def decline(cluster: Cluster, checkpoint_id: int) -> None:
    cluster.tell(
        e.SubtaskDeclined(cluster.attempt("sink"), CheckpointId(checkpoint_id), DeclineReason.ASYNC_EXCEPTION, GONE)
    )
    cluster.settle()


def not_located(cluster: Cluster, checkpoint_id: int) -> None:
    cluster.makes_locations = False
    while not [x for x in cluster.of(c.CreateLocation) if x.checkpoint_id == checkpoint_id]:
        cluster.pass_time(50)
    cluster.tell(e.LocationCreated(JOB, CheckpointId(checkpoint_id), "", GONE))
    cluster.makes_locations = True
    cluster.inbox.clear()


def not_written(cluster: Cluster, checkpoint_id: int) -> None:
    cluster.writes_manifests = False
    cluster.complete_checkpoint(checkpoint_id)
    cluster.tell(e.ManifestWriteFailed(JOB, CheckpointId(checkpoint_id), GONE))
    cluster.writes_manifests = True
    cluster.inbox.clear()


@pytest.mark.parametrize("fails", [decline, not_located, not_written])
def test_a_checkpoint_of_which_files_were_removed_is_no_failure_of_the_job_and_the_next_builds_on_nothing(
    fails: Callable[[Cluster, int], None],
) -> None:
    cluster = checkpointed(incremental="true")
    complete(cluster, 1, "a")
    if fails is not not_located:
        until_triggered(cluster, 2)
        assert not options_of(cluster, 2).is_full
    fails(cluster, 2)
    assert cluster.job_state() is JobState.RUNNING
    assert cluster.checkpoints().failed == 1
    until_triggered(cluster, 3)
    assert options_of(cluster, 3).is_full
    complete(cluster, 3, "b")
    until_triggered(cluster, 4)
    assert not options_of(cluster, 4).is_full, "once one is complete"
    assert (cluster.job_state(), cluster.job().restarts) == (JobState.RUNNING, 0)


def test_a_job_without_any_checkpoint_fails_where_it_can_write_none() -> None:
    cluster = checkpointed(incremental="true")
    decline(cluster, 1)
    assert cluster.job_state() is JobState.RESTARTING
