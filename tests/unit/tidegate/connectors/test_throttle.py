"""A throttled reader gives the same rows, none before its time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tidegate.connectors.base import Polled, SourceReader, Split, SplitState
from tidegate.connectors.file_source import FileSource
from tidegate.connectors.throttle import ThrottledReader, ThrottledSource
from tidegate.model.errors import InvalidJob
from tidegate.records.batch import RecordsBatch


class Numbers(SourceReader):
    """0 to ``end`` in batches of 100."""

    def __init__(self, end: int) -> None:
        self.end, self.at, self.polled_to = end, 0, 0

    def open(self, states: Sequence[SplitState]) -> None: ...

    def poll(self) -> Polled | None:
        if self.polled_to == self.end:
            return None
        first, self.polled_to = self.polled_to, min(self.polled_to + 100, self.end)
        return Polled(RecordsBatch(list(range(first, self.polled_to))), "all")

    def advance(self, records: int) -> None:
        self.at += records

    def is_finished(self) -> bool:
        return self.at == self.end

    def snapshot_state(self) -> list[SplitState]:
        return [SplitState(Split("all"), self.at)]


def test_the_rate_is_kept_and_every_row_comes_once_in_order() -> None:
    now = 0.0
    reader = ThrottledReader(Numbers(1000), 500, clock=lambda: now)
    reader.open([])
    values: list[int] = []
    while not reader.is_finished():
        polled = reader.poll()
        if polled is None:
            now += 0.001
            continue
        assert isinstance(polled.batch, RecordsBatch)
        values += polled.batch.values
        reader.advance(len(polled.batch))
        assert len(values) <= 500 * now + 20
        assert reader.snapshot_state()[0].position == len(values)
    assert values == list(range(1000))
    assert now >= 1.9


def test_a_pause_is_not_made_up_for_by_a_burst() -> None:
    now = 0.0
    reader = ThrottledReader(Numbers(10_000), 500, clock=lambda: now)
    reader.open([])
    now = 60.0
    pieces = 0
    while reader.poll() is not None:
        pieces += 1
    assert pieces <= 2


def test_only_a_connectors_source_can_be_throttled() -> None:
    text: Any = "numbers"
    with pytest.raises(InvalidJob, match="only a connector's source can be throttled"):
        ThrottledSource(text, 5)


def test_splits_belong_to_the_subtasks_of_the_source_inside() -> None:
    """A reader that looks for new splits by that rule would read those of its neighbours otherwise."""
    watching = FileSource.for_text("/nowhere").monitor_continuously(1_000)
    throttled = ThrottledSource(watching, 5)
    splits = [Split(f"/f{number}@0", [f"/f{number}", 0, 1, 1]) for number in range(9)]
    assert [throttled.owner_of(s, 3) for s in splits] == [watching.owner_of(s, 3) for s in splits]
