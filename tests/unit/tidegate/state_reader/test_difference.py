from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from tidegate.model.checkpoint import (
    CheckpointManifest,
    OperatorSnapshot,
    OperatorState,
    SegmentHandle,
    SnapshotType,
    StateHandle,
    StateRedistribution,
)
from tidegate.model.errors import CorruptData
from tidegate.model.ids import CheckpointId, JobId, OperatorId
from tidegate.model.keygroups import KeyGroupRange, range_of
from tidegate.state_reader import Checkpoint, StateDifference, compare, open_checkpoint
from tidegate.state_reader.difference import JOIN_ROWS
from tidegate.store.segments import InlineSegmentStore, open_segment_source
from tidegate.taskmanager.state.files.segments import (
    ELEMENT,
    MSGPACK,
    StateDescription,
    element_schema,
    write_elements,
    write_keyed,
)

ABOUT = StateDescription("count", "total", "value")
SCHEMA = element_schema(pa.field(ELEMENT, pa.binary(), metadata=MSGPACK), ABOUT)


class CountingSource:
    def __init__(self) -> None:
        self.reads = 0
        self.source = open_segment_source("/nowhere")

    def read(self, handle: StateHandle) -> memoryview:
        self.reads += 1
        return self.source.read(handle)


def keyed(values: Mapping[int, object], groups: KeyGroupRange, max_parallelism: int) -> SegmentHandle:
    """Key k is of group ``k % max_parallelism``."""
    mine = sorted((k % max_parallelism, k) for k in values if groups.start <= k % max_parallelism <= groups.end)
    batch = pa.RecordBatch.from_pydict({"key": [k for _, k in mine], "value": [values[k] for _, k in mine]})
    return write_keyed(InlineSegmentStore(), batch, np.array([g for g, _ in mine], np.int32), groups, ABOUT)


def checkpoint(
    values: Mapping[int, object],
    *,
    parallelism: int = 2,
    max_parallelism: int = 4,
    elements: Sequence[object] = (),
    operator: str = "a",
) -> Checkpoint:
    subtasks = {}
    for index in range(parallelism):
        segment = keyed(values, range_of(index, max_parallelism, parallelism), max_parallelism)
        subtasks[index] = OperatorSnapshot(keyed=(segment,))
    if elements:
        array = pa.array([msgspec.msgpack.encode(element) for element in elements], pa.binary())
        handle = write_elements(InlineSegmentStore(), array, SCHEMA, StateRedistribution.SPLIT, ABOUT)
        subtasks[0] = OperatorSnapshot(subtasks[0].keyed, (handle,))
    state = OperatorState(OperatorId(operator * 32), operator, "count", parallelism, max_parallelism, subtasks)
    manifest = CheckpointManifest(JobId("f" * 32), "job", CheckpointId(1), 0, SnapshotType.CHECKPOINT, (state,))
    return Checkpoint("/nowhere", manifest, CountingSource())


def the_difference(first: Checkpoint, second: Checkpoint) -> StateDifference:
    (found,) = compare(first, second)
    return found


@pytest.mark.parametrize(("parallelism", "max_parallelism"), [(2, 4), (3, 4), (1, 4), (2, 8)])
def test_entries_are_matched_by_key_also_after_a_rescale(parallelism: int, max_parallelism: int) -> None:
    before = checkpoint({k: k for k in range(20)})
    values = {**{k: k for k in range(2, 22)}, 7: 70}
    after = checkpoint(values, parallelism=parallelism, max_parallelism=max_parallelism)
    found = the_difference(before, after)
    assert (found.before, found.after) == (20, 20)
    assert (found.added, found.removed, found.changed) == (2, 2, 1)
    assert sorted(row["key"] for row in found.added_examples) == [20, 21]
    assert sorted(row["key"] for row in found.removed_examples) == [0, 1]
    assert found.changed_examples == [({"key": 7, "value": 7}, {"key": 7, "value": 70})]


def test_segments_that_are_the_same_are_not_read() -> None:
    before, after = checkpoint({k: k for k in range(8)}), checkpoint({**{k: k for k in range(8)}, 0: 1})
    assert the_difference(before, after).changed == 1
    assert isinstance(before.source, CountingSource)
    assert before.source.reads == 1


def test_nan_is_nan_and_null_is_null() -> None:
    before, after = checkpoint({1: float("nan"), 2: None, 3: 1.0}), checkpoint({1: float("nan"), 2: None, 3: 2.0})
    assert the_difference(before, after).changed == 1


@pytest.mark.parametrize("as_value", [lambda v: v, lambda v: [v, None]], ids=["flat", "nested"])
def test_many_rows_in_a_group_are_compared_alike(as_value: Callable[[object], object]) -> None:
    values: dict[int, object] = {k: as_value(float(k)) for k in range(4 * JOIN_ROWS)}
    old = {**values, 1: as_value(float("nan")), 2: None, 3: as_value(3.0)}
    new = {**values, 1: as_value(float("nan")), 2: None, 3: as_value(4.0), -1: as_value(1.0)}
    found = the_difference(checkpoint(old, max_parallelism=2), checkpoint(new, max_parallelism=2))
    assert (found.added, found.removed, found.changed) == (1, 0, 1)
    assert found.changed_examples == [({"key": 3, "value": as_value(3.0)}, {"key": 3, "value": as_value(4.0)})]


def test_elements_come_and_go() -> None:
    found = list(compare(checkpoint({}, elements=[["a", 1], "b", "b"]), checkpoint({}, elements=[["a", 2], "b"])))
    assert [(one.added, one.removed, one.changed) for one in found] == [(0, 0, 0), (1, 2, 0)]
    assert found[1].added_examples == [{"element": ["a", 2]}]
    assert found[1].removed_examples == [{"element": ["a", 1]}, {"element": "b"}]


def test_an_operator_of_one_side_only_is_added_or_removed() -> None:
    found = list(compare(checkpoint({1: 1}), checkpoint({1: 1, 2: 2}, operator="b")))
    assert [(one.operator, one.added, one.removed) for one in found] == [("a", 0, 1), ("b", 2, 0)]


def test_examples_are_limited_and_counts_are_not() -> None:
    (found,) = compare(checkpoint({}), checkpoint({k: k for k in range(20)}), examples=2)
    assert (found.added, len(found.added_examples)) == (20, 2)


def test_a_file_whose_key_groups_are_not_those_of_its_index_is_corrupt() -> None:
    good = checkpoint({k: k for k in range(8)}, parallelism=1)
    (state,) = good.operators[0].states
    (segment,) = state.segments
    wrong = SegmentHandle(segment.state_name, segment.key_groups, (0, 1, 4, 6, 8), segment.handle)
    with pytest.raises(CorruptData, match="state 'total' inside /nowhere/_metadata: its key groups are not those"):
        good.rows_of(wrong)


def test_two_real_checkpoints(locations: list[str]) -> None:
    first, second = map(open_checkpoint, locations)
    found = {(one.operator, one.state): one for one in compare(first, second)}
    assert found["remember", "count"].changed == found["windows", "windows"].changed == 10
    assert found["remember", "_timers.event"].is_same
    assert (found["rows", "splits"].added, found["rows", "splits"].removed) == (2, 2)
    assert all(one.is_same for one in compare(first, first))
