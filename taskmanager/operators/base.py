"""The contract of an operator: batch in, batch out, through a context.

The runtime calls an operator from the subtask's thread only, in this order:

    setup(context) ─▶ open() ─▶ { process · on_watermark · on_idle · on_processing_time · prepare_snapshot · freeze
                                · notify_checkpoint_complete · notify_checkpoint_aborted }* ─▶ finish() ─▶ close()

``finish`` is called at the end of all input, and before a draining savepoint; ``close`` always, also after a failure.
"""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import ClassVar, Literal, Protocol

import pyarrow as pa

from tidegate.common.typeinfo import TypeInformation
from tidegate.model.accumulators import UserAccumulator
from tidegate.model.channel_events import UserEvent
from tidegate.model.checkpoint import CheckpointOptions
from tidegate.model.coordinators.operator_events import CoordinatorEvent, OperatorEvent
from tidegate.model.errors import UnknownEvent
from tidegate.model.ids import AttemptId, OperatorId
from tidegate.model.values import Record
from tidegate.records.batch import Batch
from tidegate.records.record_copy import RecordCopy, record_copy, reuses_objects
from tidegate.taskmanager.keyed_state.queryable import PublishState
from tidegate.taskmanager.state.base import FrozenState, OperatorRestore


class Output(Protocol):
    """Where an operator emits. Conversion between rows and columns is the chain's business, not the operator's."""

    def emit(self, batch: Batch) -> None: ...

    def emit_side(self, tag: str, batch: Batch) -> None: ...

    def emit_watermark(self, timestamp_ms: int) -> None: ...

    def emit_idle(self, idle: bool) -> None:
        """Watermark status: while idle, this stream holds no watermark back."""

    def emit_event(self, event: UserEvent) -> None:
        """To all consumers of all outputs, behind everything that was emitted before."""


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall clock, ms since the epoch."""

    def monotonic_ms(self) -> float: ...


class ProcessingTimers(Protocol):
    def schedule(self, at_ms: int, callback: Callable[[int], None]) -> object:
        """Call back in the subtask's thread, as a mail, not before ``at_ms`` (wall clock). Returns a cancel token."""

    def cancel(self, token: object) -> None: ...


class Metrics(Protocol):
    """Counted by the runtime at no cost per record; user functions add their own by name."""

    def add(self, name: str, amount: int = 1) -> None: ...

    def gauge(self, name: str, value: float) -> None: ...

    def watch(self, name: str, read: Callable[[], float]) -> None:
        """Registers a metric: ``read()`` is called in the subtask's thread whenever metrics are reported."""

    def accumulate(self, name: str, accumulator: UserAccumulator) -> None:
        """Told with the metrics, for the job's result. Raises ``InvalidJob`` for a type that the JobManager does not know, and
        when the subtask has one of that name with another type."""


class AsyncAnswer(Protocol):
    """What became of a call: its result, or what it raised."""

    @property
    def number(self) -> int: ...

    @property
    def result(self) -> list[Record] | None: ...

    @property
    def error(self) -> BaseException | None: ...


class AsyncCallsPort(Protocol):
    """Coroutines in an event loop beside the subtask's thread (``tidegate.aio.async_calls``)."""

    def submit(
        self,
        number: int,
        invoke: Callable[[], Awaitable[list[Record]]],
        on_timeout: Callable[[], list[Record]],
        *,
        timeout_ms: int,
        backoff_ms: Callable[[int], int | None],
        retries_result: Callable[[list[Record]], bool] | None,
        retries_error: Callable[[Exception], bool] | None,
    ) -> None: ...

    def take(self) -> Sequence[AsyncAnswer]:
        """What was answered since the last call."""

    def close(self) -> None: ...


RunAsync = Callable[[Callable[[], None], Callable[[BaseException | None], None]], None]


@dataclass(slots=True)
class BackgroundCalls:
    """Work beside the subtask's thread; each is ``None`` where there is no other thread, as in a test harness."""

    run_async: RunAsync | None = None
    """``run_async(work, done)``: ``work()`` in a pool thread, then ``done(error or None)`` as a mail."""
    open_async_calls: Callable[[Callable[[], None]], AsyncCallsPort] | None = None
    """``open_async_calls(ready)``: an event loop; ``ready()`` comes as a mail when there are answers to take."""
    wakeup: Callable[[], None] | None = None
    """From any thread: look at ``has_room`` and ``ending`` again."""


@dataclass(slots=True)
class Coordination:
    """Others that an operator talks to; each is ``None`` where there are none, as in a test harness."""

    align_watermark: Callable[[str, int, int], int] | None = None
    """``(group, own watermark, interval) -> the lowest watermark of the group``, in ms. Blocks: for ``run_async``."""
    send_operator_event: Callable[[CoordinatorEvent], None] | None = None
    """To its coordinator in the JobManager, from any thread."""
    send_task_event: Callable[[UserEvent, int], None] | None = None
    """Against the stream, to the operators that feed this input."""
    publish_state: PublishState | None = None
    """Takes state that clients may ask for."""


@dataclass(slots=True)
class Resources:
    """What an operator may use of its slot and machine."""

    temp_dir: str = ""
    """A directory of the attempt, removed with it; empty: the system's."""
    managed_memory_bytes: int = 0
    """Managed memory of the slot; 0: not bounded."""
    listener: socket.socket | None = None
    """A listening socket, for an operator whose sink ``listens``."""
    spark_rows: Iterator[pa.RecordBatch] | None = None
    """For ``from_spark`` only: the iterator of Arrow batches of this subtask's Spark partition."""
    spark_service: str = ""
    """Where the Spark driver answers sources and sinks that are Spark's, ``host:port/token``; empty: there are none."""
    external_resources: Mapping[str, Sequence[Mapping[str, str]]] = field(default_factory=dict)
    """Properties of each piece, by name of the resource."""


@dataclass(slots=True)
class OperatorContext:
    """Everything that an operator may touch besides its batch. ``restore`` is ``None`` on a fresh start."""

    attempt: AttemptId
    operator_id: OperatorId
    operator_name: str
    job_name: str
    task_name: str
    parallelism: int
    max_parallelism: int
    output: Output
    clock: Clock
    timers: ProcessingTimers
    metrics: Metrics
    configuration: Mapping[str, str] = field(default_factory=dict)
    output_type: TypeInformation | None = None
    """The type of the main output's records; ``None``: not known."""
    restore: OperatorRestore | None = None
    checkpoint_timestamp_ms: int = 0
    """When the checkpoint that is being frozen was triggered (set before each ``freeze``)."""
    checkpoint_options: CheckpointOptions | None = None
    """What kind of checkpoint is being frozen, and what it may refer to (set before each ``freeze``)."""
    has_ended: bool = False
    """The operator may emit nothing more, but a sink reports of its commits: its end of data is behind it, or the job is being stopped."""
    background: BackgroundCalls = field(default_factory=BackgroundCalls)
    coordination: Coordination = field(default_factory=Coordination)
    resources: Resources = field(default_factory=Resources)

    @property
    def subtask_index(self) -> int:
        return self.attempt.subtask

    def emitted_copies(self) -> RecordCopy:
        """How what functions emit on the main output is kept apart from their own objects."""
        return self.copies_of(self.output_type)

    def copies_of(self, type_info: TypeInformation | None) -> RecordCopy:
        """How records of a type are kept apart; ``None``: of any type."""
        where = f"operator '{self.operator_name}'"
        return record_copy(type_info, where, reuses_objects=reuses_objects(self.configuration))


class Ending(IntEnum):
    """What an operator still waits for at the end of a subtask: the first that applies."""

    IN_FLIGHT = 0
    """It holds records back that it will emit by itself: ``finish`` waits for them."""
    COMMITTING = 1
    """What a confirmed checkpoint started goes on in another thread: the subtask does not finish before it is done."""
    UNCOMMITTED = 2
    """It has prepared work that no checkpoint has confirmed: the subtask may not finish."""
    UNDELIVERED = 3
    """Not all that it wrote has been taken: the subtask does not close before that."""
    DONE = 4


class Operator(ABC):
    """Base of all operators."""

    works_on: ClassVar[Literal["records", "arrow", "any"]] = "records"
    """Which kind of batch ``process`` takes; the chain converts where kinds differ. A chain whose operators all work on
    Arrow never leaves Arrow."""

    context: OperatorContext

    timers_fired = 0
    """Timers of user functions that fired so far."""

    def works_on_records(self) -> bool:
        """Whether it looks at single records, so that it is given slices. Asked after ``open``: an operator that takes
        ``any`` may know only then."""
        return self.works_on == "records"

    def setup(self, context: OperatorContext) -> None:
        """Remember the context and restore state. Nothing may be emitted yet."""
        self.context = context

    def open(self) -> None:  # noqa: B027  (optional hook)
        """Open user functions. The task is INITIALIZING."""

    @abstractmethod
    def process(self, batch: Batch, input_index: int) -> None:
        """All of ``batch``, in order."""

    def on_watermark(self, timestamp_ms: int) -> None:
        """Event time reached ``timestamp_ms`` (already the minimum over inputs): fire timers, then forward it."""
        self.context.output.emit_watermark(timestamp_ms)

    def on_idle(self, idle: bool) -> None:
        self.context.output.emit_idle(idle)

    def on_user_event(self, event: UserEvent, input_index: int) -> None:
        """An event that a function further up emitted among the records. Passed on where no function listens."""
        self.context.output.emit_event(event)

    def on_task_event(self, event: UserEvent) -> bool:
        """An event that a consumer sent against the stream. Whether it was taken; it goes on up where no function listens."""
        return False

    def leave_key(self) -> None:  # noqa: B027  (optional hook)
        """What comes next belongs to no key: keyed state is not to be reached."""

    def on_operator_event(self, event: OperatorEvent) -> None:
        """From its coordinator in the JobManager. Refused where nothing waits for any."""
        raise UnknownEvent(
            f"{self.context.operator_name} takes no events of a coordinator, but got number {event.number}"
        )

    def end_input(self, input_index: int) -> None:  # noqa: B027  (optional hook)
        """One input is at its end."""

    def finish(self) -> None:  # noqa: B027  (optional hook)
        """No more records will come: emit what is left."""

    def prepare_snapshot(self, checkpoint_id: int) -> None:  # noqa: B027  (optional hook)
        """Before the barrier is sent: flush what must come before it (local pre-aggregates, say)."""

    def freeze(self, checkpoint_id: int) -> FrozenState | None:
        """After the barrier was sent: references to the state now. ``None``: no state."""
        return None

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:  # noqa: B027  (optional hook)
        """Confirmed. Raising fails the attempt."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:  # noqa: B027  (optional hook)
        """Never to be confirmed."""

    def has_room(self) -> bool:
        """While not, the subtask takes no further input (backpressure); barriers and mails go on. Who makes room calls
        ``context.background.wakeup``."""
        return True

    def takes_reports(self) -> bool:
        """Whether its input are reports of a sink, which go on behind the end of data. Asked after ``open``."""
        return False

    @property
    def slice_records(self) -> int | None:
        """The most records that it wants to be given at once; ``None``: as many as there are."""
        return None

    def ending(self) -> Ending:
        """Returns what the end of the subtask waits for here. Asked before ``finish``, after the last snapshot, and before ``close``."""
        return Ending.DONE

    def emit_some(self) -> bool:
        """At the end of data, while the outputs have room and ``ending`` is ``IN_FLIGHT``: emits some of it, for some milliseconds.
        ``False``: there is nothing to do but wait for a mail."""
        return False

    def suspend(self) -> None:  # noqa: B027  (optional hook)
        """The job is being stopped with a savepoint, not drained: nothing may be emitted from now on."""

    def close(self) -> None:  # noqa: B027  (optional hook)
        """Give everything back."""
