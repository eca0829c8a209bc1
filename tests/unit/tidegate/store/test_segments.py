from __future__ import annotations

import errno
from pathlib import Path

import pytest
import xxhash

from tidegate.model.checkpoint import StateHandle
from tidegate.model.errors import CorruptData, StorageError
from tidegate.store.files import LocalCalls, LocalFiles, Part
from tidegate.store.segments import MEMORY_STATE_MAX_BYTES, open_segment_source, open_segment_store
from tidegate.taskmanager.runtime.environment import RuntimeSettings

ATTEMPT = f"{'a' * 32}_{'b' * 32}_0_3"


class FullDisk(LocalCalls):
    """Takes some bytes, then has no space left."""

    def __init__(self, room_bytes: int) -> None:
        self.room_bytes = room_bytes

    def write(self, descriptor: int, data: Part) -> int:
        if self.room_bytes <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = super().write(descriptor, memoryview(data)[: self.room_bytes])
        self.room_bytes -= written
        return written


class RecordedCalls(LocalCalls):
    def __init__(self) -> None:
        self.story: list[str] = []

    def write(self, descriptor: int, data: Part) -> int:
        self.story.append("write")
        return super().write(descriptor, memoryview(data)[:3])  # a short write: the rest comes later

    def fsync(self, descriptor: int) -> None:
        self.story.append("fsync")
        super().fsync(descriptor)

    def rename(self, source: str, target: str) -> None:
        self.story.append("rename")
        super().rename(source, target)


def test_small_segments_come_back_inline(tmp_path: Path) -> None:
    store = open_segment_store(str(tmp_path), ATTEMPT, 1, 4)
    handle = store.write("count", [b"ab", memoryview(b"cd")])
    assert handle == StateHandle(4, xxhash.xxh3_64_hexdigest(b"abcd"), data=b"abcd")
    assert list(tmp_path.iterdir()) == []
    assert bytes(open_segment_source(str(tmp_path)).read(handle)) == b"abcd"


def test_large_segments_become_files_named_by_attempt(tmp_path: Path) -> None:
    store = open_segment_store(str(tmp_path), ATTEMPT, 1, 4)
    first, second = store.write("a/b c", [b"01234"]), store.write("a/b c", [b"56789"])
    assert first.path == f"a_b_c-{ATTEMPT}-0"
    assert {path.name for path in tmp_path.iterdir()} == {first.path, second.path}
    assert bytes(open_segment_source(f"file://{tmp_path}").read(second)) == b"56789"


def test_a_file_is_synced_before_it_gets_its_name_and_the_directory_after(tmp_path: Path) -> None:
    calls = RecordedCalls()
    open_segment_store(str(tmp_path), ATTEMPT, 1, 0, LocalFiles(calls)).write("x", [b"0123", b"4"])
    assert calls.story == ["write", "write", "write", "fsync"]  # its directory is synced before _metadata


class CountedCalls(LocalCalls):
    def __init__(self) -> None:
        self.sizes: list[int] = []

    def write(self, descriptor: int, data: Part) -> int:
        self.sizes.append(memoryview(data).nbytes)
        return super().write(descriptor, data)


@pytest.mark.parametrize(
    ("buffer_bytes", "sizes"),
    [(1, [3, 2, 40, 1, 1]), (4, [3, 2, 40, 2]), (16, [5, 40, 2]), (4096, [47])],
)
def test_small_pieces_are_gathered_in_the_write_buffer_and_large_ones_pass(
    tmp_path: Path, buffer_bytes: int, sizes: list[int]
) -> None:
    calls = CountedCalls()
    store = open_segment_store(str(tmp_path), ATTEMPT, 1, 0, LocalFiles(calls), write_buffer_bytes=buffer_bytes)
    handle = store.write("x", [b"abc", memoryview(b"de"), b"f" * 40, b"", b"g", b"h"])
    assert bytes(open_segment_source(str(tmp_path)).read(handle)) == b"abcde" + b"f" * 40 + b"gh"
    assert [size for size in calls.sizes if size] == sizes


def test_the_write_buffer_is_an_option_of_the_job() -> None:
    settings = RuntimeSettings.of({"state.storage.fs.write-buffer-size": "77"})
    assert settings.write_buffer_bytes == 77
    assert RuntimeSettings.of({}).write_buffer_bytes == 4096


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    store = open_segment_store(str(tmp_path), ATTEMPT, 1, 0, LocalFiles(FullDisk(3)))
    with pytest.raises(StorageError, match=rf"cannot write {tmp_path}/x-.*: No space left on device"):
        store.write("x", [b"01234"])
    assert list(tmp_path.iterdir()) == []


def test_an_aborted_checkpoint_is_not_brought_back(tmp_path: Path) -> None:
    gone = tmp_path / "chk-1"
    with pytest.raises(StorageError, match="its directory is gone; the checkpoint was aborted"):
        open_segment_store(str(gone), ATTEMPT, 1, 0).write("x", [b"01234"])
    assert not gone.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"0123", "ends at byte 4, expected 5 bytes"),
        (b"012345", "is too long: it has bytes up to 6, expected 5 bytes"),
        (b"01243", "is damaged"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    handle = open_segment_store(str(tmp_path), ATTEMPT, 1, 0).write("x", [b"01234"])
    (tmp_path / handle.path).write_bytes(content)
    with pytest.raises(CorruptData, match=f"{handle.path} {message}"):
        open_segment_source(str(tmp_path)).read(handle)


def test_a_missing_file_and_damaged_inline_state_are_named(tmp_path: Path) -> None:
    source = open_segment_source(str(tmp_path))
    with pytest.raises(CorruptData, match=f"state file {tmp_path}/x is missing"):
        source.read(StateHandle(1, "0" * 16, "x"))
    with pytest.raises(CorruptData, match=f"inside the checkpoint {tmp_path} is damaged"):
        source.read(StateHandle(1, "0" * 16, data=b"x"))


def test_without_a_directory_everything_travels_inline_up_to_a_limit() -> None:
    store = open_segment_store("memory:job/chk-1", ATTEMPT, 1, 0)
    handle = store.write("x", [b"0" * MEMORY_STATE_MAX_BYTES])
    assert open_segment_source("memory:job/chk-1").read(handle).nbytes == MEMORY_STATE_MAX_BYTES
    with pytest.raises(StorageError, match=r"set execution\.checkpointing\.dir"):
        store.write("x", [b"0" * MEMORY_STATE_MAX_BYTES, b"0"])


def test_an_unknown_scheme_is_refused_by_name() -> None:
    with pytest.raises(StorageError, match="cannot open nonsense://bucket/x"):
        open_segment_store("nonsense://bucket/x", ATTEMPT, 1, 0)


def test_a_large_file_is_mapped_and_stays_readable_when_it_is_removed(tmp_path: Path) -> None:
    content = bytes(range(256)) * (8 << 10)
    handle = open_segment_store(str(tmp_path), "attempt", 1, 0).write("state", [content])
    read = open_segment_source(str(tmp_path)).read(handle)
    (tmp_path / handle.path).unlink()
    assert bytes(read) == content


def test_a_new_file_never_takes_the_place_of_another(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"old")
    with pytest.raises(FileExistsError):
        LocalFiles().write_new(str(tmp_path / "there"), [b"new"])
    assert (tmp_path / "there").read_bytes() == b"old"


def test_a_new_file_that_could_not_be_written_is_gone(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left"):
        LocalFiles(FullDisk(3)).write_new(str(tmp_path / "new"), [b"0123456789"])
    assert list(tmp_path.iterdir()) == []
