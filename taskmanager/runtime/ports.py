"""The mails that a running subtask takes, and the port by which it reports. The runtime knows no gRPC, Spark or asyncio: ``tidegate.taskmanager.spark`` puts
mails into the mailbox and implements ``ControlPort`` over the control stream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tidegate.model.accumulators import SerializedAccumulator
from tidegate.model.channel_events import Barrier
from tidegate.model.checkpoint import Acknowledgement, DeclineReason
from tidegate.model.coordinators.operator_events import OperatorEvent
from tidegate.model.deployment import ProducerAddress
from tidegate.model.errors import ErrorInfo
from tidegate.model.states import ExecutionState


@dataclass(frozen=True, slots=True)
class ConnectInputs:
    """The addresses of producers to which the subtask has to connect. They may come in several mails; each address comes once for an attempt."""

    producers: tuple[ProducerAddress, ...]


@dataclass(frozen=True, slots=True)
class ConfirmCheckpoint:
    """A checkpoint is complete. ``may_finish``: every subtask of this vertex had reported its end of data before the checkpoint was triggered; a subtask that
    was at its end when it took this snapshot finishes now.
    """

    checkpoint_id: int
    may_finish: bool = False


@dataclass(frozen=True, slots=True)
class AbortCheckpoint:
    """The mail that a checkpoint was aborted."""

    checkpoint_id: int
    latest_completed_id: int | None = None


@dataclass(frozen=True, slots=True)
class CancelTask:
    """The subtask must stop soon, without snapshot or commit. Its final state is CANCELED."""


@dataclass(frozen=True, slots=True)
class ControlLost:
    """The control stream broke: the subtask must stop at once and publish nothing."""


@dataclass(frozen=True, slots=True)
class CallMail:
    """Calls a function in the subtask's thread, for a timer or the end of asynchronous work."""

    call: Callable[[], None]


@dataclass(frozen=True, slots=True)
class OperatorEventArrived:
    """An event for an operator of this subtask, from its coordinator in the JobManager."""

    event: OperatorEvent


@dataclass(frozen=True, slots=True)
class TaskEventArrived:
    """A consumer of this outgoing edge sent an event upstream. ``payload``: the encoded ``UserEvent``."""

    edge_id: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class QueryState:
    """A client queries the values of some keys (an Arrow IPC stream with a column ``key``). ``reply(values, error)`` returns at once; ``values`` is empty when
    there is an error.
    """

    name: str
    keys: bytes
    reply: Callable[[bytes, ErrorInfo | None], None]


Mail = (
    ConnectInputs
    | Barrier
    | ConfirmCheckpoint
    | AbortCheckpoint
    | OperatorEventArrived
    | TaskEventArrived
    | QueryState
    | CancelTask
    | ControlLost
    | CallMail
)


@dataclass(frozen=True, slots=True)
class TaskMetrics:
    """Metrics of a subtask at one moment: counters since the start of the attempt, and gauges."""

    records_in: int = 0
    records_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    busy_ms: int = 0
    idle_ms: int = 0
    backpressured_ms: int = 0
    watermark_ms: int | None = None
    late_records_dropped: int = 0
    user: Mapping[str, float] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)
    """Metrics of the runtime, by Flink's name."""
    operator_ids: Mapping[str, str] = field(default_factory=dict)
    """The ids of the operators, by operator name."""
    accumulators: Mapping[str, SerializedAccumulator] = field(default_factory=dict)


class ControlPort(Protocol):
    """Reports from a subtask to its TaskManager. Every call returns at once; order is kept."""

    def state_changed(self, state: ExecutionState, error: ErrorInfo | None = None) -> None:
        """Reports the state: INITIALIZING, RUNNING, then one of FINISHED, CANCELED, FAILED as the last one."""

    def listening(self, address: str) -> None:
        """Reports where consumers may connect: ``host:port`` or ``unix:/path``. Called before INITIALIZING by every subtask, with an empty address when it has
        no outputs.
        """

    def acknowledge(self, acknowledgement: Acknowledgement) -> None: ...

    def decline(self, checkpoint_id: int, reason: DeclineReason, error: ErrorInfo | None = None) -> None: ...

    def end_of_data(self) -> None:
        """Reports that all input was processed and every operator has finished. The subtask now waits for its final checkpoint."""

    def operator_event(self, event: OperatorEvent) -> None:
        """Sends an event to the coordinator of an operator of this subtask."""

    def metrics(self, metrics: TaskMetrics) -> None: ...
