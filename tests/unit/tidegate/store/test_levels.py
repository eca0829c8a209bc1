"""State with levels reads as if it had been written whole, in the reader, in a difference, and by the documented code."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.unit.docs.documented import code_of
from tidegate.columnar.table.reserved import RowMemory
from tidegate.model.checkpoint import CheckpointManifest, CheckpointOptions, OperatorState, SnapshotType
from tidegate.model.ids import CheckpointId, JobId, OperatorId
from tidegate.model.keygroups import range_of
from tidegate.state_reader import compare, open_checkpoint
from tidegate.store.checkpoints import CheckpointStorage
from tidegate.store.levels import merged
from tidegate.store.segments import open_segment_store
from tidegate.taskmanager.keyed_state.columns.state import ColumnarKeyedState
from tidegate.taskmanager.state.files import segment_streams
from tidegate.wire.state_columns import is_identity

MAX_PARALLELISM = 16
SMALL = RowMemory(capacity=1 << 14)
KEYS = [pa.field("k", pa.string())]
VALUES = [pa.field("total", pa.int64(), nullable=False)]


class Job:
    """Two subtasks with columnar state, checkpointed into a directory; every checkpoint is confirmed."""

    def __init__(self, directory: Path, inline_bytes: int = 0) -> None:
        self.directory = directory
        self.inline_bytes = inline_bytes
        owned = [range_of(index, MAX_PARALLELISM, 2) for index in range(2)]
        self.states = [
            ColumnarKeyedState("op", KEYS, VALUES, groups, MAX_PARALLELISM, memory=SMALL) for groups in owned
        ]
        self.model: dict[str, int] = {}
        (directory / "shared").mkdir()

    def write(self, changes: dict[str, int]) -> None:
        from tidegate.columnar.keys.hashing import hash_columns, key_groups
        from tidegate.model.keygroups import subtask_of

        self.model.update(changes)
        keys, totals = pa.array(list(changes)), np.array(list(changes.values()), np.int64)
        groups = key_groups(hash_columns([keys]), MAX_PARALLELISM)
        owners = np.array([subtask_of(int(group), MAX_PARALLELISM, 2) for group in groups])
        for index, state in enumerate(self.states):
            mine = np.flatnonzero(owners == index)
            if len(mine):
                state.rows.put(state.rows.locate([keys.take(pa.array(mine))]), [(totals[mine], None)])

    def checkpoint(self, number: int) -> Path:
        location = self.directory / f"chk-{number}"
        location.mkdir()
        options = CheckpointOptions(str(location), shared_location=str(self.directory / "shared"))
        subtasks = {}
        for index, state in enumerate(self.states):
            store = open_segment_store(
                str(location), f"a{index}", number, self.inline_bytes, shared_location=options.shared_location
            )
            frozen = state.freeze(number, options)
            subtasks[index] = frozen.write(store)
            frozen.release()
            state.increments.confirmed(number)
        operator = OperatorState(OperatorId("a" * 32), "totals", "op", 2, MAX_PARALLELISM, subtasks)
        manifest = CheckpointManifest(
            JobId("f" * 32), "job", CheckpointId(number), 0, SnapshotType.CHECKPOINT, (operator,)
        )
        assert CheckpointStorage().write_manifest(str(location), manifest).error is None
        return location


def contents(table: pa.Table) -> dict[str, int]:
    found = dict(zip(table["key.k"].to_pylist(), table["value.total"].to_pylist(), strict=True))
    assert len(found) == table.num_rows
    return found


@pytest.mark.parametrize(("inline_bytes", "file_bytes"), [(0, 64 << 20), (20 << 10, 64 << 20), (0, 5000)])
def test_a_checkpoint_with_many_levels_reads_as_one_table(
    tmp_path: Path, inline_bytes: int, file_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_streams, "FILE_BYTES", file_bytes)
    rng, job = random.Random(4), Job(tmp_path, inline_bytes)
    job.write({f"key {i}": i for i in range(4000)})
    names: dict[str, Any] = {}
    exec(code_of("pyarrow"), names)
    levels = set()
    for number in range(1, 12):
        before = dict(job.model)
        location = job.checkpoint(number)
        checkpoint = open_checkpoint(str(location))
        state = checkpoint.operator("totals").state("aggregates")
        levels |= {segment.level for segment in state.segments}
        assert contents(checkpoint.table_of(state)) == before
        assert checkpoint.rows_in(state) == len(before)
        assert checkpoint.kind_of(state) == "columnar_keyed"
        assert contents(names["read_state"](str(location), "totals", "aggregates")) == before
        job.write({f"key {rng.randrange(4100)}": number for _ in range(30)})
    assert len(levels) > 4


@pytest.mark.parametrize("file_bytes", [64 << 20, 1])
def test_a_difference_sees_through_levels(tmp_path: Path, file_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_streams, "FILE_BYTES", file_bytes)
    job = Job(tmp_path)
    job.write({f"key {i}": i for i in range(500)})
    first = job.checkpoint(1)
    job.write({"key 7": 70, "new": 1})
    second = job.checkpoint(2)
    third = job.checkpoint(3)
    (found,) = compare(open_checkpoint(str(first)), open_checkpoint(str(second)))
    assert (found.before, found.after, found.added, found.removed, found.changed) == (500, 501, 1, 0, 1)
    (same,) = compare(open_checkpoint(str(second)), open_checkpoint(str(third)))
    assert same.is_same


def table(**columns: list[Any]) -> pa.Table:
    return pa.table({"key_group": pa.array([0] * len(columns["key"]), pa.int32()), **columns})


@pytest.mark.parametrize(
    "keys",
    [
        [1, 2, None, 3],
        ["a", "b", "", None],
        [{"f0": 1, "f1": "a"}, {"f0": 1, "f1": None}, None, {"f0": None, "f1": "a"}],
        [[1], [1, 2], [], None],
        [b"1", b"2", b"\0", None],
        [0.5, float("nan"), float("inf"), None],
    ],
    ids=lambda keys: type(keys[0]).__name__,
)
def test_rows_replace_and_remove_those_below(keys: list[Any]) -> None:
    base = table(key=keys, window_start=[5] * 4, value=[1, 2, 3, 4])
    other = table(key=keys[:1], window_start=[6], value=[9], deleted=[False])
    change = table(key=keys[1:3], window_start=[5, 5], value=[20, None], deleted=[False, True])
    again = table(key=keys[2:3], window_start=[5], value=[33], deleted=[False])
    found = merged([base, other, change], is_identity)
    assert found.schema.names == ["key_group", "key", "window_start", "value"]
    assert found["value"].to_pylist() == [1, 4, 9, 20]
    assert merged([base, other, change, again], is_identity)["value"].to_pylist() == [1, 4, 9, 20, 33]


def test_nothing_is_left() -> None:
    base, gone = table(key=[1], value=[1]), table(key=[1], value=[None], deleted=[True])
    assert merged([base, gone], is_identity).num_rows == 0
    assert merged([base.slice(0, 0)], is_identity).num_rows == 0
