"""A model of a subtask, for the simulator of the JobManager: the machines of a subtask, without the runtime that drives them.

The JobManager sees a subtask by its messages alone, which come here as from real machines, in every order. Nothing is concluded about what drives them
in a process, which ``tests/sim/runtime`` runs itself. ``planted_bugs`` replaces ``emit_barrier``, ``block`` and ``acknowledge``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tests.sim.channel import Channel, Item, Row
from tests.sim.context import TaskContext
from tests.sim.handles import FileGone
from tests.sim.in_flight import Flights, replayed
from tests.sim.job import SINK, SOURCE
from tests.sim.laws import Law, LawBroken
from tests.sim.operators import CounterOperator, Frozen, Operator, SinkOperator, SourceOperator
from tests.sim.outputs import Outputs
from tidegate.jobmanager.machines import events as e
from tidegate.model.channel_events import Barrier, CancelBarrier, EndOfData, EndOfPartition
from tidegate.model.checkpoint import Acknowledgement, Alignment, CheckpointMetrics, SubtaskSnapshot
from tidegate.model.deployment import ProducerAddress, TaskDeployment
from tidegate.model.errors import CorruptData, ErrorInfo, SubtaskLost
from tidegate.model.ids import CheckpointId
from tidegate.model.states import ExecutionState
from tidegate.taskmanager.machines import alignment as align
from tidegate.taskmanager.machines import snapshot as snap
from tidegate.taskmanager.machines import subtask as lifecycle
from tidegate.taskmanager.machines.barrier_handler import ExactlyOnceBarrierHandler

STEP_MS = (3, 12)
ITEMS_PER_STEP = 3


class ModelSubtask:
    def __init__(
        self,
        context: TaskContext,
        deployment: TaskDeployment,
        send: Callable[[e.Event], None],
        on_over: Callable[[ModelSubtask, ExecutionState, ErrorInfo | None], None],
    ) -> None:
        self.context = context
        self.deployment = deployment
        self.attempt = deployment.attempt
        self._send = send
        self._on_over = on_over
        restored_id = deployment.restore.checkpoint_id if deployment.restore else 0
        self.lifecycle = lifecycle.SubtaskLifecycle(checkpointing=True, has_inputs=bool(deployment.inputs))
        self.snapshots = snap.SnapshotCoordinator(restored_id=restored_id)
        producers = [p for i in deployment.inputs for p in i.producers]
        self.alignment = ExactlyOnceBarrierHandler(range(len(producers)), last_id=restored_id)
        self.inputs: dict[int, Channel] = {}
        self.flights = Flights(deployment, self.inputs)
        self._channel_of = {producer: channel for channel, producer in enumerate(producers)}
        self.outputs = Outputs(self, context.world, self.flights)
        self.blocked: set[int] = set()
        self.ended: set[int] = set()
        self.data_ended: set[int] = set()
        self.locations: dict[int, str] = {}
        self.is_gone = False
        self._is_stepping = False
        self.operator = self._make_operator()

    @property
    def is_source(self) -> bool:
        return not self._channel_of

    def _make_operator(self) -> Operator:
        if self.attempt.vertex_id == SOURCE:
            return SourceOperator(self.context.job, self.deployment)
        if self.attempt.vertex_id == SINK:
            return SinkOperator(self.context.external, self.context.watch, self.deployment)
        return CounterOperator(self.context.storage, self.deployment)

    # ---- life --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.context.began(self)
        self._live(lifecycle.InitializationStarted())
        if self.is_source:
            self._become_running()

    def connect(self, producers: Sequence[ProducerAddress]) -> None:
        for producer in producers:
            channel, task = self._channel_of[producer.attempt], self.context.live.get(producer.attempt)
            if channel in self.inputs:
                continue
            if task is None:
                self.context.world.later(20, lambda: self.fail(_lost("its producer is not there")))
                return
            self.inputs[channel] = task.outputs.to(self)
            self.inputs[channel].consumer = self
        if len(self.inputs) == len(self._channel_of):
            self._become_running()

    def _become_running(self) -> None:
        if self.lifecycle.state is lifecycle.LifecycleState.INITIALIZING:
            if self.deployment.restore is not None and self.context.storage.rots():
                self.fail(ErrorInfo.of(CorruptData("a state file is damaged")))
                return
            try:
                self.operator.open()
            except FileGone as gone:
                raise LawBroken(Law.SHARED, f"{self.attempt} restores from {gone}, which was deleted") from gone
            self._live(lifecycle.Initialized())
            self.replay(replayed(self.deployment))
            self.wake()

    def replay(self, rows: Sequence[Row]) -> None:
        """Data in flight comes before anything new."""
        for row in rows:
            self._on_row(row)

    def cancel(self) -> None:
        self._live(lifecycle.CancelRequested())
        self._end(ExecutionState.CANCELED)

    def fail(self, error: ErrorInfo) -> None:
        if not self.is_gone:
            self._live(lifecycle.SubtaskFailed(error))
            self._end(ExecutionState.FAILED, error)

    def cut_off(self) -> None:
        """Its TaskManager is gone, or not connected any more: it stops and says nothing."""
        self._live(lifecycle.ControlBroken())
        self._go()

    def _end(self, state: ExecutionState, error: ErrorInfo | None = None) -> None:
        if not self.is_gone:
            self._go()
            self._on_over(self, state, error)

    def _go(self) -> None:
        if self.is_gone:
            return
        self.is_gone = True
        self.context.ended(self)
        self._snapshot(snap.SubtaskStopped())
        if self.lifecycle.state is not lifecycle.LifecycleState.FINISHED:
            for consumer in self.outputs.unfinished():
                self.context.world.later(15, partial(consumer.fail, _lost("its producer died")))

    # ---- the loop ----------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        if not self._is_stepping and not self.is_gone:
            self._is_stepping = True
            self.context.world.later(self.context.world.between(*STEP_MS), self._step)

    def _step(self) -> None:
        self._is_stepping = False
        if self.is_gone:
            return
        busy = self._emit() if self.is_source else self._consume()
        self._settle()
        if busy:
            self.wake()

    def _emit(self) -> bool:
        is_running = self.lifecycle.state is lifecycle.LifecycleState.RUNNING
        if is_running and self.outputs.has_room:
            row = self.operator.poll()
            if row is None:
                self.out_of_rows()
                return False
            self.outputs.push(row, self.operator)
        return is_running

    def out_of_rows(self) -> None:
        self._finish_data()

    def _consume(self) -> bool:
        if self.lifecycle.state is lifecycle.LifecycleState.INITIALIZING:
            return False
        self._take_urgent()
        for _ in range(ITEMS_PER_STEP):
            ready = [n for n, c in self.inputs.items() if c.queue and n not in self.blocked]
            if not ready or not self.outputs.has_room:
                return bool(ready)
            number = ready[self.context.world.between(0, len(ready) - 1)]
            channel = self.inputs[number]
            item = channel.pop()
            channel.producer.wake()
            self._on_item(number, item)
            if self.is_gone:
                return False
        return True

    def _on_item(self, channel: int, item: Item) -> None:
        match item:
            case Row():
                self._on_row(item)
            case Barrier():
                self._on_barrier(channel, item, self.inputs[channel].first - 1)
            case CancelBarrier():
                self._align(align.CancelBarrierArrived(channel, item.checkpoint_id))
            case EndOfData():
                self.data_ended.add(channel)
                if len(self.data_ended) == len(self._channel_of):
                    self._finish_data()
            case EndOfPartition():
                self.ended.add(channel)
                self.context.watch.on_channel_ended(self.attempt, channel)
                self._align(align.ChannelEnded(channel))
                if len(self.ended) == len(self._channel_of):
                    self._live(lifecycle.InputsClosed())

    def _on_row(self, row: Row) -> None:
        self.context.watch.on_row(self.attempt, row)
        for out in self.operator.process(row):
            self.outputs.push(out, self.operator)

    def _take_urgent(self) -> None:
        """Barriers that have overtaken data, and announcements: also while an output has no room."""
        for number, channel in self.inputs.items():
            while channel.urgent and not self.is_gone:
                barrier, line, is_announcement = channel.urgent.popleft()
                if is_announcement:
                    self.context.watch.on_announced(self.attempt, barrier.checkpoint_id)
                    self._align(align.BarrierAnnounced(number, barrier))
                else:
                    self._on_barrier(number, barrier, line)

    def _on_barrier(self, channel: int, barrier: Barrier, line: int) -> None:
        self.context.watch.on_barrier(self.attempt, channel, barrier.checkpoint_id)
        self.flights.lines[channel] = line
        self._align(align.BarrierArrived(channel, barrier))

    def _finish_data(self) -> None:
        self.outputs.broadcast(EndOfData())
        self._live(lifecycle.DataFinished())

    def _settle(self) -> None:
        """Steps that wait for nothing but this subtask itself."""
        if self.lifecycle.state is lifecycle.LifecycleState.SETTLING and not self.snapshots.writing:
            self._live(lifecycle.SnapshotsSettled())
        if self.lifecycle.state is lifecycle.LifecycleState.CLOSING:
            if self.outputs.are_drained:
                self._live(lifecycle.OutputsDrained())
            else:
                self.wake()

    # ---- checkpoints -------------------------------------------------------------------------------------------------

    def trigger(self, barrier: Barrier) -> None:
        self._live(barrier)

    def confirm(self, checkpoint_id: int, may_finish: bool) -> None:
        self._snapshot(snap.ConfirmReceived(checkpoint_id))
        self._live(lifecycle.CheckpointConfirmed(checkpoint_id, may_finish))
        self._settle()

    def abort(self, checkpoint_id: int, latest: int | None) -> None:
        self._snapshot(snap.AbortReceived(checkpoint_id, latest))
        self._align(align.CheckpointAborted(checkpoint_id))
        self._settle()

    def _live(self, event: lifecycle.LifecycleEvent) -> None:
        for command in self.lifecycle.on(event, self.context.world.now_ms):
            match command:
                case lifecycle.ReportState():
                    self._send(e.TaskStateChanged(self.attempt, command.state, data_address=str(self.attempt)))
                case lifecycle.ReportEndOfData():
                    self._send(e.EndOfDataReached(self.attempt))
                case lifecycle.EndData():
                    self._finish_data()
                case lifecycle.PassTrigger() if self.is_source:
                    self._snapshot(command.barrier)
                case lifecycle.PassTrigger():
                    self._align(command.barrier)
                case lifecycle.DeclineTrigger():
                    self._send(e.SubtaskDeclined(self.attempt, CheckpointId(command.checkpoint_id), command.reason))
                case lifecycle.EndPartitions():
                    self.outputs.broadcast(EndOfPartition())
                    self.wake()
                case lifecycle.StopWork() if self.lifecycle.state is lifecycle.LifecycleState.FINISHED:
                    self._end(ExecutionState.FINISHED)
                case lifecycle.StopWork() | lifecycle.CommitAll():
                    pass

    def _align(self, event: align.AlignmentEvent) -> None:
        for command in self.alignment.on(event, self.context.world.now_ms):
            match command:
                case align.BlockChannel():
                    self.block(command.channel)
                case align.UnblockChannel():
                    self.blocked.discard(command.channel)
                    self.wake()
                case align.StartSnapshot():
                    self.flights.of(command.barrier.checkpoint_id).awaits_channels = command.persists
                    self._snapshot(command.barrier)
                case align.PersistChannel():
                    self.flights.begin(command.channel)
                case align.StopPersisting():
                    self.flights.end(command.checkpoint_id, command.channel)
                case align.FinishPersisting():
                    self.context.watch.on_channels_complete(self.attempt, command.checkpoint_id, self._channel_of)
                    self._on_channels_persisted(command.checkpoint_id)
                case align.DropPersisted():
                    self.flights.forget(command.checkpoint_id)
                case align.StartAlignmentTimer():
                    timed_out = align.AlignmentTimedOut(command.checkpoint_id)
                    self.context.world.later(int(command.delay_ms) + 1, partial(self._on_timer, timed_out))
                case align.AbortAlignment():
                    self._snapshot(snap.AlignmentAborted(command.checkpoint_id, command.reason))

    def _on_timer(self, event: align.AlignmentTimedOut) -> None:
        if not self.is_gone:
            self._align(event)
            self._settle()

    def _snapshot(self, event: snap.SnapshotEvent) -> None:
        for command in self.snapshots.on(event, self.context.world.now_ms):
            self._on_snapshot_command(command)

    def _on_snapshot_command(self, command: snap.SnapshotCommand) -> None:
        match command:
            case snap.PrepareSnapshot():
                self._live(lifecycle.SnapshotStarted(command.checkpoint_id))
                self.operator.prepare(command.checkpoint_id)
            case snap.BroadcastBarrier():
                self.emit_barrier(command.barrier)
            case snap.FreezeState():
                self._freeze(command.barrier)
            case snap.BroadcastCancelBarrier():
                self.outputs.broadcast(CancelBarrier(command.checkpoint_id))
            case snap.Decline():
                number = CheckpointId(command.checkpoint_id)
                self.context.watch.on_declined(self.attempt, command.checkpoint_id)
                self._send(e.SubtaskDeclined(self.attempt, number, command.reason, command.error))
            case snap.CancelWrite():
                self.context.storage.remove_file(self.locations[command.checkpoint_id], self.attempt)
            case snap.NotifyComplete():
                self.operator.commit(command.checkpoint_id)
            case snap.NotifyAborted():
                pass

    def acknowledge(self, command: Acknowledgement) -> None:
        self.context.watch.on_acknowledged(command.attempt, command.checkpoint_id)
        self._send(e.SubtaskAcknowledged(command.attempt, command.checkpoint_id, command.snapshot, command.metrics))

    def emit_barrier(self, barrier: Barrier) -> None:
        if isinstance(self.operator, SourceOperator):
            self.context.watch.on_cut(self.attempt, barrier.checkpoint_id, self.operator.offsets)
        self.outputs.emit(barrier)

    def block(self, channel: int) -> None:
        self.blocked.add(channel)

    def _freeze(self, barrier: Barrier) -> None:
        checkpoint_id, options = barrier.checkpoint_id, barrier.options
        self.context.watch.on_frozen(
            self.attempt,
            checkpoint_id,
            barrier_was_sent=self.outputs.have_sent(checkpoint_id),
            channels=self._channel_of,
            is_unaligned=self.flights.of(checkpoint_id).awaits_channels,
            may_overtake=options.alignment is not Alignment.ALIGNED or options.aligned_timeout_ms is not None,
        )
        self.locations[checkpoint_id] = options.location
        frozen = self.operator.freeze(checkpoint_id, options)
        before = frozen.digest()
        self.context.world.later(self.context.storage.delay_ms(2, 30), lambda: self._write(barrier, frozen, before))

    def _write(self, barrier: Barrier, frozen: Frozen, before: str) -> None:
        """The asynchronous part: the state must still be what was frozen."""
        checkpoint_id, storage = barrier.checkpoint_id, self.context.storage
        if checkpoint_id not in self.snapshots.writing:
            return
        self.context.watch.on_written(self.attempt, checkpoint_id, frozen_changed=frozen.digest() != before)
        if failed := storage.refuses_write():
            self._snapshot(snap.SnapshotFailed(checkpoint_id, failed))
        else:
            storage.put(barrier.options.location, self.attempt)
            self._on_written(checkpoint_id, frozen.snapshot())
        self._settle()

    def _on_written(self, checkpoint_id: int, snapshot: SubtaskSnapshot) -> None:
        flight = self.flights.of(checkpoint_id)
        if flight.awaits_channels:
            flight.snapshot = snapshot
            return
        whole = self.flights.complete(checkpoint_id, snapshot)
        if checkpoint_id in self.snapshots.writing:
            self.acknowledge(Acknowledgement(self.attempt, CheckpointId(checkpoint_id), whole, CheckpointMetrics()))
            self._snapshot(snap.SnapshotWritten(checkpoint_id))

    def _on_channels_persisted(self, checkpoint_id: int) -> None:
        flight = self.flights.of(checkpoint_id)
        flight.awaits_channels = False
        if flight.snapshot is not None and checkpoint_id in self.snapshots.writing:
            self._on_written(checkpoint_id, flight.snapshot)
            self._settle()


def _lost(why: str) -> ErrorInfo:
    return ErrorInfo.of(SubtaskLost(why))
