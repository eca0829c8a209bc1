"""Sessions of columns against a plain model, row by row: any disorder, watermarks and late rows, with memory for a few
rows, restored at any time and parallelism."""

from __future__ import annotations

import gc
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.docs.documented import code_of
from tests.unit.taskmanager.operators.harness import MemoryStore, Running, restored_of, spec, start
from tests.unit.taskmanager.windows.columns.test_windows import exchange
from tidegate.columnar.keys.hashing import hash_columns, key_groups
from tidegate.columnar.runs.memory import order_of_pairs
from tidegate.model.channel_events import END_OF_TIME, NO_WATERMARK
from tidegate.model.checkpoint import CheckpointOptions, OperatorSnapshot, SnapshotType
from tidegate.model.errors import ConfigurationError, StorageError
from tidegate.model.keygroups import KeyGroupRange
from tidegate.records.batch import ArrowBatch
from tidegate.store.levels import as_one, stacks
from tidegate.taskmanager.state.files.segments import StateDescription, write_keyed
from tidegate.taskmanager.windows.state import buckets, windows
from tidegate.taskmanager.windows.state.buckets import WindowBuckets
from tidegate.taskmanager.windows.state.sessions.rows import HashFilter
from tidegate.wire.state_columns import is_identity

AGGREGATES = [("n", "count", None), ("s", "sum", "v"), ("hi", "max", "v")]
Session = tuple[Any, int, int, int, int, int]
"""Key, start, end, count, sum, largest."""


def subtasks(parallelism: int, budget: int, directory: Path, **more: Any) -> list[Running]:
    options = {"gap_ms": 1, "keys": ["k"], "aggregates": AGGREGATES, "input": "partial"}
    given = {"managed_memory_bytes": budget, "temp_dir": str(directory)}
    return [
        start(spec("columnar_session", options=options), i, parallelism, given=given, **more)
        for i in range(parallelism)
    ]


def partials(rows: list[Session]) -> ArrowBatch:
    names = ("k", "window_start", "window_end", "n", "s", "hi")
    return ArrowBatch(pa.RecordBatch.from_arrays([pa.array(column) for column in zip(*rows, strict=True)], names=names))


@dataclass
class Model:
    """What is open, by key; what was emitted; how many rows were late."""

    open: list[Session] = field(default_factory=list)
    emitted: list[Session] = field(default_factory=list)
    late: int = 0
    watermark: int = NO_WATERMARK

    def come(self, rows: list[Session]) -> None:
        """A row is late if, with all that it touches directly or not, its session has ended."""
        held, self.open = {id(one) for one in self.open}, [*self.open, *rows]
        groups: list[list[Session]] = []
        for one in sorted(self.open, key=lambda row: (repr(row[0]), row[1])):
            if groups and groups[-1][0][0] == one[0] and one[1] <= max(row[2] for row in groups[-1]):
                groups[-1].append(one)
            else:
                groups.append([one])
        self.open = []
        for group in groups:
            merged = merge(group)
            if merged[2] - 1 > self.watermark or any(id(one) in held for one in group):
                self.open.append(merged)
            else:
                self.late += merged[3]

    def pass_to(self, watermark: int) -> None:
        self.watermark = watermark
        self.emitted += [one for one in self.open if one[2] - 1 <= watermark]
        self.open = [one for one in self.open if one[2] - 1 > watermark]


def merge(group: list[Session]) -> Session:
    key, starts, ends, counts, sums, largest = zip(*group, strict=True)
    return (key[0], min(starts), max(ends), sum(counts), sum(sums), max(largest))


def results(running: list[Running]) -> list[Session]:
    names = ("k", "window_start", "window_end", "n", "s", "hi")
    return sorted((tuple(row[n] for n in names) for one in running for row in one.out.values()), key=repr)


SHARED = CheckpointOptions("chk", shared_location="shared")
SAVEPOINT = CheckpointOptions("chk", SnapshotType.SAVEPOINT, is_full=True)


def checkpoint(running: list[Running], number: int, options: CheckpointOptions) -> list[OperatorSnapshot]:
    for one in running:
        one.operator.context.checkpoint_options = options
    return [one.snapshot(number) for one in running]


def read_by_others(handles: list[OperatorSnapshot]) -> list[Session]:
    """What a reader of the checkpoint sees."""
    found = []
    for stack in stacks([segment for handle in handles for segment in handle.keyed]):
        files = [pa.ipc.open_file(pa.py_buffer(segment.handle.data)).read_all() for segment in stack]
        parts = [rows.slice(s.offsets[0], s.offsets[-1] - s.offsets[0]) for rows, s in zip(files, stack, strict=True)]
        table = as_one(parts, [segment.key_groups for segment in stack], is_identity) if len(parts) > 1 else parts[0]
        if stack[-1].level:
            lines: dict[str, Any] = {}
            exec(code_of("pyarrow"), lines)
            theirs = lines["of_each_key"]([(s.level, rows, s.key_groups) for s, rows in zip(stack, parts, strict=True)])
            assert sorted(map(repr, theirs.to_pylist())) == sorted(map(repr, table.to_pylist()))
        names = ("key.k", "window_start", "window_end", "value.n", "value.s", "value.hi")
        found += [tuple(row[name] for name in names) for row in table.to_pylist()]
    return sorted(found, key=repr)


def run(seed: int, budget: int, directory: Path, is_text: bool) -> tuple[float, int]:
    """Returns the most bytes that were on disk, and the highest level of a file."""
    rng, model, past, most = np.random.default_rng(seed), Model(), [], 0.0
    highest = 0
    running = subtasks(2, budget, directory)
    now, late = 0, 0
    for number in range(40):
        rows: list[Session] = []
        for _ in range(int(rng.integers(1, 50))):
            key, begin = int(rng.integers(0, 60)), now + int(rng.integers(-120, 90))
            value = int(rng.integers(-9, 9))
            name = f"key {key}" if is_text else key * 2**40
            rows.append((name, begin, begin + int(rng.choice([1, 5, 40])), int(rng.integers(1, 3)), value, value))
        model.come(rows)
        exchange([partials(rows)], ["k"], running)
        now += int(rng.integers(0, 30))
        most = max([most, *(one.out.watched["stateBytesOnDisk"]() for one in running)])
        if rng.random() < 0.6:
            model.pass_to(now - int(rng.integers(40, 80)))
            for one in running:
                one.operator.on_watermark(model.watermark)
        if rng.random() < 0.4:
            checkpoint(running, 10 * number, SHARED)
            for one in running:
                if rng.random() < 0.7:
                    one.operator.notify_checkpoint_complete(10 * number)
                else:
                    one.operator.notify_checkpoint_aborted(10 * number)
        if rng.random() < 0.15:
            handles = checkpoint(running, 10 * number + 1, SHARED if rng.random() < 0.8 else SAVEPOINT)
            assert read_by_others(handles) == sorted(model.open, key=repr)
            highest = max([highest, *(segment.level for handle in handles for segment in handle.keyed)])
            past += running
            late = sum(one.out.counts.get("numLateRecordsDropped", 0) for one in past)
            running = subtasks(
                int(rng.integers(1, 4)), budget, directory, restored=restored_of(handles), restored_id=10 * number + 1
            )
            model.watermark = NO_WATERMARK  # which comes again with the next one
    model.pass_to(END_OF_TIME)
    for one in running:
        one.operator.on_watermark(END_OF_TIME)
    assert results([*past, *running]) == sorted(model.emitted, key=repr)
    late = sum(one.out.counts.get("numLateRecordsDropped", 0) for one in [*past, *running])
    assert late == model.late
    for one in running:
        assert one.out.watched["stateRows"]() == one.out.watched["stateBytes"]() == 0
    return most, highest


@pytest.mark.parametrize("is_text", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_whatever_happens_each_session_is_that_of_the_model(
    seed: int, is_text: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With buckets of a few rows, in memory and on disk."""
    monkeypatch.setattr(buckets, "INBOX_ROWS", 64)
    monkeypatch.setattr(windows, "WindowBuckets", partial(WindowBuckets, bucket_rows=100, min_merge_rows=30))
    on_disk, level = run(seed, 0, tmp_path, is_text)
    assert on_disk == 0
    spilled, spilled_level = run(seed + 100, 5_000, tmp_path, is_text)
    assert spilled > 3_000
    assert max(level, spilled_level) > 0, "some were written by their changes"
    gc.collect()
    assert not list(tmp_path.iterdir()), "files go with their rows"


def test_a_session_on_disk_goes_on_in_memory_and_is_emitted_once(tmp_path: Path) -> None:
    """Watermarks pass the end of what is on disk again and again; the session's last row ends it."""
    (one,) = subtasks(1, 9_000, tmp_path)
    for at in range(0, 300, 10):
        others = [(f"other {i} {at}", 5_000, 5_100, 1, 1, 1) for i in range(40)]
        one.operator.process(partials([("a", at, at + 15, 1, at, at), *others]), 0)
        one.operator.on_watermark(at)
    assert one.out.watched["stateBytesOnDisk"]() > 9_000
    assert not results([one])
    one.operator.on_watermark(304)
    assert results([one]) == [("a", 0, 305, 30, sum(range(0, 300, 10)), 290)]


def test_memory_that_is_too_small_and_a_directory_that_is_gone_are_one_error_each(tmp_path: Path) -> None:
    rows = [(f"key {i}", 0, 10, 1, 1, 1) for i in range(200)]
    (one,) = subtasks(1, 1_000, tmp_path)
    with pytest.raises(ConfigurationError, match="operator 'op': a batch of .* bytes does not fit into the 750 bytes"):
        one.operator.process(partials(rows), 0)
    (one,) = subtasks(1, 20_000, tmp_path / "gone")
    one.operator.process(partials(rows), 0)
    with pytest.raises(StorageError, match="operator 'op': .* bytes of its windows cannot be written to .*gone"):
        one.operator.process(partials([(f"other {row[0]}", *row[1:]) for row in rows]), 0)


def test_many_sessions_that_last_are_put_back_into_little_memory(tmp_path: Path) -> None:
    """Their first rows, which are on disk and end all at once, take more than may be held; none of their sessions has ended."""
    (one,) = subtasks(1, 9_000, tmp_path)
    for first in (0, 90):
        for at in range(0, 1_000, 50):
            one.operator.process(partials([(i, first, first + 100, 1, i, i) for i in range(at, at + 50)]), 0)
    one.operator.on_watermark(150)
    assert not results([one])
    held = one.out.watched["stateBytes"]() - one.out.watched["stateBytesOnDisk"]()
    assert held <= 6_750
    (again,) = subtasks(1, 9_000, tmp_path, restored=restored_of([one.snapshot()]))
    again.operator.on_watermark(189)
    assert results([again]) == sorted(((i, 0, 190, 2, 2 * i, i) for i in range(1_000)), key=repr)


@given(st.lists(st.integers(-(2**31), 2**31 - 1)), st.lists(st.integers(-(2**31), 2**31 - 1)))
@settings(max_examples=50)
def test_a_filter_finds_all_that_are_among_its_hashes(known: list[int], asked: list[int]) -> None:
    found = HashFilter(np.array(known, np.int32)).find(np.array([*asked, *known], np.int32))
    assert set(range(len(asked), len(asked) + len(known))) <= set(found.tolist())
    assert not known or len(HashFilter(np.array([1], np.int32)).find(np.arange(1 << 16, dtype=np.int32))) < 1 << 12


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-(2**62), 2**62))), st.integers(0, 62))
def test_pairs_are_sorted_as_tuples_are_whatever_their_range(pairs: list[tuple[int, int]], shift: int) -> None:
    first, second = np.array([p[0] for p in pairs], np.int64), np.array([p[1] >> shift for p in pairs], np.int64)
    wanted = sorted(range(len(pairs)), key=lambda i: (first[i], second[i]))
    assert order_of_pairs(first, second).tolist() == wanted


def test_a_checkpoint_of_an_earlier_version_is_restored_and_built_upon(tmp_path: Path) -> None:
    """Its file has each session once, and no word about sessions in the metadata."""
    columns: dict[str, list[Any]] = {"key.k": ["a", "b", "c"], "window_start": [0, 5, 7], "window_end": [10, 15, 400]}
    data = pa.record_batch(columns | {"value.n": [1, 2, 3], "value.s": [4, 5, 6], "value.hi": [7, 8, 9]})
    types = {name: str(data.schema.field(name).type) for name in data.schema.names}
    about = StateDescription("op", "windows", "columnar_windows", types)
    groups = key_groups(hash_columns([data["key.k"]]), 128)
    written = write_keyed(MemoryStore(), data, groups, KeyGroupRange(0, 127), about, is_shared=True)
    many = [(f"key {i}", 500, 600, 1, 1, 1) for i in range(10)]
    first = restored_of([OperatorSnapshot(keyed=(written,))])
    (one,) = subtasks(1, 0, tmp_path, restored=first, restored_id=1)
    one.operator.process(partials([("b", 15, 30, 1, 1, 1)]), 0)
    (snapshot,) = checkpoint([one], 2, SHARED)
    assert [segment.level for segment in snapshot.keyed] == [0, 1]
    assert snapshot.keyed[0].handle == written.handle
    wanted = [("a", 0, 10, 1, 4, 7), ("b", 5, 30, 3, 6, 8), ("c", 7, 400, 3, 6, 9)]
    assert read_by_others([snapshot]) == wanted
    (again,) = subtasks(1, 0, tmp_path, restored=restored_of([snapshot]), restored_id=2)
    again.operator.process(partials(many), 0)
    again.operator.on_watermark(END_OF_TIME)
    assert results([again]) == sorted([*wanted, *many], key=repr)
