"""Restored windows stay in their files until they fire; what is read is verified before, and once."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.unit.taskmanager.keyed_state.columns.stores import PartsStore, Store
from tests.unit.taskmanager.windows.state.test_window_increments import (
    MAX_PARALLELISM,
    SAVEPOINT,
    SIZE_MS,
    Content,
    Job,
    content,
    content_of,
    restored,
    rows_of,
)
from tidegate.model.checkpoint import OperatorSnapshot, RestoredOperator, SegmentHandle, StateHandle
from tidegate.model.errors import CorruptData, SchemaMismatch, StorageError
from tidegate.model.keygroups import KeyGroupRange
from tidegate.store.segments import FileSegmentSource, open_segment_store
from tidegate.store.verified_file import BLOCK_BYTES
from tidegate.taskmanager.state.files.segments import StateDescription, write_keyed
from tidegate.taskmanager.state.ports import SegmentStore
from tidegate.taskmanager.windows.state import restored as restored_windows
from tidegate.taskmanager.windows.state.files import WindowFormat, WindowTimes
from tidegate.taskmanager.windows.state.windows import ColumnarWindowState, WindowMemory

LAZY = WindowMemory(eager_bytes=0)


def whole_and_delta(store: Store) -> tuple[Job, dict[int, OperatorSnapshot]]:
    """Windows 0 to 3 of some keys, of which 0 has fired since the whole checkpoint, and a delta with more of window 2."""
    job = Job(store, 1)
    job.add({(window, key): (1, key, key) for window in range(4) for key in range(2000)})
    job.snapshots(1)
    job.add({(2, key): (1, 7, 7) for key in range(1000, 1500)})
    job.fire(0)
    return job, job.snapshots(2)


def test_nothing_is_read_before_a_window_could_fire_and_then_each_file_once() -> None:
    store = Store(maps=True)
    job, snapshots = whole_and_delta(store)
    again = restored(store, snapshots, 1, 1, 2, LAZY)
    again.model, again.ended = dict(job.model), 0
    assert again.states[0].restoring is not None
    assert again.states[0].rows >= 6000
    again.add({(1, 5): (1, 1, 1)})
    third = again.snapshots(3)
    assert sum(store.reads.values()) == 0, "a checkpoint builds upon what was not read"
    assert {s.level for s in third[0].keyed} == {0, 1, 2}
    again.fire(1)
    again.fire(2)
    assert set(store.reads.values()) == {1}
    assert again.states[0].restoring is None
    lazy = restored(store, third, 1, 3, None, LAZY)
    store.reads.clear()
    fired: Content = {}
    for owner in lazy.states:
        fired |= content_of(owner.take(1 << 40))
    assert {key for key in fired if key[0] == 3} == {(3, key) for key in range(2000)}
    assert max(store.reads.values()) <= 3, "each owner reads a file once"


def test_windows_before_those_that_were_restored_fire_unread() -> None:
    store = Store(maps=True)
    job, snapshots = whole_and_delta(store)
    assert {s.first_ms for s in snapshots[0].keyed if s.level} == {SIZE_MS}, "window 0 of the level below has fired"
    again = restored(store, snapshots, 1, 2, 2, LAZY)
    again.model, again.ended = dict(job.model), -1
    again.add({(0, 5): (1, 1, 1), (1, 5): (1, 1, 1), (0, 1234): (1, 1, 1)})
    again.fire(0)
    third = again.snapshots(3)
    assert sum(store.reads.values()) == 0
    assert all(owner.restoring is not None and owner.waits_for(1) for owner in again.states)
    assert content(store, third, 2, 3) == again.model
    again.fire(1)
    assert not any(owner.waits_for(1 << 40) for owner in again.states)


def test_files_that_do_not_say_when_their_windows_begin_are_read_before_anything_fires() -> None:
    """An earlier version wrote them."""
    store = Store(maps=True)
    job, snapshots = whole_and_delta(store)
    older = {0: replace(snapshots[0], keyed=tuple(replace(s, first_ms=None) for s in snapshots[0].keyed))}
    again = restored(store, older, 1, 1, 2, LAZY)
    again.model, again.ended = dict(job.model), 0
    assert again.states[0].waits_for(-(1 << 40))
    third = again.snapshots(3)
    assert {s.first_ms for s in third[0].keyed} == {None}
    again.fire(2)


def test_a_savepoint_reads_what_is_needed_and_the_subtask_does_not_read_it_again() -> None:
    store = Store(maps=True)
    job, snapshots = whole_and_delta(store)
    again = restored(store, snapshots, 1, 1, 2, LAZY)
    again.model, again.ended = dict(job.model), 0
    savepoint = again.snapshots(3, SAVEPOINT)
    assert {s.level for s in savepoint[0].keyed} == {0}
    named = {s.handle.path for s in snapshots[0].keyed}
    again.fire(3)
    assert {store.reads[path] for path in named} == {1}
    assert again.model == {}
    eager = restored(store, savepoint, 1, 2, None)
    assert content_of(part for owner in eager.states for part in owner.take(1 << 40)) == job.model


def test_what_was_restored_may_be_gone_by_the_time_it_is_written() -> None:
    store = Store(maps=True)
    _, snapshots = whole_and_delta(store)
    again = restored(store, snapshots, 1, 1, None, LAZY)
    frozen = again.freeze(3, SAVEPOINT)
    list(again.states[0].take(1 << 40))
    assert again.states[0].rows == again.states[0].bytes_on_disk == 0
    (written,) = frozen[0].write(store).keyed
    assert written.offsets[-1] == 6000
    assert again.freeze(4, SAVEPOINT)[0].write(store).keyed == ()


def test_files_that_are_removed_after_they_were_read_are_still_there_for_their_windows(tmp_path: Path) -> None:
    """Their checkpoint may be subsumed before the windows fire."""
    (tmp_path / "chk").mkdir()
    store = open_segment_store(str(tmp_path / "chk"), "a", 1, 0)
    job = Job(store, 1)
    job.add({(window, key): (1, key, key) for window in range(3) for key in range(20_000)})
    snapshot = job.freeze(1, SAVEPOINT)[0].write(store)
    again = Job(store, 1, memory=replace(LAZY, directory=str(tmp_path)))
    owner, expected = again.states[0], dict(job.model)
    owner.restore(RestoredOperator(keyed=snapshot.keyed), FileSegmentSource(str(tmp_path / "chk")), 1)
    owner.settle()
    for path in (tmp_path / "chk").iterdir():
        path.unlink()
    assert not list(tmp_path.glob("windows-*")), "they are mapped, not copied"
    assert content_of(owner.take(1)) == {e: v for e, v in expected.items() if e[0] <= 1}
    assert content_of(owner.take(2)) == {e: v for e, v in expected.items() if e[0] == 2}


def test_a_damaged_file_is_named_and_nothing_of_it_is_decoded(tmp_path: Path) -> None:
    (tmp_path / "chk").mkdir()
    store = open_segment_store(str(tmp_path / "chk"), "a", 1, 0)
    job = Job(store, 1)
    job.add({(1, key): (1, key, key) for key in range(20_000)})
    snapshot = job.freeze(1, SAVEPOINT)[0].write(store)
    path = tmp_path / "chk" / snapshot.keyed[0].handle.path
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    again = Job(store, 1, memory=LAZY)
    owner = again.states[0]
    owner.restore(RestoredOperator(keyed=snapshot.keyed), FileSegmentSource(str(tmp_path / "chk")), 1)
    assert owner.restoring is not None
    with pytest.raises(CorruptData, match=f"{path.name} is damaged"):
        owner.restoring.settle()
    with pytest.raises(CorruptData, match=f"{path.name} is damaged"):
        owner.take(1)
    with pytest.raises(CorruptData, match=f"{path.name} is damaged"):
        again.freeze(2, SAVEPOINT)[0].write(store)


def many_windows(store: SegmentStore) -> tuple[Job, OperatorSnapshot]:
    """Twenty windows of as many rows each, and a delta with more of all; window 0 has fired since."""
    job = Job(store, 1)
    job.add({(window, key): (1, key, key) for window in range(21) for key in range(2000)})
    job.snapshots(1)
    job.add({(window, key): (1, 7, 7) for window in range(21) for key in range(1000, 1100)})
    job.fire(0)
    return job, job.snapshots(2)[0]


def with_many_windows(store: Store) -> Job:
    """Restored from that, and nothing is read yet."""
    job, snapshot = many_windows(store)
    again = restored(store, {0: snapshot}, 1, 1, 2, LAZY)
    again.model, again.ended = dict(job.model), 0
    return again


def test_a_few_windows_fire_before_the_others_are_read() -> None:
    store = PartsStore(maps=True)
    again = with_many_windows(store)
    (owner,) = again.states
    again.add({(1, 5): (1, 1, 1), (30, 5): (1, 1, 1)})
    assert not owner.waits_for(1)
    again.fire(1)
    again.fire(2)
    assert not store.reads, "no file as a whole"
    asked, there = sum(part.asked_bytes for part in store.opened), sum(len(part.content) for part in store.opened)
    assert 0 < asked < there / 2, "where windows begin, and two of twenty windows"
    third = again.snapshots(3)
    assert {s.level for s in third[0].keyed} == {0, 1, 2}
    assert content(store, third, 1, 2) == again.model, "what has fired is gone"
    owner.settle()
    assert owner.restoring is None
    again.fire(3)
    again.fire(40)
    assert again.model == {}


def test_many_windows_wait_until_all_are_read() -> None:
    store = PartsStore(maps=True)
    again = with_many_windows(store)
    (owner,) = again.states
    assert not owner.waits_for(5)
    assert owner.waits_for(6)
    again.fire(10)
    assert owner.restoring is None


def test_compressed_windows_wait_until_all_are_read() -> None:
    store = PartsStore(maps=True, compresses=True)
    again = with_many_windows(store)
    assert again.states[0].waits_for(1)
    again.fire(1)


def test_rows_that_fire_unread_are_verified(tmp_path: Path) -> None:
    (tmp_path / "chk").mkdir()
    store = open_segment_store(str(tmp_path / "chk"), "a", 1, 0)
    job, snapshot = many_windows(store)
    (path,) = (path for path in (tmp_path / "chk").iterdir() if path.stat().st_size > 10 * BLOCK_BYTES)
    intact = path.read_bytes()
    owner = windows_of_files(snapshot, tmp_path)
    assert content_of(owner.take(1)) == {e: v for e, v in job.model.items() if e[0] == 1}
    assert owner.restoring is not None, "that was all that was read"
    content = bytearray(intact)
    for at in range(len(content) // 2, len(content) - BLOCK_BYTES, BLOCK_BYTES):
        content[at] ^= 1
    path.write_bytes(content)
    with pytest.raises(CorruptData, match=f"{path.name} is damaged between"):
        list(windows_of_files(snapshot, tmp_path).take(1))


def windows_of_files(snapshot: OperatorSnapshot, directory: Path) -> ColumnarWindowState:
    owner = Job(Store(), 1, memory=LAZY).states[0]
    owner.restore(RestoredOperator(keyed=snapshot.keyed), FileSegmentSource(str(directory / "chk")), 1)
    return owner


def test_rows_that_another_program_wrote_in_any_order_are_sorted(tmp_path: Path) -> None:
    store, rng = Store(maps=True), np.random.default_rng(4)
    form = WindowFormat("op", "window", ("k",), WindowTimes(SIZE_MS, 0))
    expected = {
        (int(w), int(k)): (1, int(k), 0) for w, k in zip(rng.permutation(40_000) % 50, range(40_000), strict=True)
    }
    data = form.stored(
        rows_of(expected).rename_columns(["window", "k", "n", "total", "least", "mean__sum", "mean__count"])
    )
    groups = np.zeros(40_000, np.int32)
    about = StateDescription("op", "windows", "columnar_windows")
    segment = write_keyed(store, data, groups, KeyGroupRange(0, MAX_PARALLELISM - 1), about)
    owner = Job(store, 1, memory=replace(LAZY, directory=str(tmp_path))).states[0]
    owner.restore(RestoredOperator(keyed=(segment,)), store, 1)
    owner.settle()
    assert len(list(tmp_path.iterdir())) == 1
    assert content_of(owner.take(20)) == {e: v for e, v in expected.items() if e[0] <= 20}
    assert content_of(owner.take(60)) == {e: v for e, v in expected.items() if e[0] > 20}


@pytest.mark.parametrize("comes_first", [False, True])
def test_a_state_of_other_columns_is_refused_when_it_is_read(comes_first: bool) -> None:
    store = Store()
    _, snapshots = whole_and_delta(store)
    again = restored(store, snapshots, 1, 1, 2, LAZY)
    other = rows_of({(1, 1): (1, 1, 1)}).rename_columns(
        ["window", "k", "n", "total", "most", "mean__sum", "mean__count"]
    )
    if comes_first:
        again.states[0].add(other)
        with pytest.raises(
            SchemaMismatch, match="its windows have the columns .*least: int64.*, now come .*most: int64"
        ):
            again.states[0].settle()
    else:
        again.states[0].settle()
        with pytest.raises(
            SchemaMismatch, match="its windows have the columns .*least: int64.*, now come .*most: int64"
        ):
            again.states[0].add(other)


def test_what_is_not_read_when_the_task_ends_is_left(tmp_path: Path) -> None:
    store = Store()
    _, snapshots = whole_and_delta(store)
    restoring = restored(store, snapshots, 1, 1, 2, LAZY).states[0].restoring
    assert restoring is not None
    restoring.close()
    with pytest.raises(StorageError, match="its task ended"):
        restoring.settle()


def test_two_threads_that_need_it_read_it_once() -> None:
    store = Store(maps=True)
    _, snapshots = whole_and_delta(store)
    restoring = restored(store, snapshots, 1, 1, 2, LAZY).states[0].restoring
    assert restoring is not None
    threads = [threading.Thread(target=restoring.settle) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert set(store.reads.values()) == {1}


def test_rows_of_a_segment_whose_index_is_wrong_are_counted_by_who_reads_it() -> None:
    segment = SegmentHandle("windows", KeyGroupRange(0, 15), (0, 5), StateHandle(10, "x", path="f"))
    rows, sizes = restored_windows.rows_and_bytes([segment], KeyGroupRange(0, 15))
    assert rows.sum() == sizes.sum() == 0
