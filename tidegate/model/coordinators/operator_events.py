"""Events between an operator of a subtask and its coordinator in the JobManager, and the coordinator's state in a checkpoint.

    reader ── RequestSplit ──▶ SourceCoordinator ── AddSplits, or NoMoreSplits ──▶ reader
    the reader that looks for new splits ── RequestDiscovery ──▶ SourceCoordinator ── StartDiscovery ──▶ that reader
    the reader that looks for new splits ── SplitsDiscovered ──▶ SourceCoordinator ── DiscoveryNoted ──▶ that reader
    reader ── ReaderEvent ──▶ JobManager ── ReaderEvent ──▶ enumerator, which answers through the edge between them
    enumerator ── ReportBacklog ──▶ JobManager, which takes checkpoints less often meanwhile

What a split is only its source knows: to the JobManager it is an id and opaque bytes. Follows Flink's ``RequestSplitEvent.java``,
``AddSplitEvent.java`` and ``NoMoreSplitsEvent.java``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.model.ids import OperatorId

DISCOVERING_SUBTASK = 0
"""The reader that looks for new splits, for all readers of its source."""
ANY_READER = -1
"""A split is for the first one that asks."""


@dataclass(frozen=True, slots=True)
class SourceSplit:
    """``content`` is encoded by the client and decoded by the reader. ``size_bytes``: about how much there is to read, 0 if that is
    not known."""

    split_id: str
    content: bytes
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class RequestSplit:
    """The reader has nothing left to begin."""


@dataclass(frozen=True, slots=True)
class AddSplits:
    """They are the reader's from now on."""

    splits: tuple[SourceSplit, ...]


@dataclass(frozen=True, slots=True)
class NoMoreSplits:
    """The reader is at its end when it has read what it has."""


@dataclass(frozen=True, slots=True)
class ReaderEvent:
    """From a reader to the enumerator of its source, which runs in a subtask of its own: the JobManager passes it on, unread. One that
    gets lost is sent again by the reader, which hears from the enumerator itself that it has come."""

    enumerator: OperatorId
    subtask: int
    content: bytes


@dataclass(frozen=True, slots=True)
class ReportBacklog:
    """From an enumerator: whether its source works off a backlog now. It holds until the next one, or until the enumerator restarts."""

    is_processing: bool


@dataclass(frozen=True, slots=True)
class RequestDiscovery:
    """A reader would look for new splits. It knows those that were in the state of any reader when it started, and asks for the others."""


@dataclass(frozen=True, slots=True)
class StartDiscovery:
    """The reader looks from now on. ``known``: splits that are no discoveries, beside those in the state that it started with. They are
    named whole, since until a checkpoint holds them the reader's TaskManager is where a JobManager that takes the lead learns of them."""

    known: tuple[SourceSplit, ...]


@dataclass(frozen=True, slots=True)
class SplitsDiscovered:
    """They are the coordinator's from now on. ``reader``: the only subtask that may read them, or ``ANY_READER``."""

    splits: tuple[SourceSplit, ...]
    reader: int = ANY_READER


@dataclass(frozen=True, slots=True)
class DiscoveryNoted:
    """The coordinator has those that came with the event of this number: they are in every checkpoint that is triggered after this."""

    number: int


CoordinatorEvent = (
    RequestSplit
    | AddSplits
    | NoMoreSplits
    | ReaderEvent
    | ReportBacklog
    | RequestDiscovery
    | StartDiscovery
    | SplitsDiscovered
    | DiscoveryNoted
)


@dataclass(frozen=True, slots=True)
class OperatorEvent:
    """``number`` counts from 1 for each attempt and direction: a repeated message is known by it, and a gap means that one was lost."""

    operator_id: OperatorId
    number: int
    event: CoordinatorEvent


@dataclass(frozen=True, slots=True)
class CoordinatorState:
    """The coordinator of a source in a checkpoint: the splits that no reader had. Those that were handed out are in the state of their readers."""

    unassigned: tuple[SourceSplit, ...] = ()


@dataclass(frozen=True, slots=True)
class CoordinatorReport:
    """What a TaskManager reports of an attempt's events to a JobManager that has taken the lead. ``assigned``: splits that were handed
    to it, each with the newest checkpoint that it had been triggered for or had seen confirmed before; ``last_number``: that of the last
    event which it was sent. ``discovered``: splits that it has found or learned of, and that the coordinator has noted, each with such a checkpoint;
    ``awaits_discovery``: it has asked what is known, and was not answered."""

    assigned: tuple[tuple[int, SourceSplit], ...] = field(default=())
    last_number: int = 0
    discovered: tuple[tuple[int, SourceSplit], ...] = field(default=())
    awaits_discovery: bool = False
