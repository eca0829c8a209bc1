"""An enumerator, its readers, the edge between them and a JobManager that loses events: the real hosts, without threads.

The law: a completed checkpoint holds every number once, as emitted, or as a rest of a split that is with the enumerator, in its outbox or with a
reader. In the end every number was emitted once.
"""

from __future__ import annotations

import pickle
import random
from collections import Counter, deque
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Self

from tests.enumerated_numbers import NumbersSource, RangeEnumerator, RangeSplit
from tests.sim.laws import Law, LawBroken
from tidegate.connectors import base
from tidegate.connectors.base import Polled, ReaderContext, SourceReader, Split, SplitState
from tidegate.connectors.source import Source, SplitEnumeratorContext
from tidegate.connectors.source.async_work import AsyncCall, AsyncWork
from tidegate.connectors.source.enumerator_host import EnumeratorHost
from tidegate.connectors.source.protocol import (
    AskForSplit,
    EncodedSplit,
    EndSplits,
    ForReader,
    GiveSplits,
    Heard,
    ReachEnd,
    ReaderLink,
    Register,
    TellEnumerator,
    TellReader,
)
from tidegate.connectors.source.reader_host import ReaderHost, ReadersSource
from tidegate.records.batch import RecordsBatch
from tidegate.taskmanager.operators.sources.restored_splits import elements_of, splits_in

MOST_STEPS = 60_000
"""Many times what a schedule takes that ends."""
CRASHES = 4


class SimNumbers(NumbersSource):
    """Knows its ranges at once."""

    def create_enumerator(self, enum_context: SplitEnumeratorContext[RangeSplit]) -> RangeEnumerator:
        return RangeEnumerator(enum_context, self, self.ranges())


class Inline(AsyncWork):
    """Without a thread."""

    def call(self, call: AsyncCall[Any], delay_ms: int) -> None:
        self.run_later(call.run())


@dataclass(frozen=True)
class Barrier:
    checkpoint_id: int


@dataclass
class Checkpoint:
    checkpoint_id: int
    parallelism: int
    enumerator: list[SplitState]
    before: list[int]
    """What was emitted up to the checkpoint from which this attempt began."""
    readers: dict[int, list[Any]] = field(default_factory=dict)
    emitted: dict[int, list[int]] = field(default_factory=dict)

    def numbers(self) -> list[int]:
        return [*self.before, *(number for numbers in self.emitted.values() for number in numbers)]


class Reader:
    """One subtask: the operator of the product does the same with a context of the runtime."""

    def __init__(self, world: World, subtask: int, parallelism: int, restored: list[Any]) -> None:
        self.edge: deque[ForReader | Barrier] = deque()
        self.emitted: list[int] = []
        self._subtask = subtask
        self._is_at_end = False
        self._owner = (subtask, parallelism)
        self._link = ReaderLink(lambda content: world.tell(subtask, content), lambda: world.now_ms)
        source = world.readers_source()
        context = ReaderContext(
            subtask_index=subtask,
            parallelism=parallelism,
            max_parallelism=128,
            job_id="job",
            attempt="attempt",
            operator_id="numbers",
            request_split=lambda: self._link.say(AskForSplit("host")),
            send_source_event=lambda event: self._link.say(TellEnumerator(pickle.dumps(event))),
        )
        self._world = world
        self._host = world.host(context)
        self._link.say(Register("host"))
        self._host.open(splits_in(restored, source, subtask, parallelism))

    def read(self) -> None:
        self._link.repeat_when_due()
        polled: Polled | None = self._host.poll()
        if polled is not None:
            values = values_of(polled)
            self.emitted += values
            self._host.advance(len(values))
            self._world.on_emitted(values)
        elif self._host.is_finished() and not self._is_at_end:
            self._is_at_end = True
            self._link.say(ReachEnd())

    def take(self, checkpoint: Checkpoint | None) -> None:
        match self.edge.popleft():
            case Barrier(checkpoint_id):
                assert checkpoint is not None
                checkpoint.readers[self._subtask] = elements_of(self._host.snapshot_for(checkpoint_id), self._owner)
                checkpoint.emitted[self._subtask] = list(self.emitted)
            case ForReader(subtask, message):
                assert subtask == self._subtask
                self._obey(message)

    def _obey(self, message: object) -> None:
        match message:
            case GiveSplits(splits):
                self._host.add_splits([Split(split.split_id, split.payload) for split in splits])
            case EndSplits():
                self._host.no_more_splits()
            case TellReader(content):
                self._host.handle_source_event(pickle.loads(content))
            case Heard(number):
                self._link.on_acknowledged(number)


class World:
    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        self.now_ms = 0.0
        self._count = self._draw.randint(0, 120)
        self.source = self.make_source(self._draw)
        self._next_id = 1
        self._completed: Checkpoint | None = None
        self._parallelism = self._draw.randint(1, 4)
        self.crashes = self.lost = self.repeated = self.rescaled = 0
        self.checkpoints = 0
        self.backlog = False
        self._deploy()

    def make_source(self, draw: random.Random) -> Source[Any, Any]:
        return SimNumbers(self._count, draw.randint(1, 9))

    def readers_source(self) -> base.Source:
        return ReadersSource(self.source)

    def host(self, context: ReaderContext) -> SourceReader:
        ticks = count()
        return ReaderHost(self.source, context, lambda: float(next(ticks)))  # reads a few at a time

    def on_backlog_reported(self, is_processing: bool) -> None:
        """The enumerator says something else than it had said before."""
        if is_processing == self.backlog:
            raise LawBroken(Law.BACKLOG, f"the backlog is reported as {is_processing} again")
        self.backlog = is_processing

    def on_emitted(self, values: list[int]) -> None:
        """A reader has emitted them."""

    def held_in(self, checkpoint: Checkpoint) -> Counter[int]:
        """How often a checkpoint holds each number."""
        (state,) = checkpoint.enumerator
        _, _, content, _, _, outbox = state.position
        splits: list[RangeSplit] = list(pickle.loads(content))
        splits += [pickle.loads(split.payload[1]) for split in given_in(outbox)]
        splits += [pickle.loads(element[1][1]) for found in checkpoint.readers.values() for element in found]
        return Counter([*checkpoint.numbers(), *(n for split in splits for n in range(split.at, split.after))])

    def emitted(self) -> list[int]:
        """Returns all that counts: what was emitted before a crash and is in no checkpoint does not."""
        return [*self._before, *(number for reader in self._readers for number in reader.emitted)]

    def run(self) -> Self:
        for _ in range(MOST_STEPS):
            if self._enumerator.is_finished() and not any(reader.edge for reader in self._readers):
                break
            self._step()
        else:
            raise LawBroken(Law.LIVENESS, "the schedule does not end")
        self._check(Counter(self.emitted()), "the end")
        return self

    def tell(self, subtask: int, content: bytes) -> None:
        """By the JobManager, which may lose it or bring it twice."""
        fate = self._draw.random()
        self.lost += fate < 0.15
        self.repeated += fate > 0.9
        self._events += [(subtask, content)] * (0 if fate < 0.15 else 2 if fate > 0.9 else 1)

    def _deploy(self) -> None:
        restored = self._completed
        self._before = restored.numbers() if restored is not None else []
        self._events: list[tuple[int, bytes]] = []
        self._pending: Checkpoint | None = None
        self.backlog = False
        self._enumerator = EnumeratorHost(
            self.source, self._parallelism, Inline(lambda: self.now_ms), self.on_backlog_reported
        )
        states = restored.enumerator if restored is not None else [SplitState(Split("enumerator"))]
        self._enumerator.open(states)
        elements = [e for found in restored.readers.values() for e in found] if restored is not None else []
        self._readers: list[Reader] = []
        self._readers += [Reader(self, n, self._parallelism, elements) for n in range(self._parallelism)]

    def _step(self) -> None:
        self.now_ms += self._draw.random() * 20
        reader = self._draw.choice(self._readers)
        match self._draw.choices(range(6), (3, 4, 4, 4, 0.4, 0.02))[0]:
            case 0:
                self._emit()
            case 1 if reader.edge:
                reader.take(self._pending)
                self._complete_when_ready()
            case 2:
                reader.read()
            case 3 if self._events:
                self._enumerator.on_reader_event(*self._events.pop(0))
            case 4 if self._pending is None:
                self._trigger()
            case 5 if self.crashes < CRASHES:
                self._crash()

    def _emit(self) -> None:
        """A slice of what the enumerator says."""
        polled = self._enumerator.poll()
        if polled is not None:
            said = values_of(polled)[: self._draw.randint(1, 3)]
            for one in said:
                self._readers[one.subtask].edge.append(one)
            self._enumerator.advance(len(said))

    def _trigger(self) -> None:
        number, self._next_id = self._next_id, self._next_id + 1
        states = self._enumerator.snapshot_for(number)
        self._pending = Checkpoint(number, self._parallelism, states, self._before)
        for reader in self._readers:
            reader.edge.append(Barrier(number))

    def _complete_when_ready(self) -> None:
        pending = self._pending
        if pending is None or len(pending.readers) < self._parallelism:
            return
        self._pending, self._completed = None, pending
        self.checkpoints += 1
        self._check(self.held_in(pending), f"checkpoint {pending.checkpoint_id}")

    def _crash(self) -> None:
        self.crashes += 1
        if self._draw.random() < 0.3:
            self._parallelism = self._draw.randint(1, 4)
            self.rescaled += 1
        self._deploy()

    def _check(self, held: Counter[int], where: str) -> None:
        twice = sorted(number for number, times in held.items() if times > 1)
        lost = sorted(set(range(self._count)) - held.keys())
        if twice or lost:
            raise LawBroken(Law.SPLITS, f"{where} holds {twice} twice, and {lost} nowhere")


def values_of(polled: Polled) -> list[Any]:
    assert isinstance(polled.batch, RecordsBatch)
    return polled.batch.values


def given_in(outbox: bytes) -> list[EncodedSplit]:
    """Splits that were said and not sent."""
    messages = [said.message for said in pickle.loads(outbox)]
    return [split for message in messages if isinstance(message, GiveSplits) for split in message.splits]
