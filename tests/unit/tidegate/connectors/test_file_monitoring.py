"""A directory that is watched: every file is read once, by one subtask, whenever it comes and wherever the job restarts."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.e2e.waiting import wait_until
from tidegate.common import Duration
from tidegate.connectors.base import ReaderContext, SourceReader, SplitState
from tidegate.connectors.file_source import FileSource
from tidegate.datastream.connectors.file_system import FileEnumeratorProvider, StreamFormat
from tidegate.datastream.connectors.file_system import FileSource as PyFlinksFileSource
from tidegate.model.errors import InvalidJob
from tidegate.records.batch import ArrowBatch

LIMIT_S = 30.0


class Reading:
    """One subtask's reader, and what it has read."""

    def __init__(
        self, source: FileSource, states: Sequence[SplitState], subtask: int = 0, parallelism: int = 1
    ) -> None:
        self.lines: list[str] = []
        context = ReaderContext(subtask, parallelism, 128, "j", "a", "o", wakeup=threading.Event().set)
        self.reader: SourceReader = source.make_reader(context)
        self.reader.open(states)

    def poll(self) -> list[str]:
        while (polled := self.reader.poll()) is not None:
            assert isinstance(polled.batch, ArrowBatch)
            self.lines += polled.batch.data.column(0).to_pylist()
            self.reader.advance(len(polled.batch))
        return self.lines


def arrive(path: Path, text: str) -> None:
    """A file that is whole when it is seen, as whoever feeds a watched directory has to bring it."""
    hidden = path.with_name(f".{path.name}")
    hidden.write_text(text)
    hidden.rename(path)


def states_of(source: FileSource) -> list[SplitState]:
    return [SplitState(split) for split in source.list_splits(1)]


def test_a_file_that_comes_later_is_read_and_a_restart_does_not_read_it_again(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    source = FileSource.for_text(str(tmp_path)).monitor_continuously(5)
    assert not source.bounded
    first = Reading(source, states_of(source))
    wait_until(lambda: first.poll() == ["one"], LIMIT_S, "the first file is read")
    arrive(tmp_path / "b.txt", "two\nthree\n")
    wait_until(lambda: first.poll() == ["one", "two", "three"], LIMIT_S, "the second file is read")
    wait_until(
        lambda: not first.poll() or all(s.done for s in first.reader.snapshot_state()), LIMIT_S, "its end is seen"
    )
    kept = first.reader.snapshot_state()
    first.reader.close()
    assert not first.reader.is_finished()

    (tmp_path / "c.txt").write_text("four\n")
    again = Reading(source, kept)
    wait_until(lambda: again.poll() == ["four"], LIMIT_S, "only the third file is read")
    again.reader.close()


def test_each_file_belongs_to_one_subtask(tmp_path: Path) -> None:
    source = FileSource.for_text(str(tmp_path), range_bytes=4).monitor_continuously(5)
    assert source.list_splits(2) == []
    readings = [Reading(source, [], subtask, 2) for subtask in range(2)]
    for n in range(20):
        arrive(tmp_path / f"{n}.txt", f"{n} with more than four bytes\n")
    expected = sorted(f"{n} with more than four bytes" for n in range(20))
    wait_until(lambda: sorted(readings[0].poll() + readings[1].poll()) == expected, LIMIT_S, "all files are read")
    assert readings[0].lines
    assert readings[1].lines
    for reading in readings:
        reading.reader.close()


def test_a_path_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidJob, match="does not exist"):
        FileSource.for_text(str(tmp_path / "none")).monitor_continuously(1000).list_splits(1)


def test_pyflinks_builder_watches_too(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    builder = PyFlinksFileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path))
    watching = builder.monitor_continuously(Duration.of_seconds(10)).build()
    assert not watching.bounded
    assert builder.set_file_enumerator(FileEnumeratorProvider.default_non_splittable_file_enumerator()).build().bounded


def test_a_relative_directory_is_the_one_that_the_client_saw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "clicks").mkdir()
    elsewhere = tmp_path / "working directory of a TaskManager"
    elsewhere.mkdir()
    monkeypatch.chdir(tmp_path)
    source = FileSource.for_text("clicks").monitor_continuously(5)
    monkeypatch.chdir(elsewhere)
    reading = Reading(source, [])
    arrive(tmp_path / "clicks" / "a.txt", "one\n")
    wait_until(lambda: reading.poll() == ["one"], LIMIT_S, "the file is read")
    reading.reader.close()
