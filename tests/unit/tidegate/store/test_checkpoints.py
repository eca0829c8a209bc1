from __future__ import annotations

import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from pyarrow import fs

from tests.unit.tidegate.wire.test_manifest import make_manifest
from tidegate.model.checkpoint import (
    CheckpointManifest,
    OperatorSnapshot,
    OperatorState,
    SegmentHandle,
    SnapshotType,
    StateHandle,
)
from tidegate.model.errors import CheckpointFilesMissing, CorruptData, StorageError
from tidegate.model.ids import AttemptId, CheckpointId, JobId, OperatorId, VertexId
from tidegate.model.keygroups import KeyGroupRange
from tidegate.store.checkpoints import CheckpointStorage
from tidegate.store.files import Files, LocalCalls, LocalFiles, Part
from tidegate.store.object_files import ObjectFiles
from tidegate.store.segments import open_segment_store

JOB = JobId("a" * 32)
N = CheckpointId(7)


class Told(LocalCalls):
    """Which directories were synced, and when ``_metadata`` became visible."""

    def __init__(self) -> None:
        self.story: list[str] = []
        self._opened: dict[int, str] = {}

    def open(self, path: str, flags: int) -> int:
        descriptor = super().open(path, flags)
        self._opened[descriptor] = path
        return descriptor

    def fsync(self, descriptor: int) -> None:
        super().fsync(descriptor)
        self.story.append(self._opened[descriptor])

    def rename(self, source: str, target: str) -> None:
        super().rename(source, target)
        self.story.append(target)


class Faulty(LocalCalls):
    """Fails one kind of call."""

    def __init__(self, call: str, number: int = errno.EIO) -> None:
        self.call = call
        self.number = number

    def _fail(self, call: str) -> None:
        if call == self.call:
            raise OSError(self.number, "injected")

    def write(self, descriptor: int, data: Part) -> int:
        self._fail("write")
        return super().write(descriptor, data)

    def rename(self, source: str, target: str) -> None:
        self._fail("rename")
        super().rename(source, target)
        self._fail("after rename")


SHARED_NAME = f"s-{'a' * 32}_{'b' * 32}_0_0-1-{'c' * 16}"


def saved(tmp_path: Path) -> tuple[CheckpointStorage, Path]:
    storage = CheckpointStorage()
    location = storage.create_location(str(tmp_path), JOB, N)
    (Path(location) / "count-x-0").write_bytes(b"0" * 70_000)
    assert storage.write_manifest(location, make_manifest()).error is None
    return storage, Path(location)


def test_the_layout_is_flinks(tmp_path: Path) -> None:
    storage, location = saved(tmp_path)
    assert location == tmp_path / JOB / "chk-7"
    assert sorted(path.name for path in (tmp_path / JOB).iterdir()) == ["chk-7", "shared", "taskowned"]
    savepoint = storage.create_location(str(tmp_path), JOB, N, SnapshotType.SAVEPOINT)
    assert Path(savepoint).name.startswith(f"savepoint-{JOB[:6]}-")
    assert storage.create_location(str(tmp_path), JOB, CheckpointId(8), create_subdir=False) == f"{tmp_path}/chk-8"


@pytest.mark.parametrize("suffix", ["", "/", "/_metadata"])
def test_a_checkpoint_is_read_by_its_directory_or_its_file(tmp_path: Path, suffix: str) -> None:
    storage, location = saved(tmp_path)
    assert storage.read_checkpoint(f"{location}{suffix}") == (str(location), make_manifest())
    assert storage.read_checkpoint(f"file://{location}{suffix}") == (str(location), make_manifest())


def test_names_of_state_files_are_durable_before_metadata_is(tmp_path: Path) -> None:
    calls = Told()
    storage = CheckpointStorage(LocalFiles(calls))
    location = storage.create_location(str(tmp_path), JOB, N)
    calls.story.clear()
    shared = f"{tmp_path}/{JOB}/shared"
    store = open_segment_store(location, str(AttemptId(JOB, VertexId("b" * 32), 0, 0)), 7, 0, LocalFiles(), shared)
    handles = [store.write("own", [b"1"]), store.write("common", [b"2"], is_shared=True)]
    everything = KeyGroupRange(0, 127)
    segments = tuple(SegmentHandle("s", everything, (0,) * 129, handle) for handle in handles)
    operator = OperatorState(OperatorId("c" * 32), "", "sum", 1, 128, {0: OperatorSnapshot(keyed=segments)})
    manifest = replace(make_manifest(), operators=(operator,))
    assert storage.write_manifest(location, manifest).error is None
    metadata = calls.story.index(f"{location}/_metadata")
    assert {location, shared, f"{tmp_path}/{JOB}"} <= set(calls.story[:metadata])


def test_a_path_without_a_checkpoint_is_refused_with_a_hint(tmp_path: Path) -> None:
    storage, location = saved(tmp_path)
    with pytest.raises(StorageError, match=r"there is no such directory"):
        storage.read_checkpoint(str(tmp_path / "nowhere"))
    with pytest.raises(StorageError, match=r"it holds chk-7: give one of these"):
        storage.read_checkpoint(str(tmp_path / JOB))
    (location / "_metadata").unlink()
    with pytest.raises(StorageError, match=r"chk-7/_metadata; it was never completed"):
        storage.read_checkpoint(str(location))


def test_damage_is_told_by_file(tmp_path: Path) -> None:
    storage, location = saved(tmp_path)
    (location / "count-x-0").write_bytes(b"0")
    with pytest.raises(
        CorruptData, match=r"chk-7/count-x-0 of operator 'wähle' is cut off: it ends at byte 1, expected 70000"
    ):
        storage.read_checkpoint(str(location))
    (location / "count-x-0").unlink()
    with pytest.raises(CorruptData, match=r"count-x-0 .* is missing"):
        storage.read_checkpoint(str(location))
    (location / "_metadata").write_bytes(b"{}")
    with pytest.raises(CorruptData, match=r"chk-7/_metadata does not begin with the header"):
        storage.read_checkpoint(str(location))


def test_a_completed_checkpoint_without_its_manifest_is_damaged(tmp_path: Path) -> None:
    storage, location = saved(tmp_path)
    assert storage.read_manifest(str(location)) == make_manifest()
    (location / "_metadata").unlink()
    with pytest.raises(CorruptData, match=r"chk-7/_metadata of a completed checkpoint is missing"):
        storage.read_manifest(str(location))
    with pytest.raises(StorageError, match="it was never completed"):
        storage.read_checkpoint(str(location))


def test_a_directory_of_another_run_is_not_overwritten(tmp_path: Path) -> None:
    storage, _ = saved(tmp_path)
    with pytest.raises(StorageError, match="already holds a checkpoint of another run"):
        storage.create_location(str(tmp_path), JOB, N)


@pytest.mark.parametrize(("call", "unknown"), [("write", False), ("rename", True), ("after rename", True)])
def test_a_failed_write_says_whether_its_outcome_is_known(tmp_path: Path, call: str, unknown: bool) -> None:
    storage = CheckpointStorage(LocalFiles(Faulty(call)))
    location = storage.create_location(str(tmp_path), JOB, N)
    written = storage.write_manifest(location, make_manifest())
    assert written.error is not None
    assert written.outcome_unknown is unknown
    settled = storage.read_back(location)
    assert not settled.outcome_unknown
    assert (settled.error is None) == (call == "after rename")


def test_a_torn_manifest_is_read_back_as_not_written(tmp_path: Path) -> None:
    storage, location = saved(tmp_path)
    whole = (location / "_metadata").read_bytes()
    (location / "_metadata").write_bytes(whole[:-5])
    settled = storage.read_back(str(location))
    assert settled.error is not None
    assert "is cut off" in settled.error.message


class Removed(LocalCalls):
    """The directory goes while ``_metadata`` is written: before it has its name, or before its name is durable."""

    def __init__(self, *, is_named: bool) -> None:
        self._is_named = is_named

    def rename(self, source: str, target: str) -> None:
        if self._is_named:
            super().rename(source, target)
        shutil.rmtree(Path(target).parent)
        if not self._is_named:
            super().rename(source, target)


@pytest.mark.parametrize("is_named", [False, True])
def test_a_directory_that_is_removed_while_the_manifest_is_written_is_told_as_that(
    tmp_path: Path, is_named: bool
) -> None:
    storage = CheckpointStorage(LocalFiles(Removed(is_named=is_named)))
    location = storage.create_location(str(tmp_path), JOB, N)
    assert storage.write_manifest(location, make_manifest()).outcome_unknown
    settled = storage.read_back(location)
    assert isinstance(settled.error, CheckpointFilesMissing)
    assert not settled.outcome_unknown


def test_a_manifest_is_compared_with_the_files_that_are_there(tmp_path: Path) -> None:
    storage, location = saved(tmp_path)
    storage.check_files(str(location), make_manifest())
    (location / "count-x-0").write_bytes(b"0")
    with pytest.raises(CheckpointFilesMissing, match="count-x-0 .*cut off"):
        storage.check_files(str(location), make_manifest())
    shutil.rmtree(location)
    with pytest.raises(CheckpointFilesMissing, match="count-x-0 .*missing"):
        storage.check_files(str(location), make_manifest())


@pytest.mark.parametrize("place", ["the directory of checkpoints", "the directory of the job"])
def test_what_has_taken_the_place_of_a_directory_is_told(tmp_path: Path, place: str) -> None:
    directory = tmp_path / "checkpoints"
    in_the_way = directory if place == "the directory of checkpoints" else directory / JOB
    in_the_way.parent.mkdir(exist_ok=True)
    in_the_way.write_text("")
    with pytest.raises(CheckpointFilesMissing, match=f"{in_the_way} is a file; move it away"):
        CheckpointStorage().create_location(str(directory), JOB, N)


def test_discard_removes_the_checkpoint_and_nothing_else(tmp_path: Path) -> None:
    storage, location = saved(tmp_path)
    storage.discard(str(location))
    storage.discard(str(location))
    assert sorted(path.name for path in (tmp_path / JOB).iterdir()) == ["shared", "taskowned"]
    with pytest.raises(StorageError, match="refused to remove"):
        storage.discard(str(tmp_path))
    assert tmp_path.exists()


def test_a_directory_that_cannot_be_written_is_refused_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match=rf"checkpoint directory {tmp_path}/file/x is not writable: Not a directory"):
        CheckpointStorage().check_writable(str(tmp_path / "file" / "x"))
    with pytest.raises(StorageError, match="is not writable: injected"):
        CheckpointStorage(LocalFiles(Faulty("write"))).check_writable(str(tmp_path))
    CheckpointStorage().check_writable(str(tmp_path / "new" / "deep"))
    assert list((tmp_path / "new" / "deep").iterdir()) == []


def test_without_a_directory_manifests_live_in_memory() -> None:
    storage = CheckpointStorage()
    location = storage.create_location(None, JOB, N)
    assert location == f"memory:{JOB}/chk-7"
    assert storage.write_manifest(location, make_manifest()).error is None
    assert storage.read_back(location).error is None
    storage.discard(location)
    assert storage.read_back(location).error is not None


def test_shared_files_have_a_place_beside_the_checkpoints(tmp_path: Path) -> None:
    storage, location = saved(tmp_path)
    assert storage.shared_location(str(location), SnapshotType.CHECKPOINT) == str(tmp_path / JOB / "shared")
    assert storage.shared_location(str(location), SnapshotType.SAVEPOINT) == "", "savepoints are self-contained"
    assert storage.shared_location("memory:job/chk-1", SnapshotType.CHECKPOINT) == ""


def test_a_missing_shared_file_is_told_by_name(tmp_path: Path) -> None:
    storage, location = saved(tmp_path)
    shared = tmp_path / JOB / "shared" / "s-1"
    shared.write_bytes(b"12345678")
    segment = SegmentHandle("s", KeyGroupRange(0, 0), (0, 1), StateHandle(8, "0" * 16, str(shared), is_shared=True))
    operator = OperatorState(OperatorId("b" * 32), "", "count", 1, 128, {0: OperatorSnapshot(keyed=(segment,))})
    manifest = CheckpointManifest(JOB, "job", N, 1, SnapshotType.CHECKPOINT, (operator,))
    assert storage.write_manifest(str(location), manifest).error is None
    assert storage.read_checkpoint(str(location))[1] == manifest
    shared.write_bytes(b"1234")
    with pytest.raises(CorruptData, match=r"shared/s-1 of operator 'count' is cut off: it ends at byte 4, expected 8"):
        storage.read_checkpoint(str(location))
    shared.unlink()
    with pytest.raises(CorruptData, match=r"shared/s-1 of operator 'count' is missing"):
        storage.read_checkpoint(str(location))


def test_files_that_nobody_uses_are_removed_and_nothing_else_can_be(tmp_path: Path) -> None:
    storage, location = saved(tmp_path)
    unused, stray = tmp_path / JOB / "shared" / SHARED_NAME, location / "stray"
    for path in (unused, stray):
        path.write_bytes(b"1")
    storage.discard_shared([str(unused), str(unused), str(stray)])
    assert (unused.exists(), stray.exists()) == (False, False), "twice is fine"


@pytest.mark.parametrize(
    "place", ["notes", "shared/holiday.jpg", f"shared/../{SHARED_NAME}", f"x/../notes/{SHARED_NAME}"]
)
def test_a_manifest_removes_only_what_checkpoints_write(place: str, tmp_path: Path) -> None:
    storage, _ = saved(tmp_path)
    foreign = tmp_path / JOB / place
    (tmp_path / JOB / "x").mkdir()
    foreign.parent.resolve().mkdir(exist_ok=True)
    foreign.write_bytes(b"1")
    with pytest.raises(StorageError, match="refused to remove"):
        storage.discard_shared([str(foreign)])
    assert foreign.exists()


def test_to_dispose_of_a_checkpoint_reaches_no_shared_file_of_another_job(tmp_path: Path) -> None:
    storage, location = saved(tmp_path)
    own, other = tmp_path / JOB / "shared" / SHARED_NAME, tmp_path / ("e" * 32) / "shared" / SHARED_NAME
    other.parent.mkdir(parents=True)
    segments = []
    for path in (own, other):
        path.write_bytes(b"12345678")
        handle = StateHandle(8, "0" * 16, str(path), is_shared=True)
        segments.append(SegmentHandle("s", KeyGroupRange(0, 0), (0, 1), handle))
    operator = OperatorState(OperatorId("b" * 32), "", "count", 1, 128, {0: OperatorSnapshot(keyed=tuple(segments))})
    manifest = CheckpointManifest(JOB, "job", N, 1, SnapshotType.CHECKPOINT, (operator,))
    assert storage.write_manifest(str(location), manifest).error is None
    assert storage.shared_by_nobody_else(str(location)) == [str(own)]


def test_shared_files_of_an_aborted_checkpoint_are_found_by_their_names(tmp_path: Path) -> None:
    storage, location = saved(tmp_path)
    shared = storage.shared_location(str(location), SnapshotType.CHECKPOINT)
    attempt = AttemptId(JOB, VertexId("c" * 32), 3, 1)
    others = AttemptId(JobId("b" * 32), VertexId("c" * 32), 3, 1)

    def write(writer: AttemptId, checkpoint_id: int) -> Path:
        store = open_segment_store(str(location), str(writer), checkpoint_id, 0, shared_location=shared)
        return Path(store.write("word count", [b"x"], is_shared=True).path)

    garbage, kept = write(attempt, 7), [write(attempt, 17), write(attempt, 8), write(others, 7)]
    torn = garbage.with_name(f".{garbage.name}.inprogress")
    torn.write_bytes(b"")
    storage.discard_written_by(shared, JOB, N)
    assert sorted(Path(shared).iterdir()) == sorted(kept)
    storage.discard_written_by(f"{shared}-not-there", JOB, N)


def test_which_shared_files_go_with_a_checkpoint(tmp_path: Path) -> None:
    storage = CheckpointStorage()
    named = {7: ("a", "b"), 8: ("b", "c"), 9: ("d",)}
    for number, names in named.items():
        location = storage.create_location(str(tmp_path), JOB, CheckpointId(number))
        handles = [StateHandle(1, "0" * 16, f"{tmp_path}/{JOB}/shared/{name}", is_shared=True) for name in names]
        keyed = tuple(SegmentHandle("s", KeyGroupRange(0, 0), (0, 1), handle) for handle in handles)
        operator = OperatorState(OperatorId("b" * 32), "", "count", 1, 128, {0: OperatorSnapshot(keyed=keyed)})
        manifest = CheckpointManifest(JOB, "job", CheckpointId(number), 1, SnapshotType.CHECKPOINT, (operator,))
        assert storage.write_manifest(location, manifest).error is None

    def alone(number: int) -> list[str]:
        return [Path(path).name for path in storage.shared_by_nobody_else(f"{tmp_path}/{JOB}/chk-{number}")]

    assert [alone(number) for number in named] == [["a"], ["c"], ["d"]]
    (tmp_path / JOB / "chk-9" / "_metadata").write_bytes(b"damaged")
    assert alone(7) == [], "who knows what it names"


def test_shared_files_of_a_moved_job_are_found_beside_the_checkpoint(tmp_path: Path) -> None:
    storage, location = saved(tmp_path)
    shared = location.parent / "shared"
    (shared / "s-1").write_bytes(b"12345678")
    handle = StateHandle(8, "0" * 16, str(shared / "s-1"), is_shared=True)
    segment = SegmentHandle("s", KeyGroupRange(0, 0), (0, 1), handle)
    operator = OperatorState(OperatorId("b" * 32), "", "count", 1, 128, {0: OperatorSnapshot(keyed=(segment,))})
    manifest = replace(make_manifest(), operators=(operator,))
    assert storage.write_manifest(str(location), manifest).error is None
    moved = location.parent.rename(tmp_path / "moved")
    found, read = storage.read_checkpoint(f"{moved}/chk-7")
    assert found == f"{moved}/chk-7"
    assert [h.path for h in read.operators[0].subtasks[0].handles] == [f"{moved}/shared/s-1"]
    assert storage.shared_by_nobody_else(found) == [f"{moved}/shared/s-1"]
    (moved / "shared" / "s-2").write_bytes(b"of another checkpoint")
    (moved / "shared" / "s-1").unlink()
    with pytest.raises(CorruptData, match=r"moved/shared/s-1 of operator 'count' is missing"):
        storage.read_checkpoint(found)


def test_a_manifest_of_another_checkpoint_is_told(tmp_path: Path) -> None:
    """It is whole, and would restore an older position, had the state travelled inline."""
    storage, location = saved(tmp_path)
    copy = location.rename(location.with_name("chk-8"))
    with pytest.raises(CorruptData, match=r"chk-8/_metadata belongs to checkpoint 7: it was copied there"):
        storage.read_checkpoint(str(copy))
    assert storage.read_checkpoint(str(copy.rename(location.with_name("mine"))))[1] == make_manifest()


@pytest.mark.parametrize("way", ["a file", "a FIFO"])
def test_what_is_no_directory_is_refused_at_once(tmp_path: Path, way: str) -> None:
    path = tmp_path / "chk-1"
    path.touch() if way == "a file" else os.mkfifo(path)
    with pytest.raises(StorageError, match=rf"chk-1: it is {way}; give a checkpoint's directory"):
        CheckpointStorage().read_checkpoint(str(path))


@pytest.mark.parametrize("suffix", ["", "/_metadata"])
def test_a_fifo_as_metadata_does_not_hold_the_reader(tmp_path: Path, suffix: str) -> None:
    storage, location = saved(tmp_path)
    (location / "_metadata").unlink()
    os.mkfifo(location / "_metadata")
    for read in (storage.read_checkpoint, storage.location_of_client, storage.shared_by_nobody_else):
        with pytest.raises(CorruptData, match=r"chk-7/_metadata cannot be read: it is a FIFO, not a file"):
            read(str(location))
    with pytest.raises(CorruptData, match="it is a FIFO"):
        storage.read_checkpoint(f"{location}{suffix}")


@pytest.mark.parametrize("files", [LocalFiles(), ObjectFiles(fs.LocalFileSystem())], ids=["local", "object"])
def test_only_a_directory_that_holds_nothing_is_empty(tmp_path: Path, files: Files) -> None:
    (tmp_path / "full" / "empty").mkdir(parents=True)
    for name in ("full", "full/empty", "missing"):
        files.delete_empty(str(tmp_path / name))
        assert (tmp_path / "full").exists()
    files.delete_empty(str(tmp_path / "full"))
    assert list(tmp_path.iterdir()) == []
