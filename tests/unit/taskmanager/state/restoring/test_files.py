"""Files of a restored state by key group: what is read is of that group, verified, and nothing else is read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tidegate.model.checkpoint import SegmentHandle
from tidegate.model.errors import CorruptData
from tidegate.model.keygroups import KeyGroupRange
from tidegate.store.segments import open_segment_source, open_segment_store
from tidegate.taskmanager.state.files.segment_streams import write_segments
from tidegate.taskmanager.state.files.segments import StateDescription
from tidegate.taskmanager.state.restoring.files import RestoredFiles, opened_for_parts, read_slice, slices

OWNED = KeyGroupRange(2, 5)
ROWS = {2: 5, 3: 0, 4: 9, 5: 1}
ABOUT = StateDescription("op", "numbers", "value")


def written(tmp_path: Path, level: int = 0, *, compresses: bool = False, inline_bytes: int = 0) -> list[SegmentHandle]:
    """Numbers in batches of four rows."""
    store = open_segment_store(str(tmp_path), f"a{level}", 1, inline_bytes, compresses=compresses)
    groups = np.repeat(np.array(list(ROWS), np.int32), list(ROWS.values()))
    data = pa.RecordBatch.from_pydict({"n": pa.array(range(len(groups)), pa.int64())})
    return list(write_segments(store, ABOUT, iter([(groups, data)]), OWNED, level, batch_rows=4))


def opened(tmp_path: Path, segments: list[SegmentHandle]) -> RestoredFiles:
    parts = opened_for_parts(segments, open_segment_source(str(tmp_path)), "", lambda part: True)
    assert parts is not None
    return RestoredFiles(parts)


def test_the_rows_of_a_group_come_in_slices_of_one_batch(tmp_path: Path) -> None:
    files = opened(tmp_path, written(tmp_path))
    assert files.rows_of(OWNED) == ROWS
    found: dict[int, list[list[int]]] = {}
    for group in ROWS:
        files.need(group)
        (part,) = files.of(group)
        found[group] = [read_slice(one, group).column("n").to_pylist() for one in slices(part, group, 3)]
    assert found == {2: [[0, 1, 2], [3], [4]], 3: [], 4: [[5, 6, 7], [8, 9, 10], [11], [12, 13]], 5: [[14]]}


def test_levels_come_from_the_lowest_on_and_count_together(tmp_path: Path) -> None:
    newer, older = written(tmp_path, 1), written(tmp_path)
    files = opened(tmp_path, [*newer, *older])
    assert [part.segment.level for part in files.of(4)] == [0, 1]
    assert files.rows_of(KeyGroupRange(4, 5)) == {4: 18, 5: 2}
    assert files.of(7) == []


def test_rows_of_another_group_are_refused_by_name(tmp_path: Path) -> None:
    (segment,) = written(tmp_path)
    wrong = replace(segment, offsets=(0, 6, 6, 14, 15))
    files = opened(tmp_path, [wrong])
    (part,) = files.of(2)
    with pytest.raises(CorruptData, match=f"{segment.handle.path}: its rows .* are not of key group 2; "):
        [read_slice(one, 2) for one in slices(part, 2, 8)]


def test_what_cannot_be_read_in_parts_is_read_at_once(tmp_path: Path) -> None:
    source = open_segment_source(str(tmp_path))
    assert opened_for_parts(written(tmp_path, 3, compresses=True), source, "", lambda part: True) is None
    assert opened_for_parts(written(tmp_path, 4, inline_bytes=1 << 20), source, "", lambda part: True) is None
    assert opened_for_parts(written(tmp_path, 5), source, "", lambda part: False) is None
    assert opened_for_parts([], source, "", lambda part: True) is None
