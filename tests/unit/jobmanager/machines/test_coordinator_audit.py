"""What Flink's coordinator does besides its 25 scenarios: texts, counters, late messages, what is shown."""

from __future__ import annotations

from tests.unit.jobmanager.machines.cluster_kit import JOB, Cluster, checkpointed, operator_id, until_triggered
from tidegate.jobmanager.machines import commands as c
from tidegate.jobmanager.machines import events as e
from tidegate.jobmanager.machines.checkpoint.failure import FailureCounter, FailureReason
from tidegate.model.checkpoint import (
    CheckpointMetrics,
    OperatorSnapshot,
    OperatorStateHandle,
    SnapshotType,
    StateHandle,
    StateRedistribution,
    SubtaskSnapshot,
)
from tidegate.model.ids import CheckpointId
from tidegate.model.states import ExecutionState as E

COUNTED = {"IO_EXCEPTION", "ASYNC_EXCEPTION", "EXPIRED", "DECLINED", "FINALIZE_CHECKPOINT_FAILURE"}


def file(name: str) -> SubtaskSnapshot:
    handle = OperatorStateHandle("l", StateRedistribution.SPLIT, 1, StateHandle(9, "0" * 16, name))
    return SubtaskSnapshot({operator_id("sink"): OperatorSnapshot(operator=(handle,))})


def logs(cluster: Cluster) -> list[str]:
    return [log.message for log in cluster.of(c.Log)]


def test_there_are_flinks_24_reasons_and_5_of_them_count() -> None:
    assert len(FailureReason) == 24
    assert {reason.name for reason in FailureReason if reason.counts} == COUNTED
    assert FailureReason.DECLINED_TASK_CLOSING.text == "Checkpoint was declined (task is closing)"


def test_a_restart_for_another_reason_does_not_forgive_failed_checkpoints() -> None:
    counter = FailureCounter(1)

    def fails(number: int) -> bool:
        kind = SnapshotType.CHECKPOINT
        return counter.on_failure(FailureReason.EXPIRED, CheckpointId(number), kind, on_task_side=False)

    assert [fails(1), fails(2), fails(3), fails(4)] == [False, True, False, True], "begins anew when it was exceeded"
    counter.on_success(CheckpointId(5))
    assert [fails(6), fails(6), fails(7)] == [False, False, True]
    cluster = checkpointed(tolerable_failed_checkpoints="1", timeout="100 ms")
    cluster.pass_time(100)
    cluster.fail(cluster.attempt("sink"))
    cluster.cancel_tasks()
    cluster.pass_time(5_000)
    cluster.start_tasks()
    until_triggered(cluster, 2)
    cluster.pass_time(100)
    failure = cluster.job().failure
    assert failure is not None
    assert failure.message.startswith("Exceeded checkpoint tolerable failure threshold.")


def test_an_acknowledgement_of_an_expired_checkpoint_is_told_apart() -> None:
    cluster = checkpointed(tolerable_failed_checkpoints="99", timeout="100 ms")
    cluster.pass_time(100)
    cluster.acknowledge(cluster.attempt("sink"), 1)
    cluster.acknowledge(cluster.attempt("sink"), 77)
    late = [text for text in logs(cluster) if "expired checkpoint attempt" in text]
    assert late == ["received late message for now expired checkpoint attempt 1"]
    (shown,) = [x for x in cluster.checkpoints().history if x.checkpoint_id == 1]
    assert shown.acknowledged == 0
    assert [part.aborted for part in shown.subtasks] == [True], "its figures are told all the same"


def test_what_an_attempt_outside_of_the_plan_wrote_is_removed() -> None:
    cluster = checkpointed(tolerable_failed_checkpoints="99")
    cluster.complete_checkpoint(1)
    old = cluster.attempt("sink")
    cluster.fail(old)
    cluster.cancel_tasks()
    cluster.pass_time(5_000)
    cluster.start_tasks()
    until_triggered(cluster, 2)
    told = cluster.acknowledge(old, 2, file("l-old"))
    assert [d.paths for d in cluster.of(c.DiscardSharedFiles, told)] == [("/cp/chk-2/l-old",)]
    cluster.acknowledge(cluster.attempt("sink"), 2, file("l-new"))
    told = cluster.acknowledge(cluster.attempt("sink"), 2, file("l-new"))
    assert not cluster.of(c.DiscardSharedFiles, told), "a duplicate is not late: its state is in use"


def test_the_way_of_a_checkpoint_is_shown_step_by_step() -> None:
    cluster = checkpointed()
    attempts = cluster.attempts(E.RUNNING)
    cluster.writes_manifests = False
    for attempt in attempts:
        cluster.now_ms += 10
        metrics = CheckpointMetrics(waited_for="source (2/2)", in_flight_bytes=5)
        cluster.tell(e.SubtaskAcknowledged(attempt, CheckpointId(1), SubtaskSnapshot(), metrics))
    sealed_ms = cluster.now_ms
    (view,) = cluster.checkpoints().history
    assert (view.sealed_ms, view.end_ms, view.confirmed_ms) == (sealed_ms, None, None)
    cluster.now_ms += 7
    cluster.tell(e.ManifestWritten(JOB, CheckpointId(1), 100))
    (view,) = cluster.checkpoints().history
    assert view.sent_ms is not None
    assert view.trigger_ms <= view.sent_ms <= sealed_ms
    assert (view.end_ms, view.confirmed_ms) == (sealed_ms + 7, sealed_ms + 7)
    assert {part.metrics.waited_for for part in view.subtasks} == {"source (2/2)"}


def test_a_savepoint_is_never_confirmed() -> None:
    cluster = checkpointed()
    cluster.complete_checkpoint(1)
    cluster.tell(e.SnapshotRequested(JOB, "r", SnapshotType.SAVEPOINT))
    cluster.settle()
    cluster.complete_checkpoint(2)
    savepoint, checkpoint = cluster.checkpoints().history
    assert (savepoint.status, savepoint.confirmed_ms) == ("COMPLETED", None)
    assert checkpoint.confirmed_ms is not None
