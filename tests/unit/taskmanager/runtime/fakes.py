"""Stand-ins for the world of a subtask: a clock that only moves when told, partitions and a gate in memory, a port."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Literal

from tidegate.model.channel_events import Barrier, ChannelEvent
from tidegate.model.checkpoint import Acknowledgement, DeclineReason, OperatorSnapshot, StateHandle
from tidegate.model.coordinators.operator_events import OperatorEvent
from tidegate.model.errors import ErrorInfo
from tidegate.model.ids import AttemptId, JobId, OperatorId, VertexId
from tidegate.model.states import ExecutionState
from tidegate.records.batch import ArrowBatch, Batch, RecordsBatch
from tidegate.taskmanager.exchange.counts import ReceivedFrames
from tidegate.taskmanager.exchange.ports import InFlightItem, Overtaken, RecordingEnded
from tidegate.taskmanager.operators.operator import Ending, Operator, OperatorContext, Output
from tidegate.taskmanager.runtime.measuring.subtask_metrics import OperatorMetrics, TaskCounters
from tidegate.taskmanager.runtime.ports import TaskMetrics
from tidegate.taskmanager.runtime.timers import TimerQueue
from tidegate.taskmanager.state.ports import FrozenState, SegmentStore

ATTEMPT = AttemptId(JobId("a" * 32), VertexId("b" * 32), 0, 0)


class FakeClock:
    def __init__(self) -> None:
        self.ms = 1000.0

    def now_ms(self) -> int:
        return int(self.ms)

    def monotonic_ms(self) -> float:
        return self.ms


class FakePartition:
    edge_id = 0
    supports_unaligned = False

    def __init__(self) -> None:
        self.items: list[ArrowBatch | ChannelEvent] = []
        self.keys: list[list[Any]] = []
        self.available = True
        self.drained = True
        self.flushes = 0

    def emit(self, batch: ArrowBatch) -> None:
        self.items.append(batch)

    def emit_with_keys(self, batch: ArrowBatch, keys: list[Any]) -> None:
        self.items.append(batch)
        self.keys.append(keys)

    def broadcast(self, event: ChannelEvent) -> None:
        self.items.append(event)

    def overtake(self, barrier: Barrier) -> Overtaken:
        self.items.insert(0, barrier)
        return []

    def announce(self, barrier: Barrier) -> None:
        self.items.append(barrier)

    def prioritise(self, barrier: Barrier) -> Overtaken:
        return []

    def holds(self, checkpoint_id: int) -> bool:
        return False

    def flush(self) -> None:
        self.flushes += 1

    @property
    def sent_frames(self) -> int:
        return 0

    def is_available(self) -> bool:
        return self.available

    def is_drained(self) -> bool:
        return self.drained

    def queued_bytes(self) -> int:
        return 0

    def queued_frames(self) -> int:
        return 0

    def slice_bytes(self) -> int | None:
        return None

    def used_share(self) -> float:
        return 0.0

    def close(self) -> None:
        pass


class FakeGate:
    def __init__(self, channels: int) -> None:
        self.channels = channels
        self.queues: list[deque[ArrowBatch | ChannelEvent]] = [deque() for _ in range(channels)]
        self.blocked: set[int] = set()
        self.priority: deque[tuple[int, ChannelEvent | RecordingEnded]] = deque()
        self.persisted: list[tuple[int, int]] = []
        self.received = ReceivedFrames()

    def input_of(self, channel: int) -> int:
        return 0

    def poll(self, gather_bytes: int = 0) -> tuple[int, ArrowBatch | ChannelEvent] | None:
        for channel, items in enumerate(self.queues):
            if items and channel not in self.blocked:
                return channel, items.popleft()
        return None

    def poll_priority(self) -> tuple[int, ChannelEvent | RecordingEnded] | None:
        return self.priority.popleft() if self.priority else None

    def persist(self, channel: int, checkpoint_id: int) -> None:
        self.persisted.append((channel, checkpoint_id))

    def take_persisted(self, checkpoint_id: int) -> list[tuple[int, list[InFlightItem]]]:
        return []

    def block(self, channel: int) -> None:
        self.blocked.add(channel)

    def unblock(self, channel: int) -> None:
        self.blocked.discard(channel)

    def queued_bytes(self) -> int:
        return 0

    def queued_frames(self) -> int:
        return 0

    def used_share(self) -> float:
        return 0.0

    def close(self) -> None:
        pass


class FakePort:
    def __init__(self) -> None:
        self.sent: list[tuple[Any, ...]] = []
        self.on_acknowledged: Callable[[int], None] = lambda n: None

    def state_changed(self, state: ExecutionState, error: ErrorInfo | None = None) -> None:
        self.sent.append(("state", state))

    def listening(self, address: str) -> None:
        self.sent.append(("listening", address))

    def acknowledge(self, acknowledgement: Acknowledgement) -> None:
        self.sent.append(("ack", int(acknowledgement.checkpoint_id)))
        self.on_acknowledged(int(acknowledgement.checkpoint_id))

    def decline(self, checkpoint_id: int, reason: DeclineReason, error: ErrorInfo | None = None) -> None:
        self.sent.append(("decline", checkpoint_id, reason))

    def end_of_data(self) -> None:
        self.sent.append(("end-of-data",))

    def operator_event(self, event: OperatorEvent) -> None:
        self.sent.append(("operator-event", event))

    def metrics(self, metrics: TaskMetrics) -> None:
        pass

    def of(self, what: str) -> list[tuple[Any, ...]]:
        return [entry for entry in self.sent if entry[0] == what]


class FakeStore:
    written_bytes = 0
    compresses = False

    def write(self, name_hint: str, parts: Iterable[bytes | memoryview], *, is_shared: bool = False) -> StateHandle:
        return StateHandle(0, "", data=b"")


class FakeFrozen(FrozenState):
    def __init__(self, fail: Exception | None = None, size_limit_bytes: int | None = None) -> None:
        self.released = 0
        self.fail = fail
        self.limit_bytes = size_limit_bytes
        self.on_write: Callable[[], None] = lambda: None

    def size_limit_bytes(self) -> int | None:
        return self.limit_bytes

    def write(self, store: SegmentStore) -> OperatorSnapshot:
        self.on_write()
        if self.fail is not None:
            raise self.fail
        return OperatorSnapshot()

    def release(self) -> None:
        self.released += 1


class FakeOperator(Operator):
    """Writes down what happens to it; passes batches on."""

    works_on: ClassVar[Literal["records", "arrow", "any"]] = "records"

    def __init__(self, name: str = "op", calls: list[tuple[Any, ...]] | None = None) -> None:
        self.name = name
        self.calls: list[tuple[Any, ...]] = [] if calls is None else calls
        self.frozen: FakeFrozen | None = None
        self.on_process: Callable[[Batch], None] | None = None
        self.pending = False

    def open(self) -> None:
        self.calls.append((self.name, "open"))

    def process(self, batch: Batch, input_index: int) -> None:
        size = len(batch)
        self.calls.append((self.name, "process", batch.values if isinstance(batch, RecordsBatch) else size))
        if self.on_process is not None:
            self.on_process(batch)
        self.context.output.emit(batch)

    def on_watermark(self, timestamp_ms: int) -> None:
        self.calls.append((self.name, "watermark", timestamp_ms))
        super().on_watermark(timestamp_ms)

    def end_input(self, input_index: int) -> None:
        self.calls.append((self.name, "end_input", input_index))

    def finish(self) -> None:
        self.calls.append((self.name, "finish"))

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        self.calls.append((self.name, "prepare", checkpoint_id))

    def freeze(self, checkpoint_id: int) -> FrozenState | None:
        self.calls.append((self.name, "freeze", checkpoint_id))
        return self.frozen

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.calls.append((self.name, "complete", checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self.calls.append((self.name, "aborted", checkpoint_id))

    def ending(self) -> Ending:
        return Ending.UNCOMMITTED if self.pending else Ending.DONE

    def close(self) -> None:
        self.calls.append((self.name, "close"))


class ArrowOperator(FakeOperator):
    works_on: ClassVar[Literal["records", "arrow", "any"]] = "arrow"


def context_of(output: Output, clock: FakeClock | None = None) -> OperatorContext:
    found = clock or FakeClock()
    return OperatorContext(
        attempt=ATTEMPT,
        operator_id=OperatorId("c" * 32),
        operator_name="op",
        job_name="job",
        task_name="task",
        parallelism=1,
        max_parallelism=128,
        output=output,
        clock=found,
        timers=TimerQueue(found),
        metrics=OperatorMetrics(TaskCounters(), "op"),
    )
