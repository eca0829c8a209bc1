"""Metrics of a subtask under Flink's names that are computed when metrics are reported.

Flink's network has pools of buffers. Here credit in bytes limits the data in flight, so the usage of a pool is the queued share of that limit. A subtask never
blocks inside a function until an output has room (it takes no input instead, and handles mails), so all backpressure is what Flink calls soft.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tidegate.model.stats_summary import percentile
from tidegate.taskmanager.exchange.ports import InputGate, ResultPartition
from tidegate.taskmanager.operators.operator import Metrics
from tidegate.taskmanager.runtime.mailbox import Mailbox
from tidegate.taskmanager.runtime.measuring.subtask_metrics import TaskCounters
from tidegate.wire.task_metrics import BUSY_TIME, INPUT, MAIL_LATENCY, OUTPUT, QUANTILES

Gauges = dict[str, Callable[[], float]]


class Entered(Protocol):
    """The records and the watermark that arrived at an operator."""

    @property
    def records(self) -> int: ...
    @property
    def watermark_ms(self) -> int: ...


class Emitted(Protocol):
    """The records and the watermark that an operator emitted on its main output."""

    @property
    def records_emitted(self) -> int: ...
    @property
    def watermark_ms(self) -> int: ...


@dataclass(frozen=True, slots=True)
class HeadInput:
    """The input of the head of a chain, which is the subtask's input; for a source, what it read."""

    counters: TaskCounters

    @property
    def records(self) -> int:
        return self.counters.records_in

    @property
    def watermark_ms(self) -> int:
        return self.counters.watermark_ms


def input_metrics(gate: InputGate) -> Gauges:
    """Returns the metrics of the input gate. All credit belongs to the channels, so it counts as exclusive buffers, and there are no floating ones."""
    received = gate.received
    return {
        "numBuffersInLocal": lambda: received.local_frames,
        "numBuffersInRemote": lambda: received.remote_frames,
        "numBytesInLocal": lambda: received.local_bytes,
        "numBytesInRemote": lambda: received.remote_bytes,
        f"{INPUT}.Buffers.inputQueueLength": gate.queued_frames,
        f"{INPUT}.Buffers.inputQueueSize": gate.queued_bytes,
        f"{INPUT}.Buffers.inPoolUsage": gate.used_share,
        f"{INPUT}.Buffers.inputExclusiveBuffersUsage": gate.used_share,
        f"{INPUT}.Buffers.inputFloatingBuffersUsage": lambda: 0.0,
    }


def output_metrics(partitions: Sequence[ResultPartition]) -> Gauges:
    return {
        "numBuffersOut": lambda: sum(partition.sent_frames for partition in partitions),
        f"{OUTPUT}.Buffers.outputQueueLength": lambda: sum(partition.queued_frames() for partition in partitions),
        f"{OUTPUT}.Buffers.outputQueueSize": lambda: sum(partition.queued_bytes() for partition in partitions),
        f"{OUTPUT}.Buffers.outPoolUsage": lambda: max((p.used_share() for p in partitions), default=0.0),
    }


def mailbox_metrics(mailbox: Mailbox) -> Gauges:
    """Returns the metrics of the mailbox. Latencies are over the last mails, and 0 before the first one."""

    def at(percent: float) -> Callable[[], float]:
        return lambda: percentile(sorted(mailbox.waits_ms), percent) if mailbox.waits_ms else 0.0

    return {
        "mailboxMails": lambda: mailbox.taken,
        "mailboxQueueSize": mailbox.size,
        f"{MAIL_LATENCY}_min": lambda: min(mailbox.waits_ms, default=0.0),
        f"{MAIL_LATENCY}_max": lambda: max(mailbox.waits_ms, default=0.0),
        f"{MAIL_LATENCY}_mean": lambda: statistics.fmean(mailbox.waits_ms) if mailbox.waits_ms else 0.0,
        f"{MAIL_LATENCY}_stddev": lambda: statistics.stdev(mailbox.waits_ms) if len(mailbox.waits_ms) > 1 else 0.0,
        **{f"{MAIL_LATENCY}_{name}": at(percent) for name, percent in QUANTILES.items()},
    }


def watch_operator(metrics: Metrics, entered: Entered, output: Emitted, busy_ms: Callable[[], float]) -> None:
    metrics.watch("numRecordsIn", lambda: entered.records)
    metrics.watch("numRecordsOut", lambda: output.records_emitted)
    metrics.watch("currentInputWatermark", lambda: entered.watermark_ms)
    metrics.watch("currentOutputWatermark", lambda: output.watermark_ms)
    metrics.watch(BUSY_TIME, busy_ms)


def watch_bytes(metrics: Metrics, counters: TaskCounters, *, is_head: bool, sends: bool) -> None:
    """Registers the metrics of bytes: those of channels for the operators at their ends, 0 between chained operators."""
    metrics.watch("numBytesIn", (lambda: counters.bytes_in) if is_head else _none)
    metrics.watch("numBytesOut", (lambda: counters.bytes_out) if sends else _none)


def watch_sink(metrics: Metrics, entered: Entered) -> None:
    """Registers the sink metrics of an operator without successors. Errors are always 0, since a record that cannot be written fails the attempt."""
    metrics.watch("numRecordsSend", lambda: entered.records)
    metrics.watch("numRecordsSendErrors", _none)
    metrics.watch("numRecordsOutErrors", _none)


def _none() -> float:
    return 0.0
