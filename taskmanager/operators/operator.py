"""The interface of operators, and of everything that an operator may use besides its input.

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
from tidegate.taskmanager.state.ports import FrozenState, OperatorRestore


class Output(Protocol):
    """The outputs of an operator. The chain, not the operator, converts between records and columns."""

    def emit(self, batch: Batch) -> None: ...

    def emit_side(self, tag: str, batch: Batch) -> None: ...

    def emit_watermark(self, timestamp_ms: int) -> None: ...

    def emit_idle(self, idle: bool) -> None:
        """Emits the watermark status: while idle, this stream holds no watermark back."""

    def emit_event(self, event: UserEvent) -> None:
        """Emits a user event to all consumers of all outputs, after everything that was emitted before."""


class Clock(Protocol):
    """The clock of a subtask, which tests replace."""

    def now_ms(self) -> int:
        """Returns the wall clock in milliseconds since the epoch."""

    def monotonic_ms(self) -> float: ...


class ProcessingTimers(Protocol):
    """Runs callbacks at times of the wall clock, in the subtask's thread."""

    def schedule(self, at_ms: int, callback: Callable[[int], None]) -> object:
        """Schedules a callback in the subtask's thread, as a mail, not before ``at_ms`` (wall clock). Returns a cancel token."""

    def cancel(self, token: object) -> None: ...


class Metrics(Protocol):
    """The metrics of an operator. User functions add their own by name; those of the runtime cost nothing per record."""

    def add(self, name: str, amount: int = 1) -> None: ...

    def gauge(self, name: str, value: float) -> None: ...

    def watch(self, name: str, read: Callable[[], float]) -> None:
        """Registers a gauge: ``read()`` is called in the subtask's thread whenever metrics are reported."""

    def accumulate(self, name: str, accumulator: UserAccumulator) -> None:
        """Registers an accumulator, which is reported with the metrics for the job's result. Raises ``InvalidJob`` for a type that the JobManager does not
        know, and when the subtask has one of that name with another type.
        """


class AsyncAnswer(Protocol):
    """The outcome of an asynchronous call: its result, or what it raised."""

    @property
    def number(self) -> int: ...

    @property
    def result(self) -> list[Record] | None: ...

    @property
    def error(self) -> BaseException | None: ...


class AsyncCallsPort(Protocol):
    """Runs coroutines in an event loop outside of the subtask's thread (``tidegate.aio.async_calls``)."""

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
        """Returns the answers that came since the last call."""

    def close(self) -> None: ...


RunAsync = Callable[[Callable[[], None], Callable[[BaseException | None], None]], None]


@dataclass(slots=True)
class BackgroundCalls:
    """Work outside of the subtask's thread. Each is ``None`` where there is no other thread, as in a test harness."""

    run_async: RunAsync | None = None
    """Runs work in a pool thread: ``run_async(work, done)`` calls ``work()`` there, then puts ``done(error or None)`` as a mail."""
    open_async_calls: Callable[[Callable[[], None]], AsyncCallsPort] | None = None
    """Opens an event loop: ``open_async_calls(ready)``. ``ready()`` comes as a mail when there are answers to take."""
    wakeup: Callable[[], None] | None = None
    """Has the runtime check ``has_room`` and ``ending`` again. May be called from any thread."""


@dataclass(slots=True)
class Coordination:
    """The processes and operators that an operator communicates with. Each is ``None`` where there are none, as in a test harness."""

    align_watermark: Callable[[str, int, int], int] | None = None
    """Reports a watermark for alignment: ``(group, own watermark, interval) -> the lowest watermark of the group``, in ms. It blocks, so it is called by
    ``run_async``.
    """
    send_operator_event: Callable[[CoordinatorEvent], None] | None = None
    """Sends an event to the operator's coordinator in the JobManager. May be called from any thread."""
    send_task_event: Callable[[UserEvent, int], None] | None = None
    """Sends an event upstream, to the operators that feed this input."""
    publish_state: PublishState | None = None
    """Makes a state queryable by clients."""


@dataclass(slots=True)
class Resources:
    """The resources of its slot and machine that an operator may use."""

    temp_dir: str = ""
    """A directory of the attempt, which is removed with it; empty: the system's."""
    managed_memory_bytes: int = 0
    """Managed memory of the slot in bytes; 0: not bounded."""
    listener: socket.socket | None = None
    """A listening socket, for an operator whose sink ``listens``."""
    spark_rows: Iterator[pa.RecordBatch] | None = None
    """The Arrow batches of this subtask's Spark partition, for ``from_spark`` only."""
    spark_service: str = ""
    """Address at which the Spark driver serves Spark's sources and sinks, ``host:port/token``; empty: there are none."""
    external_resources: Mapping[str, Sequence[Mapping[str, str]]] = field(default_factory=dict)
    """The properties of each external resource's units, by name of the resource."""


@dataclass(slots=True)
class OperatorContext:
    """Everything that an operator may use besides its input. ``restore`` is ``None`` for a start without state."""

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
    """The options of the checkpoint that is being frozen (set before each ``freeze``)."""
    has_ended: bool = False
    """Whether the operator may emit nothing more, except for a sink's reports of its commits: its data has ended, or the job is being stopped."""
    background: BackgroundCalls = field(default_factory=BackgroundCalls)
    coordination: Coordination = field(default_factory=Coordination)
    resources: Resources = field(default_factory=Resources)

    @property
    def subtask_index(self) -> int:
        return self.attempt.subtask

    def emitted_copies(self) -> RecordCopy:
        """Returns the copier that keeps records emitted on the main output apart from a function's own objects."""
        return self.copies_of(self.output_type)

    def copies_of(self, type_info: TypeInformation | None) -> RecordCopy:
        """Returns the copier that keeps records of a type apart from a function's own objects; ``None``: records of any type."""
        where = f"operator '{self.operator_name}'"
        return record_copy(type_info, where, reuses_objects=reuses_objects(self.configuration))


class Ending(IntEnum):
    """The reason for which an operator still waits at the end of a subtask: the first that applies."""

    IN_FLIGHT = 0
    """The operator holds records that it will emit by itself; ``finish`` waits for them."""
    COMMITTING = 1
    """The operator commits a confirmed checkpoint in another thread; the subtask does not finish before that is done."""
    UNCOMMITTED = 2
    """The operator has prepared output that no checkpoint has confirmed; the subtask may not finish."""
    UNDELIVERED = 3
    """Not all output of the operator has been fetched; the subtask does not close before that."""
    DONE = 4


class Operator(ABC):
    """Base class of all operators."""

    works_on: ClassVar[Literal["records", "arrow", "any"]] = "records"
    """The kind of batch that ``process`` takes; the chain converts where kinds differ. A chain whose operators all work on Arrow never leaves Arrow."""

    context: OperatorContext

    timers_fired = 0
    """The number of timers of user functions that have fired."""

    def works_on_records(self) -> bool:
        """Tells whether it processes single records, so that it is given slices. Called after ``open``, since an operator that takes ``any`` may know only
        then.
        """
        return self.works_on == "records"

    def setup(self, context: OperatorContext) -> None:
        """Stores the context and restores state. Nothing may be emitted yet."""
        self.context = context

    def open(self) -> None:  # noqa: B027  (optional hook)
        """Opens user functions. The task is INITIALIZING."""

    @abstractmethod
    def process(self, batch: Batch, input_index: int) -> None:
        """Processes all of ``batch``, in order."""

    def on_watermark(self, timestamp_ms: int) -> None:
        """Takes a watermark, already the minimum over the inputs: fires timers, then forwards it."""
        self.context.output.emit_watermark(timestamp_ms)

    def on_idle(self, idle: bool) -> None:
        self.context.output.emit_idle(idle)

    def on_user_event(self, event: UserEvent, input_index: int) -> None:
        """Takes an event that a function upstream emitted among the records. It is passed on where no function listens."""
        self.context.output.emit_event(event)

    def on_task_event(self, event: UserEvent) -> bool:
        """Takes an event that a consumer sent upstream. Returns whether a function listened to it; otherwise it goes further upstream."""
        return False

    def leave_key(self) -> None:  # noqa: B027  (optional hook)
        """Leaves the current key, so that keyed state cannot be used: what comes next belongs to no key."""

    def on_operator_event(self, event: OperatorEvent) -> None:
        """Takes an event of the operator's coordinator in the JobManager. Raises ``UnknownEvent`` unless overridden."""
        raise UnknownEvent(
            f"{self.context.operator_name} takes no events of an operator coordinator, but the JobManager sent event {event.number}; "
            "JobManager and TaskManager may have different versions"
        )

    def end_input(self, input_index: int) -> None:  # noqa: B027  (optional hook)
        """Takes the end of one input."""

    def finish(self) -> None:  # noqa: B027  (optional hook)
        """Emits what is left, since no more records will come."""

    def prepare_snapshot(self, checkpoint_id: int) -> None:  # noqa: B027  (optional hook)
        """Emits what must come before the barrier of a checkpoint, such as local pre-aggregates."""

    def freeze(self, checkpoint_id: int) -> FrozenState | None:
        """Returns the state as it is now, after the barrier was sent, as references without copies; ``None``: no state."""
        return None

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:  # noqa: B027  (optional hook)
        """Takes the confirmation of a checkpoint. Raising fails the attempt."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:  # noqa: B027  (optional hook)
        """Takes the abort of a checkpoint, which will never be confirmed."""

    def has_room(self) -> bool:
        """Tells whether the operator accepts further input; if not, there is backpressure, but barriers and mails are still processed. Whatever frees space
        must call ``context.background.wakeup``.
        """
        return True

    def waits_for_barrier(self) -> bool:
        """Tells whether an operator without space gets some only by the barrier of a checkpoint, which comes behind its input where that comes by channels."""
        return False

    def takes_reports(self) -> bool:
        """Tells whether its input consists of a sink's reports, which arrive after the end of data too. Called after ``open``."""
        return False

    @property
    def slice_records(self) -> int | None:
        """The most records that it accepts at once; ``None``: any number."""
        return None

    def ending(self) -> Ending:
        """Returns what the end of the subtask waits for here. Called before ``finish``, after the last snapshot, and before ``close``."""
        return Ending.DONE

    def emit_some(self) -> bool:
        """Emits some of what is in flight at the end of data, for some milliseconds. Returns ``False`` if there is nothing to do but wait for a mail.

        Called while the outputs have space and ``ending`` is ``IN_FLIGHT``.
        """
        return False

    def suspend(self) -> None:  # noqa: B027  (optional hook)
        """Stops emitting, since the job is being stopped with a savepoint without draining."""

    def close(self) -> None:  # noqa: B027  (optional hook)
        """Releases all resources."""
