"""Splits that a coordinator hands out: how the simulated source keeps them, asks for them, and the checker of checkpoints.

The law: a completed checkpoint holds every split once, with a reader or with the coordinator. One that is held nowhere is lost to
the job that restores it, one that is held twice is read twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.sim.job import SOURCE_OP, SimJob
from tests.sim.laws import Law, LawBroken
from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.connectors.base import ReaderContext, Source, SourceReader, Split, SplitState
from tidegate.jobmanager.machines import events as e
from tidegate.model.checkpoint import CheckpointManifest, OperatorState
from tidegate.model.coordinators.operator_events import (
    ANY_READER,
    AddSplits,
    CoordinatorEvent,
    NoMoreSplits,
    OperatorEvent,
    RequestDiscovery,
    RequestSplit,
    SourceSplit,
    SplitsDiscovered,
    StartDiscovery,
)
from tidegate.model.ids import AttemptId, JobId
from tidegate.taskmanager.operators.sources.restored_splits import elements_of, splits_in


class SimSource(Source):
    """For the rules that deal restored splits; it reads nothing."""

    takes_splits = True

    def list_splits(self, parallelism: int) -> list[Split]:
        raise AssertionError("the splits are in the job graph")

    def make_reader(self, context: ReaderContext) -> SourceReader:
        raise AssertionError("it reads nothing")

    def produced_type(self) -> TypeInformation:
        return Types.LONG()


def kept(offsets: dict[int, int], rows: tuple[int, ...], subtask: int, parallelism: int) -> list[Any]:
    """Elements of state, as the real source writes them."""
    states = [SplitState(Split(str(n)), offset, offset >= rows[n]) for n, offset in sorted(offsets.items())]
    return elements_of(states, (subtask, parallelism))


def own(elements: list[Any], subtask: int, parallelism: int) -> dict[int, int]:
    """Offsets of the splits that are a subtask's, by the rules of the real source."""
    states = splits_in(elements, SimSource(), subtask, parallelism)
    return {int(state.split.split_id): int(state.position or 0) for state in states}


class SplitRequests:
    """The reader's side of the events: one request for splits at a time."""

    def __init__(self, attempt: AttemptId, offsets: dict[int, int], send: Callable[[e.Event], None]) -> None:
        self._attempt = attempt
        self._offsets = offsets
        self._send = send
        self._said = 0
        self.heard = 0
        self._is_waiting = False
        self.is_over = False
        """Nothing is left for it."""
        self.known: set[int] | None = None
        """The splits that are no discoveries, once it may look for others."""

    def ask(self) -> None:
        if not self._is_waiting:
            self._is_waiting = True
            self.say(RequestSplit())

    def ask_what_is_known(self) -> None:
        self.say(RequestDiscovery())

    def found(self, split: int, reader: int = ANY_READER) -> None:
        assert self.known is not None
        self.known.add(split)
        self.say(SplitsDiscovered((SourceSplit(str(split), b""),), reader))

    def say(self, event: CoordinatorEvent) -> None:
        self._said += 1
        self._send(e.OperatorEventReceived(self._attempt, OperatorEvent(SOURCE_OP, self._said, event)))

    def on_event(self, event: OperatorEvent) -> None:
        self.heard += 1
        if event.number < self.heard:
            raise LawBroken(Law.FENCED, f"{self._attempt} is told event {event.number} after {self.heard - 1}")
        self._is_waiting &= not isinstance(event.event, AddSplits | NoMoreSplits)
        match event.event:
            case StartDiscovery(known):
                self.known = {int(split.split_id) for split in known}
            case AddSplits(splits):
                for split in splits:
                    if int(split.split_id) in self._offsets:
                        raise LawBroken(Law.SPLITS, f"{self._attempt} is given split {split.split_id}, which it has")
                    self._offsets[int(split.split_id)] = 0
            case NoMoreSplits():
                self.is_over = True


Kept = dict[JobId, set[int]]
"""By job, the splits that its durable checkpoints have held so far."""


def check_splits(
    manifest: CheckpointManifest, job: SimJob, held_by: Callable[[OperatorState], list[int]], kept: Kept
) -> None:
    """``held_by``: the splits in the state of the readers."""
    for operator in manifest.operators:
        if operator.operator_id != SOURCE_OP:
            continue
        waiting = operator.coordinator.unassigned if operator.coordinator is not None else ()
        held = Counter([*held_by(operator), *(int(split.split_id) for split in waiting)])
        twice = [split for split, times in held.items() if times > 1]
        before = kept.setdefault(manifest.job_id, set(job.listed()))
        lost = before - held.keys() if not operator.finished else set()
        before |= held.keys()
        if twice or lost:
            raise LawBroken(Law.SPLITS, f"checkpoint {manifest.checkpoint_id} holds {twice} twice, and {lost} nowhere")
