"""The contract of sources and sinks: `Source`, `SourceReader`, `Sink`, `SinkWriter` and `Committer`. One file or folder per external system holds its
builder, its reader or writer, and its serialisable state.

A **source** lists its bounded splits once, in the client; they travel in the job graph. A reader is given its splits, all when it
starts or some whenever it asks its coordinator in the JobManager (``takes_splits``), which learns of new ones while the job runs from one
of the readers (``discover``). A reader yields batches, and tells the position **of what
was emitted** (not of what was fetched).

A **sink** votes at the snapshot (``prepare_commit`` + ``snapshot_state``) and makes its effects visible only on
confirm (``commit``), or on recovery to that checkpoint:

    write ... │ prepare_commit(n) ─▶ committables, kept in list state by the runtime ─▶ confirm(>= n) ─▶ commit
              │ snapshot_state(n) ─▶ writer state                                    └▶ restored       ─▶ commit
              └ abort_unknown(restored committables): what is newer than the restored checkpoint is removed

Follows Flink's FLIP-27 ``SourceReader`` and Sink V2 ``SinkWriter`` / ``Committer``.
"""

from __future__ import annotations

import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from tidegate.common.typeinfo import TypeInformation
from tidegate.functions.base import Function
from tidegate.model.configuration import Configuration
from tidegate.model.values import Committable, ReaderPosition, StateValue, UserObject
from tidegate.records.batch import Batch

if TYPE_CHECKING:
    import pyarrow as pa

_SHOWN = 200
"""How many characters of a committable a message shows: it may hold all records of an epoch."""


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a source that one reader reads. ``split_id`` is unique within the source and stays the same across listings: the split is read by the
    subtask that ``Source.owner_of`` names, or dealt evenly by its place in the listing. ``payload`` is msgpack-able (dicts, lists, strings, numbers,
    bytes)."""

    split_id: str
    payload: ReaderPosition = None


@dataclass(frozen=True, slots=True)
class SplitState:
    """The progress of a split: ``position`` is msgpack-able, and ``None`` at the start. Finished splits are kept, marked ``done``."""

    split: Split
    position: ReaderPosition = None
    done: bool = False


@dataclass(slots=True)
class Polled:
    """A batch that a reader returns. ``batch`` may be emitted in slices: after the first ``n`` of its records were emitted the runtime calls
    ``reader.advance(n)`` (several times, adding up to ``len(batch)``), and only that moves the position that ``snapshot_state`` returns."""

    batch: Batch
    split_id: str
    side: str = ""
    """The tag of the side output that the batch is for; empty: for the main output."""
    errors: int = 0
    """How many unreadable records were skipped, or sent to a side output, since the last batch."""


class SplitTimes(Protocol):
    """Event time per split, kept by the runtime: the watermark of a source is the smallest of its splits' watermarks. The splits that a reader is
    opened with take part from the start; the reader announces others. Called from the subtask's thread only."""

    def assigned(self, split_id: str) -> None:
        """Adds a split that was found. It holds the watermark back until its first record, or until it is idle."""

    def expected(self, split_id: str, first: Batch | None = None) -> int | None:
        """Announces a split that the reader reads later: until its first record it holds the watermark back, however long that takes. With ``first``, a
        batch of that record alone, only as far as this record's event time, which is returned if it has one. Raises what the record's timestamp
        assigner raises."""


@dataclass(frozen=True, slots=True)
class ReaderContext:
    """The information that a reader gets about the subtask in which it runs."""

    subtask_index: int
    parallelism: int
    max_parallelism: int
    job_id: str
    attempt: str
    operator_id: str
    configuration: dict[str, str] = field(default_factory=dict)
    is_restored: bool = False
    """Whether the splits come from a checkpoint: splits that are not among them belong to other subtasks."""
    request_split: Callable[[], None] | None = None
    """Requests a split from the coordinator, from any thread; ``add_splits`` or ``no_more_splits`` follows. ``None``: the reader has all of its splits."""
    send_source_event: Callable[[UserObject], None] | None = None
    """Sends a user's object to the enumerator; set only for a source with an enumerator."""
    report_backlog: Callable[[bool], None] | None = None
    """Reports to the JobManager whether the source processes a backlog; set for enumerators. From any thread."""
    wakeup: Callable[[], None] | None = None
    """Called by a reader with a thread of its own, from that thread, when ``poll`` has records again."""
    spark_rows: Iterator[pa.RecordBatch] | None = None
    """The Arrow batches of this subtask's Spark partition; set for ``from_spark`` only."""
    spark_service: str = ""
    """The address of the TaskManager's Spark driver, ``host:port/token``; set for ``from_spark_stream`` only."""
    watch: Callable[[str, Callable[[], float]], None] | None = None
    """Registers a gauge of the operator: ``watch(name, read)``."""
    times: SplitTimes | None = None
    """The event time of the splits; ``None``: the source makes no watermarks."""
    operator_name: str = ""
    """The name of the operator, for messages."""


class SourceReader(ABC):
    """Reads the splits of one subtask. Called from the subtask's thread only. ``poll`` must not block for longer than
    a few milliseconds: readers of systems that block run a fetcher thread with a bounded queue inside."""

    emits_whole_batches: bool = False
    """Whether a batch is emitted whole, without slices: the reader's position is after all of it once it is polled."""

    @abstractmethod
    def open(self, states: Sequence[SplitState]) -> None:
        """Starts reading the splits that are not done, each from its position. Called once."""

    @abstractmethod
    def poll(self) -> Polled | None:
        """Returns the next batch, or ``None`` when none is available now."""

    @abstractmethod
    def advance(self, records: int) -> None:
        """Notes that ``records`` more of the last polled batch were emitted."""

    @abstractmethod
    def is_finished(self) -> bool:
        """Returns whether all splits were read to their end and everything was emitted. Never true for an unbounded reader."""

    @abstractmethod
    def snapshot_state(self) -> list[SplitState]:
        """Returns all splits of this subtask, done ones included."""

    def has_records(self) -> bool:
        """Returns whether the position is after records that ``poll`` has not returned yet: the runtime polls them before a snapshot."""
        return False

    def snapshot_for(self, checkpoint_id: int) -> list[SplitState]:
        """Returns the same as ``snapshot_state``, for a reader that needs the checkpoint's id."""
        return self.snapshot_state()

    def on_reader_event(self, subtask: int, content: bytes) -> None:
        """Handles a message of a reader; only for the enumerator of a source."""
        raise NotImplementedError(
            f"{type(self).__name__} got a message of reader {subtask}, and only the enumerator of a source takes those"
        )

    def handle_source_event(self, event: UserObject) -> None:
        """Handles an object that the enumerator sent."""
        raise NotImplementedError(
            f"{type(self).__name__} got an event of its enumerator, and does not define handle_source_event()"
        )

    def add_splits(self, splits: Sequence[Split]) -> None:
        """Takes splits that the coordinator assigned; they are part of the reader's state from now on. Only for a source that takes splits."""
        raise NotImplementedError(f"{type(self).__name__} was assigned splits, and does not define add_splits()")

    def no_more_splits(self) -> None:
        """Notes that the coordinator has no splits left: the reader finishes when it has read those it has."""
        raise NotImplementedError(
            f"{type(self).__name__} was told that no splits are left, and does not define no_more_splits()"
        )

    def finished_splits(self) -> set[str]:
        """Returns ids of the splits that were read to their end. A reader of many splits returns each once."""
        return {state.split.split_id for state in self.snapshot_state() if state.done}

    def note_snapshot(self, checkpoint_id: int, states: Sequence[SplitState]) -> None:  # noqa: B027  (optional hook)
        """Notes that checkpoint ``checkpoint_id``, which may be confirmed later, contains these states."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:  # noqa: B027  (optional hook)
        """Notes that the checkpoint was confirmed: offsets may be committed to the external system."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:  # noqa: B027  (optional hook)
        """Notes that the checkpoint was aborted; what it contains is part of a later one."""

    def close(self) -> None:  # noqa: B027  (optional hook)
        """Releases all resources. Called once, also after a failure."""


class Source(ABC):
    """The base class of sources for ``from_source``. Pickled by the client."""

    bounded: bool = True
    hides_splits: bool = False
    """Whether batches do not tell their split: event time is then kept per reader."""
    takes_splits: bool = False
    """Whether its readers request splits while they run (``ReaderContext.request_split``)."""
    keeps_parallelism: bool = False
    """Whether its splits are bound to the parallelism with which the job began: a restore at another one is refused."""
    deals_in_advance: bool = False
    """Whether readers get all listed splits at the start, and new ones by ``owner_of``: for unbounded splits, which never free a reader."""
    discovery_ms: int | None = None
    """The interval in ms at which one of its readers calls ``discover`` for all of them; ``None``: there are only the listed splits."""

    @abstractmethod
    def list_splits(self, parallelism: int) -> list[Split]:
        """Returns the splits of the source. Called in the client at submission. Raises ``InvalidJob``, for a missing path say."""

    @abstractmethod
    def make_reader(self, context: ReaderContext) -> SourceReader:
        """Creates the reader. Called in the subtask's process."""

    def discover(self, known: Set[str]) -> list[Split]:
        """Returns the splits that exist now and are not among ``known``, the ids of all that were listed or discovered so far. Called in one subtask,
        in a background thread. Raises ``ExternalError`` or ``OSError`` for failures that a later call may not have."""
        return []

    def size_of(self, split: Split) -> int:
        """Returns about how many bytes of a split are to be read; 0: unknown. Small splits are assigned several at a time."""
        return 0

    def owner_of(self, split: Split, parallelism: int) -> int | None:
        """Returns the subtask that reads a split; ``None``: the runtime decides. A source that finds splits later must give the same answer to every
        caller, at any time."""
        return None

    @abstractmethod
    def produced_type(self) -> TypeInformation:
        """Returns the type of the records (``tidegate.common.typeinfo``)."""


class DeliveryGuarantee(Enum):
    """The delivery guarantee of a sink (PyFlink: ``pyflink.datastream.connectors.base.DeliveryGuarantee``)."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class SinkContext:
    """The information that a sink gets about the subtask for which it opens a writer."""

    subtask_index: int
    parallelism: int
    job_id: str
    attempt: str
    """The attempt's id, which is part of the name of everything uncommitted."""
    operator_id: str
    restored_checkpoint_id: int | None = None
    restored_location: str = ""
    """The location of the restored checkpoint; of another job's, if this job was started from it."""
    configuration: dict[str, str] = field(default_factory=dict)
    listener: socket.socket | None = None
    """A listening socket whose address the job's client can ask for; only for a sink that ``listens``."""
    wakeup: Callable[[], None] | None = None
    """Called, from any thread, when ``has_room`` or ``is_drained`` became true."""
    spark_service: str = ""
    """The address of the TaskManager's Spark driver, ``host:port/token``; for ``to_spark`` only."""
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    """Returns the wall clock in ms since the epoch."""


class SinkWriter(ABC):
    """Writes the batches of one subtask. All methods are called from the subtask's thread."""

    works_on: str = "records"
    """The kind of batch that ``write`` takes: ``records`` or ``arrow``."""

    takes_row_kinds: bool = False
    """Whether rows come with a column of their kinds (``tidegate.records.row_kinds``) where some are not inserts."""

    takes_reports: bool = False
    """Whether its input is the reports of another sink (``tidegate.connectors.commit_reports``), which continue after the end of data."""

    @abstractmethod
    def write(self, batch: Batch) -> None:
        """Writes a batch. The writer may buffer the records until the next checkpoint."""

    def write_watermark(self, timestamp_ms: int) -> None:  # noqa: B027  (optional hook)
        """Notes the stream's watermark (Flink: ``SinkWriter.writeWatermark``)."""

    def has_room(self) -> bool:
        """Returns whether the writer accepts input; if not, the subtask processes only barriers that overtake, and mails."""
        return True

    def waits_for_barrier(self) -> bool:
        """Returns whether only the barrier of a checkpoint makes space again. A subtask that reads channels goes on then, since the barrier comes behind its
        input.
        """
        return False

    def is_drained(self) -> bool:
        """Returns whether everything was written, without which the subtask does not finish."""
        return True

    def holds_rows(self) -> bool:
        """Returns whether the state has rows that no committable includes yet; the subtask does not finish until one does."""
        return False

    def take_places(self) -> Sequence[str]:
        """Returns the final locations of what was written since the last call, for a sink that reports them."""
        return ()

    def flush(self, end_of_input: bool) -> None:  # noqa: B027  (optional hook)
        """Flushes buffered records. Called before every snapshot, and at the end of the input."""

    def prepare_commit(self, checkpoint_id: int) -> list[Committable]:
        """Makes everything written since the last call durable and returns it as msgpack-able committables. Raising fails the attempt. What is prepared
        is committed later, by this process or by another."""
        return []

    def seal(self, checkpoint_id: int) -> list[Committable] | Callable[[], list[Committable]]:
        """Ends an epoch at the barrier; called by the runtime. A writer whose ``prepare_commit`` is slow (encodes, syncs or waits for a server)
        overrides it: it separates what was written so far and returns the slow rest as a function, which is called at most once, in the snapshot
        thread, while new records are written. What that raises fails the attempt."""
        return self.prepare_commit(checkpoint_id)

    def snapshot_state(self, checkpoint_id: int) -> list[StateValue]:
        """Returns the writer's own state, as msgpack-able elements of list state."""
        return []

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:  # noqa: B027  (optional hook)
        """Notes that the checkpoint was confirmed; its committables are being committed. Raising fails the attempt."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:  # noqa: B027  (optional hook)
        """Notes that the checkpoint was aborted; what it contains is part of a later one."""

    def close(self) -> None:  # noqa: B027  (optional hook)
        """Releases all resources; what was not prepared is discarded. Also called after a failure."""


class Committer(ABC):
    """Commits committables. Every method is idempotent: it is called again after a restart, possibly by another process."""

    in_subtask_thread: bool = False
    """Whether commits run in the subtask's thread, which blocks meanwhile; by default a pool's thread runs them."""

    @abstractmethod
    def commit(self, committables: Sequence[Committable]) -> None:
        """Makes committables visible. Raises ``StorageError`` or ``ExternalError`` to be retried (``sink.committer.retries``)."""

    def abort_unknown(self, restored: Sequence[Committable], context: SinkContext) -> None:  # noqa: B027  (optional hook)
        """Removes what earlier attempts of this subtask left and no restored committable includes. Called after a restore and before anything is
        written."""

    def all_committed(self, committables: Sequence[Committable]) -> None:  # noqa: B027  (optional hook)
        """Cleans up after all writers have ended and all their committables were committed."""

    def name_of(self, committable: Committable) -> str:
        """Returns a committable's name in messages."""
        return str(committable)[:_SHOWN]

    def close(self) -> None:  # noqa: B027  (optional hook)
        """Releases all resources."""


class Sink(ABC):
    """The base class of sinks for ``sink_to``. Pickled by the client."""

    listens: bool = False
    """Whether its writer serves the job's client: such a sink is not chained to other operators."""
    function: Function | None = None
    """The user's function of which the sink is made: it is opened first, closed last, and may be a ``CheckpointedFunction``."""
    keeps_together: bool = False
    """Whether committables and writer state of one subtask are restored by one subtask at any parallelism. Committables are then complete at the
    barrier (``prepare_commit``)."""

    commits_apart: bool = False
    """Whether committables may wait as long as the job runs. Where its subtasks run stage by stage, an extra subtask then commits them when all writers
    have finished: all or nothing."""

    commits_together: bool = False
    """Whether its committer needs the committables of all subtasks: in BATCH mode an extra subtask commits them, also where all subtasks run at once."""

    def validate(self) -> None:  # noqa: B027  (optional hook)
        """Checks the sink. Called in the client at submission. Raises ``InvalidJob``, for a directory that is a file say."""

    def validate_input(self, input_type: TypeInformation, configuration: Configuration) -> None:  # noqa: B027  (optional hook)
        """Checks the type of the stream and the job's configuration. Called after ``validate``. Raises ``InvalidJob`` for values that the external
        system never accepts."""

    def validate_configuration(self, configuration: Configuration) -> None:  # noqa: B027  (optional hook)
        """Checks the job's configuration. Called after ``validate``. Raises ``InvalidJob`` for options that contradict the sink."""

    @abstractmethod
    def make_writer(self, context: SinkContext, state: Sequence[StateValue], input_type: TypeInformation) -> SinkWriter:
        """Creates the writer of a subtask. ``state``: the restored elements of ``snapshot_state`` that this subtask owns now."""

    def make_committer(self, context: SinkContext) -> Committer | None:
        """Creates the committer; ``None``: the sink has nothing to commit."""
        return None
