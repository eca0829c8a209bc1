"""Windows over columns that were written by their changes read as if they had been written whole: in the reader, in a
difference, and by the documented code."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.docs.documented import code_of
from tests.unit.taskmanager.keyed_state.columns.stores import Store
from tests.unit.taskmanager.windows.state.test_window_increments import (
    SIZE_MS,
    Content,
    Job,
    operator_state,
    some,
)
from tidegate.model.checkpoint import CheckpointManifest, CheckpointOptions, SnapshotType
from tidegate.model.ids import CheckpointId, JobId
from tidegate.state_reader import compare, open_checkpoint
from tidegate.store.checkpoints import CheckpointStorage
from tidegate.store.segments import open_segment_store


def checkpoint(job: Job, directory: Path, number: int, inline_bytes: int = 0) -> str:
    location = directory / f"chk-{number}"
    location.mkdir(parents=True)
    (directory / "shared").mkdir(exist_ok=True)
    shared = str(directory / "shared")
    options = CheckpointOptions(str(location), shared_location=shared)
    snapshots = {}
    for index, frozen in enumerate(job.freeze(number, options)):
        store = open_segment_store(str(location), f"a{index}", number, inline_bytes, shared_location=shared)
        snapshots[index] = frozen.write(store)
        job.states[index].confirmed(number)
    manifest = CheckpointManifest(
        JobId("f" * 32),
        "job",
        CheckpointId(number),
        0,
        SnapshotType.CHECKPOINT,
        (operator_state(snapshots, job.parallelism),),
    )
    assert CheckpointStorage().write_manifest(str(location), manifest).error is None
    return str(location)


def content(table: pa.Table) -> Content:
    columns = ("window_start", "key.k", "value.n", "value.total", "value.least")
    rows = list(zip(*(table[name].to_pylist() for name in columns), strict=True))
    found = {(start // SIZE_MS, key): (n, total, least) for start, key, n, total, least in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.parametrize("inline_bytes", [0, 20 << 10])
def test_levels_of_windows_read_as_one_table(tmp_path: Path, inline_bytes: int) -> None:
    rng, job = random.Random(5), Job(Store(), 2)
    job.add(some(rng, 0, 4000, 2000))
    names: dict[str, Any] = {}
    exec(code_of("pyarrow"), names)
    levels = set()
    for number in range(1, 14):
        location = checkpoint(job, tmp_path, number, inline_bytes)
        opened = open_checkpoint(location)
        state = opened.operator("windows").state("windows")
        levels |= {segment.level for segment in state.segments}
        table = opened.table_of(state)
        assert content(table) == job.model
        assert table["value.mean__count"].to_pylist() == table["value.n"].to_pylist()
        assert opened.rows_in(state) == len(job.model)
        assert opened.kind_of(state) == "columnar_windows"
        assert content(names["read_state"](location, "windows", "windows")) == job.model
        if number % 3 == 0:
            job.fire(job.ended + 1)
        if number % 4:
            job.add(some(rng, max(job.ended, 0), 40, 2000))
    assert len(levels) > 3


def test_a_difference_sees_what_was_added_and_what_has_fired(tmp_path: Path) -> None:
    job = Job(Store(), 1)
    job.add({(window, key): (1, key, key) for window in (0, 1) for key in range(500)})
    first = checkpoint(job, tmp_path, 1)
    job.add({(1, 7): (1, 1, 1), (2, 7): (1, 1, 1)})
    second = checkpoint(job, tmp_path, 2)
    third = checkpoint(job, tmp_path, 3)
    job.fire(0)
    fourth = checkpoint(job, tmp_path, 4)
    opened = [open_checkpoint(place) for place in (first, second, third, fourth)]
    assert {s.level for s in opened[3].operator("windows").state("windows").segments} == {0, 1, 2}
    (added,) = compare(opened[0], opened[1])
    assert (added.before, added.after, added.added, added.removed, added.changed) == (1000, 1001, 1, 0, 1)
    (same,) = compare(opened[1], opened[2])
    assert same.is_same
    (fired,) = compare(opened[2], opened[3])
    assert (fired.before, fired.after, fired.added, fired.removed, fired.changed) == (1001, 501, 0, 500, 0)
