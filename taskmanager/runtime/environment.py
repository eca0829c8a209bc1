"""Everything outside the runtime that a subtask may use, passed as parameters, and its settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from tidegate.model.checkpoint import CheckpointOptions
from tidegate.model.configuration import Configuration
from tidegate.model.ids import AttemptId
from tidegate.model.kv_state import KvStateInfo
from tidegate.model.options import (
    CheckpointingOptions,
    ExecutionOptions,
    RuntimeOptions,
    ShownRecord,
    StateRecoveryOptions,
    TaskManagerOptions,
)
from tidegate.model.options.job import RuntimeMode
from tidegate.security.sockets import TlsFiles
from tidegate.store.segments import open_segment_source, open_segment_store
from tidegate.taskmanager.exchange.blocking.store import StoredExchange
from tidegate.taskmanager.exchange.exchange_settings import ExchangeSettings, WorkMeter
from tidegate.taskmanager.exchange.io_loop import IoLoop, OpenLoop
from tidegate.taskmanager.machines.credit import WindowBounds
from tidegate.taskmanager.machines.subtask import SubtaskLifecycle
from tidegate.taskmanager.operators.operator import AsyncCallsPort, Clock
from tidegate.taskmanager.recording.failures import FailureKeeper
from tidegate.taskmanager.runtime.background import Background, BackgroundThread
from tidegate.taskmanager.runtime.checkpointing.async_part import OpenStore, SnapshotWriter
from tidegate.taskmanager.runtime.checkpointing.parallel_writes import SnapshotThreads
from tidegate.taskmanager.runtime.clock import SystemClock
from tidegate.taskmanager.runtime.mailbox import Mailbox
from tidegate.taskmanager.runtime.measuring.step_meter import StepMeter
from tidegate.taskmanager.state.ports import SegmentSource, SegmentStore

Probe = Callable[[str, Mapping[str, object]], None]
"""A function that is called at named points of the protocol with the ids that are known there. Tests use it to kill processes at exact points; production has
none.

listening · initialized · barrier-received · before-barrier · barrier-sent · frozen · before-ack · after-ack
before-commit · during-commit · after-commit · end-of-data
"""


@dataclass(frozen=True, slots=True)
class SubtaskEnvironment:
    """The process and machine around a subtask, as far as it uses them. ``listen``: ``unix:<directory>``, or the host to bind, for consumers of this subtask's
    data.
    """

    listen: str
    temp_dir: str = ""
    local_state_dir: str = ""
    """Directory of the copies of state for local recovery; empty: none are kept, as the process is not on the TaskManager's machine."""
    managed_memory_bytes: int = 0
    spark_rows: Iterator[pa.RecordBatch] | None = None
    """The Arrow batches of this subtask's Spark partition, for ``from_spark``."""
    spark_service: str = ""
    """Address at which the Spark driver serves Spark's sources and sinks, ``host:port/token``; empty: there are none."""
    external_resources: Mapping[str, Sequence[Mapping[str, str]]] = field(default_factory=dict)
    """The properties of each external resource's units, by name of the resource."""
    stored: StoredExchange | None = None
    """The stored output of producers, and where this subtask stores its own; ``None``: producers and consumers run at the same time."""
    clock: Clock = field(default_factory=SystemClock)
    probe: Probe | None = None
    open_async_calls: Callable[[Callable[[], None]], AsyncCallsPort] | None = None
    """Opens an event loop for coroutines of user functions. ``ready()`` is called from its thread."""
    align_watermark: Callable[[str, int, int], int] | None = None
    """Reports a source's watermark for alignment: ``align_watermark(group, own watermark, interval) -> the lowest of the group``, all in ms. May block, may
    raise.
    """
    register_kv_state: Callable[[KvStateInfo], None] | None = None
    """Registers queryable state at the JobManager. May block, may raise. ``None``: state cannot be queried."""
    step_back: Callable[[int], None] = lambda nice: None
    """Lowers the priority of the calling thread, where the system can do that."""
    resident_bytes: Callable[[], float] | None = None
    """Returns the resident memory of the subtask's process; ``None``: it shares its process, or the system does not say."""
    open_io: OpenLoop = IoLoop
    """Makes the event loop of the data connections."""
    tls: TlsFiles | None = None
    """TLS files for a sink whose results the client fetches by TCP; ``None``: without TLS."""
    open_background: Callable[[str, Mailbox], Background] = BackgroundThread
    open_snapshot_writer: Callable[[Mailbox], SnapshotWriter] = SnapshotThreads
    open_store: OpenStore | None = None
    """Opens the store into which snapshots are written; ``None``: it is opened from the location in their checkpoint options."""
    open_segments: Callable[[str], SegmentSource] = open_segment_source
    """Opens the source from which restored state is read, by the location of its checkpoint."""
    open_meter: Callable[[], WorkMeter] = StepMeter
    failures: FailureKeeper | None = None
    """Records the input, and keeps a failure of user code for a replay; ``None``: nothing is recorded."""


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    """The options of the job's configuration that the runtime uses."""

    checkpointing: bool
    batch: bool
    """Whether the job runs in BATCH execution mode."""
    exactly_once: bool
    checkpoints_after_tasks_finish: bool
    inline_threshold_bytes: int
    write_buffer_bytes: int
    """Bytes of a state file that are gathered before they are written."""
    compresses: bool
    """Whether state files are compressed."""
    local_backup: bool
    """Whether state is copied to the TaskManager's disk for local recovery."""
    from_local: bool
    """Whether a restore reads such a local copy first."""
    flush_ms: int | None
    """The buffer timeout in milliseconds. ``None``: only full batches are sent; 0: outputs are flushed after every step."""
    slice_ms: float
    source_nice: int
    source_rest: float
    sources_wait: bool
    """Whether sources emit nothing before the first checkpoint of the attempt is complete."""
    profile: bool
    shown_record: ShownRecord
    exchange: ExchangeSettings

    @staticmethod
    def of(texts: Mapping[str, str]) -> RuntimeSettings:
        """Reads the settings from a configuration. Raises ``ConfigurationError``, though the client checked the same texts before."""
        configuration = Configuration.from_strings(texts)
        timed = configuration.get(ExecutionOptions.BUFFER_TIMEOUT_ENABLED)
        return RuntimeSettings(
            checkpointing=configuration.get(CheckpointingOptions.INTERVAL) is not None,
            batch=configuration.get(ExecutionOptions.RUNTIME_MODE) is RuntimeMode.BATCH,
            exactly_once=configuration.get(CheckpointingOptions.MODE).value == "EXACTLY_ONCE",
            checkpoints_after_tasks_finish=configuration.get(CheckpointingOptions.AFTER_TASKS_FINISH),
            inline_threshold_bytes=configuration.get(CheckpointingOptions.INLINE_THRESHOLD),
            write_buffer_bytes=configuration.get(CheckpointingOptions.WRITE_BUFFER_SIZE),
            compresses=configuration.get(CheckpointingOptions.SNAPSHOT_COMPRESSION),
            local_backup=configuration.get(CheckpointingOptions.LOCAL_BACKUP),
            from_local=configuration.get(StateRecoveryOptions.FROM_LOCAL),
            flush_ms=configuration.get(ExecutionOptions.BUFFER_TIMEOUT) if timed else None,
            slice_ms=configuration.get(RuntimeOptions.SLICE),
            source_nice=configuration.get(RuntimeOptions.SOURCE_NICE),
            source_rest=configuration.get(RuntimeOptions.SOURCE_REST),
            sources_wait=configuration.get(CheckpointingOptions.PAUSE_SOURCES)
            and configuration.get(CheckpointingOptions.INTERVAL) is not None,
            profile=configuration.get(RuntimeOptions.PROFILE),
            shown_record=configuration.get(RuntimeOptions.SHOW_RECORD),
            exchange=_exchange_settings(configuration),
        )

    @staticmethod
    def allows_faults(texts: Mapping[str, str]) -> bool:
        """Tells whether a configuration allows fault injection."""
        return Configuration.from_strings(texts).get(RuntimeOptions.ALLOW_FAULTS)

    def make_lifecycle(self, *, has_inputs: bool) -> SubtaskLifecycle:
        return SubtaskLifecycle(checkpointing=self.checkpointing, has_inputs=has_inputs, has_snapshots=not self.batch)

    def open_store(self, options: CheckpointOptions, attempt: AttemptId, checkpoint_id: int) -> SegmentStore:
        """Opens the store into which the attempt writes its part of a checkpoint. Raises ``StorageError``."""
        return open_segment_store(
            options.location,
            str(attempt),
            checkpoint_id,
            self.inline_threshold_bytes,
            shared_location=options.shared_location,
            compresses=self.compresses,
            write_buffer_bytes=self.write_buffer_bytes,
        )


def _exchange_settings(configuration: Configuration) -> ExchangeSettings:
    defaults = ExchangeSettings()
    credit = configuration.get(RuntimeOptions.CHANNEL_CREDIT)
    batch_bytes = configuration.get(RuntimeOptions.BATCH_SIZE)
    bounds = WindowBounds(
        min_bytes=min(defaults.window.min_bytes, credit),
        max_bytes=credit,
        max_work_ms=_work_ms(configuration),
        period_ms=configuration.get(TaskManagerOptions.BUFFER_DEBLOAT_PERIOD),
        samples=configuration.get(TaskManagerOptions.BUFFER_DEBLOAT_SAMPLES),
        threshold=configuration.get(TaskManagerOptions.BUFFER_DEBLOAT_THRESHOLD) / 100,
    )
    return replace(
        defaults,
        window=bounds,
        queue=bounds,
        frame_rows=configuration.get(RuntimeOptions.BATCH_ROWS),
        frame_bytes=min(defaults.frame_bytes, batch_bytes),  # pieces this large gain nothing by being copied together
        cut_bytes=batch_bytes,
        connect_timeout_ms=configuration.get(RuntimeOptions.CONNECT_TIMEOUT),
    )


def _work_ms(configuration: Configuration) -> float:
    """Returns how many milliseconds of work may wait in each of the two places where data is in flight: the producer's queue, and the way to the consumer's
    gate.
    """
    if not configuration.get(TaskManagerOptions.BUFFER_DEBLOAT_ENABLED):
        return math.inf
    return configuration.get(TaskManagerOptions.BUFFER_DEBLOAT_TARGET) / 2
