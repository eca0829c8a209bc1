"""What is recorded is read again as it was; damage is one error that says where."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from tidegate.model.checkpoint import CheckpointOptions, SnapshotType, SubtaskSnapshot
from tidegate.model.errors import CorruptData
from tidegate.taskmanager.recording.calls import RecordedCall, RecordedKind
from tidegate.taskmanager.recording.recorder import Recorder
from tidegate.taskmanager.recording.segment_files import MAGIC, read_segment

OPTIONS = CheckpointOptions("/checkpoints/chk-1")


def batch(first: int, number: int = 3) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": list(range(first, first + number)), "text": ["a"] * number})


_opened: list[Recorder] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while _opened:
        _opened.pop().close()


def begun(directory: Path, max_bytes: int = 1 << 20) -> Recorder:
    recorder = Recorder(directory / "recording", max_bytes)
    _opened.append(recorder)
    recorder.begin(0, 1_000, lambda: recorder.place.records * 2)
    return recorder


def process(recorder: Recorder, found: pa.RecordBatch, *readings: int) -> None:
    recorder.enter_with(RecordedKind.PROCESS, 0, found)
    for reading in readings:
        recorder.read(reading)
    recorder.leave()


def calls(recorder: Recorder) -> list[RecordedCall]:
    return [call for path in recorder.segments for call in read_segment(path)[1]]


def complete(recorder: Recorder, checkpoint_id: int, options: CheckpointOptions = OPTIONS) -> None:
    recorder.frozen(checkpoint_id, options, 2_000)
    recorder.acknowledged(checkpoint_id, SubtaskSnapshot())
    recorder.completed(checkpoint_id)


def test_calls_come_back_with_batches_and_readings_of_the_clock(tmp_path: Path) -> None:
    recorder = begun(tmp_path)
    process(recorder, batch(0), 5, 5, 6, 5)
    recorder.enter(RecordedKind.USER_EVENT, 1, 0, b"content")
    recorder.leave()
    recorder.enter(RecordedKind.WATERMARK, -7)
    first, event, watermark = calls(recorder)
    assert first.batch == batch(0)
    assert (first.readings, first.emitted, first.has_ended) == (((5, 2), (6, 1), (5, 1)), 6, True)
    assert (event.kind, event.first, event.body) == (RecordedKind.USER_EVENT, 1, b"content")
    assert (watermark.kind, watermark.first, watermark.has_ended) == (RecordedKind.WATERMARK, -7, False)


def test_schemas_may_change_and_have_dictionaries(tmp_path: Path) -> None:
    recorder = begun(tmp_path)
    encoded = pa.RecordBatch.from_arrays([pa.array(["x", "y", "x"]).dictionary_encode()], names=["word"])
    found = [batch(0), encoded, encoded.slice(1), batch(7).slice(1, 1), batch(9)]
    for one in found:
        process(recorder, one)
    assert [call.batch.to_pylist() for call in calls(recorder) if call.batch] == [one.to_pylist() for one in found]


def test_calls_within_a_call_and_readings_outside_of_one_are_not_recorded(tmp_path: Path) -> None:
    recorder = begun(tmp_path)
    recorder.read(1)
    recorder.enter(RecordedKind.SUSPEND)
    recorder.enter(RecordedKind.PREPARE, 3)
    recorder.leave()
    recorder.leave()
    (found,) = calls(recorder)
    assert (found.kind, found.readings) == (RecordedKind.SUSPEND, ())


def test_what_is_before_a_completed_checkpoint_is_removed(tmp_path: Path) -> None:
    recorder = begun(tmp_path)
    process(recorder, batch(0))
    recorder.frozen(1, OPTIONS, 2_000)
    process(recorder, batch(10))
    recorder.frozen(2, OPTIONS, 3_000)
    process(recorder, batch(20))
    recorder.acknowledged(1, SubtaskSnapshot())
    assert len(recorder.segments) == 3
    recorder.completed(1)
    assert recorder.base is not None
    assert recorder.base.checkpoint_id == 1
    assert [call.batch for call in calls(recorder)] == [batch(10), batch(20)]
    start, _ = read_segment(recorder.segments[0])
    assert (start.checkpoint_id, start.records_before, start.emitted_before, start.now_ms) == (1, 3, 6, 2_000)
    assert len(list((tmp_path / "recording").iterdir())) == 2


def test_a_savepoint_is_nothing_to_begin_from(tmp_path: Path) -> None:
    recorder = begun(tmp_path)
    process(recorder, batch(0))
    complete(recorder, 1, CheckpointOptions("/savepoint", SnapshotType.SAVEPOINT))
    assert recorder.base is None
    assert [call.batch for call in calls(recorder)] == [batch(0)]


def test_more_than_the_bound_is_dropped_until_a_checkpoint_is_complete(tmp_path: Path) -> None:
    recorder = begun(tmp_path, max_bytes=4_000)
    recorder.frozen(1, OPTIONS, 1_500)
    for first in range(0, 3_000, 100):
        process(recorder, batch(first, 100))
    assert recorder.segments == []
    assert list((tmp_path / "recording").iterdir()) == []
    assert "more than 4000 bytes" in recorder.why_not
    recorder.acknowledged(1, SubtaskSnapshot())
    recorder.completed(1)
    assert recorder.why_not, "what came after checkpoint 1 is not whole"
    recorder.frozen(2, OPTIONS, 2_000)
    process(recorder, batch(7))
    recorder.acknowledged(2, SubtaskSnapshot())
    assert recorder.why_not
    recorder.completed(2)
    assert not recorder.why_not
    assert [call.batch for call in calls(recorder)] == [batch(7)]


def test_a_disk_that_cannot_be_written_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "recording").write_text("a file in the place of the folder")
    recorder = begun(tmp_path)
    process(recorder, batch(0))
    recorder.frozen(1, OPTIONS, 1_500)
    assert recorder.segments == []
    assert "cannot be written" in recorder.why_not
    assert str(tmp_path) in recorder.why_not


def test_only_the_user_can_read_it(tmp_path: Path) -> None:
    recorder = begun(tmp_path)
    process(recorder, batch(0))
    assert stat.S_IMODE((tmp_path / "recording").stat().st_mode) == 0o700
    assert [stat.S_IMODE(path.stat().st_mode) for path in recorder.segments] == [0o600]


def test_every_damaged_byte_is_found(tmp_path: Path) -> None:
    recorder = begun(tmp_path)
    process(recorder, batch(0), 5)
    recorder.enter(RecordedKind.WATERMARK, 4)
    recorder.leave()
    (path,) = recorder.segments
    content, random = path.read_bytes(), Random(0)
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 1 << random.randrange(8)
        path.write_bytes(damaged)
        with pytest.raises(CorruptData, match=str(path)):
            list(read_segment(path)[1])
    path.write_bytes(content)
    assert len(list(read_segment(path)[1])) == 2


def test_a_file_that_is_cut_off_is_found_unless_it_ends_between_frames(tmp_path: Path) -> None:
    recorder = begun(tmp_path)
    process(recorder, batch(0))
    (path,) = recorder.segments
    content = path.read_bytes()
    between, place = [], len(MAGIC)
    while place < len(content):
        place += 8 + int.from_bytes(content[place : place + 4], "little")  # a length, a checksum, and the frame
        between.append(place)
    assert len(between) == 4, "start, schema, call, end"
    for length in range(len(content)):
        path.write_bytes(content[:length])
        if length in between:
            assert all(not call.has_ended for call in read_segment(path)[1])
        else:
            with pytest.raises(CorruptData, match=str(path)):
                list(read_segment(path)[1])
