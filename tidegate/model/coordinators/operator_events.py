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
"""The subtask whose reader discovers new splits for all readers of its source."""
ANY_READER = -1
"""The reader of a split that is assigned to the first one that requests a split."""


@dataclass(frozen=True, slots=True)
class SourceSplit:
    """A split in a coordinator. ``content`` is encoded by the client and decoded by the reader. ``size_bytes``: about how much there is to read, 0 if
    unknown."""

    split_id: str
    content: bytes
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class RequestSplit:
    """Reader to coordinator: requests a split."""


@dataclass(frozen=True, slots=True)
class AddSplits:
    """Coordinator to reader: assigns splits."""

    splits: tuple[SourceSplit, ...]


@dataclass(frozen=True, slots=True)
class NoMoreSplits:
    """Coordinator to reader: no splits follow, so the reader ends when it has read what it has."""


@dataclass(frozen=True, slots=True)
class ReaderEvent:
    """Reader to enumerator of its source, which runs in a subtask of its own: the JobManager forwards it unread. A lost one is sent again by the
    reader, which gets acknowledgements from the enumerator itself."""

    enumerator: OperatorId
    subtask: int
    content: bytes


@dataclass(frozen=True, slots=True)
class ReportBacklog:
    """Enumerator to JobManager: whether its source processes a backlog. It holds until the next one, or until the enumerator restarts."""

    is_processing: bool


@dataclass(frozen=True, slots=True)
class RequestDiscovery:
    """Reader to coordinator: asks for the splits to leave out of discovery, besides those that were in any reader's state when it started."""


@dataclass(frozen=True, slots=True)
class StartDiscovery:
    """Coordinator to reader: starts discovery. ``known``: splits that are not discoveries, besides those in the state that the reader started with.
    They are complete, since until a checkpoint contains them a JobManager that takes the lead learns of them from the reader's TaskManager."""

    known: tuple[SourceSplit, ...]


@dataclass(frozen=True, slots=True)
class SplitsDiscovered:
    """Reader to coordinator: hands over discovered splits. ``reader``: the only subtask that may read them, or ``ANY_READER``."""

    splits: tuple[SourceSplit, ...]
    reader: int = ANY_READER


@dataclass(frozen=True, slots=True)
class DiscoveryNoted:
    """Coordinator to reader: the splits of the event with this number are in every checkpoint triggered from now on."""

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
    """An event with its number. ``number`` counts from 1 for each attempt and direction, so that repeated and lost messages are detected."""

    operator_id: OperatorId
    number: int
    event: CoordinatorEvent


@dataclass(frozen=True, slots=True)
class CoordinatorState:
    """The state of a source's coordinator in a checkpoint: the unassigned splits. Assigned ones are in the state of their readers."""

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
