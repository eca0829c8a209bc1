"""Bugs on purpose, one or more for each law. The checkers must catch every one of them (``test_planted_bugs.py``)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from tests.sim.laws import Law
from tests.sim.model_subtask import ModelSubtask
from tests.sim.operators import CounterOperator, SinkOperator, SourceOperator
from tests.sim.plant import Plant, patched
from tests.sim.schedule import Mix
from tests.sim.storage import Transaction
from tidegate.jobmanager.machines import events as e
from tidegate.jobmanager.machines.checkpoint import coordinator as checkpoint_coordinator
from tidegate.jobmanager.machines.checkpoint.cleaner import CheckpointCleaner
from tidegate.jobmanager.machines.checkpoint.commands import CheckpointCommands
from tidegate.jobmanager.machines.checkpoint.coordinator import CheckpointCoordinator
from tidegate.jobmanager.machines.checkpoint.pending_checkpoint import AckResult, PendingCheckpoint
from tidegate.jobmanager.machines.checkpoint.pending_checkpoints import PendingCheckpoints
from tidegate.jobmanager.machines.checkpoint.plan import CheckpointPlan, PlanRefused, decide_plan
from tidegate.jobmanager.machines.scheduling import failover
from tidegate.jobmanager.machines.scheduling.execution import Execution
from tidegate.jobmanager.machines.scheduling.execution_graph import ExecutionGraph
from tidegate.model.channel_events import Barrier
from tidegate.model.checkpoint import CheckpointManifest, SubtaskSnapshot
from tidegate.model.ids import AttemptId, SubtaskId
from tidegate.taskmanager.machines.attempt_notes import EndedAttempts

# ---- law 1: only sources are triggered ---------------------------------------------------------------------------------


def _everybody_is_triggered(graph: ExecutionGraph, *, after_tasks_finish: bool) -> CheckpointPlan | PlanRefused:
    plan = decide_plan(graph, after_tasks_finish=after_tasks_finish)
    return plan if isinstance(plan, PlanRefused) else replace(plan, trigger=plan.wait_for)


# ---- law 2: the cut ------------------------------------------------------------------------------------------------------


def _no_alignment(task: ModelSubtask, channel: int) -> None:
    """The channel is not blocked: rows behind its barrier get into the snapshot."""


_emit_barrier = ModelSubtask.emit_barrier


def _one_row_too_many(task: ModelSubtask, barrier: Barrier) -> None:
    """The source fixes its offset, then lets one more row out before the barrier."""
    if not task.is_source or (row := task.operator.poll()) is None:
        _emit_barrier(task, barrier)
        return
    assert isinstance(task.operator, SourceOperator)
    offsets = {**task.operator.offsets, row.split: row.offset}
    task.context.watch.on_cut(task.attempt, barrier.checkpoint_id, offsets)
    task.outputs.push(row, task.operator)
    with mock.patch.object(task.operator, "offsets", offsets):
        _emit_barrier(task, barrier)


# ---- law 3: what is frozen does not change, one answer ------------------------------------------------------------------


def _no_copy_on_write(operator: CounterOperator, group: int) -> None:
    """State that is frozen is written in place."""


_acknowledge = ModelSubtask.acknowledge


def _acknowledges_twice(task: ModelSubtask, command: Any) -> None:
    _acknowledge(task, command)
    _acknowledge(task, command)


# ---- law 4: the point of no return ---------------------------------------------------------------------------------------

_write_manifest = CheckpointCommands.write_manifest


def _confirms_at_the_last_acknowledgement(
    commands: CheckpointCommands, pending: PendingCheckpoint, manifest: CheckpointManifest
) -> None:
    _write_manifest(commands, pending, manifest)
    written = e.ManifestWritten(manifest.job_id, manifest.checkpoint_id, 0)
    commands.confirm(pending.on_manifest_written(written), lets_finish=True)


def _deletes_what_may_be_durable(coordinator: CheckpointCoordinator, event: e.ManifestWriteFailed) -> Any:
    return _on_manifest_failed(coordinator, replace(event, outcome_unknown=False))


_on_manifest_failed = CheckpointCoordinator.on_manifest_failed


def _counts_two_acknowledgements_at_once(
    pending: PendingCheckpoint, attempt: AttemptId, snapshot: SubtaskSnapshot
) -> AckResult:
    result = _acknowledge_pending(pending, attempt, snapshot)
    other = next(filter(pending.is_waiting_for, pending.plan.wait_for), None)
    if result is AckResult.SUCCESS and other is not None:
        _acknowledge_pending(pending, other, SubtaskSnapshot())
    return result


_acknowledge_pending = PendingCheckpoint.acknowledge


# ---- law 5: effects on confirm only --------------------------------------------------------------------------------------


def _commits_with_the_vote(operator: SinkOperator, transaction: Transaction) -> None:
    operator._commit(transaction)


# ---- law 6: fencing ------------------------------------------------------------------------------------------------------


def _takes_any_attempt_for_the_current_one(graph: ExecutionGraph, attempt: AttemptId) -> Execution | None:
    return graph[attempt.subtask_id]


# ---- law 7: a failed checkpoint is told and removed ----------------------------------------------------------------------


def _says_nothing(commands: CheckpointCommands, pending: PendingCheckpoint, latest: object) -> None:
    """An abort that nobody hears of."""


def _removes_nothing(cleaner: CheckpointCleaner, checkpoint_id: int, location: str, shared_location: str) -> None:
    """The files of an aborted checkpoint stay."""


# ---- recovery, for the exact output ---------------------------------------------------------------------------------------


def _only_its_own_region(graph: ExecutionGraph, failed: SubtaskId) -> tuple[SubtaskId, ...]:
    return graph.regions.of(failed)


@contextmanager
def _restores_without_waiting_for_the_storage() -> Iterator[None]:
    with mock.patch.object(CheckpointCoordinator, "is_settling", False):
        yield


OF_THE_LAWS = (
    Plant(
        "everybody is triggered",
        frozenset({Law.TRIGGER}),
        patched(checkpoint_coordinator, "decide_plan", _everybody_is_triggered),
    ),
    Plant("no alignment", frozenset({Law.CUT}), patched(ModelSubtask, "block", _no_alignment)),
    Plant(
        "one row too many before the barrier",
        frozenset({Law.CUT}),
        patched(ModelSubtask, "emit_barrier", _one_row_too_many),
    ),
    Plant("no copy on write", frozenset({Law.FROZEN}), patched(CounterOperator, "copy_on_write", _no_copy_on_write)),
    Plant("acknowledges twice", frozenset({Law.FROZEN}), patched(ModelSubtask, "acknowledge", _acknowledges_twice)),
    Plant(
        "confirms before _metadata is durable",
        frozenset({Law.COMPLETE, Law.ABORTED}),
        patched(CheckpointCommands, "write_manifest", _confirms_at_the_last_acknowledgement),
    ),
    Plant(
        "deletes what may be durable",
        frozenset({Law.COMPLETE}),
        patched(CheckpointCoordinator, "on_manifest_failed", _deletes_what_may_be_durable),
    ),
    Plant(
        "completes without an acknowledgement",
        frozenset({Law.OUTPUT, Law.COMPLETE, Law.SPLITS}),
        patched(PendingCheckpoint, "acknowledge", _counts_two_acknowledgements_at_once),
    ),
    Plant(
        "commits with the vote",
        frozenset({Law.PUBLISHED}),
        patched(SinkOperator, "on_prepared", _commits_with_the_vote),
    ),
    Plant(
        "takes an old attempt for the current one",
        frozenset({Law.FENCED}),
        patched(ExecutionGraph, "current", _takes_any_attempt_for_the_current_one),
    ),
    Plant(
        "an attempt begins again when its submission is repeated",
        frozenset({Law.FENCED}),
        patched(EndedAttempts, "has_begun", lambda ended, task: False),
    ),
    Plant("an abort nobody hears of", frozenset({Law.ABORTED}), patched(CheckpointCommands, "abort", _says_nothing)),
    Plant(
        "files of a failed checkpoint stay",
        frozenset({Law.ABORTED}),
        patched(CheckpointCleaner, "discard_aborted", _removes_nothing),
    ),
    Plant(
        "restores before the storage has answered",
        frozenset({Law.OUTPUT, Law.COMPLETE, Law.PUBLISHED}),
        _restores_without_waiting_for_the_storage,
    ),
    Plant(
        "a checkpoint starts while subtasks are finishing",
        frozenset({Law.ENDING}),
        patched(ExecutionGraph, "is_anyone_leaving", False),
    ),
    Plant(
        "those finish whom a checkpoint counts on that is about to be triggered",
        frozenset({Law.ENDING}),
        patched(PendingCheckpoints, "is_any_untold", False),
        Mix(savepoints=4, checkpoints=4, stops=0, cancels=0, jobmanager_crashes=0),
    ),
    Plant(
        "a successor runs alone among finished siblings",
        frozenset({Law.OUTPUT}),
        patched(failover, "affected_by", _only_its_own_region),
        Mix(parallel=1.0, stops=0, cancels=0, jobmanager_crashes=0, aimed_at_jobmanager=0.0, ends_of_life=0.5),
    ),
)
