"""What is written by key group is read by key group, whether it was copied into one part or not."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pytest

from tidegate.model.checkpoint import StateHandle
from tidegate.model.keygroups import KeyGroupRange
from tidegate.store.files import Part
from tidegate.store.segments import InlineSegmentStore, open_segment_source
from tidegate.taskmanager.state.files.segments import StateDescription, read_keyed, write_keyed

ABOUT = StateDescription("count", "total", "value")


class CountingStore:
    def __init__(self) -> None:
        self.written_bytes = 0
        self.compresses = False
        self.parts = 0
        self._inner = InlineSegmentStore()

    def write(self, name_hint: str, parts: Iterable[Part], *, is_shared: bool = False) -> StateHandle:
        taken = list(parts)
        self.parts += len(taken)
        return self._inner.write(name_hint, taken, is_shared=is_shared)


@pytest.mark.parametrize(("rows", "is_one_part"), [(0, True), (1, True), (50_000, True), (80_000, False)])
def test_small_files_are_one_part_and_large_ones_are_not_copied(rows: int, is_one_part: bool) -> None:
    owned = KeyGroupRange(8, 39)
    keys = np.random.default_rng(rows).permutation(rows)
    groups = (keys % owned.size + owned.start).astype(np.int32)
    data = pa.record_batch({"key": keys, "value": keys * 2})
    store = CountingStore()
    segment = write_keyed(store, data, groups, owned, ABOUT)
    assert (store.parts == 1) == is_one_part

    some = KeyGroupRange(10, 20)
    found_groups, found = read_keyed(open_segment_source("/nowhere"), segment, some)
    wanted = np.flatnonzero((groups >= some.start) & (groups <= some.end))
    wanted = wanted[np.argsort(groups[wanted], kind="stable")]
    assert found_groups.tolist() == groups[wanted].tolist()
    assert found["key"].to_pylist() == keys[wanted].tolist(), "rows of one group stay in their order"
    assert found["value"].to_pylist() == (keys[wanted] * 2).tolist()
