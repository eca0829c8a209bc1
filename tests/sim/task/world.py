"""A whole data plane of real machines on simulated channels, driven by one seed.

    sources ═▶ middle ═▶ sinks        every layer connected with every subtask of the next, one ordered channel each
       ▲ mails (ordered for each subtask, some repeated, some confirms lost)
    coordinator: triggers, collects acknowledgements and declines, aborts at random, confirms

Every step picks one enabled action at random: emit a record, read one item of one channel, take one mail, end or break one
asynchronous write, coordinate. After ``chaos_steps`` the faults stop, and the job must come to its end by itself.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.sim.task.coordinator import Abort, Confirm, SimCoordinator, ToTask, Trigger
from tests.sim.task.laws import Laws, Record
from tidegate.model.channel_events import Barrier, CancelBarrier, EndOfData, EndOfPartition, WatermarkEvent
from tidegate.model.checkpoint import CheckpointMetrics, SubtaskSnapshot
from tidegate.model.errors import ErrorInfo
from tidegate.taskmanager.machines import alignment as a
from tidegate.taskmanager.machines import snapshot as s
from tidegate.taskmanager.machines import subtask as life
from tidegate.taskmanager.machines import watermarks as w
from tidegate.taskmanager.machines.barrier_handler import ExactlyOnceBarrierHandler
from tidegate.taskmanager.machines.barrier_tracker import TrackingHandler

Item = Record | Barrier | CancelBarrier | WatermarkEvent | EndOfData | EndOfPartition
Action = Callable[[], None]

_OFFLINE = ErrorInfo("storage", "external", "the store is offline")


@dataclass
class Plants:
    """Planted bugs. Each must be caught by a checker."""

    alignment_off: bool = False
    ack_twice: bool = False
    barrier_after_data: bool = False
    stay_blocked_on_abort: bool = False
    commit_with_the_ack: bool = False
    watermark_of_any_channel: bool = False


class _AcksTwice(s.SnapshotCoordinator):
    """Planted: forgets that an asynchronous part was settled already."""

    def _settle(self, checkpoint_id: int, outcome: s.WriteState) -> bool:
        super()._settle(checkpoint_id, outcome)
        return True


@dataclass
class SimSubtask:
    name: str
    layer: int
    life: life.SubtaskLife
    snapshots: s.SnapshotCoordinator
    limit: int = 0
    position: int = 0
    seen: set[Record] = field(default_factory=set)
    inputs: list[deque[Item]] = field(default_factory=list)
    outputs: list[deque[Item]] = field(default_factory=list)
    blocked: set[int] = field(default_factory=set)
    open_data: set[int] = field(default_factory=set)
    ended: set[int] = field(default_factory=set)
    handler: a.BarrierHandler | None = None
    valve: w.WatermarkValve | None = None
    mails: deque[ToTask] = field(default_factory=deque)
    written_twice: list[int] = field(default_factory=list)
    held_barrier: Barrier | None = None

    @property
    def is_source(self) -> bool:
        return self.layer == 0


class World:
    def __init__(self, seed: int, *, exactly_once: bool = True, plants: Plants | None = None) -> None:
        self.random = random.Random(seed)
        self.plants = plants or Plants()
        self.exactly_once = exactly_once
        self.events = 0
        self.faults = 0
        self.chaos = True
        self.now_ms = 1000
        self.max_concurrent = self.random.choice([1, 1, 2])
        widths = [self.random.randint(1, 3) for _ in range(3)]
        self.layers = [[self._make(layer, i) for i in range(width)] for layer, width in enumerate(widths)]
        self.subtasks = {subtask.name: subtask for layer in self.layers for subtask in layer}
        self.laws = Laws(exactly_once=exactly_once)
        self.coordinator = SimCoordinator(
            [[t.name for t in layer] for layer in self.layers], self.laws, self.max_concurrent
        )
        self._alive = list(self.subtasks.values())
        self._connect()
        for subtask in self.subtasks.values():
            self._live(subtask, life.InitializationStarted())
            self._live(subtask, life.Initialized())

    def run(self, chaos_steps: int = 300, heal_steps: int = 50_000) -> None:
        """Raises ``LawBroken``."""
        while self._must_go_on(chaos_steps):
            self._step()
        self.chaos = False
        for _ in range(heal_steps):
            if not self._alive:
                self.laws.check_end({t.name: t.seen for t in self.layers[-1]}, self._emitted())
                return
            self._step()
        stuck = {t.name: (t.life.state.name, sorted(t.blocked)) for t in self.subtasks.values() if not t.life.is_over}
        self.laws.broken("liveness", f"after the faults stopped the job does not end: {stuck}")

    def _must_go_on(self, chaos_steps: int) -> bool:
        if not self._alive:
            return False
        return self.events < chaos_steps or self.faults < 3

    # --- one step ---------------------------------------------------------------------------------

    def _step(self) -> None:
        """One action: of the coordinator, or of one subtask (nothing happens when that has nothing to do)."""
        chance = self.random.random()
        if chance < 0.15:
            self._act(self._coordinate)
        elif chance < 0.155 and self.chaos and self.coordinator.pending:
            self._act(self._abort_some)
        else:
            actions = self._actions(self.random.choice(self._alive))
            if actions:
                self._act(self.random.choice(actions))

    def _act(self, action: Action) -> None:
        self.events += 1
        self.now_ms += self.random.randint(0, 3)
        action()

    def _actions(self, subtask: SimSubtask) -> list[Action]:
        actions: list[Action] = []
        if subtask.mails:
            actions.append(lambda: self._take_mail(subtask))
        if subtask.written_twice or subtask.snapshots.writing:
            actions.append(lambda: self._end_write(subtask))
        return [*actions, *self._work_of(subtask)]

    def _work_of(self, subtask: SimSubtask) -> list[Action]:
        state = subtask.life.state
        if state is life.LifeState.SETTLING:
            return [] if subtask.snapshots.writing else [lambda: self._live(subtask, life.SnapshotsSettled())]
        if state is life.LifeState.CLOSING:
            return [lambda: self._live(subtask, life.OutputsDrained())]
        if subtask.is_source:
            return [lambda: self._emit(subtask)] if state is life.LifeState.RUNNING else []
        ready = [i for i, channel in enumerate(subtask.inputs) if channel and i not in subtask.blocked]
        return [lambda i=i: self._read(subtask, i) for i in ready]  # type: ignore[misc]

    # --- what a subtask does ----------------------------------------------------------------------

    def _emit(self, source: SimSubtask) -> None:
        if source.position >= source.limit and ((self.faults >= 3 and self.events >= 200) or not self.chaos):
            self._end_data(source)
            return
        record = Record(source.name, source.position)
        source.position += 1
        self._send(source, record)
        if self.random.random() < 0.3:
            self._broadcast(source, WatermarkEvent(record.timestamp_ms))

    def _send(self, subtask: SimSubtask, record: Record) -> None:
        if subtask.outputs:
            self.random.choice(subtask.outputs).append(record)
        self._release_held_barrier(subtask)

    def _read(self, subtask: SimSubtask, channel: int) -> None:
        item = subtask.inputs[channel].popleft()
        match item:
            case Record():
                self.laws.record_processed(subtask.name, item, subtask.valve.watermark if subtask.valve else None)
                subtask.seen.add(item)
                self._send(subtask, item)
            case Barrier():
                self._align(subtask, a.BarrierArrived(channel, item))
            case CancelBarrier():
                self._align(subtask, a.CancelBarrierArrived(channel, item.checkpoint_id))
            case WatermarkEvent():
                self._watermark(subtask, w.WatermarkArrived(channel, item.timestamp_ms))
            case EndOfData():
                subtask.open_data.discard(channel)
                self._watermark(subtask, w.DataEnded(channel, item.drain))
                if not subtask.open_data:
                    self._end_data(subtask)
            case EndOfPartition():
                self._align(subtask, a.ChannelEnded(channel))
                subtask.ended.add(channel)
                if len(subtask.ended) == len(subtask.inputs):
                    self._live(subtask, life.InputsClosed())

    def _watermark(self, subtask: SimSubtask, event: w.ValveEvent) -> None:
        assert subtask.valve is not None
        if self.plants.watermark_of_any_channel and isinstance(event, w.WatermarkArrived):
            subtask.valve._output = max(subtask.valve._output, event.timestamp_ms)
        for command in subtask.valve.on(event, self.now_ms):
            if isinstance(command, w.AdvanceWatermark):
                self._broadcast(subtask, WatermarkEvent(command.timestamp_ms))

    def _end_data(self, subtask: SimSubtask) -> None:
        self._release_held_barrier(subtask)
        self._broadcast(subtask, EndOfData())
        self._live(subtask, life.DataFinished())

    def _align(self, subtask: SimSubtask, event: a.AlignmentEvent) -> None:
        assert subtask.handler is not None
        aborted = False
        for command in subtask.handler.on(event, self.now_ms):
            match command:
                case a.BlockChannel(channel):
                    if not self.plants.alignment_off:
                        subtask.blocked.add(channel)
                case a.UnblockChannel(channel):
                    if not (aborted and self.plants.stay_blocked_on_abort):
                        subtask.blocked.discard(channel)
                case a.StartSnapshot(barrier, _, _):
                    self._snapshot(subtask, s.SnapshotRequested(barrier))
                case a.AbortAlignment(checkpoint_id, reason):
                    aborted = True
                    self._snapshot(subtask, s.AlignmentAborted(checkpoint_id, reason))

    def _take_mail(self, subtask: SimSubtask) -> None:
        mail = subtask.mails.popleft()
        match mail:
            case Trigger(barrier):
                self._live(subtask, life.TriggerReceived(barrier))
            case Confirm(checkpoint_id, may_finish):
                self._snapshot(subtask, s.ConfirmReceived(checkpoint_id))
                self._live(subtask, life.CheckpointConfirmed(checkpoint_id, may_finish))
            case Abort(checkpoint_id, latest_completed_id):
                self._snapshot(subtask, s.AbortReceived(checkpoint_id, latest_completed_id))
                if subtask.handler is not None:
                    self._align(subtask, a.CheckpointAborted(checkpoint_id))

    def _end_write(self, subtask: SimSubtask) -> None:
        """Repeated completions are part of the world: a machine must settle once."""
        if subtask.written_twice:
            checkpoint_id = subtask.written_twice.pop()
        else:
            checkpoint_id = self.random.choice(subtask.snapshots.writing)
            if self._fault(0.05):
                self._snapshot(subtask, s.SnapshotFailed(checkpoint_id, _OFFLINE))
                return
            if self._fault(0.1):
                subtask.written_twice.append(checkpoint_id)
        self._snapshot(subtask, s.SnapshotWritten(checkpoint_id, SubtaskSnapshot(), CheckpointMetrics()))

    def _snapshot(self, subtask: SimSubtask, event: s.SnapshotEvent) -> None:
        for command in subtask.snapshots.on(event, self.now_ms):
            match command:
                case s.PrepareSnapshot(checkpoint_id):
                    self._live(subtask, life.SnapshotStarted(checkpoint_id))
                case s.BroadcastBarrier(barrier):
                    if (
                        self.plants.barrier_after_data
                        and subtask.outputs
                        and subtask.life.state is life.LifeState.RUNNING
                    ):
                        self._release_held_barrier(subtask)
                        subtask.held_barrier = barrier
                    else:
                        self._broadcast(subtask, barrier)
                case s.FreezeState(barrier):
                    self.laws.frozen(subtask.name, barrier.checkpoint_id, subtask.position, frozenset(subtask.seen))
                case s.BroadcastCancelBarrier(checkpoint_id):
                    self._broadcast(subtask, CancelBarrier(checkpoint_id))
                case s.Acknowledge(checkpoint_id, _, _):
                    self.laws.voted(subtask.name, checkpoint_id, "acknowledged")
                    self.coordinator.inbox.append(("ack", subtask.name, checkpoint_id))
                    if self.plants.commit_with_the_ack:
                        self.laws.committed(subtask.name, checkpoint_id)
                case s.Decline(checkpoint_id, reason, _):
                    self.laws.voted(subtask.name, checkpoint_id, f"declined ({reason.name})")
                    self.coordinator.inbox.append(("decline", subtask.name, checkpoint_id))
                case s.NotifyComplete(checkpoint_id):
                    self.laws.committed(subtask.name, checkpoint_id)
                case s.NotifyAborted(checkpoint_id):
                    self.laws.told_aborted(subtask.name, checkpoint_id)
                case s.CancelWrite():
                    pass

    def _live(self, subtask: SimSubtask, event: life.LifeEvent) -> None:
        for command in subtask.life.on(event, self.now_ms):
            match command:
                case life.PassTrigger(barrier):
                    if subtask.handler is None:
                        self._snapshot(subtask, s.SnapshotRequested(barrier))
                    else:
                        self._align(subtask, a.CheckpointTriggered(barrier))
                case life.DeclineTrigger(checkpoint_id, _):
                    self.coordinator.inbox.append(("decline", subtask.name, checkpoint_id))
                case life.ReportEndOfData():
                    self.coordinator.inbox.append(("end-of-data", subtask.name, 0))
                case life.EndPartitions():
                    self._broadcast(subtask, EndOfPartition())
                case life.StopWork():
                    self._alive.remove(subtask)
                    self.laws.finished(subtask.name, subtask.position, frozenset(subtask.seen))
                    self.coordinator.inbox.append(("finished", subtask.name, 0))
                case life.ReportState() | life.CommitAll():
                    pass

    # --- the world around -------------------------------------------------------------------------

    def _coordinate(self) -> None:
        may_trigger = self.random.random() < (0.1 if self.chaos else 0.5)
        for name, mail in self.coordinator.step(self.now_ms, may_trigger):
            if isinstance(mail, Confirm) and not mail.may_finish and self._fault(0.1):
                continue
            copies = 2 if not isinstance(mail, Trigger) and self._fault(0.1) else 1
            self.subtasks[name].mails.extend([mail] * copies)

    def _abort_some(self) -> None:
        self.faults += 1
        for name, mail in self.coordinator.abort(self.random.choice(list(self.coordinator.pending))):
            self.subtasks[name].mails.append(mail)

    def _fault(self, probability: float) -> bool:
        happens = self.chaos and self.random.random() < probability
        self.faults += happens
        return happens

    def _broadcast(self, subtask: SimSubtask, item: Item) -> None:
        if not isinstance(item, Barrier) and not isinstance(item, WatermarkEvent):
            self._release_held_barrier(subtask)
        for channel in subtask.outputs:
            channel.append(item)

    def _release_held_barrier(self, subtask: SimSubtask) -> None:
        if subtask.held_barrier is not None:
            barrier, subtask.held_barrier = subtask.held_barrier, None
            self._broadcast(subtask, barrier)

    def _emitted(self) -> set[Record]:
        return {Record(t.name, i) for t in self.layers[0] for i in range(t.position)}

    def _make(self, layer: int, index: int) -> SimSubtask:
        kind = _AcksTwice if self.plants.ack_twice else s.SnapshotCoordinator
        subtask = SimSubtask(
            f"{['source', 'middle', 'sink'][layer]}-{index}",
            layer,
            life.SubtaskLife(checkpointing=True, has_inputs=layer > 0),
            kind(),
        )
        subtask.limit = self.random.randint(10, 120) if layer == 0 else 0
        return subtask

    def _connect(self) -> None:
        for upper, lower in zip(self.layers, self.layers[1:], strict=False):
            for consumer in lower:
                for producer in upper:
                    channel: deque[Item] = deque()
                    producer.outputs.append(channel)
                    consumer.inputs.append(channel)
                channels = range(len(consumer.inputs))
                consumer.open_data = set(channels)
                consumer.handler = (
                    ExactlyOnceBarrierHandler(channels) if self.exactly_once else TrackingHandler(channels)
                )
                consumer.valve = w.WatermarkValve(len(channels))
