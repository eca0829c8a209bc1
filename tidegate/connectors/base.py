"""The contract of sources and sinks. One file or folder per system; each holds its builder, its reader or writer, and
its serialisable state.

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
"""Characters of a committable in a message: it may hold all records of an epoch."""


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a source. ``split_id`` is unique within the source and stays the same across listings: it is
    read by the subtask that ``Source.owner_of`` names, or dealt evenly by its place in the listing.
    ``payload`` is msgpack-able (dicts, lists, strings, numbers, bytes)."""

    split_id: str
    payload: ReaderPosition = None


@dataclass(frozen=True, slots=True)
class SplitState:
    """How far a split was emitted. ``position`` is msgpack-able; ``None`` means from the start. Finished splits are
    kept, marked ``done``."""

    split: Split
    position: ReaderPosition = None
    done: bool = False


@dataclass(slots=True)
class Polled:
    """What a reader yields. ``batch`` may be handed on in slices: after the first ``n`` of its records were emitted the
    runtime calls ``reader.advance(n)`` (several times, adding up to ``len(batch)``), and only that moves the position
    that ``snapshot_state`` tells."""

    batch: Batch
    split_id: str
    side: str = ""
    """The tag of the side output that the batch is for; empty: for the main output."""
    errors: int = 0
    """Records that could not be read since the last batch, which were left out or are for a side output."""


class SplitTimes(Protocol):
    """Event time by split, kept by the runtime: the watermark of a source is the smallest of those of its splits. The splits that
    a reader is opened with take part from the start; it announces others. Called from the subtask's thread only."""

    def assigned(self, split_id: str) -> None:
        """A split was found. It holds the watermark back until its first record, or until it is idle."""

    def expected(self, split_id: str, first: Batch | None = None) -> int | None:
        """The reader comes to this split later: until its first record it holds the watermark back, however long that takes. With
        ``first``, a batch of that record alone, only as far as this record allows. Returns the record's event time, if it has
        one. Raises what the record's timestamp raises."""


@dataclass(frozen=True, slots=True)
class ReaderContext:
    """What a reader may know of where it runs."""

    subtask_index: int
    parallelism: int
    max_parallelism: int
    job_id: str
    attempt: str
    operator_id: str
    configuration: dict[str, str] = field(default_factory=dict)
    is_restored: bool = False
    """The splits come from a checkpoint: what is not among them belongs to another subtask."""
    request_split: Callable[[], None] | None = None
    """Asks the coordinator, from any thread; ``add_splits`` or ``no_more_splits`` follows. ``None``: the reader has all of its splits."""
    send_source_event: Callable[[UserObject], None] | None = None
    """Sends an object of the user's to the enumerator; only for a source with one."""
    report_backlog: Callable[[bool], None] | None = None
    """For an enumerator: tells the JobManager whether the source works off a backlog. From any thread."""
    wakeup: Callable[[], None] | None = None
    """A reader with a thread of its own calls it, from that thread, when ``poll`` has something again."""
    spark_rows: Iterator[pa.RecordBatch] | None = None
    """For ``from_spark`` only: the iterator of Arrow batches of this subtask's Spark partition."""
    spark_service: str = ""
    """For ``from_spark_stream`` only: where the Spark driver of the TaskManager answers, ``host:port/token``."""
    watch: Callable[[str, Callable[[], float]], None] | None = None
    """``watch(name, read)`` shows a gauge of the operator."""
    times: SplitTimes | None = None
    """``None``: the source makes no watermarks."""
    operator_name: str = ""
    """For messages."""


class SourceReader(ABC):
    """Reads the splits of one subtask. Called from the subtask's thread only. ``poll`` must not block for longer than
    a few milliseconds: readers of systems that block run a fetcher thread with a bounded queue inside."""

    emits_whole_batches: bool = False
    """A batch is emitted at once, whatever a slice is: the reader's position is behind all of it when it is polled."""

    @abstractmethod
    def open(self, states: Sequence[SplitState]) -> None:
        """Start reading the splits that are not done, each from its position. Called once."""

    @abstractmethod
    def poll(self) -> Polled | None:
        """Returns the next batch, or ``None`` when there is nothing at this moment."""

    @abstractmethod
    def advance(self, records: int) -> None:
        """``records`` more of the last polled batch were emitted."""

    @abstractmethod
    def is_finished(self) -> bool:
        """All splits are at their end, and everything was emitted. An unbounded reader never is."""

    @abstractmethod
    def snapshot_state(self) -> list[SplitState]:
        """Returns all splits of this subtask, done ones included."""

    def has_records(self) -> bool:
        """Its position is behind records that ``poll`` has not handed out: the runtime takes them before a snapshot."""
        return False

    def snapshot_for(self, checkpoint_id: int) -> list[SplitState]:
        """Returns what ``snapshot_state`` does, for a reader that must know of which checkpoint it is."""
        return self.snapshot_state()

    def on_reader_event(self, subtask: int, content: bytes) -> None:
        """A reader speaks to this enumerator. Only for the enumerator of a source."""
        raise NotImplementedError(f"{type(self).__name__} is no enumerator")

    def handle_source_event(self, event: UserObject) -> None:
        """The enumerator has sent an object of the user's."""
        raise NotImplementedError(f"{type(self).__name__} takes no events")

    def add_splits(self, splits: Sequence[Split]) -> None:
        """The coordinator has handed these to the reader: they are in its state from now on. Only for a source that takes splits."""
        raise NotImplementedError(f"{type(self).__name__} takes no splits")

    def no_more_splits(self) -> None:
        """The coordinator has none left: the reader finishes when it has read what it has."""
        raise NotImplementedError(f"{type(self).__name__} takes no splits")

    def finished_splits(self) -> set[str]:
        """Ids of the splits that are at their end. A reader of many tells each of them once."""
        return {state.split.split_id for state in self.snapshot_state() if state.done}

    def note_snapshot(self, checkpoint_id: int, states: Sequence[SplitState]) -> None:  # noqa: B027  (optional hook)
        """These states are in checkpoint ``checkpoint_id``, which may be confirmed later."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:  # noqa: B027  (optional hook)
        """The checkpoint was confirmed: offsets may be committed to the outside."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:  # noqa: B027  (optional hook)
        """This one will never be confirmed; what it holds is in a later one."""

    def close(self) -> None:  # noqa: B027  (optional hook)
        """Give everything back. Called once, also after a failure."""


class Source(ABC):
    """What ``from_source`` takes. Pickled by the client."""

    bounded: bool = True
    hides_splits: bool = False
    """Its batches do not say of which split they are: event time is that of the reader."""
    takes_splits: bool = False
    """Its readers ask for splits while they run (``ReaderContext.request_split``)."""
    keeps_parallelism: bool = False
    """Its splits are for as many subtasks as the job began with: no other number can go on with them."""
    deals_in_advance: bool = False
    """Its readers have the listed splits when they start, and are given new ones by ``owner_of``: each is read for ever, so there is nothing
    to hand to a reader that is free."""
    discovery_ms: int | None = None
    """One of its readers calls ``discover`` so often, for all of them; ``None``: there are no splits but the listed ones."""

    @abstractmethod
    def list_splits(self, parallelism: int) -> list[Split]:
        """Called in the client when the job is submitted. Raises ``InvalidJob`` (a missing path, say)."""

    @abstractmethod
    def make_reader(self, context: ReaderContext) -> SourceReader:
        """Called in the subtask's process."""

    def discover(self, known: Set[str]) -> list[Split]:
        """Called in the process of one subtask, in a thread of its own: the splits that are there now and not among ``known``, ids of all that
        were listed or discovered so far. Raises ``ExternalError`` or ``OSError`` for what may be over when it is called again."""
        return []

    def size_of(self, split: Split) -> int:
        """About how many bytes there are to read; 0: not known. Small splits are handed out several at a time."""
        return 0

    def owner_of(self, split: Split, parallelism: int) -> int | None:
        """The subtask that reads a split, by the split alone; ``None``: by the runtime's rule. A source that finds splits
        later needs it to be the same for every caller, at any time."""
        return None

    @abstractmethod
    def produced_type(self) -> TypeInformation:
        """TypeInformation of the records (``tidegate.common.typeinfo``)."""


class DeliveryGuarantee(Enum):
    """What a sink promises (PyFlink: ``pyflink.datastream.connectors.base.DeliveryGuarantee``)."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class SinkContext:
    """What a sink learns of the subtask for which it opens a writer."""

    subtask_index: int
    parallelism: int
    job_id: str
    attempt: str
    """Attempt id: part of the name of everything uncommitted."""
    operator_id: str
    restored_checkpoint_id: int | None = None
    restored_location: str = ""
    """Where that checkpoint is; of another job, when this one was started from it."""
    configuration: dict[str, str] = field(default_factory=dict)
    listener: socket.socket | None = None
    """A listening socket whose address the client of the job can ask for; only for a sink that ``listens``."""
    wakeup: Callable[[], None] | None = None
    """To be called, from any thread, when ``has_room`` or ``is_drained`` became true."""
    spark_service: str = ""
    """For ``to_spark`` only: where the Spark driver of the TaskManager answers, ``host:port/token``."""
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    """Wall clock, ms since the epoch."""


class SinkWriter(ABC):
    """Writes the batches of one subtask. All methods are called from the subtask's thread."""

    works_on: str = "records"
    """``records`` or ``arrow``: which kind of batch ``write`` takes."""

    takes_row_kinds: bool = False
    """Whether columns of rows come with the column of their kinds (``tidegate.records.row_kinds``) where some are no inserts."""

    takes_reports: bool = False
    """Whether its input are the reports of another sink (``tidegate.connectors.commit_reports``), which go on behind the end of data."""

    @abstractmethod
    def write(self, batch: Batch) -> None:
        """Takes a batch. It may keep the records until the next checkpoint."""

    def write_watermark(self, timestamp_ms: int) -> None:  # noqa: B027  (optional hook)
        """The stream has reached this event time (Flink: ``SinkWriter.writeWatermark``)."""

    def has_room(self) -> bool:
        """While not, the subtask takes no further input; barriers and mails go on."""
        return True

    def is_drained(self) -> bool:
        """Asked at the end: the subtask does not finish before."""
        return True

    def holds_rows(self) -> bool:
        """Its state has rows that no vote had yet: the subtask does not finish before a vote has them."""
        return False

    def take_places(self) -> Sequence[str]:
        """Returns where what was written since the last call will be when it is committed, for a sink that reports it."""
        return ()

    def flush(self, end_of_input: bool) -> None:  # noqa: B027  (optional hook)
        """Before every snapshot, and at the end of the input."""

    def prepare_commit(self, checkpoint_id: int) -> list[Committable]:
        """Returns the vote: everything written since the last call, made durable, as msgpack-able committables. Raising
        fails the attempt. What is prepared is committed later, by this process or by another."""
        return []

    def seal(self, checkpoint_id: int) -> list[Committable] | Callable[[], list[Committable]]:
        """What the runtime calls at the barrier. A writer whose ``prepare_commit`` takes long (it encodes, syncs or waits
        for a server) overrides this: cut off what was written so far, and give the slow rest of the vote back as a function.
        It is called at most once, in the snapshot thread, while new records are being written; what it raises fails the
        attempt."""
        return self.prepare_commit(checkpoint_id)

    def snapshot_state(self, checkpoint_id: int) -> list[StateValue]:
        """State of the writer itself, as msgpack-able elements of list state."""
        return []

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:  # noqa: B027  (optional hook)
        """The checkpoint was confirmed; what it holds is being committed. Raising fails the attempt."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:  # noqa: B027  (optional hook)
        """This one will never be confirmed; what it holds is in a later one."""

    def close(self) -> None:  # noqa: B027  (optional hook)
        """Give everything back; what is not prepared is lost on purpose. Also called after a failure."""


class Committer(ABC):
    """Global commit. Every method is idempotent: it is called again after a restart, possibly by another process."""

    in_subtask_thread: bool = False
    """Commits in the thread that writes, which stands still meanwhile; by default a pool's thread does."""

    @abstractmethod
    def commit(self, committables: Sequence[Committable]) -> None:
        """Make them visible. Raises ``StorageError``/``ExternalError`` to be called again (``sink.committer.retries``)."""

    def abort_unknown(self, restored: Sequence[Committable], context: SinkContext) -> None:  # noqa: B027  (optional hook)
        """After a restore and before anything is written: remove what earlier attempts of this subtask left behind
        that is in none of the restored committables."""

    def all_committed(self, committables: Sequence[Committable]) -> None:  # noqa: B027  (optional hook)
        """Every writer has ended, and these were all votes: what writers keep beside them can go."""

    def name_of(self, committable: Committable) -> str:
        """What messages call it."""
        return str(committable)[:_SHOWN]

    def close(self) -> None:  # noqa: B027  (optional hook)
        """Give everything back."""


class Sink(ABC):
    """What ``sink_to`` takes. Pickled by the client."""

    listens: bool = False
    """Whether its writer serves the client of the job: such a sink stands alone in its task."""
    function: Function | None = None
    """The user's function that the sink is made of: it is opened first, closed last, and may be a ``CheckpointedFunction``."""
    keeps_together: bool = False
    """What one subtask voted for, and the state of its writer, are restored by one subtask at any parallelism. The vote is then complete at
    the barrier (``prepare_commit``)."""

    commits_apart: bool = False
    """What is voted for may wait for as long as a job takes. Where its subtasks run stage by stage, one more subtask commits it then,
    when all writers have finished: all or nothing."""

    commits_together: bool = False
    """Its committer needs all that its subtasks voted for: in BATCH mode one more subtask commits it, also where all run at once."""

    def validate(self) -> None:  # noqa: B027  (optional hook)
        """Called in the client when the job is submitted. Raises ``InvalidJob`` (a directory that is a file, say)."""

    def validate_input(self, input_type: TypeInformation, configuration: Configuration) -> None:  # noqa: B027  (optional hook)
        """Called after ``validate`` with the type of the stream and the configuration of the job. Raises ``InvalidJob``
        for values that the system would never take."""

    def validate_configuration(self, configuration: Configuration) -> None:  # noqa: B027  (optional hook)
        """Called after ``validate`` with the configuration of the job. Raises ``InvalidJob`` for what contradicts the sink."""

    @abstractmethod
    def make_writer(self, context: SinkContext, state: Sequence[StateValue], input_type: TypeInformation) -> SinkWriter:
        """``state`` are the restored elements of ``snapshot_state`` that this subtask owns now."""

    def make_committer(self, context: SinkContext) -> Committer | None:
        """``None``: the sink has nothing to commit."""
        return None
