"""Bugs on purpose in what outlives processes: shared files, data in flight, recovery, rescaled state, and what users are told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from tests.sim.channel import EVERYTHING as EVERYTHING_QUEUED
from tests.sim.channel import Channel, Row
from tests.sim.counts import CounterState, FrozenCounts
from tests.sim.in_flight import Flights
from tests.sim.laws import Law
from tests.sim.model_subtask import ModelSubtask
from tests.sim.plant import Plant, patched
from tests.sim.schedule import Mix
from tidegate.jobmanager.machines import events as e
from tidegate.jobmanager.machines.checkpoint import coordinator as checkpoint_coordinator
from tidegate.jobmanager.machines.checkpoint import jobmanager_recovery as job_recovery
from tidegate.jobmanager.machines.checkpoint.cleaner import CheckpointCleaner
from tidegate.jobmanager.machines.checkpoint.commands import CheckpointCommands
from tidegate.jobmanager.machines.checkpoint.jobmanager_recovery import Inventory
from tidegate.jobmanager.machines.checkpoint.options import decide_options
from tidegate.jobmanager.machines.checkpoint.retention import RetainedCheckpoints
from tidegate.jobmanager.machines.checkpoint.shared_state import SharedFile, SharedStateRegistry
from tidegate.jobmanager.machines.job import job_master as job
from tidegate.jobmanager.machines.restore import channel_assignment
from tidegate.jobmanager.machines.restore import state_assignment as recovery
from tidegate.model.checkpoint import CheckpointOptions, InFlightEdge
from tidegate.model.ids import CheckpointId
from tidegate.model.options import ClaimMode


def _owns_whatever_it_started_from(
    retention: RetainedCheckpoints, restore: e.RestoreFrom | None, inventory: Inventory
) -> None:
    claimed = None if restore is None else replace(restore, claim_mode=ClaimMode.CLAIM)
    ours = tuple(replace(checkpoint, is_ours=True) for checkpoint in inventory.completed)
    _begin(retention, claimed, replace(inventory, completed=ours))


_begin = RetainedCheckpoints.begin

# ---- shared files ----------------------------------------------------------------------------------------------------


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


# ---- data in flight ----------------------------------------------------------------------------------------------------


def _loses_what_the_producer_had(flights: Flights, *arguments: Any) -> None:
    """The output side persists nothing."""


def _persists_past_the_barrier(channel: Channel, line: int) -> list[Row]:
    return _recorded(channel, EVERYTHING_QUEUED)


_recorded = Channel.recorded


def _replays_twice(task: ModelSubtask, rows: Sequence[Row]) -> None:
    _replay(task, [*rows, *rows])


_replay = ModelSubtask.replay


def _deals_channels_to_everybody(old: InFlightEdge, *arguments: Any) -> range:
    return range(old.consumers)


def _deals_channels_as_if_nothing_changed(old: InFlightEdge, partitioner: Any, vertex: Any, index: int) -> range:
    return range(index, min(index + 1, old.consumers))


# ---- another JobManager goes on --------------------------------------------------------------------------------------


def _forgets_the_newest(found: Iterable[e.FoundCheckpoint], *, restores_older: bool) -> Inventory:
    return _take_inventory(sorted(found, key=lambda place: place.checkpoint_id)[:-1], restores_older=restores_older)


def _leaves_what_is_incomplete(found: Iterable[e.FoundCheckpoint], *, restores_older: bool) -> Inventory:
    return replace(_take_inventory(found, restores_older=restores_older), incomplete=())


_take_inventory = job_recovery.take_inventory


def _takes_an_older_one_for_a_damaged_one(found: Iterable[e.FoundCheckpoint], *, restores_older: bool) -> Inventory:
    return _take_inventory((place for place in found if place.damage is None), restores_older=restores_older)


def _removes_what_it_cannot_read(found: Iterable[e.FoundCheckpoint], *, restores_older: bool) -> Inventory:
    return _take_inventory((replace(place, damage=None) for place in found), restores_older=restores_older)


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


OF_FILES = (
    Plant(
        "deletes what it was lent",
        frozenset({Law.ABORTED, Law.SHARED}),
        patched(RetainedCheckpoints, "begin", _owns_whatever_it_started_from),
    ),
    Plant(
        "deletes shared files in use",
        frozenset({Law.SHARED}),
        patched(SharedFile, "is_unused", True),
    ),
    Plant(
        "holds nothing for pending ones",
        frozenset({Law.SHARED}),
        patched(SharedStateRegistry, "hold", _holds_nothing),
        Mix(full_checkpoints=40),
    ),
    Plant(
        "leaves shared files", frozenset({Law.SHARED}), patched(CheckpointCleaner, "discard_shared", _forgets_to_delete)
    ),
    Plant(
        "builds on what is not confirmed",
        frozenset({Law.SHARED}),
        patched(CounterState, "freeze", _builds_on_what_is_not_confirmed),
    ),
    Plant(
        "builds on what was not claimed",
        frozenset({Law.SHARED}),
        patched(checkpoint_coordinator, "decide_options", _builds_on_what_was_not_claimed),
    ),
    Plant(
        "loses what the producer had",
        frozenset({Law.OUTPUT, Law.CUT}),
        patched(Flights, "overtaken", _loses_what_the_producer_had),
        Mix(unaligned=1.0, parallel=0.0),
    ),
    Plant(
        "persists past the barrier",
        frozenset({Law.OUTPUT, Law.CUT}),
        patched(Channel, "recorded", _persists_past_the_barrier),
        Mix(unaligned=1.0, parallel=0.0),
    ),
    Plant(
        "replays twice",
        frozenset({Law.OUTPUT, Law.CUT}),
        patched(ModelSubtask, "replay", _replays_twice),
        Mix(unaligned=1.0, parallel=0.0),
    ),
    Plant(
        "everybody replays the data of everybody",
        frozenset({Law.OUTPUT, Law.CUT}),
        patched(channel_assignment, "old_consumers", _deals_channels_to_everybody),
        Mix(unaligned=1.0, parallel=0.0),
    ),
    Plant(
        "data in flight does not move with its key groups",
        frozenset({Law.OUTPUT}),
        patched(channel_assignment, "old_consumers", _deals_channels_as_if_nothing_changed),
        Mix(unaligned=1.0, parallel=0.0),
    ),
    Plant(
        "forgets the newest checkpoint that it finds",
        frozenset({Law.OUTPUT, Law.PUBLISHED, Law.ABORTED}),
        patched(job_recovery, "take_inventory", _forgets_the_newest),
    ),
    Plant(
        "leaves what it finds incomplete",
        frozenset({Law.ABORTED}),
        patched(job_recovery, "take_inventory", _leaves_what_is_incomplete),
    ),
    Plant(
        "takes an older checkpoint for a damaged one",
        frozenset({Law.OUTPUT, Law.PUBLISHED, Law.ABORTED}),
        patched(job_recovery, "take_inventory", _takes_an_older_one_for_a_damaged_one),
        Mix(aimed_at_jobmanager=1.0, high_availability=1.0),
    ),
    Plant(
        "removes what it cannot read",
        frozenset({Law.OUTPUT, Law.PUBLISHED, Law.ABORTED}),
        patched(job_recovery, "take_inventory", _removes_what_it_cannot_read),
        Mix(aimed_at_jobmanager=1.0, high_availability=1.0),
    ),
    Plant(
        "counts attempts from the start",
        frozenset({Law.OUTPUT, Law.CUT, Law.FROZEN, Law.PUBLISHED, Law.FENCED}),
        patched(job, "decide_origin", _counts_attempts_from_the_start),
    ),
    Plant(
        "a user waits for ever",
        frozenset({Law.OUTPUT}),
        patched(CheckpointCommands, "report", _says_nothing_of_failures),
    ),
    Plant(
        "a part of list state is lost",
        frozenset({Law.OUTPUT, Law.PUBLISHED}),
        patched(recovery, "deal_elements", _deals_list_state_to_all_but_one),
        Mix(parallel=0.0, aimed_at_jobmanager=1.0),
    ),
    Plant(
        "key groups do not move",
        frozenset({Law.OUTPUT, Law.SHARED}),
        patched(recovery.OperatorPlan, "segments", _key_groups_stay_where_they_were),
    ),
)
