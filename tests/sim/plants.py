"""Bugs on purpose, one or more for each law: each is a context in which the real classes are broken in one place. The checkers
must catch every one of them (``test_planted_bugs.py``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

from jobmanager.machines import checkpoint_coordinator, job, job_recovery, recovery
from jobmanager.machines import events as e
from jobmanager.machines.checkpoint_cleaner import CheckpointCleaner
from jobmanager.machines.checkpoint_commands import CheckpointCommands
from jobmanager.machines.checkpoint_completed import CompletedCheckpoint
from jobmanager.machines.checkpoint_coordinator import CheckpointCoordinator
from jobmanager.machines.checkpoint_custody import CheckpointCustody
from jobmanager.machines.checkpoint_options import decide_options
from jobmanager.machines.checkpoint_pending import AckResult, PendingCheckpoint
from jobmanager.machines.checkpoint_plan import CheckpointPlan, PlanRefused, decide_plan
from jobmanager.machines.execution import Execution
from jobmanager.machines.execution_graph import ExecutionGraph
from jobmanager.machines.failover import Failover
from jobmanager.machines.job_recovery import Inventory
from jobmanager.machines.shared_state import SharedStateRegistry
from tests.sim.counts import CounterState, FrozenCounts
from tests.sim.operators import CounterOperator, SinkOperator, SourceOperator
from tests.sim.schedule import EVERYTHING, Mix
from tests.sim.storage import Transaction
from tests.sim.subtask import SimTask
from tests.sim.watch import SHARED
from tidegate.model.channel_events import Barrier
from tidegate.model.checkpoint import CheckpointOptions, SubtaskSnapshot
from tidegate.model.ids import AttemptId, CheckpointId, SubtaskId


@dataclass(frozen=True, slots=True)
class Plant:
    """``laws``: numbers of the checkers that may catch it; 0 is the exact output in the end."""

    name: str
    laws: frozenset[int]
    plant: Callable[[], Any]
    mix: Mix = EVERYTHING
    """Schedules in which it has many occasions."""


def _patched(owner: object, name: str, value: object) -> Callable[[], Any]:
    return lambda: mock.patch.object(owner, name, value)


# ---- law 1: only sources are triggered ---------------------------------------------------------------------------------


def _everybody_is_triggered(graph: ExecutionGraph, *, after_tasks_finish: bool) -> CheckpointPlan | PlanRefused:
    plan = decide_plan(graph, after_tasks_finish=after_tasks_finish)
    return plan if isinstance(plan, PlanRefused) else replace(plan, trigger=plan.wait_for)


# ---- law 2: the cut ------------------------------------------------------------------------------------------------------


def _no_alignment(task: SimTask, channel: int) -> None:
    """The channel is not blocked: rows behind its barrier get into the snapshot."""


_emit_barrier = SimTask.emit_barrier


def _one_row_too_many(task: SimTask, barrier: Barrier) -> None:
    """The source fixes its offset, then lets one more row out before the barrier."""
    if not task.is_source or (row := task.operator.poll()) is None:
        _emit_barrier(task, barrier)
        return
    assert isinstance(task.operator, SourceOperator)
    offsets = {**task.operator.offsets, row.split: row.offset}
    task.context.watch.on_cut(task.attempt, barrier.checkpoint_id, offsets)
    task._push(row)
    task.broadcast(barrier)


# ---- law 3: what is frozen does not change, one answer ------------------------------------------------------------------


def _no_copy_on_write(operator: CounterOperator, group: int) -> None:
    """State that is frozen is written in place."""


_acknowledge = SimTask.acknowledge


def _acknowledges_twice(task: SimTask, command: Any) -> None:
    _acknowledge(task, command)
    _acknowledge(task, command)


# ---- law 4: the point of no return ---------------------------------------------------------------------------------------

_seal = CheckpointCoordinator._seal


def _confirms_at_the_last_acknowledgement(coordinator: CheckpointCoordinator, pending: PendingCheckpoint) -> Any:
    failure = _seal(coordinator, pending)
    if pending.state.is_settling:
        manifest = pending._manifest
        assert manifest is not None
        written = e.ManifestWritten(manifest.job_id, manifest.checkpoint_id, 0)
        coordinator._complete(pending, pending.on_manifest_written(written))
    return failure


def _deletes_what_may_be_durable(coordinator: CheckpointCoordinator, event: e.ManifestWriteFailed) -> Any:
    return _on_manifest_failed(coordinator, replace(event, outcome_unknown=False))


_on_manifest_failed = CheckpointCoordinator.on_manifest_failed


def _counts_two_acknowledgements_at_once(
    pending: PendingCheckpoint, attempt: AttemptId, snapshot: SubtaskSnapshot
) -> AckResult:
    result = _acknowledge_pending(pending, attempt, snapshot)
    if result is AckResult.SUCCESS and pending._waiting:
        del pending._waiting[next(iter(pending._waiting))]
    return result


_acknowledge_pending = PendingCheckpoint.acknowledge


# ---- law 5: effects on confirm only --------------------------------------------------------------------------------------


def _commits_with_the_vote(operator: SinkOperator, transaction: Transaction) -> None:
    operator._commit(transaction)


# ---- law 6: fencing ------------------------------------------------------------------------------------------------------


def _takes_any_attempt_for_the_current_one(graph: ExecutionGraph, attempt: AttemptId) -> Execution | None:
    return graph._current.get(attempt.subtask_id)


# ---- law 7: a failed checkpoint is told and removed ----------------------------------------------------------------------


def _says_nothing(commands: CheckpointCommands, pending: PendingCheckpoint, latest: object) -> None:
    """An abort that nobody hears of."""


def _removes_nothing(cleaner: CheckpointCleaner, checkpoint_id: int, location: str, shared_location: str) -> None:
    """The files of an aborted checkpoint stay."""


def _owns_whatever_it_started_from(custody: CheckpointCustody, checkpoint: CompletedCheckpoint) -> None:
    _adopt(custody, replace(checkpoint, is_ours=True))


_adopt = CheckpointCustody._adopt

# ---- shared files ----------------------------------------------------------------------------------------------------


def _drops_files_though_others_use_them(registry: SharedStateRegistry, checkpoint_id: CheckpointId) -> list[str]:
    return [path for path in registry._used_by.pop(checkpoint_id, ()) if registry._files.pop(path, None) is not None]


def _holds_nothing(registry: SharedStateRegistry, pending: CheckpointId, oldest_base_id: int) -> None:
    """What a pending checkpoint builds on goes with the checkpoint that wrote it."""


def _forgets_to_delete(cleaner: CheckpointCleaner, checkpoint_id: CheckpointId, paths: Sequence[str]) -> None:
    """Shared files that nobody uses stay for ever."""


def _builds_on_what_is_not_confirmed(
    state: CounterState, checkpoint_id: int, options: CheckpointOptions
) -> FrozenCounts:
    state._confirmed = max(state._written, default=0)
    return _freeze_counts(state, checkpoint_id, replace(options, oldest_base_id=0))


_freeze_counts = CounterState.freeze


def _builds_on_what_was_not_claimed(*arguments: Any, must_be_full: bool) -> CheckpointOptions:
    return decide_options(*arguments, must_be_full=False)


# ---- another JobManager goes on --------------------------------------------------------------------------------------


def _forgets_the_newest(found: Iterable[e.FoundCheckpoint]) -> Inventory:
    return _take_inventory(sorted(found, key=lambda place: place.checkpoint_id)[:-1])


def _leaves_what_is_incomplete(found: Iterable[e.FoundCheckpoint]) -> Inventory:
    return replace(_take_inventory(found), incomplete=())


_take_inventory = job_recovery.take_inventory


def _counts_attempts_from_the_start(*arguments: Any) -> job_recovery.Origin:
    return replace(_decide_origin(*arguments), first_attempt=0)


_decide_origin = job_recovery.decide_origin

# ---- what users are told ---------------------------------------------------------------------------------------------


def _says_nothing_of_failures(
    commands: CheckpointCommands, request_id: str, number: Any, failure: str, path: str
) -> None:
    if not failure:
        _report(commands, request_id, number, failure, path)


_report = CheckpointCommands.report

# ---- another parallelism ---------------------------------------------------------------------------------------------


def _deals_list_state_to_all_but_one(handles: Any, parallelism: int) -> list[list[Any]]:
    return [*_deal_elements(handles, parallelism)[:-1], []]


_deal_elements = recovery.deal_elements


def _key_groups_stay_where_they_were(plan: Any, index: int) -> Any:
    snapshot = plan.state.subtasks.get(index)
    return snapshot.keyed if snapshot else ()


# ---- recovery, for the exact output ---------------------------------------------------------------------------------------


def _only_its_own_region(failover: Failover, failed: SubtaskId) -> tuple[SubtaskId, ...]:
    return failover._graph.regions.of(failed)


@contextmanager
def _restores_without_waiting_for_the_storage() -> Iterator[None]:
    with mock.patch.object(CheckpointCoordinator, "is_settling", False):
        yield


PLANTS = (
    Plant(
        "everybody is triggered",
        frozenset({1}),
        _patched(checkpoint_coordinator, "decide_plan", _everybody_is_triggered),
    ),
    Plant("no alignment", frozenset({2}), _patched(SimTask, "block", _no_alignment)),
    Plant("one row too many before the barrier", frozenset({2}), _patched(SimTask, "emit_barrier", _one_row_too_many)),
    Plant("no copy on write", frozenset({3}), _patched(CounterOperator, "copy_on_write", _no_copy_on_write)),
    Plant("acknowledges twice", frozenset({3}), _patched(SimTask, "acknowledge", _acknowledges_twice)),
    Plant(
        "confirms before _metadata is durable",
        frozenset({4, 7}),
        _patched(CheckpointCoordinator, "_seal", _confirms_at_the_last_acknowledgement),
    ),
    Plant(
        "deletes what may be durable",
        frozenset({4}),
        _patched(CheckpointCoordinator, "on_manifest_failed", _deletes_what_may_be_durable),
    ),
    Plant(
        "completes without an acknowledgement",
        frozenset({0, 4}),
        _patched(PendingCheckpoint, "acknowledge", _counts_two_acknowledgements_at_once),
    ),
    Plant("commits with the vote", frozenset({5}), _patched(SinkOperator, "on_prepared", _commits_with_the_vote)),
    Plant(
        "takes an old attempt for the current one",
        frozenset({6}),
        _patched(ExecutionGraph, "current", _takes_any_attempt_for_the_current_one),
    ),
    Plant("an abort nobody hears of", frozenset({7}), _patched(CheckpointCommands, "abort", _says_nothing)),
    Plant(
        "files of a failed checkpoint stay",
        frozenset({7}),
        _patched(CheckpointCleaner, "discard_aborted", _removes_nothing),
    ),
    Plant(
        "deletes what it was lent",
        frozenset({7, SHARED}),
        _patched(CheckpointCustody, "_adopt", _owns_whatever_it_started_from),
    ),
    Plant(
        "deletes shared files in use",
        frozenset({SHARED}),
        _patched(SharedStateRegistry, "_drop", _drops_files_though_others_use_them),
    ),
    Plant(
        "holds nothing for pending ones",
        frozenset({SHARED}),
        _patched(SharedStateRegistry, "hold", _holds_nothing),
        Mix(full_checkpoints=40),
    ),
    Plant(
        "leaves shared files", frozenset({SHARED}), _patched(CheckpointCleaner, "discard_shared", _forgets_to_delete)
    ),
    Plant(
        "builds on what is not confirmed",
        frozenset({SHARED}),
        _patched(CounterState, "freeze", _builds_on_what_is_not_confirmed),
    ),
    Plant(
        "builds on what was not claimed",
        frozenset({SHARED}),
        _patched(checkpoint_coordinator, "decide_options", _builds_on_what_was_not_claimed),
    ),
    Plant(
        "forgets the newest checkpoint that it finds",
        frozenset({0, 5, 7}),
        _patched(job_recovery, "take_inventory", _forgets_the_newest),
    ),
    Plant(
        "leaves what it finds incomplete",
        frozenset({7}),
        _patched(job_recovery, "take_inventory", _leaves_what_is_incomplete),
    ),
    Plant(
        "counts attempts from the start",
        frozenset({0, 2, 3, 5}),
        _patched(job, "decide_origin", _counts_attempts_from_the_start),
    ),
    Plant("a user waits for ever", frozenset({0}), _patched(CheckpointCommands, "report", _says_nothing_of_failures)),
    Plant(
        "a part of list state is lost",
        frozenset({0, 5}),
        _patched(recovery, "deal_elements", _deals_list_state_to_all_but_one),
        Mix(parallel=0.0, aimed_at_jobmanager=1.0),
    ),
    Plant(
        "key groups do not move",
        frozenset({0, SHARED}),
        _patched(recovery._OperatorPlan, "_segments", _key_groups_stay_where_they_were),
    ),
    Plant(
        "restores before the storage has answered",
        frozenset({0, 4, 5}),
        _restores_without_waiting_for_the_storage,
    ),
    Plant(
        "a successor runs alone among finished siblings",
        frozenset({0}),
        _patched(Failover, "_affected_by", _only_its_own_region),
        Mix(parallel=1.0, stops=0, cancels=0, jobmanager_crashes=0, aimed_at_jobmanager=0.0, ends_of_life=0.5),
    ),
)
