"""Parts of objects: which ranges are asked for, and what becomes of answers that are not what they should be."""

from __future__ import annotations

import errno
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tidegate.model.checkpoint import StateHandle
from tidegate.model.errors import CorruptData, StorageError
from tidegate.store import fetched_file
from tidegate.store.fetched_file import FetchedFile
from tidegate.store.segments import open_segment_store
from tidegate.store.verified_file import BLOCK_BYTES

CONTENT = random.Random(7).randbytes(6 * BLOCK_BYTES + 1000)
PLACE = "s3://bucket/chk-1/count"


class Object:
    """An object in memory. Answers wait while ``is_held``."""

    def __init__(self, content: bytes = CONTENT) -> None:
        self.content = content
        self.size_bytes = len(content)
        self.requests: list[tuple[int, int]] = []
        self.answers = threading.Event()
        self.answers.set()
        self.arrived = threading.Semaphore(0)

    def read_at(self, first: int, size_bytes: int) -> bytes:
        self.requests.append((first, size_bytes))
        self.arrived.release()
        assert self.answers.wait(10)
        return self.content[first : first + size_bytes]


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


@pytest.fixture
def handle(tmp_path: Path) -> StateHandle:
    return open_segment_store(str(tmp_path), f"{'a' * 32}_{'b' * 32}_0_3", 1, 0).write("count", [CONTENT])


def test_blocks_are_asked_for_once_and_neighbours_together(
    pool: ThreadPoolExecutor, handle: StateHandle, tmp_path: Path
) -> None:
    source = Object()
    file = FetchedFile(source, handle, PLACE, str(tmp_path), pool)
    file.need(2 * BLOCK_BYTES + 5, 2 * BLOCK_BYTES + 6)
    assert source.requests == [(2 * BLOCK_BYTES, BLOCK_BYTES)]
    file.need(0, len(CONTENT))
    file.need(7, 7)
    behind = (3 * BLOCK_BYTES, len(CONTENT) - 3 * BLOCK_BYTES)
    assert sorted(source.requests) == [(0, 2 * BLOCK_BYTES), (2 * BLOCK_BYTES, BLOCK_BYTES), behind]
    assert file.is_whole
    assert file.content == CONTENT


def test_what_is_more_than_a_request_is_asked_for_by_several_at_once(
    pool: ThreadPoolExecutor, handle: StateHandle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetched_file, "REQUEST_BYTES", 2 * BLOCK_BYTES)
    source = Object()
    source.answers.clear()
    file = FetchedFile(source, handle, PLACE, str(tmp_path), pool)
    asking = threading.Thread(target=file.need, args=(0, len(CONTENT)))
    asking.start()
    for _ in range(4):
        assert source.arrived.acquire(timeout=10)  # none has been answered
    source.answers.set()
    asking.join(10)
    assert file.content == CONTENT


def test_a_block_that_is_on_its_way_is_waited_for(
    pool: ThreadPoolExecutor, handle: StateHandle, tmp_path: Path
) -> None:
    source = Object()
    source.answers.clear()
    file = FetchedFile(source, handle, PLACE, str(tmp_path), pool)
    threads = [threading.Thread(target=file.need, args=(0, end)) for end in (BLOCK_BYTES, 2 * BLOCK_BYTES, 10)]
    threads[0].start()
    assert source.arrived.acquire(timeout=10)
    threads[1].start()
    assert source.arrived.acquire(timeout=10)
    threads[2].start()
    source.answers.set()
    for thread in threads:
        thread.join(10)
    assert source.requests == [(0, BLOCK_BYTES), (BLOCK_BYTES, BLOCK_BYTES)]
    assert file.content[: 2 * BLOCK_BYTES] == CONTENT[: 2 * BLOCK_BYTES]


def test_answers_that_are_short_damaged_or_errors_are_refused_by_address_and_asked_for_again(
    pool: ThreadPoolExecutor, handle: StateHandle, tmp_path: Path
) -> None:
    source = Object()
    file = FetchedFile(source, handle, PLACE, str(tmp_path), pool)
    source.content = CONTENT[: BLOCK_BYTES + 10]
    with pytest.raises(CorruptData, match=f"{PLACE}: the store gave {BLOCK_BYTES + 10} bytes from byte 0 on instead"):
        file.need(0, 2 * BLOCK_BYTES)
    source.content = CONTENT[: BLOCK_BYTES + 10] + b"x" + CONTENT[BLOCK_BYTES + 11 :]
    with pytest.raises(CorruptData, match=f"{PLACE} is damaged between its bytes {BLOCK_BYTES} and {2 * BLOCK_BYTES}"):
        file.need(0, len(CONTENT))
    file.need(0, BLOCK_BYTES)
    source.content = CONTENT
    file.need(0, len(CONTENT))
    assert file.content == CONTENT


def test_an_object_that_is_gone_meanwhile_is_one_error_with_its_address(
    pool: ThreadPoolExecutor, handle: StateHandle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(first: int, size_bytes: int) -> bytes:
        raise OSError(errno.ENOENT, "no such key")

    source = Object()
    monkeypatch.setattr(source, "read_at", gone)
    file = FetchedFile(source, handle, PLACE, str(tmp_path), pool)
    with pytest.raises(StorageError, match=f"cannot read bytes 0 to .* of the state file {PLACE}: no such key"):
        file.need(0, 10)


def test_objects_of_another_length_handles_that_do_not_fit_and_missing_directories_are_refused_at_once(
    pool: ThreadPoolExecutor, handle: StateHandle, tmp_path: Path
) -> None:
    with pytest.raises(CorruptData, match=f"{PLACE} has {len(CONTENT) - 1} bytes, expected {len(CONTENT)}"):
        FetchedFile(Object(CONTENT[:-1]), handle, PLACE, "", pool)
    with pytest.raises(CorruptData, match="8 bytes of checksums for 7 blocks"):
        FetchedFile(Object(), replace(handle, block_checksums=b"12345678"), PLACE, "", pool)
    with pytest.raises(
        StorageError, match=f"cannot keep blocks of the state file {PLACE}, of {len(CONTENT)} bytes, in "
    ):
        FetchedFile(Object(), handle, PLACE, str(tmp_path / "none"), pool)
