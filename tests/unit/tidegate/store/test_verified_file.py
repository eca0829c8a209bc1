"""Parts of state files, verified before they are looked at."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path

import pytest
import xxhash

from tidegate.model.checkpoint import StateHandle
from tidegate.model.errors import CorruptData
from tidegate.store.segments import open_segment_source, open_segment_store
from tidegate.store.verified_file import BLOCK_BYTES, BlockChecksums, VerifiedFile
from tidegate.taskmanager.state.files.local_copies import LocalCopies

ATTEMPT = f"{'a' * 32}_{'b' * 32}_0_3"
CONTENT = random.Random(7).randbytes(3 * BLOCK_BYTES + 1000)


def written(directory: Path, content: bytes = CONTENT) -> StateHandle:
    return open_segment_store(str(directory), ATTEMPT, 1, 0).write("count", [content])


def opened(directory: Path, handle: StateHandle) -> VerifiedFile:
    found = open_segment_source(str(directory)).open(handle)
    assert isinstance(found, VerifiedFile)
    return found


@pytest.mark.parametrize("size", [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 2 * BLOCK_BYTES, len(CONTENT)])
def test_a_file_of_more_than_one_block_has_a_checksum_for_each_however_it_is_written(size: int) -> None:
    blocks = [CONTENT[at : min(at + BLOCK_BYTES, size)] for at in range(0, size, BLOCK_BYTES)]
    expected = b"".join(map(xxhash.xxh3_64_digest, blocks)) if len(blocks) > 1 else b""
    for step in (1000, BLOCK_BYTES, len(CONTENT)):
        checksums = BlockChecksums()
        for at in range(0, size, step):
            checksums.add(memoryview(CONTENT)[at : min(at + step, size)])
        assert checksums.digests() == expected


def test_only_blocks_that_are_needed_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, pread = opened(tmp_path, written(tmp_path)), os.pread
    read: list[tuple[int, int]] = []

    def recorded(descriptor: int, size_bytes: int, at: int) -> bytes:
        read.append((at, size_bytes))
        return pread(descriptor, size_bytes, at)

    monkeypatch.setattr(os, "pread", recorded)
    file.need(BLOCK_BYTES + 5, BLOCK_BYTES + 6)
    file.need(BLOCK_BYTES, 2 * BLOCK_BYTES)
    file.need(10, 10)
    assert read == [(BLOCK_BYTES, BLOCK_BYTES)]
    assert not file.is_whole
    file.need(0, len(CONTENT))
    neighbours = (2 * BLOCK_BYTES, len(CONTENT) - 2 * BLOCK_BYTES)
    assert sorted(read) == [(0, BLOCK_BYTES), (BLOCK_BYTES, BLOCK_BYTES), neighbours]
    assert file.is_whole
    assert file.content == CONTENT


def test_a_damaged_block_is_refused_by_name_and_the_others_are_read(tmp_path: Path) -> None:
    handle = written(tmp_path)
    damage(tmp_path / handle.path, 2 * BLOCK_BYTES + 17)
    file = opened(tmp_path, handle)
    file.need(0, 2 * BLOCK_BYTES)
    with pytest.raises(CorruptData, match=f"{handle.path} is damaged between its bytes {2 * BLOCK_BYTES} and "):
        file.need(2 * BLOCK_BYTES, 2 * BLOCK_BYTES + 1)


@pytest.mark.parametrize("at", [0, len(CONTENT) - 1])
def test_a_file_whose_handle_knows_no_blocks_is_verified_whole_at_the_first_look(tmp_path: Path, at: int) -> None:
    handle = replace(written(tmp_path), block_checksums=b"")
    opened(tmp_path, handle).need(0, 1)
    damage(tmp_path / handle.path, at)
    with pytest.raises(CorruptData, match=handle.path):
        opened(tmp_path, handle).need(0, 1)


def test_files_of_another_length_and_missing_ones_are_refused_when_they_are_opened(tmp_path: Path) -> None:
    handle = written(tmp_path)
    with open(tmp_path / handle.path, "ab") as file:
        file.write(b"x")
    with pytest.raises(CorruptData, match=handle.path):
        opened(tmp_path, handle)
    os.truncate(tmp_path / handle.path, handle.size_bytes)
    with pytest.raises(CorruptData, match="checksums for 4 blocks"):
        opened(tmp_path, replace(handle, block_checksums=b"12345678"))
    (tmp_path / handle.path).unlink()
    with pytest.raises(CorruptData, match="is missing"):
        opened(tmp_path, handle)


def test_a_file_that_is_deleted_meanwhile_stays_readable(tmp_path: Path) -> None:
    handle = written(tmp_path)
    file = opened(tmp_path, handle)
    (tmp_path / handle.path).unlink()
    file.need(0, len(CONTENT))
    assert file.content == CONTENT


def test_a_damaged_block_among_neighbours_is_the_one_that_is_named(tmp_path: Path) -> None:
    handle = written(tmp_path)
    damage(tmp_path / handle.path, 2 * BLOCK_BYTES + 17)
    file = opened(tmp_path, handle)
    with pytest.raises(CorruptData, match=f"damaged between its bytes {2 * BLOCK_BYTES} and {3 * BLOCK_BYTES}"):
        file.need(0, len(CONTENT))


def test_inline_state_and_objects_without_checksums_of_blocks_are_not_read_in_parts(tmp_path: Path) -> None:
    source = open_segment_source(str(tmp_path))
    assert source.open(StateHandle(1, xxhash.xxh3_64_hexdigest(b"a"), data=b"a")) is None
    assert source.open(StateHandle(BLOCK_BYTES + 1, "", path="s3://bucket/file")) is None


def test_a_damaged_block_of_a_local_copy_is_taken_from_the_file_itself(tmp_path: Path) -> None:
    remote = tmp_path / "remote"
    remote.mkdir()
    copies = LocalCopies(tmp_path / "local")
    handle = copies.store(open_segment_store(str(remote), ATTEMPT, 1, 0), 1).write("count", [CONTENT])
    damage(tmp_path / "local" / "chk_1" / handle.path, BLOCK_BYTES + 3)
    source = copies.source(open_segment_source(str(remote)), 1)
    file = source.open(handle)
    assert file is not None
    file.need(0, len(CONTENT))
    assert (file.content == CONTENT, source.local_reads, source.remote_reads) == (True, 1, 0)
    os.truncate(tmp_path / "local" / "chk_1" / handle.path, 100)
    again = source.open(handle)
    assert again is not None
    again.need(0, len(CONTENT))
    assert (again.content == CONTENT, source.remote_reads) == (True, 1)


def damage(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)
