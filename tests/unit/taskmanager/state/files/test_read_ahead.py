"""Files are read before they are asked for, a bounded number of them, and what goes wrong is told by whoever asks."""

from __future__ import annotations

import errno
import os
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tidegate.model.checkpoint import SegmentHandle, StateHandle
from tidegate.model.errors import CorruptData, StorageError
from tidegate.model.keygroups import KeyGroupRange
from tidegate.store.files import LocalCalls, LocalFiles
from tidegate.store.segments import open_segment_source, open_segment_store
from tidegate.taskmanager.state.files import segments as state_segments
from tidegate.taskmanager.state.files.read_ahead import AHEAD, ReadAhead, in_reading_order
from tidegate.taskmanager.state.files.segment_streams import write_segments
from tidegate.taskmanager.state.files.segments import StateDescription, read_keyed_batches

PATIENCE_S = 30.0


class Content(bytearray):
    """That can be seen to be gone."""


class Source:
    """Gives the path as bytes. ``errors``: by path, what is raised. ``gate``: nothing is given before it is open."""

    def __init__(self) -> None:
        self.errors: dict[str, Exception] = {}
        self.gate = threading.Event()
        self.gate.set()
        self.story: list[tuple[str, str]] = []
        """(path, thread)"""
        self.most_held = 0
        self._given: list[weakref.ref[Content]] = []
        self._changed = threading.Condition()

    @property
    def read_paths(self) -> list[str]:
        return [path for path, _ in self.story]

    @property
    def held(self) -> int:
        return sum(content() is not None for content in self._given)

    def read(self, handle: StateHandle) -> memoryview:
        with self._changed:
            self.story.append((handle.path, threading.current_thread().name))
            self._changed.notify_all()
        assert self.gate.wait(PATIENCE_S)
        if handle.path in self.errors:
            raise self.errors[handle.path]
        content = Content(handle.data or handle.path.encode())
        self._given.append(weakref.ref(content))
        self.most_held = max(self.most_held, self.held)
        return memoryview(content)

    def until_begun(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.story) >= count, PATIENCE_S)


def files(*paths: str) -> list[StateHandle]:
    return [StateHandle(len(path), "", path) for path in paths]


def readers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "state-reader"]


@pytest.fixture(autouse=True)
def no_thread_stays() -> object:
    yield
    assert readers() == []


def test_the_next_files_are_read_while_one_is_used() -> None:
    source, handles = Source(), files("a", "b", "c", "d", "e")
    with ReadAhead(source, handles) as ahead:
        for number, handle in enumerate(handles):
            assert bytes(ahead.read(handle)) == handle.path.encode()
            source.until_begun(min(len(handles), number + 1 + AHEAD))
    assert source.story == [(handle.path, "state-reader") for handle in handles]


def test_never_are_more_files_held_than_the_one_in_use_and_those_ahead() -> None:
    source, handles = Source(), files(*map(str, range(50)))
    with ReadAhead(source, handles) as ahead:
        source.until_begun(AHEAD)
        for handle in handles:
            assert bytes(ahead.read(handle)) == handle.path.encode()
    assert AHEAD <= source.most_held <= AHEAD + 1
    assert source.held == 0, "nor is any when the block is left"


def test_an_error_is_raised_where_its_file_is_asked_for() -> None:
    source, handles = Source(), files("a", "b", "c")
    source.errors["b"] = StorageError("cannot read b")
    with ReadAhead(source, handles) as ahead:
        source.until_begun(2)
        assert bytes(ahead.read(handles[0])) == b"a"
        with pytest.raises(StorageError, match="cannot read b") as raised:
            ahead.read(handles[1])
        assert raised.value is source.errors["b"]
        assert bytes(ahead.read(handles[2])) == b"c"


def test_a_restore_that_fails_leaves_no_thread_and_holds_nothing() -> None:
    source = Source()

    def fail() -> None:
        with ReadAhead(source, files(*"abcdef")) as ahead:
            ahead.read(files("a")[0])
            raise ValueError("of the operator")

    with pytest.raises(ValueError, match="of the operator"):
        fail()
    assert source.held == 0
    assert len(source.story) <= 1 + AHEAD


def test_closing_waits_for_the_read_under_way_and_begins_no_other() -> None:
    source = Source()
    source.gate.clear()
    with ReadAhead(source, files("a", "b", "c")):
        source.until_begun(1)
        threading.Thread(target=source.gate.set).start()
    assert readers() == []
    assert source.held == 0
    assert "c" not in source.read_paths


def test_what_was_not_announced_is_read_at_once_and_what_is_passed_over_is_let_go() -> None:
    source, handles = Source(), files(*"abcdef")
    with ReadAhead(source, handles) as ahead:
        source.until_begun(AHEAD)
        assert bytes(ahead.read(files("x")[0])) == b"x"
        assert ("x", threading.current_thread().name) in source.story
        assert bytes(ahead.read(handles[4])) == b"e"
        assert bytes(ahead.read(handles[5])) == b"f"
        assert bytes(ahead.read(handles[0])) == b"a", "it was there once, and is read again"
        assert source.most_held <= AHEAD + 2
    assert "d" not in source.read_paths


@pytest.mark.parametrize("handles", [files("a"), [], [StateHandle(1, "", data=b"1"), StateHandle(1, "", data=b"2")]])
def test_one_file_and_inline_state_need_no_thread(handles: list[StateHandle]) -> None:
    source = Source()
    with ReadAhead(source, handles) as ahead:
        assert readers() == []
        for handle in handles:
            assert bytes(ahead.read(handle)) == (handle.data or handle.path.encode())


def test_inline_state_among_files_is_not_read_ahead() -> None:
    source, inline = Source(), StateHandle(1, "", data=b"1")
    handles = [*files("a"), inline, *files("b")]
    with ReadAhead(source, handles) as ahead:
        assert [bytes(ahead.read(handle)) for handle in handles] == [b"a", b"1", b"b"]
    assert sorted(source.story) == [
        ("", threading.current_thread().name),
        ("a", "state-reader"),
        ("b", "state-reader"),
    ]


def test_parts_of_one_file_read_it_once() -> None:
    def part(path: str, group: int, level: int) -> SegmentHandle:
        return SegmentHandle("s", KeyGroupRange(group, group), (0, 1), files(path)[0], level)

    parts = [part("base", 0, 0), part("new", 1, 0), part("delta", 0, 1), part("base", 2, 0)]
    ordered = in_reading_order(parts)
    assert [(s.handle.path, s.key_groups.start) for s in ordered] == [
        ("base", 0),
        ("base", 2),
        ("new", 1),
        ("delta", 0),
    ]
    source = Source()
    with ReadAhead(source, [segment.handle for segment in ordered]) as ahead:
        for segment in ordered:
            assert bytes(ahead.read(segment.handle)) == segment.handle.path.encode()
    assert source.read_paths == ["base", "new", "delta"]


class Disk(LocalCalls):
    """``broken``: the file of which only the beginning can be read."""

    def __init__(self) -> None:
        self.broken = ""
        self._descriptors: dict[int, str] = {}

    def open(self, path: str, flags: int) -> int:
        descriptor = super().open(path, flags)
        self._descriptors[descriptor] = path
        return descriptor

    def read_into(self, descriptor: int, buffers: Sequence[bytearray]) -> int:
        found = super().read_into(descriptor, buffers[:1])
        if self._descriptors[descriptor] == self.broken and os.lseek(descriptor, 0, os.SEEK_CUR) > 1 << 20:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return found


def written(directory: Path, monkeypatch: pytest.MonkeyPatch) -> list[SegmentHandle]:
    """Four key groups, each a file of more than a megabyte."""
    monkeypatch.setattr("tidegate.taskmanager.state.files.segment_streams.FILE_BYTES", 1)
    numbers = pa.array(np.arange(200_000, dtype=np.int64))
    batches = ((np.full(200_000, g, np.int32), pa.RecordBatch.from_arrays([numbers], ["value"])) for g in range(4))
    store = open_segment_store(str(directory), "attempt", 1, 0)
    return list(write_segments(store, StateDescription("op", "s", "value"), batches, KeyGroupRange(0, 3)))


def test_a_disk_that_fails_ahead_is_an_error_that_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segments, disk = written(tmp_path, monkeypatch), Disk()
    disk.broken = f"{tmp_path}/{segments[1].handle.path}"
    source = open_segment_source(str(tmp_path), LocalFiles(disk))
    with ReadAhead(source, [segment.handle for segment in segments]) as ahead:
        ahead.read(segments[0].handle)
        with pytest.raises(StorageError, match=f"{disk.broken}: {os.strerror(errno.EIO)}"):
            ahead.read(segments[1].handle)
        assert ahead.read(segments[2].handle).nbytes == segments[2].handle.size_bytes


def test_nothing_of_a_damaged_file_is_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segments = written(tmp_path, monkeypatch)
    damaged = tmp_path / segments[2].handle.path
    content = bytearray(damaged.read_bytes())
    content[-5000] ^= 1
    damaged.write_bytes(content)
    decoded: list[str] = []
    decode = state_segments._from_ipc

    def noted(content: memoryview, name: str) -> pa.Table:
        decoded.append(name)
        return decode(content, name)

    monkeypatch.setattr(state_segments, "_from_ipc", noted)
    with ReadAhead(open_segment_source(str(tmp_path)), [segment.handle for segment in segments]) as ahead:
        for segment in segments[:2]:
            assert [len(groups) for groups, _ in read_keyed_batches(ahead, segment, KeyGroupRange(0, 3))] == [200_000]
        with pytest.raises(CorruptData, match=f"{damaged} is damaged"):
            next(read_keyed_batches(ahead, segments[2], KeyGroupRange(0, 3)))
    assert decoded == [f"state file {segment.handle.path}" for segment in segments[:2]]
