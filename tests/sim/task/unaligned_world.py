"""The data plane of ``world`` with channels whose two ends are apart, and barriers that overtake in both.

    producer's queue ──transfer, one item at a time──▶ consumer's gate (and what has priority) ──▶ read

Checkpoints are unaligned, aligned with a timeout, or aligned, drawn for each; the edges into the sinks may force alignment.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace

from tests.sim.task.laws import Record
from tests.sim.task.world import Action, Item, Plants, SimSubtask, World
from tidegate.model.channel_events import Barrier, CancelBarrier, EndOfPartition
from tidegate.model.checkpoint import Alignment, CheckpointMetrics, CheckpointOptions, SubtaskSnapshot
from tidegate.taskmanager.machines import alignment as a
from tidegate.taskmanager.machines import snapshot as s
from tidegate.taskmanager.machines import subtask as life
from tidegate.taskmanager.machines.barrier_handler import ExactlyOnceBarrierHandler, forced_aligned

TIMEOUT_MS = 40


@dataclass
class UnalignedPlants(Plants):
    not_overtaking: bool = False
    output_lost: bool = False
    input_lost: bool = False
    persisted_twice: bool = False
    persisted_past_the_barrier: bool = False
    acknowledged_before_all_came: bool = False
    blocked_after_the_switch: bool = False


First = Barrier | CancelBarrier | a.BarrierAnnounced | a.ChannelDrained


@dataclass
class _Recording:
    checkpoint_id: int
    records: list[Record]
    complete: bool


class SimChannel:
    """Stands for the deque of ``World``: ``append`` by the producer, ``popleft`` by the consumer."""

    def __init__(self, plants: UnalignedPlants) -> None:
        self.plants = plants
        self.queue: deque[Item] = deque()
        self.gate: deque[Item] = deque()
        self.priority: deque[First] = deque()
        self.sent_first: deque[Barrier | a.BarrierAnnounced] = deque()
        self.behind: dict[int, int] = {}
        """Items of the gate that came behind the barrier of a checkpoint."""
        self.recording: _Recording | None = None

    def __bool__(self) -> bool:
        return bool(self.gate)

    def append(self, item: Item) -> None:
        self.queue.append(item)

    def popleft(self) -> Item:
        for n in self.behind:
            self.behind[n] = min(self.behind[n], len(self.gate) - 1)
        return self.gate.popleft()

    @property
    def may_transfer(self) -> bool:
        return bool(self.queue or self.sent_first)

    def overtake(self, barrier: Barrier) -> list[Record]:
        overtaken = [item for item in self.queue if isinstance(item, Record)]
        if self.plants.not_overtaking:
            self.queue.append(barrier)
            return []
        self.sent_first.append(barrier)
        return overtaken

    def announce(self, barrier: Barrier) -> None:
        self.sent_first.append(a.BarrierAnnounced(0, barrier))
        self.queue.append(barrier)

    def holds(self, checkpoint_id: int) -> bool:
        return any(isinstance(item, Barrier) and item.checkpoint_id == checkpoint_id for item in self.queue)

    def prioritise(self, barrier: Barrier) -> list[Record]:
        for at, item in enumerate(self.queue):
            if isinstance(item, Barrier) and item.checkpoint_id == barrier.checkpoint_id:
                overtaken = [before for before in list(self.queue)[:at] if isinstance(before, Record)]
                del self.queue[at]
                self.sent_first.append(barrier)
                return overtaken
        return []

    def transfer(self) -> None:
        if self.sent_first:
            first = self.sent_first.popleft()
            if isinstance(first, Barrier):
                self._barrier_came(first.checkpoint_id)
            self.priority.append(first)
            return
        item = self.queue.popleft()
        recording = self.recording
        if recording is not None and not recording.complete:
            if isinstance(item, Barrier | CancelBarrier) and item.checkpoint_id == recording.checkpoint_id:
                self._barrier_came(item.checkpoint_id)
                self.priority.append(item)
                return
            if isinstance(item, EndOfPartition):
                recording.complete = True
                self.priority.append(a.ChannelDrained(0, recording.checkpoint_id))
            elif isinstance(item, Barrier | CancelBarrier):
                recording.complete = item.checkpoint_id > recording.checkpoint_id
            elif isinstance(item, Record):
                recording.records.append(item)
        for n in self.behind:
            self.behind[n] += 1
        self.gate.append(item)

    def _barrier_came(self, checkpoint_id: int) -> None:
        self.behind = {checkpoint_id: 0}
        if self.recording is not None and not self.plants.persisted_past_the_barrier:
            self.recording.complete |= checkpoint_id >= self.recording.checkpoint_id

    def persist(self, checkpoint_id: int) -> None:
        behind = self.behind.get(checkpoint_id)
        before = list(self.gate)[: len(self.gate) - (behind or 0)]
        if self.plants.persisted_past_the_barrier:
            before, behind = list(self.gate), None
        records: list[Record] = []
        complete = behind is not None
        for item in before:
            if isinstance(item, Barrier) and item.checkpoint_id == checkpoint_id:
                self.gate.remove(item)
                self.priority.append(item)
                complete = True
                break
            if isinstance(item, EndOfPartition):
                complete = True
                self.priority.append(a.ChannelDrained(0, checkpoint_id))
                break
            if isinstance(item, Record):
                records.append(item)
        self.recording = _Recording(checkpoint_id, records, complete)

    def take(self, checkpoint_id: int) -> list[Record]:
        recording = self.recording
        if recording is None or recording.checkpoint_id != checkpoint_id:
            return []
        self.recording = None
        return recording.records


@dataclass
class _Open:
    """What an acknowledgement of a subtask waits for."""

    inputs: set[int] = field(default_factory=set)
    outputs: dict[int, Barrier] = field(default_factory=dict)


class UnalignedWorld(World):
    def __init__(self, seed: int, plants: UnalignedPlants | None = None) -> None:
        self.unaligned_plants = plants or UnalignedPlants()
        self.timers: list[tuple[float, Action]] = []
        self.open: dict[str, _Open] = {}
        self.switches = 0
        super().__init__(seed, plants=self.unaligned_plants)
        self.max_concurrent = 1
        self.coordinator._max_concurrent = 1
        self.coordinator.options = self._options
        self.forced = self.random.random() < 0.3

    def _options(self) -> CheckpointOptions:
        chance = self.random.random()
        if chance < 0.5:
            return CheckpointOptions("mem", alignment=Alignment.UNALIGNED)
        return CheckpointOptions("mem", aligned_timeout_ms=None if chance > 0.9 else TIMEOUT_MS)

    def _connect(self) -> None:
        super()._connect()
        for upper in self.layers:
            for subtask in upper:
                self.open[subtask.name] = _Open()
                subtask.outputs, subtask.inputs = [], []
        for upper, lower in zip(self.layers, self.layers[1:], strict=False):
            for consumer in lower:
                for producer in upper:
                    channel = SimChannel(self.unaligned_plants)
                    producer.outputs.append(channel)  # type: ignore[arg-type]
                    consumer.inputs.append(channel)  # type: ignore[arg-type]
                consumer.handler = ExactlyOnceBarrierHandler(range(len(consumer.inputs)))

    def _act(self, action: Action) -> None:
        super()._act(action)
        for timer in [timer for timer in self.timers if timer[0] <= self.now_ms]:
            self.timers.remove(timer)
            timer[1]()

    def _actions(self, subtask: SimSubtask) -> list[Action]:
        actions: list[Action] = []
        if subtask.mails:
            actions.append(lambda: self._take_mail(subtask))
        if subtask.written_twice or self._writable(subtask):
            actions.append(lambda: self._end_write(subtask))
        actions += [channel.transfer for channel in channels_of(subtask.inputs) if channel.may_transfer]
        first = [index for index, channel in enumerate(channels_of(subtask.inputs)) if channel.priority]
        if first:  # before anything else is read: it may have overtaken that
            return [*actions, lambda: self._read_priority(subtask, self.random.choice(first))]
        return [*actions, *self._work_of(subtask)]

    def _writable(self, subtask: SimSubtask) -> list[int]:
        waits = self.open[subtask.name]
        for n, barrier in list(waits.outputs.items()):
            if not any(channel.holds(n) for channel in channels_of(subtask.outputs)):
                del waits.outputs[barrier.checkpoint_id]
        early = self.unaligned_plants.acknowledged_before_all_came
        return [n for n in subtask.snapshots.writing if early or (n not in waits.inputs and n not in waits.outputs)]

    def _read(self, subtask: SimSubtask, channel: int) -> None:
        here = channels_of(subtask.inputs)[channel]
        waiting = next((i for i in here.gate if isinstance(i, Barrier)), None)
        overtakes = waiting is not None and waiting.options.alignment is Alignment.UNALIGNED
        if overtakes and isinstance(here.gate[0], Record):
            self.laws.broken("overtaking", f"{subtask.name} processes a record in front of an unaligned barrier")
        super()._read(subtask, channel)

    def _read_priority(self, subtask: SimSubtask, channel: int) -> None:
        first = channels_of(subtask.inputs)[channel].priority.popleft()
        if channel in subtask.ended:
            return
        if isinstance(first, Barrier):
            self._align(subtask, a.BarrierArrived(channel, first))
        elif isinstance(first, CancelBarrier):
            self._align(subtask, a.CancelBarrierArrived(channel, first.checkpoint_id))
        elif isinstance(first, a.BarrierAnnounced):
            self._align(subtask, a.BarrierAnnounced(channel, first.barrier))
        else:
            self._align(subtask, a.ChannelDrained(channel, first.checkpoint_id))

    def _end_write(self, subtask: SimSubtask) -> None:
        if subtask.written_twice:
            checkpoint_id = subtask.written_twice.pop()
        else:
            checkpoint_id = self.random.choice(self._writable(subtask))
            if self._fault(0.1):
                subtask.written_twice.append(checkpoint_id)
        self._snapshot(subtask, s.SnapshotWritten(checkpoint_id, SubtaskSnapshot(), CheckpointMetrics()))

    def _align(self, subtask: SimSubtask, event: a.AlignmentEvent) -> None:
        assert subtask.handler is not None
        plants, waits = self.unaligned_plants, self.open[subtask.name]
        channels = channels_of(subtask.inputs)
        for command in subtask.handler.on(event, self.now_ms):
            match command:
                case a.BlockChannel(channel):
                    subtask.blocked.add(channel)
                case a.UnblockChannel(channel):
                    if not (plants.blocked_after_the_switch and waits.inputs):
                        subtask.blocked.discard(channel)
                case a.StartAlignmentTimer(n, delay_ms):
                    self.timers.append((self.now_ms + delay_ms, lambda n=n: self._time_up(subtask, n)))  # type: ignore[misc]
                case a.StartSnapshot(barrier, _, _, persists):
                    self.switches += persists
                    if persists:
                        waits.inputs.add(barrier.checkpoint_id)
                    self._snapshot(subtask, s.SnapshotRequested(barrier))
                case a.PersistChannel(n, channel):
                    channels[channel].persist(n)
                case a.StopPersisting():
                    pass
                case a.FinishPersisting(n, _):
                    waits.inputs.discard(n)
                    for records in [channel.take(n) for channel in channels]:
                        if not plants.input_lost:
                            self.laws.persisted(subtask.name, n, records)
                        if plants.persisted_twice:
                            self.laws.persisted(subtask.name, n, records)
                case a.DropPersisted(n):
                    waits.inputs.discard(n)
                    for given_up in channels:
                        given_up.take(n)
                case a.AbortAlignment(n, reason):
                    self._snapshot(subtask, s.AlignmentAborted(n, reason))

    def _time_up(self, subtask: SimSubtask, checkpoint_id: int) -> None:
        if subtask in self._alive:
            self._align(subtask, a.AlignmentTimedOut(checkpoint_id))

    def _broadcast(self, subtask: SimSubtask, item: Item) -> None:
        if not isinstance(item, Barrier) or not subtask.outputs:
            super()._broadcast(subtask, item)
            return
        consumers = self.layers[subtask.layer + 1]
        pairs = list(zip(consumers, channels_of(subtask.outputs), strict=True))
        if self.forced and subtask.layer == 1:
            super()._broadcast(subtask, replace(item, options=forced_aligned(item.options)))
        elif item.options.alignment is Alignment.UNALIGNED:
            for consumer, channel in pairs:
                self._overtaken(consumer, item, channel.overtake(item))
        elif item.options.aligned_timeout_ms is not None:
            for _, channel in pairs:
                channel.announce(item)
            self.open[subtask.name].outputs[item.checkpoint_id] = item
            at_ms = item.timestamp_ms + TIMEOUT_MS
            self.timers.append((at_ms, lambda: self._outputs_time_up(subtask, item)))
        else:
            super()._broadcast(subtask, item)

    def _outputs_time_up(self, subtask: SimSubtask, barrier: Barrier) -> None:
        waits = self.open[subtask.name]
        if barrier.checkpoint_id not in subtask.snapshots.writing or barrier.checkpoint_id not in waits.outputs:
            return
        del waits.outputs[barrier.checkpoint_id]
        options = replace(barrier.options, alignment=Alignment.UNALIGNED, aligned_timeout_ms=None)
        unaligned = replace(barrier, options=options)
        for consumer, channel in zip(self.layers[subtask.layer + 1], channels_of(subtask.outputs), strict=True):
            self._overtaken(consumer, unaligned, channel.prioritise(unaligned))

    def _overtaken(self, consumer: SimSubtask, barrier: Barrier, records: list[Record]) -> None:
        if not self.unaligned_plants.output_lost:
            self.laws.persisted(consumer.name, barrier.checkpoint_id, records)

    def _work_of(self, subtask: SimSubtask) -> list[Action]:
        if subtask.life.state is life.LifeState.CLOSING and any(c.may_transfer for c in channels_of(subtask.outputs)):
            return []
        return super()._work_of(subtask)


def channels_of(channels: object) -> list[SimChannel]:
    return channels  # type: ignore[return-value]
