"""Bugs planted in the runtime itself: each replaces one named function or strategy of a module."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from tests.sim.laws import Law
from tests.sim.plant import Plant, patched
from tests.sim.runtime.transactions import BankSink
from tidegate.connectors.two_phase_commit import Transactions
from tidegate.model.channel_events import Barrier, ChannelEvent, EndOfData, UserEvent
from tidegate.model.checkpoint import Acknowledgement, ChannelStateHandle, DeclineReason, SubtaskSnapshot
from tidegate.taskmanager.exchange import input_gate
from tidegate.taskmanager.exchange.channel_recording import QueuedFrame, Recording
from tidegate.taskmanager.exchange.input_gate import ChannelInputGate
from tidegate.taskmanager.exchange.result_partition import PipelinedResultPartition
from tidegate.taskmanager.exchange.subpartition import Subpartition
from tidegate.taskmanager.keyed_state.heap.copy_on_write_table import FrozenTable, StateTable
from tidegate.taskmanager.machines import alignment as a
from tidegate.taskmanager.machines import snapshot as s
from tidegate.taskmanager.machines import snapshot_write as sw
from tidegate.taskmanager.machines import watermarks as w
from tidegate.taskmanager.machines.barrier_states import Aligning, BarrierState, Persisting
from tidegate.taskmanager.machines.credit import SenderCredit
from tidegate.taskmanager.machines.subtask import EOI_CHECKPOINT_ID
from tidegate.taskmanager.operators.user_code.boundary import FunctionContext
from tidegate.taskmanager.runtime.chain import OperatorChain
from tidegate.taskmanager.runtime.checkpointing import barriers, replay
from tidegate.taskmanager.runtime.checkpointing.barriers import BarrierSender
from tidegate.taskmanager.runtime.checkpointing.in_flight import read_channel
from tidegate.taskmanager.runtime.events.task_events import TaskEventDispatcher
from tidegate.taskmanager.runtime.mailbox import Mailbox
from tidegate.taskmanager.runtime.ports import Mail
from tidegate.taskmanager.state.ports import SegmentSource
from tidegate.wire.frames import FrameType, OutgoingFrame
from tidegate.wire.user_events import user_event

_broadcast, _emit = PipelinedResultPartition.broadcast, PipelinedResultPartition.emit
_emit_with_keys = PipelinedResultPartition.emit_with_keys
_take, _take_all, _on_credit = Subpartition.take, Mailbox.take_all, SenderCredit.on_credit
_read_channel, _notify_complete = read_channel, OperatorChain.notify_complete


# ---- barriers ------------------------------------------------------------------------------------------------------------


@contextmanager
def _barriers_leave_behind_the_next_rows() -> Any:
    held: WeakKeyDictionary[PipelinedResultPartition, list[ChannelEvent]] = WeakKeyDictionary()
    ended: WeakSet[PipelinedResultPartition] = WeakSet()

    def release(partition: PipelinedResultPartition) -> None:
        for event in held.pop(partition, []):
            _broadcast(partition, event)

    def broadcast(partition: PipelinedResultPartition, event: ChannelEvent) -> None:
        if isinstance(event, EndOfData):
            ended.add(partition)  # no more rows will come
        if isinstance(event, Barrier) and partition not in ended:
            held.setdefault(partition, []).append(event)
            return
        release(partition)
        _broadcast(partition, event)

    def emit(partition: PipelinedResultPartition, *rows: Any) -> None:
        (_emit_with_keys if len(rows) > 1 else _emit)(partition, *rows)
        release(partition)

    with ExitStack() as stack:
        for name, found in (("broadcast", broadcast), ("emit", emit), ("emit_with_keys", emit)):
            stack.enter_context(patched(PipelinedResultPartition, name, found)())
        yield


def _overtakes_and_persists_nothing(sender: BarrierSender, barrier: Barrier) -> list[Any]:
    _send(sender, barrier)
    return []


_send = BarrierSender.send


def _overtakes_nothing(sender: BarrierSender, barrier: Barrier) -> list[Any]:
    for partition in sender._partitions:
        partition.broadcast(barrier)
    return []


# ---- alignment -----------------------------------------------------------------------------------------------------------


def _gives_up_and_stays_blocked(aligning: Aligning, reason: DeclineReason | None) -> Sequence[a.AlignmentCommand]:
    return [a.AbortAlignment(aligning.barrier.checkpoint_id, reason)]


def _switches_and_stays_blocked(aligning: Aligning, *when: Any) -> tuple[BarrierState, Sequence[a.AlignmentCommand]]:
    state, commands = _on_timed_out(aligning, *when)
    return state, [command for command in commands if not isinstance(command, a.UnblockChannel)]


def _awaits_no_channel(persisting: Persisting, *when: Any) -> list[a.AlignmentCommand]:
    commands = _start(persisting, *when)
    return [replace(one, persists=False) if isinstance(one, a.StartSnapshot) else one for one in commands]


_on_timed_out, _start = Aligning.on_timed_out, Persisting.start


# ---- the exchange --------------------------------------------------------------------------------------------------------


def _drops_a_frame() -> AbstractContextManager[Any]:
    numbers = itertools.count(1)

    def take(subpartition: Subpartition, limit_bytes: int) -> list[tuple[OutgoingFrame, int]]:
        taken = _take(subpartition, limit_bytes)
        return [one for one in taken if one[0].type is not FrameType.BATCH or next(numbers) % 20]

    found: AbstractContextManager[Any] = patched(Subpartition, "take", take)()
    return found


def _counts_a_grant_twice(credit: SenderCredit, granted_bytes: int, consumed_bytes: int) -> None:
    _on_credit(credit, granted_bytes + max(0, granted_bytes - credit.granted), consumed_bytes)


def _persists_twice(gate: ChannelInputGate, checkpoint_id: int) -> list[tuple[int, list[Any]]]:
    return [(channel, [*items, *items]) for channel, items in _take_persisted(gate, checkpoint_id)]


_take_persisted = ChannelInputGate.take_persisted


# ---- the mailbox ---------------------------------------------------------------------------------------------------------


def _takes_the_first_mail_and_loses_the_rest(mailbox: Mailbox) -> list[Mail]:
    return _take_all(mailbox)[:1]


# ---- snapshots and restore -----------------------------------------------------------------------------------------------


def _acknowledges_for_the_next_attempt(attempt: Any, *rest: Any) -> Acknowledgement:
    return Acknowledgement(replace(attempt, attempt=attempt.attempt + 1), *rest)


def _acknowledges_what_failed(write: sw.SnapshotWrite[Any], event: Any, now_ms: float) -> Sequence[Any]:
    if isinstance(event, sw.WriteCanceled) and not write.is_over:
        write._stage = sw.WriteStage.DONE
        write._awaits.clear()
        write._in_flight.clear()
        return [write._acknowledgement(now_ms)]
    return _on_write(write, event, now_ms)


def _waits_for_the_state_alone(write: sw.SnapshotWrite[Any], event: Any, now_ms: float) -> Sequence[Any]:
    if isinstance(event, sw.StateWritten):
        write._awaits.clear()
        write._in_flight.clear()
    return _on_write(write, event, now_ms)


def _does_not_wait_for_the_state(write: sw.SnapshotWrite[Any], now_ms: float) -> Sequence[Any]:
    commands = _begin_write(write, now_ms)
    return commands or _on_write(write, sw.StateWritten(SubtaskSnapshot()), now_ms)


_on_write, _begin_write = sw.SnapshotWrite.on, sw.SnapshotWrite.begin


def _reads_all_batches_twice(source: SegmentSource, handle: ChannelStateHandle) -> tuple[Any, Sequence[Any]]:
    about, batches = _read_channel(source, handle)
    return about, [*batches, *batches]


def _commits_what_is_newer(chain: OperatorChain, checkpoint_id: int, before_each: Callable[[str], None]) -> None:
    _notify_complete(chain, EOI_CHECKPOINT_ID, before_each)


def _commits_what_it_begins(machine: s.SnapshotCoordinator, event: s.SnapshotEvent, now_ms: float) -> Sequence[Any]:
    commands = _on_snapshot(machine, event, now_ms)
    return [*commands, *(s.NotifyComplete(c.barrier.checkpoint_id) for c in commands if isinstance(c, s.FreezeState))]


_on_snapshot = s.SnapshotCoordinator.on


@contextmanager
def _writes_what_the_state_has_become() -> Any:
    tables: WeakKeyDictionary[FrozenTable, StateTable] = WeakKeyDictionary()

    def freeze(table: StateTable) -> FrozenTable:
        frozen = _freeze(table)
        tables[frozen] = table
        return frozen

    def group(frozen: FrozenTable, number: int) -> dict[Any, Any]:
        return {entry: value for found, entry, value in tables[frozen].entries() if found == number}

    with patched(StateTable, "freeze", freeze)(), patched(FrozenTable, "group", group)():
        yield


_freeze = StateTable.freeze


# ---- a sink function that commits in two phases ---------------------------------------------------------------------------


def _commits_nothing_restored(transactions: Transactions, committable: Any) -> None:
    if not transactions._is_recovering:
        _commit(transactions, committable)


_commit = Transactions.commit


# ---- event time ----------------------------------------------------------------------------------------------------------


def _follows_the_fastest_channel(valve: w.WatermarkValve, event: w.ValveEvent, now_ms: float) -> Sequence[Any]:
    if isinstance(event, w.WatermarkArrived):
        return [w.AdvanceWatermark(event.timestamp_ms)]
    return _valve_on(valve, event, now_ms)


_valve_on = w.WatermarkValve.on

# ---- events of functions -------------------------------------------------------------------------------------------------


def _records_no_events(recording: Recording, queued: QueuedFrame) -> None:
    if not isinstance(queued.event, UserEvent):
        _add(recording, queued)


def _captures_no_events(frames: list[OutgoingFrame]) -> list[Any]:
    return [item for item in _items_in_flight(frames) if not isinstance(item, UserEvent)]


def _reads_events_last(source: SegmentSource, handle: ChannelStateHandle) -> tuple[Any, Sequence[Any]]:
    about, batches = _read_channel(source, handle)
    return about, sorted(batches, key=lambda batch: batch.event is not None)


def _emits_an_event_at_once(context: FunctionContext, event: object) -> None:
    context._context.output.emit_event(user_event(event))


def _hears_twice(dispatcher: TaskEventDispatcher, edge_id: int, payload: bytes) -> None:
    _on_arrived(dispatcher, edge_id, payload)
    _on_arrived(dispatcher, edge_id, payload)


_add, _items_in_flight, _on_arrived = Recording.add, barriers.items_in_flight, TaskEventDispatcher.on_arrived

_HEARD = frozenset({Law.EVENTS})
_EXACT = frozenset({Law.OUTPUT})
_IN_FLIGHT = frozenset({Law.OUTPUT, Law.EVENTS})
"""What is in flight may be an event alone."""
_DOUBLED = frozenset({Law.OUTPUT, Law.EVENT_TIME, Law.EVENTS})
"""Watermarks are in flight as rows are: behind one of the first copy, the rows of the second are late."""


def _lost(*_: object) -> list[Any]:
    return []


PLANTS = (
    Plant("barriers leave behind the next rows", _EXACT, _barriers_leave_behind_the_next_rows),
    Plant("a barrier blocks no channel", _EXACT, patched(ChannelInputGate, "block", lambda gate, channel: None)),
    Plant(
        "what overtook is not persisted", _IN_FLIGHT, patched(BarrierSender, "send", _overtakes_and_persists_nothing)
    ),
    Plant("what had arrived is not persisted", _IN_FLIGHT, patched(ChannelInputGate, "take_persisted", _lost)),
    Plant("a frame is dropped", frozenset({Law.OUTPUT, Law.LIVENESS}), _drops_a_frame),
    Plant("a grant counts twice", frozenset({Law.LIVENESS}), patched(SenderCredit, "on_credit", _counts_a_grant_twice)),
    Plant(
        "a barrier overtakes nothing", frozenset({Law.OVERTAKING}), patched(BarrierSender, "send", _overtakes_nothing)
    ),
    Plant(
        "channels stay blocked when a checkpoint is given up",
        frozenset({Law.LIVENESS}),
        patched(Aligning, "drop", _gives_up_and_stays_blocked),
        first_seed=35,
    ),
    Plant(
        "channels stay blocked when barriers begin to overtake",
        frozenset({Law.LIVENESS}),
        patched(Aligning, "on_timed_out", _switches_and_stays_blocked),
    ),
    Plant("the channels are not awaited", _IN_FLIGHT, patched(Persisting, "start", _awaits_no_channel)),
    Plant(
        "what had arrived is persisted twice", _DOUBLED, patched(ChannelInputGate, "take_persisted", _persists_twice)
    ),
    Plant(
        "what comes behind the barrier is persisted",
        frozenset({Law.OUTPUT, Law.LIVENESS, Law.EVENTS}),
        patched(input_gate, "ends_recording", lambda event, checkpoint_id: False),
    ),
    Plant(
        "what a checkpoint begins with is committed",
        frozenset({Law.PUBLISHED}),
        patched(s.SnapshotCoordinator, "on", _commits_what_it_begins),
    ),
    Plant(
        "mails behind the first are lost",
        frozenset({Law.LIVENESS}),
        patched(Mailbox, "take_all", _takes_the_first_mail_and_loses_the_rest),
    ),
    Plant(
        "a failed write is acknowledged",
        frozenset({Law.FROZEN}),
        patched(sw.SnapshotWrite, "on", _acknowledges_what_failed),
    ),
    Plant(
        "a snapshot is acknowledged before its state is written",
        _EXACT,
        patched(sw.SnapshotWrite, "begin", _does_not_wait_for_the_state),
    ),
    Plant(
        "a snapshot is acknowledged without its data in flight",
        _IN_FLIGHT,
        patched(sw.SnapshotWrite, "on", _waits_for_the_state_alone),
    ),
    Plant(
        "another attempt is acknowledged",
        frozenset({Law.FENCED}),
        patched(sw, "Acknowledgement", _acknowledges_for_the_next_attempt),
    ),
    Plant("what was in flight is replayed twice", _DOUBLED, patched(replay, "read_channel", _reads_all_batches_twice)),
    Plant(
        "what is to be replayed is not persisted again",
        _IN_FLIGHT,
        patched(replay.Replay, "rest", _lost),
        first_seed=223,
    ),
    Plant(
        "a confirm commits what is newer",
        frozenset({Law.PUBLISHED}),
        patched(OperatorChain, "notify_complete", _commits_what_is_newer),
    ),
    Plant("a frozen state goes on changing", _EXACT, _writes_what_the_state_has_become),
    Plant(
        "what was restored is not committed",
        frozenset({Law.OUTPUT, Law.TRANSACTIONS}),
        patched(Transactions, "commit", _commits_nothing_restored),
        first_seed=146,
    ),
    Plant(
        "what was open at the checkpoint is committed",
        frozenset({Law.PUBLISHED, Law.TRANSACTIONS}),
        patched(BankSink, "recover_and_abort", BankSink.commit),
    ),
    Plant(
        "watermarks follow the fastest channel",
        frozenset({Law.EVENT_TIME}),
        patched(w.WatermarkValve, "on", _follows_the_fastest_channel),
    ),
    Plant("events that had arrived are not persisted", _HEARD, patched(Recording, "add", _records_no_events)),
    Plant(
        "events that were overtaken are not persisted",
        _HEARD,
        patched(barriers, "items_in_flight", _captures_no_events),
    ),
    Plant("events are replayed behind the records", _HEARD, patched(replay, "read_channel", _reads_events_last)),
    Plant("an event overtakes records", _HEARD, patched(FunctionContext, "emit_event", _emits_an_event_at_once)),
    Plant("an event against the stream comes twice", _HEARD, patched(TaskEventDispatcher, "on_arrived", _hears_twice)),
)
