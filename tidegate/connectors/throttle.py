"""Throttling of any source to a rate, for demonstrations and for tests in which one source must lag behind.

The rate is of one subtask, by the clock of its process; positions are those of the source inside, so that a job may be
restarted from the checkpoint of one that was not throttled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence, Set

from tidegate.common.typeinfo import TypeInformation
from tidegate.connectors.base import Polled, ReaderContext, Source, SourceReader, Split, SplitState
from tidegate.model.errors import InvalidJob

_PIECES_PER_SECOND = 50
"""Chosen, not measured: batches every 20 ms look even to a reader."""


class ThrottledSource(Source):
    """Limits a source to ``records_per_second`` in each subtask, in about 50 pieces a second. Raises ``InvalidJob`` for a rate below 1."""

    def __init__(self, source: Source, records_per_second: float) -> None:
        if not isinstance(source, Source):
            raise InvalidJob(
                f"only a connector's source can be throttled (tidegate.connectors), and {source!r} is not one"
            )
        if records_per_second < 1:
            raise InvalidJob(f"a source throttled to {records_per_second} records/s would never end; give at least 1")
        self.inner = source
        self.bounded = source.bounded
        self.takes_splits = source.takes_splits
        self.keeps_parallelism = source.keeps_parallelism
        self.deals_in_advance = source.deals_in_advance
        self.discovery_ms = source.discovery_ms
        self._rate = records_per_second

    def list_splits(self, parallelism: int) -> list[Split]:
        return self.inner.list_splits(parallelism)

    def discover(self, known: Set[str]) -> list[Split]:
        return self.inner.discover(known)

    def size_of(self, split: Split) -> int:
        return self.inner.size_of(split)

    def owner_of(self, split: Split, parallelism: int) -> int | None:
        return self.inner.owner_of(split, parallelism)

    def produced_type(self) -> TypeInformation:
        return self.inner.produced_type()

    def make_reader(self, context: ReaderContext) -> SourceReader:
        return ThrottledReader(self.inner.make_reader(context), self._rate)


class ThrottledReader(SourceReader):
    """Emits the batches of another reader in pieces, none before its time."""

    def __init__(
        self, inner: SourceReader, records_per_second: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._inner = inner
        self._rate = records_per_second
        self._piece = max(1, int(records_per_second / _PIECES_PER_SECOND))
        self._clock = clock
        self._polled: Polled | None = None
        self._given = 0
        self._next_at = 0.0

    def open(self, states: Sequence[SplitState]) -> None:
        self._inner.open(states)
        self._next_at = self._clock()

    def poll(self) -> Polled | None:
        now = self._clock()
        if now < self._next_at:
            return None
        if self._polled is None:
            self._polled, self._given = self._inner.poll(), 0
            if self._polled is None:
                return None
        batch = self._polled.batch
        piece = batch.slice(self._given, min(self._given + self._piece, len(batch)))
        self._given += len(piece)
        # a pause, of this process or of its consumers, is not made up for by a burst of more than one piece
        self._next_at = max(self._next_at, now - 1 / _PIECES_PER_SECOND) + len(piece) / self._rate
        polled = Polled(piece, self._polled.split_id, self._polled.side)
        if self._given == len(batch):
            self._polled = None
        return polled

    def advance(self, records: int) -> None:
        self._inner.advance(records)

    def is_finished(self) -> bool:
        return self._polled is None and self._inner.is_finished()

    def snapshot_state(self) -> list[SplitState]:
        return self._inner.snapshot_state()

    def add_splits(self, splits: Sequence[Split]) -> None:
        self._inner.add_splits(splits)

    def no_more_splits(self) -> None:
        self._inner.no_more_splits()

    def finished_splits(self) -> set[str]:
        return self._inner.finished_splits()

    def note_snapshot(self, checkpoint_id: int, states: Sequence[SplitState]) -> None:
        self._inner.note_snapshot(checkpoint_id, states)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._inner.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self._inner.notify_checkpoint_aborted(checkpoint_id)

    def close(self) -> None:
        self._inner.close()
