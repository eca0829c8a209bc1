"""A hybrid source of numbers: parts whose splits are dealt, and parts whose splits are handed out.

The laws of ``world``, and two more: no number of a part is emitted before all of the part before it were, and the source reports a
backlog until its last part.
"""

from __future__ import annotations

import pickle
import random
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from tests.sim.enumerated.world import Checkpoint, World, given_in
from tests.sim.laws import Law, LawBroken
from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.connectors import base
from tidegate.connectors.hybrid.parts import HybridCheckpoint, HybridSplit
from tidegate.connectors.hybrid.reader import HybridReader
from tidegate.connectors.hybrid.source import HybridReaders, HybridSource
from tidegate.connectors.source import Source
from tidegate.records.batch import RecordsBatch

AT_ONCE = 2


class PartOfNumbers(base.Source):
    """``takes_splits``: handed out; otherwise dealt, by the first number or by place."""

    def __init__(self, first: int, after: int, size: int, *, takes_splits: bool, by_name: bool) -> None:
        self._range = (first, after, size)
        self._by_name = by_name
        self.takes_splits = takes_splits

    def list_splits(self, parallelism: int) -> list[base.Split]:
        first, after, size = self._range
        return [base.Split(f"{at:03}", [at, min(at + size, after)]) for at in range(first, after, size)]

    def owner_of(self, split: base.Split, parallelism: int) -> int | None:
        return int(split.payload[0]) % parallelism if self._by_name else None

    def make_reader(self, context: base.ReaderContext) -> base.SourceReader:
        return _Reader(context)

    def produced_type(self) -> TypeInformation:
        return Types.LONG()


class _Reader(base.SourceReader):
    def __init__(self, context: base.ReaderContext) -> None:
        self._ask = context.request_split
        self._has_asked = self._is_over = False
        self._states: dict[str, base.SplitState] = {}

    def open(self, states: Sequence[base.SplitState]) -> None:
        self._states = {state.split.split_id: state for state in states}

    def poll(self) -> base.Polled | None:
        state = self._next()
        if state is None:
            if self._ask is not None and not self._has_asked:
                self._has_asked = True
                self._ask()
            return None
        at, after = rest_of(state)
        return base.Polled(RecordsBatch(list(range(at, min(at + AT_ONCE, after)))), state.split.split_id)

    def advance(self, records: int) -> None:
        state = self._next()
        assert state is not None
        at, after = rest_of(state)
        self._states[state.split.split_id] = base.SplitState(state.split, at + records, at + records == after)

    def add_splits(self, splits: Sequence[base.Split]) -> None:
        self._has_asked = False
        for split in splits:
            if split.split_id in self._states:
                raise LawBroken(Law.SPLITS, f"a reader is given split {split.split_id}, which it has")
            self._states[split.split_id] = base.SplitState(split)

    def no_more_splits(self) -> None:
        self._is_over = True

    def is_finished(self) -> bool:
        return self._next() is None and (self._ask is None or self._is_over)

    def snapshot_state(self) -> list[base.SplitState]:
        return list(self._states.values())

    def _next(self) -> base.SplitState | None:
        return next((state for state in self._states.values() if not state.done), None)


def rest_of(state: base.SplitState) -> tuple[int, int]:
    first, after = state.split.payload
    return first if state.position is None else state.position, after


class HybridWorld(World):
    def make_source(self, draw: random.Random) -> Source[Any, Any]:
        cuts = sorted(draw.sample(range(1, 60), 2))
        self._count = draw.randint(60, 90)
        self._bounds = [0, *cuts, self._count]
        parts = [
            PartOfNumbers(
                first, after, draw.randint(1, 7), takes_splits=draw.random() < 0.5, by_name=draw.random() < 0.5
            )
            for first, after in pairwise(self._bounds)
        ]
        builder = HybridSource.builder(parts[0]).add_source(parts[1])
        return builder.add_source(lambda context: parts[2], bounded=True).build()

    def readers_source(self) -> base.Source:
        assert isinstance(self.source, HybridSource)
        return HybridReaders(self.source)

    def host(self, context: base.ReaderContext) -> base.SourceReader:
        return HybridReader(context)

    def on_emitted(self, values: list[int]) -> None:
        begins = max(bound for bound in self._bounds if bound <= max(values))
        before = sum(number < begins for number in self.emitted())
        if before < begins:
            raise LawBroken(
                Law.PARTS, f"{values} are emitted before {begins - before} numbers of the parts before theirs"
            )
        is_of_the_last = begins == self._bounds[-2]
        if self.backlog is is_of_the_last:
            raise LawBroken(Law.BACKLOG, f"{values} are emitted, and the backlog is reported as {self.backlog}")

    def held_in(self, checkpoint: Checkpoint) -> Counter[int]:
        (state,) = checkpoint.enumerator
        _, _, content, _, _, outbox = state.position
        stored: HybridCheckpoint = pickle.loads(content)
        splits: list[HybridSplit] = list(stored.unassigned or ())
        splits += [pickle.loads(split.payload[1]) for split in given_in(outbox)]
        held = [number for split in splits for number in range(*split.split.payload)]
        if stored.unassigned is None:
            held += range(self._bounds[stored.part], self._bounds[stored.part + 1])
        held += range(self._bounds[stored.part + 1], self._count)
        for _, (_, encoded), position, done, *_ in (e for found in checkpoint.readers.values() for e in found):
            split: HybridSplit = pickle.loads(encoded)
            held += range(*rest_of(base.SplitState(split.split, position))) if not done else ()
        return Counter([*checkpoint.numbers(), *held])
