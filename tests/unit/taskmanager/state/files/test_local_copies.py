"""Copies of state files on the TaskManager's disk: what is kept, what is read, and that nothing depends on them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tidegate.model.checkpoint import OperatorSnapshot, SegmentHandle, StateHandle, SubtaskSnapshot
from tidegate.model.errors import CorruptData
from tidegate.model.ids import AllocationId, AttemptId, JobId, OperatorId, VertexId
from tidegate.model.keygroups import KeyGroupRange
from tidegate.store.segments import FileSegmentStore, open_segment_source, open_segment_store
from tidegate.taskmanager.state.files.local_copies import LocalCopies, allocation_directory, local_directory

BIG: list[bytes | memoryview] = [b"x" * 100_000, memoryview(b"y" * 50_000)]
ALLOCATION = AllocationId("a" * 32)
ATTEMPT = AttemptId(JobId("b" * 32), VertexId("c" * 32), 1, 0)


@pytest.fixture
def copies(tmp_path: Path) -> LocalCopies:
    return LocalCopies(tmp_path / "local")


def remote(tmp_path: Path, checkpoint_id: int) -> FileSegmentStore:
    for name in (f"chk-{checkpoint_id}", "shared"):
        (tmp_path / "remote" / name).mkdir(parents=True, exist_ok=True)
    location = str(tmp_path / "remote" / f"chk-{checkpoint_id}")
    store = open_segment_store(
        location, "attempt", checkpoint_id, 20_000, shared_location=str(tmp_path / "remote/shared")
    )
    assert isinstance(store, FileSegmentStore)
    return store


def snapshot(*handles: StateHandle) -> SubtaskSnapshot:
    segments = tuple(SegmentHandle("s", KeyGroupRange(0, 0), (0, 1), handle) for handle in handles)
    return SubtaskSnapshot({OperatorId("1" * 32): OperatorSnapshot(keyed=segments)})


def kept(tmp_path: Path) -> dict[str, list[str]]:
    return {path.name: sorted(os.listdir(path)) for path in sorted((tmp_path / "local").iterdir())}


def test_where_they_are(tmp_path: Path) -> None:
    below = local_directory(tmp_path, ALLOCATION, ATTEMPT).relative_to(tmp_path)
    assert str(below) == f"localState/aid_{'a' * 32}/jid_{'b' * 32}/vtx_{'c' * 32}_sti_1"
    assert below.is_relative_to(allocation_directory(tmp_path, ALLOCATION).relative_to(tmp_path))


def test_the_copy_is_read_when_the_remote_file_is_gone(tmp_path: Path, copies: LocalCopies) -> None:
    store = copies.store(remote(tmp_path, 3), 3)
    handle = store.write("state", iter(BIG))
    small = store.write("small", [b"tiny"])
    assert store.written_bytes == 150_004
    assert kept(tmp_path) == {"chk_3": [handle.path]}
    (tmp_path / "remote" / "chk-3" / handle.path).unlink()
    source = copies.source(open_segment_source(str(tmp_path / "remote" / "chk-3")), 3)
    assert bytes(source.read(handle)) == b"".join(BIG)
    assert bytes(source.read(small)) == b"tiny"
    assert (source.local_reads, source.remote_reads) == (1, 0)
    other = copies.source(open_segment_source(str(tmp_path / "remote" / "chk-3")), 4)
    with pytest.raises(CorruptData, match="is missing"):
        other.read(handle)


@pytest.mark.parametrize("damage", ["flipped", "cut", "gone", "directory"])
def test_what_is_damaged_comes_from_the_checkpoint(tmp_path: Path, copies: LocalCopies, damage: str) -> None:
    handle = copies.store(remote(tmp_path, 3), 3).write("state", BIG)
    path = tmp_path / "local" / "chk_3" / handle.path
    content = bytearray(path.read_bytes())
    path.unlink()
    if damage == "flipped":
        content[77] ^= 1
        path.write_bytes(content)
    elif damage == "cut":
        path.write_bytes(content[:-1])
    elif damage == "directory":
        path.mkdir()
    source = copies.source(open_segment_source(str(tmp_path / "remote" / "chk-3")), 3)
    assert bytes(source.read(handle)) == b"".join(BIG)
    assert (source.local_reads, source.remote_reads) == (0, 1)


def test_only_the_last_confirmed_and_what_is_newer_is_kept(tmp_path: Path, copies: LocalCopies) -> None:
    names = {n: copies.store(remote(tmp_path, n), n).write("state", BIG).path for n in (1, 2, 3, 4)}
    copies.on_confirmed(2)
    copies.on_aborted(3)
    assert kept(tmp_path) == {"chk_2": [names[2]], "chk_4": [names[4]]}
    copies.begin(2)
    assert kept(tmp_path) == {"chk_2": [names[2]]}
    copies.begin(None)
    assert kept(tmp_path) == {}


def test_shared_files_of_older_checkpoints_belong_to_the_copy(tmp_path: Path, copies: LocalCopies) -> None:
    base = copies.store(remote(tmp_path, 1), 1).write("base", BIG, is_shared=True)
    copies.complete(1, snapshot(base))
    copies.on_confirmed(1)
    delta = copies.store(remote(tmp_path, 2), 2).write("delta", BIG, is_shared=True)
    copies.complete(2, snapshot(base, delta))
    copies.on_confirmed(2)
    names = sorted(handle.path.rsplit("/", 1)[-1] for handle in (base, delta))
    assert kept(tmp_path) == {"chk_2": names}
    for name in names:
        (tmp_path / "remote" / "shared" / name).unlink()
    source = copies.source(open_segment_source(str(tmp_path / "remote" / "chk-2")), 2)
    assert bytes(source.read(base)) == bytes(source.read(delta)) == b"".join(BIG)


def test_a_disk_that_takes_no_copy_does_no_harm(tmp_path: Path, copies: LocalCopies) -> None:
    (tmp_path / "local").write_text("no directory")
    handle = copies.store(remote(tmp_path, 1), 1).write("state", BIG)
    copies.complete(1, snapshot(handle))
    copies.on_confirmed(1)
    source = copies.source(open_segment_source(str(tmp_path / "remote" / "chk-1")), 1)
    assert bytes(source.read(handle)) == b"".join(BIG)
    assert source.remote_reads == 1


def test_a_write_that_fails_leaves_no_copy(tmp_path: Path, copies: LocalCopies) -> None:
    store = copies.store(remote(tmp_path, 1), 1)

    def parts() -> object:
        yield from BIG
        raise ValueError("the state cannot be encoded")

    with pytest.raises(ValueError, match="encoded"):
        store.write("state", parts())  # type: ignore[arg-type]
    assert kept(tmp_path) == {"chk_1": []}
