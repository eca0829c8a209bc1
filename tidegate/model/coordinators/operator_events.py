"""Events between an operator of a subtask and its coordinator in the JobManager, and the coordinator's state in a checkpoint.

    reader ── RequestSplit ──▶ SourceCoordinator ── AddSplits, or NoMoreSplits ──▶ reader
    reader ── ReaderEvent ──▶ JobManager ── ReaderEvent ──▶ enumerator, which answers through the edge between them

What a split is only its source knows: to the JobManager it is an id and opaque bytes. Follows Flink's ``RequestSplitEvent.java``,
``AddSplitEvent.java`` and ``NoMoreSplitsEvent.java``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.model.ids import OperatorId


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


CoordinatorEvent = RequestSplit | AddSplits | NoMoreSplits | ReaderEvent


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
    event which it was sent."""

    assigned: tuple[tuple[int, SourceSplit], ...] = field(default=())
    last_number: int = 0
