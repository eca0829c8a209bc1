"""The mailbox loop of a running subtask: one thread, one step at a time.

    step():   mails ─▶ alarms ─▶ (outputs have room?) timers ─▶ one slice of input ─▶ look-ups of clients ─▶ flush and metrics when due
    steps():  step() until the life is over; when a step had nothing to do, the caller waits for a mail or a wake

Laws: mails are handled first, and no step works longer than a slice, so a trigger, an abort or a cancellation waits for 5 ms at most. While an output has no
room, only mails and overtaking barriers are processed (backpressure). After the end of the subtask's life nothing is published.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from tidegate.model.channel_events import Barrier, EndOfData, EndOfPartition
from tidegate.model.checkpoint import DeclineReason
from tidegate.model.errors import ErrorInfo, InternalError
from tidegate.taskmanager.exchange.ports import ResultPartition
from tidegate.taskmanager.machines import snapshot as s
from tidegate.taskmanager.machines import subtask as lifecycle
from tidegate.taskmanager.operators.operator import Ending
from tidegate.taskmanager.runtime.chain import Finishing, OperatorChain
from tidegate.taskmanager.runtime.checkpointing.snapshots import SnapshotDriver
from tidegate.taskmanager.runtime.flushing import FlushTimer
from tidegate.taskmanager.runtime.inputs.channel_input import SubtaskInput
from tidegate.taskmanager.runtime.mailbox import AT_ONCE, Steps
from tidegate.taskmanager.runtime.ports import (
    AbortCheckpoint,
    CallMail,
    CancelTask,
    ConfirmCheckpoint,
    ConnectInputs,
    ControlLost,
    Mail,
    OperatorEventArrived,
    QueryState,
    TaskEventArrived,
)
from tidegate.taskmanager.runtime.services import SubtaskServices

METRICS_INTERVAL_MS = 500.0
"""Milliseconds between two reports of metrics: half of the interval of the heartbeats that carry them on. Chosen, not measured."""
DRAIN_CHECK_MS = 10.0
"""Milliseconds after which a subtask that only waits for its outputs to drain checks them without being woken."""


class SubtaskLoop:
    """The mailbox loop of one subtask. It opens and closes nothing; ``launch`` does."""

    def __init__(
        self,
        services: SubtaskServices,
        *,
        subtask: lifecycle.SubtaskLifecycle,
        chain: OperatorChain,
        work: SubtaskInput,
        partitions: Sequence[ResultPartition],
        snapshots: SnapshotDriver,
        flush: FlushTimer,
    ) -> None:
        self._lifecycle = subtask
        self._chain = chain
        self._work = work
        self._partitions = partitions
        self._snapshots = snapshots
        self._timers = services.timers
        self._alarms = services.alarms
        self._counters = services.counters
        self._mailbox = services.mailbox
        self._port = services.port
        self._clock = services.clock
        self._flush = flush
        self._probe = services.probe
        self._check = services.check
        self._kv_states = services.kv_states
        self._metrics_at_ms = self._clock.monotonic_ms()
        self._congested = False
        self._held: list[Barrier] = []

    @property
    def is_congested(self) -> bool:
        """Whether the subtask waits for space in its outputs. May be read from any thread."""
        return self._congested

    def steps(self) -> Steps:
        """Runs step after step until the subtask has ended. Raises whatever operators, gate and partitions raise."""
        while not self._lifecycle.is_over:
            began_ms = self._clock.monotonic_ms()
            worked = self.step()
            ended_ms = self._clock.monotonic_ms()
            self._counters.busy_ms += ended_ms - began_ms
            if worked or self._lifecycle.is_over:
                yield AT_ONCE
                continue
            yield self._patience_ms(ended_ms)
            waited_ms = self._clock.monotonic_ms() - ended_ms
            if self._congested:
                self._counters.backpressured(waited_ms)
            else:
                self._counters.idle_ms += waited_ms

    def step(self) -> bool:
        """Does one short step. Returns whether anything was done; ``False``: wait before the next one."""
        worked = self._take_mails()
        if not self._lifecycle.is_over:
            worked = self._alarms.fire() or worked
            self._snapshots.look_at_outputs()
            self._flush.begin(self._clock.monotonic_ms())
            advanced = self._advance()
            answered = self._kv_states.answer_some(self._clock.monotonic_ms, has_input=advanced)
            worked = advanced or answered or worked
            self._flush_when_due(advanced=advanced)
            self._tell_metrics_when_due()
        return worked

    def handle(self, mail: Mail) -> None:
        """Handles one mail that was taken out of the mailbox."""
        match mail:
            case Barrier():
                self._on_lifecycle(mail)
            case ConfirmCheckpoint(checkpoint_id, may_finish):
                self._snapshots.on(s.ConfirmReceived(checkpoint_id))
                self._on_lifecycle(lifecycle.CheckpointConfirmed(checkpoint_id, may_finish))
            case AbortCheckpoint(checkpoint_id, latest_completed_id):
                self._snapshots.on(s.AbortReceived(checkpoint_id, latest_completed_id))
                self._work.abort(checkpoint_id)
            case OperatorEventArrived(event):
                self._chain.on_operator_event(event)
            case TaskEventArrived(edge_id, payload):
                self._chain.on_task_event(edge_id, payload)
            case CancelTask():
                self._on_lifecycle(lifecycle.CancelRequested())
            case ControlLost():
                self._on_lifecycle(lifecycle.ControlBroken())
            case CallMail(call):
                call()
            case QueryState():
                self._kv_states.queue(mail)
            case ConnectInputs():
                pass  # all inputs are connected before the loop starts: a repeated message
            case _:
                assert_never(mail)

    def tell_metrics(self) -> None:
        self._port.metrics(self._counters.report())

    def _take_mails(self) -> bool:
        mails = self._mailbox.take_all()
        if any(isinstance(mail, ControlLost) for mail in mails):
            self.handle(ControlLost())  # before everything that came earlier: it could not be published now
        for mail in mails:
            if self._lifecycle.is_over:
                break
            self.handle(mail)
        return bool(mails)

    def _advance(self) -> bool:
        self._congested = False
        match self._lifecycle.state:
            case lifecycle.LifecycleState.RUNNING:
                return self._work_on()
            case lifecycle.LifecycleState.AT_END:
                return self._wait_at_end()
            case lifecycle.LifecycleState.SETTLING:
                return self._settle()
            case lifecycle.LifecycleState.CLOSING:
                if (
                    not all(partition.is_drained() for partition in self._partitions)
                    or self._chain.ending() is not Ending.DONE
                ):
                    return False
                self._on_lifecycle(lifecycle.OutputsDrained())
                return True
            case _:
                return False

    def _work_on(self) -> bool:
        if self._work.data_ended:
            return self._finish_data()
        has_room = all(partition.is_available() for partition in self._partitions) and self._chain.has_room()
        self._congested = not has_room
        if self._congested:
            return self._work.step_priority()
        fired = self._timers.fire()
        worked = self._work.step()
        if self._work.data_ended:
            self._finish_data()
            return True
        return fired or worked

    def _wait_at_end(self) -> bool:
        worked = self._work.step()  # barriers and ends of partitions
        if self._work.closed:
            self._on_lifecycle(lifecycle.InputsClosed())
        return worked

    def _finish_data(self) -> bool:
        """Finishes the operators at the end of data. Returns whether anything was done; operators may still wait for elements in flight.

        Meanwhile nothing is read except barriers with priority, and the barrier of a stop is held back.
        """
        if self._work.drained:
            self._congested = not all(partition.is_available() for partition in self._partitions)
            finishing = Finishing.WAITING if self._congested else self._chain.finish()
            if finishing is not Finishing.DONE:
                return self._work.step_priority() or self._timers.fire() or finishing is Finishing.WORKING
        self._timers.quiesce()
        if not self._work.drained:
            self._chain.suspend()  # before the barrier of the stop would be too late: behind the end of data nothing may come
        for partition in self._partitions:
            partition.broadcast(EndOfData(self._work.drained))
        self._probe("end-of-data", {})
        self._on_lifecycle(lifecycle.DataFinished())
        held, self._held = self._held, []
        for barrier in held:
            self._work.trigger(barrier)
        return True

    def _settle(self) -> bool:
        ending = self._chain.ending()
        if self._snapshots.is_writing or ending is Ending.COMMITTING:
            return False
        if ending is Ending.UNCOMMITTED:
            raise InternalError(
                "the final checkpoint of the job was confirmed, but a sink of this subtask still has rows to commit: this is an error of the sink's "
                "committer or of tidegate; please report it with the log of this subtask"
            )
        self._on_lifecycle(lifecycle.SnapshotsSettled())
        return True

    def _on_lifecycle(self, event: lifecycle.LifecycleEvent) -> None:
        for command in self._lifecycle.on(event, self._clock.now_ms()):
            match command:
                case lifecycle.ReportState(state):
                    self._port.state_changed(state)
                case lifecycle.ReportEndOfData():
                    self._port.end_of_data()
                case lifecycle.EndData(drain):
                    self._work.end_data(drain=drain)
                    self._finish_data()
                case lifecycle.PassTrigger(barrier):
                    self._pass(barrier)
                case lifecycle.DeclineTrigger(checkpoint_id, reason):
                    self._snapshots.decline(s.Decline(checkpoint_id, reason, _why(reason)))
                case lifecycle.CommitAll():
                    self._snapshots.commit(lifecycle.EOI_CHECKPOINT_ID)
                case lifecycle.EndPartitions():
                    for partition in self._partitions:
                        partition.broadcast(EndOfPartition())
                case lifecycle.StopWork():
                    self._snapshots.stop()
                case _:
                    assert_never(command)

    def _pass(self, barrier: Barrier) -> None:
        is_finishing = self._work.data_ended and self._lifecycle.state is lifecycle.LifecycleState.RUNNING
        if is_finishing and barrier.options.snapshot_type.is_synchronous:
            self._held.append(barrier)
        else:
            self._work.trigger(barrier)

    def _flush_when_due(self, *, advanced: bool) -> None:
        if self._flush.is_due(self._clock.monotonic_ms(), unflushed=self._counters.unflushed, advanced=advanced):
            for partition in self._partitions:
                partition.flush()
            self._counters.unflushed = False

    def _tell_metrics_when_due(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._metrics_at_ms:
            self._metrics_at_ms = now_ms + METRICS_INTERVAL_MS
            self._check()
            self.tell_metrics()

    def _patience_ms(self, now_ms: float) -> float:
        """Returns the number of milliseconds for which there is nothing to do unless the mailbox is woken."""
        limits = [self._metrics_at_ms - now_ms]
        alarm_ms = self._alarms.next_ms()
        if alarm_ms is not None:
            limits.append(alarm_ms - self._clock.now_ms())
        if self._flush.at_ms is not None:
            limits.append(self._flush.at_ms - now_ms)
        if self._lifecycle.state is lifecycle.LifecycleState.CLOSING:
            limits.append(DRAIN_CHECK_MS)
        if self._lifecycle.state is lifecycle.LifecycleState.RUNNING and not self._congested:
            timer_ms = self._timers.next_ms()
            if timer_ms is not None:
                limits.append(timer_ms - self._clock.now_ms())
            if self._work.retry_ms is not None:
                limits.append(self._work.retry_ms)
        return max(0.0, min(limits))


_WHY = {
    DeclineReason.TASK_CLOSING: "the subtask is about to finish",
    DeclineReason.TASK_NOT_READY: "the subtask is not running yet",
    DeclineReason.DECLINED: "checkpointing is off: what was written is committed at the end of data, not by a savepoint (and a job in BATCH mode "
    "has no savepoints at all)",
}


def _why(reason: DeclineReason) -> ErrorInfo:
    return ErrorInfo("declined", "internal", _WHY[reason])
