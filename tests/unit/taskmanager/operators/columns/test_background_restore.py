"""Running aggregates whose state is loaded while rows come: the same results, and nothing comes before the rows that wait."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.unit.taskmanager.operators.harness import Pool, Running, spec, start
from tidegate.common.typeinfo import ArrowTypeInfo
from tidegate.model.checkpoint import CheckpointOptions, OperatorSnapshot, RestoredOperator
from tidegate.model.errors import CorruptData
from tidegate.records.batch import ArrowBatch
from tidegate.store.segments import open_segment_source, open_segment_store
from tidegate.taskmanager.keyed_state.columns.state import ColumnarKeyedState
from tidegate.taskmanager.operators.columns import aggregate as columnar_aggregate
from tidegate.taskmanager.operators.columns.aggregate import ColumnarAggregate
from tidegate.taskmanager.operators.operator import Ending

KEYS = 2000
SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64())])
AGGREGATE = spec(
    "columnar_aggregate",
    options={"keys": ["k"], "aggregates": [("n", "count", None), ("s", "sum", "v")]},
    input_types=(ArrowTypeInfo(SCHEMA),),
)
SHARED = CheckpointOptions("chk", shared_location="shared")


class Job:
    """One subtask, its files, and the thread in which it reads."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.number = 0
        self.pool = Pool()
        self.running = start(AGGREGATE)
        (directory / "shared").mkdir()

    def snapshot(self) -> OperatorSnapshot:
        self.number += 1
        location = self.directory / f"chk-{self.number}"
        location.mkdir()
        store: Any = open_segment_store(
            str(location), "a", self.number, 100, shared_location=str(self.directory / "shared")
        )
        self.running.operator.context.checkpoint_options = SHARED
        found = self.running.snapshot(self.number, store)
        self.running.operator.notify_checkpoint_complete(self.number)
        return found

    def restart(self, snapshot: OperatorSnapshot, *, has_thread: bool = True) -> None:
        self.running.operator.close()
        self.pool = Pool()
        given: dict[str, Any] = {"segments": open_segment_source(str(self.directory / f"chk-{self.number}"))}
        if has_thread:
            given["run_async"] = self.pool.submit
        restored = RestoredOperator(keyed=snapshot.keyed)
        self.running = start(AGGREGATE, restored=restored, restored_id=self.number, given=given)


@pytest.fixture(autouse=True)
def nothing_is_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columnar_aggregate, "ColumnarKeyedState", partial(ColumnarKeyedState, eager_bytes=0))
    monkeypatch.setattr("tidegate.taskmanager.keyed_state.columns.restored_groups.STEP_ROWS", 16)
    monkeypatch.setattr("tidegate.taskmanager.keyed_state.columns.snapshot.PIECE_ROWS", 256)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """Restored, with every key once."""
    found = Job(tmp_path)
    feed(found.running, range(KEYS))
    found.restart(found.snapshot())
    return found


def feed(running: Running, keys: Sequence[int], value: int = 1) -> None:
    """Most of what the operator emits for these rows is checked later."""
    texts = pa.array([f"key {key}" for key in keys])
    data = pa.RecordBatch.from_arrays([texts, pa.array(np.full(len(keys), value), pa.int64())], schema=SCHEMA)
    running.operator.process(ArrowBatch(data), 0)


def emitted(running: Running) -> dict[str, int]:
    """The last count of each key, and that counts of a key ascend."""
    found: dict[str, int] = {}
    for row in running.out.values():
        assert row["n"] > found.get(row["k"], 0)
        found[row["k"]] = row["n"]
    return found


def finish_loading(job: Job) -> None:
    while job.pool.jobs:
        job.pool.run_one()


@pytest.mark.parametrize("seed", range(4))
def test_results_are_exact_whenever_groups_are_loaded_and_snapshots_are_taken(seed: int, tmp_path: Path) -> None:
    rng, job = random.Random(seed), Job(tmp_path)
    counts = dict.fromkeys(range(KEYS), 0)
    last: dict[str, int] = {}
    for _ in range(60):
        act = rng.random()
        if act < 0.5:
            keys = [rng.randrange(KEYS) for _ in range(rng.choice([1, 20, 700]))]
            feed(job.running, keys)
            for key in keys:
                counts[key] += 1
        elif act < 0.8:
            for _ in range(rng.choice([1, 5, 30])):
                if job.pool.jobs:
                    job.pool.run_one()
        else:
            snapshot = job.snapshot()
            last |= emitted(job.running)
            assert last == {f"key {key}": count for key, count in counts.items() if count}
            if act < 0.95:
                job.restart(snapshot, has_thread=rng.random() < 0.7)
    finish_loading(job)
    last |= emitted(job.running)
    assert last == {f"key {key}": count for key, count in counts.items() if count}


def test_rows_of_each_key_group_are_worked_on_as_soon_as_it_is_loaded(job: Job) -> None:
    operator, out = job.running.operator, job.running.out
    feed(job.running, range(KEYS))
    assert out.batches == []
    assert not operator.has_room(), "rows wait, so no more are taken"
    before = 0
    while not operator.has_room():
        assert operator.ending() is Ending.IN_FLIGHT
        job.pool.run_one()
        assert len(emitted(job.running)) >= before
        before = len(emitted(job.running))
    assert emitted(job.running) == {f"key {key}": 2 for key in range(KEYS)}
    assert len(out.batches) > 50, "one by one"
    assert out.gauges["restoredRowsToLoad"] == 0
    assert job.pool.jobs == []


def test_the_group_that_most_rows_wait_for_comes_first(job: Job) -> None:
    feed(job.running, [7] * 3 + [8, 9, 10, 11, 12])
    for _ in range(6):  # what was begun before is first
        job.pool.run_one()
    assert "key 7" in emitted(job.running)
    feed(job.running, [7])
    assert emitted(job.running)["key 7"] == 5, "a loaded group waits for nothing"


@pytest.mark.parametrize("event", ["watermark", "idle", "snapshot", "end"])
def test_what_comes_behind_rows_does_not_overtake_them(event: str, job: Job) -> None:
    feed(job.running, range(KEYS))
    operator, out = job.running.operator, job.running.out
    match event:
        case "watermark":
            operator.on_watermark(5)
            assert out.order[-1] == "watermark"
            assert out.order.count("watermark") == 1
        case "idle":
            operator.on_idle(True)
        case "snapshot":
            operator.prepare_snapshot(2)
        case _:
            while operator.ending() is Ending.IN_FLIGHT:
                assert operator.emit_some()
            operator.finish()
    assert emitted(job.running) == {f"key {key}": 2 for key in range(KEYS)}
    finish_loading(job)
    assert len(emitted(job.running)) == KEYS


def test_without_rows_everything_is_loaded_and_without_another_thread_what_is_asked_for(job: Job) -> None:
    snapshot = job.snapshot()
    finish_loading(job)
    assert isinstance(job.running.operator, ColumnarAggregate)
    assert job.running.operator.state.keys == KEYS
    assert len(job.running.operator.state.rows) == KEYS
    job.restart(snapshot, has_thread=False)
    feed(job.running, [3])
    assert emitted(job.running) == {"key 3": 2}
    assert isinstance(job.running.operator, ColumnarAggregate)
    assert 0 < len(job.running.operator.state.rows) < 200
    assert KEYS <= job.running.operator.state.keys < KEYS + 200


def test_a_damaged_file_fails_the_task_and_names_itself(tmp_path: Path) -> None:
    job = Job(tmp_path)
    feed(job.running, range(KEYS))
    snapshot = job.snapshot()
    path = Path(snapshot.keyed[0].handle.path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(CorruptData, match=re.escape(path.name)):
        restart_and_load(job, snapshot)


def restart_and_load(job: Job, snapshot: OperatorSnapshot) -> None:
    job.restart(snapshot)
    finish_loading(job)


def test_a_task_that_ends_meanwhile_loads_no_more(job: Job) -> None:
    feed(job.running, range(KEYS))
    job.running.operator.close()
    finish_loading(job)
    assert job.running.out.batches == []
