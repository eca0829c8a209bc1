"""Disks that fail and files that rot: every fault is told with the file's name, and what was whole before stays whole."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.tidegate.wire.test_manifest import make_manifest
from tidegate.model.checkpoint import CheckpointManifest
from tidegate.model.errors import CorruptData, StorageError, VersionMismatch
from tidegate.model.ids import CheckpointId, JobId
from tidegate.store.checkpoints import CheckpointStorage
from tidegate.store.files import LocalCalls, LocalFiles, Part
from tidegate.store.segments import open_segment_source, open_segment_store

JOB, ATTEMPT = JobId("a" * 32), "attempt"
REASONS = [errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.EIO]
STATE = b"0123456789" * 20


class Disk(LocalCalls):
    """``broken``: the call that fails now, and its error."""

    def __init__(self) -> None:
        self.broken: tuple[str, int] | None = None

    def _meet(self, call: str, path: str = "") -> None:
        if self.broken is not None and self.broken[0] == call:
            raise OSError(self.broken[1], os.strerror(self.broken[1]), path)

    def open(self, path: str, flags: int) -> int:
        if flags & os.O_CREAT:
            self._meet("open", path)
        return super().open(path, flags)

    def write(self, descriptor: int, data: Part) -> int:
        self._meet("write")
        return super().write(descriptor, data)

    def fsync(self, descriptor: int) -> None:
        self._meet("fsync")
        super().fsync(descriptor)

    def unlink(self, path: str) -> None:
        self._meet("unlink", path)
        super().unlink(path)


def manifest_of(number: int) -> CheckpointManifest:
    return replace(make_manifest(), checkpoint_id=CheckpointId(number))


def completed(storage: CheckpointStorage, directory: Path, number: int) -> Path:
    location = storage.create_location(str(directory), JOB, CheckpointId(number))
    (Path(location) / "count-x-0").write_bytes(b"0" * 70_000)
    assert storage.write_manifest(location, manifest_of(number)).error is None
    return Path(location)


@pytest.mark.parametrize("reason", REASONS, ids=errno.errorcode.get)
@pytest.mark.parametrize("call", ["open", "write", "fsync"])
def test_a_manifest_that_cannot_be_written_is_no_checkpoint_and_the_one_before_stays(
    tmp_path: Path, call: str, reason: int
) -> None:
    disk = Disk()
    storage = CheckpointStorage(LocalFiles(disk))
    before = completed(storage, tmp_path, 1)
    location = storage.create_location(str(tmp_path), JOB, CheckpointId(2))
    disk.broken = (call, reason)
    failed = storage.write_manifest(location, manifest_of(2))
    assert failed.error is not None
    assert f"{location}/_metadata: {os.strerror(reason)}" in failed.error.message
    assert not failed.outcome_unknown
    disk.broken = None
    assert list(Path(location).iterdir()) == [], "nothing half written is left"
    with pytest.raises(StorageError, match="it was never completed"):
        storage.read_checkpoint(location)
    assert storage.read_checkpoint(str(before))[1] == manifest_of(1)
    assert storage.write_manifest(location, manifest_of(2)).error is None, "there is room again"


@pytest.mark.parametrize("reason", REASONS, ids=errno.errorcode.get)
@pytest.mark.parametrize("call", ["open", "write", "fsync"])
@pytest.mark.parametrize("is_shared", [False, True])
def test_a_segment_that_cannot_be_written_is_named_and_leaves_nothing(
    tmp_path: Path, call: str, reason: int, is_shared: bool
) -> None:
    disk = Disk()
    own, shared = tmp_path / "chk-1", tmp_path / "shared"
    own.mkdir()
    shared.mkdir()
    store = open_segment_store(str(own), ATTEMPT, 1, 0, LocalFiles(disk), str(shared))
    disk.broken = (call, reason)
    place = shared if is_shared else own
    with pytest.raises(StorageError, match=rf"{place}/count-.*: {os.strerror(reason)}"):
        store.write("count", [STATE], is_shared=is_shared)
    disk.broken = None
    assert [*own.iterdir(), *shared.iterdir()] == []
    handle = store.write("count", [STATE], is_shared=is_shared)
    assert bytes(open_segment_source(str(own)).read(handle)) == STATE


def test_a_checkpoint_that_may_not_be_removed_is_told_and_can_be_removed_later(tmp_path: Path) -> None:
    disk = Disk()
    storage = CheckpointStorage(LocalFiles(disk))
    location = completed(storage, tmp_path, 1)
    disk.broken = ("unlink", errno.EACCES)
    with pytest.raises(StorageError, match=rf"cannot remove {location}.*Permission denied"):
        storage.discard(str(location))
    assert storage.read_checkpoint(str(location))[1] == manifest_of(1), "_metadata goes first, or nothing does"
    disk.broken = None
    storage.discard(str(location))
    assert not location.exists()


def test_each_byte_of_metadata_that_is_flipped_is_noticed(tmp_path: Path) -> None:
    storage = CheckpointStorage()
    file = completed(storage, tmp_path, 1) / "_metadata"
    content = file.read_bytes()
    for position in range(len(content)):
        flipped = bytearray(content)
        flipped[position] ^= 0x10
        file.write_bytes(flipped)
        with pytest.raises((CorruptData, VersionMismatch), match="_metadata"):
            storage.read_manifest(str(file.parent))


def test_metadata_that_is_cut_off_anywhere_was_not_written(tmp_path: Path) -> None:
    storage = CheckpointStorage()
    file = completed(storage, tmp_path, 1) / "_metadata"
    content = file.read_bytes()
    for size in range(len(content)):
        file.write_bytes(content[:size])
        settled = storage.read_back(str(file.parent))
        assert settled.error is not None
        assert not settled.outcome_unknown
        with pytest.raises(CorruptData, match="_metadata"):
            storage.read_manifest(str(file.parent))


def test_each_byte_of_a_segment_that_is_flipped_is_noticed(tmp_path: Path) -> None:
    handle = open_segment_store(str(tmp_path), ATTEMPT, 1, 0).write("count", [STATE])
    source = open_segment_source(str(tmp_path))
    for position in range(len(STATE)):
        flipped = bytearray(STATE)
        flipped[position] ^= 1
        (tmp_path / handle.path).write_bytes(flipped)
        with pytest.raises(CorruptData, match=f"{tmp_path}/{handle.path} is damaged"):
            source.read(handle)


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_state_file_that_was_removed_is_named_before_anything_starts(tmp_path: Path, is_shared: bool) -> None:
    storage = CheckpointStorage()
    location = completed(storage, tmp_path, 1)
    (location / "count-x-0").unlink()
    with pytest.raises(CorruptData, match=rf"{location}/count-x-0 of operator 'wähle' is missing"):
        storage.read_checkpoint(str(location))
    own = open_segment_store(str(location), ATTEMPT, 1, 0, shared_location=str(location.parent / "shared"))
    handle = own.write("count", [STATE], is_shared=is_shared)
    place = Path(handle.path) if is_shared else location / handle.path
    place.unlink()
    with pytest.raises(CorruptData, match=f"state file {place} is missing"):
        open_segment_source(str(location)).read(handle)


@pytest.mark.parametrize(
    ("reason", "lasts"), [(errno.ENOSPC, True), (errno.EROFS, True), (errno.EACCES, True), (errno.EIO, False)]
)
def test_what_does_not_go_away_by_itself_is_told_apart(tmp_path: Path, reason: int, lasts: bool) -> None:
    disk = Disk()
    disk.broken = ("write", reason)
    store = open_segment_store(str(tmp_path), ATTEMPT, 1, 0, LocalFiles(disk))
    with pytest.raises(StorageError) as raised:
        store.write("count", [STATE])
    assert raised.value.is_lasting == lasts
