"""Nothing is visible before its checkpoint is confirmed, and nothing twice or half after any restart."""

from __future__ import annotations

import datetime
import os
import pickle
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from tidegate.common.typeinfo import Types
from tidegate.connectors.base import SinkContext, SinkWriter
from tidegate.connectors.file_sink import FileSink, FileWriter, RollingPolicy, tombstone_of
from tidegate.connectors.files.buckets import Buckets, DateTimeBuckets
from tidegate.connectors.files.encoders import ParquetEncoderFactory
from tidegate.connectors.files.file_system import directory_entries
from tidegate.datastream.connectors.file_system import RollingPolicy as SinkPolicy
from tidegate.model.errors import CorruptData, InvalidJob, StorageError
from tidegate.records.batch import ArrowBatch

SCHEMA = pa.schema([("n", pa.int64())])


def context(attempt: int = 0, restored: int | None = None, subtask: int = 0, parallelism: int = 1) -> SinkContext:
    return SinkContext(subtask, parallelism, "job", f"job_v_{subtask}_{attempt}", "op", restored)


def writer(sink: FileSink, ctx: SinkContext) -> SinkWriter:
    return sink.make_writer(ctx, [], Types.SCHEMA(SCHEMA))


def batch(*values: int) -> ArrowBatch:
    return ArrowBatch(pa.record_batch({"n": list(values)}, schema=SCHEMA))


def visible(path: Path) -> list[int]:
    names = [p for p in path.iterdir() if not p.name.startswith(".")]
    return sorted(n for p in names for n in pq.read_table(p)["n"].to_pylist())


def hidden(path: Path) -> int:
    return sum(p.name.endswith(".inprogress") for p in path.iterdir())


def leave(out: SinkWriter) -> None:
    """As the kernel does when a process is killed: its files stay, its locks go."""
    assert isinstance(out, FileWriter)
    assert out._lock is not None
    os.close(out._lock._descriptor)


def test_rows_are_visible_after_the_commit_and_only_then(tmp_path: Path) -> None:
    sink = FileSink.for_parquet(str(tmp_path))
    out = writer(sink, context())
    out.write(batch(1, 2))
    committables = out.prepare_commit(1)
    out.write(batch(3))
    assert visible(tmp_path) == []
    committer = sink.make_committer(context())
    assert committer is not None
    committer.commit(committables)
    assert visible(tmp_path) == [1, 2]
    committer.commit(committables)  # a lost answer: again
    assert visible(tmp_path) == [1, 2]


def test_what_is_newer_than_the_restored_checkpoint_is_removed_and_what_is_in_it_is_committed(tmp_path: Path) -> None:
    sink = FileSink.for_parquet(str(tmp_path))
    out = writer(sink, context())
    out.write(batch(1))
    pending = out.prepare_commit(1)
    out.write(batch(2))
    out.prepare_commit(2)  # checkpoint 2 never completes
    out.write(batch(3))  # in progress when the process dies
    again = context(attempt=1, restored=1)
    committer = sink.make_committer(again)
    assert committer is not None
    committer.commit(pending)
    committer.abort_unknown(pending, again)
    assert visible(tmp_path) == [1]
    assert hidden(tmp_path) == 0


def test_a_committable_that_went_to_another_subtask_is_left_alone(tmp_path: Path) -> None:
    sink = FileSink.for_parquet(str(tmp_path))
    out = writer(sink, context(subtask=1, parallelism=2))
    out.write(batch(7))
    pending = out.prepare_commit(1)
    mine = context(attempt=1, restored=1, subtask=1, parallelism=2)
    other = context(attempt=1, restored=1, subtask=0, parallelism=2)
    for ctx, owned in ((mine, []), (other, pending)):
        committer = sink.make_committer(ctx)
        assert committer is not None
        committer.abort_unknown(owned, ctx)
        committer.commit(owned)
    assert visible(tmp_path) == [7]


def test_a_restored_job_that_writes_elsewhere_commits_where_the_file_is(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    out = writer(FileSink.for_parquet(str(tmp_path / "old")), context())
    out.write(batch(7))
    pending = out.prepare_commit(1)
    committer = FileSink.for_parquet(str(tmp_path / "new")).make_committer(context(attempt=1, restored=1))
    assert committer is not None
    committer.commit(pending)
    assert visible(tmp_path / "old") == [7]


class Successor:
    """A job that was killed, and one that is started from its checkpoint 1, in the same directory."""

    def __init__(self, tmp_path: Path) -> None:
        self.output, self.checkpoints = tmp_path / "out", tmp_path / "cp" / ("a" * 32)
        self.sink = FileSink.for_parquet(str(self.output))
        self.completed(1)
        self.killed = writer(self.sink, SinkContext(0, 1, "a" * 32, "killed", "op"))
        self.killed.write(batch(1))
        self.pending = self.killed.prepare_commit(1)
        self.killed.write(batch(2))
        self.killed.prepare_commit(2)  # checkpoint 2 never completes
        self.killed.write(batch(3))

    def completed(self, number: int) -> None:
        (self.checkpoints / f"chk-{number}").mkdir(parents=True)
        (self.checkpoints / f"chk-{number}" / "_metadata").touch()

    def restored(self) -> SinkContext:
        return SinkContext(0, 1, "b" * 32, "successor", "op", 1, f"{self.checkpoints}/chk-1")

    def start(self) -> list[str]:
        """What is left in the output directory beside the final files."""
        committer = self.sink.make_committer(self.restored())
        assert committer is not None
        committer.commit(self.pending)
        committer.abort_unknown(self.pending, self.restored())
        return sorted(path.name.rpartition(".")[2] for path in self.output.glob(".*"))


def test_what_a_killed_job_left_behind_its_newest_checkpoint_goes_when_it_is_continued(tmp_path: Path) -> None:
    job = Successor(tmp_path)
    leave(job.killed)
    assert job.start() == []
    assert visible(job.output) == [1]


@pytest.mark.parametrize("why", ["its writer lives", "it has a newer checkpoint", "another machine", "it was moved"])
def test_what_may_belong_to_somebody_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    job = Successor(tmp_path)
    if why != "its writer lives":
        leave(job.killed)
    if why == "it has a newer checkpoint":
        job.completed(2)
    if why == "another machine":
        monkeypatch.setattr("socket.gethostname", lambda: "elsewhere")
    if why == "it was moved":
        job.checkpoints = job.checkpoints.rename(tmp_path / "moved")
    assert job.start() == ["inprogress", "inprogress", "writer"]


def test_an_attempt_that_ends_in_order_leaves_what_a_checkpoint_may_list_and_nothing_else(tmp_path: Path) -> None:
    sink = FileSink.for_parquet(str(tmp_path), RollingPolicy(part_bytes=1))
    out = writer(sink, context())
    out.write(batch(1))
    pending = out.prepare_commit(1)
    out.write(batch(2))  # full, and so closed, before any checkpoint
    out.close()
    assert [path.name for path in tmp_path.glob(".*.inprogress")] == [pending[0][1]]
    again = context(attempt=1, restored=1)
    committer = sink.make_committer(again)
    assert committer is not None
    committer.commit(pending)
    committer.abort_unknown(pending, again)
    other = writer(sink, again)
    other.write(batch(2))
    committer.commit(other.prepare_commit(2))
    other.close()
    assert visible(tmp_path) == [1, 2]
    assert list(tmp_path.glob(".*")) == [], "no lock is left either"


def test_files_of_another_job_are_left_alone(tmp_path: Path) -> None:
    sink = FileSink.for_parquet(str(tmp_path))
    foreign = SinkContext(0, 1, "other job", "x", "op")
    writer(sink, foreign).write(batch(1))
    committer = sink.make_committer(context())
    assert committer is not None
    committer.abort_unknown([], context())
    assert hidden(tmp_path) == 1


def test_a_directory_that_another_subtask_makes_just_now_is_no_error() -> None:
    class MadeWhileArrowLooks:
        looks = 0

        def get_file_info(self, selector: pafs.FileSelector) -> list[str]:
            self.looks += 1
            if self.looks == 1:
                raise FileNotFoundError(2, "Cannot list directory")
            return ["entry"]

    assert directory_entries(MadeWhileArrowLooks(), "out") == ["entry"]


def test_a_pending_file_that_vanished_is_named_not_skipped(tmp_path: Path) -> None:
    sink = FileSink.for_parquet(str(tmp_path))
    out = writer(sink, context())
    out.write(batch(1))
    pending = out.prepare_commit(1)
    (tmp_path / pending[0][1]).unlink()
    committer = sink.make_committer(context())
    assert committer is not None
    with pytest.raises(CorruptData, match="is gone"):
        committer.commit(pending)


def test_a_part_rolls_by_size(tmp_path: Path) -> None:
    sink = FileSink.for_json_lines(str(tmp_path), RollingPolicy(part_bytes=1))
    out = writer(sink, context())
    out.write(batch(1))
    out.write(batch(2))
    assert len(out.prepare_commit(1)) == 2


@pytest.mark.parametrize(
    ("make", "expected"),
    [(FileSink.for_text, "1\n2\n"), (FileSink.for_csv, '"n"\n1\n2\n'), (FileSink.for_json_lines, '{"n":1}\n{"n":2}\n')],
)
def test_line_formats(tmp_path: Path, make: Any, expected: str) -> None:
    sink = make(str(tmp_path))
    out = writer(sink, context())
    out.write(batch(1, 2))
    committer = sink.make_committer(context())
    committer.commit(out.prepare_commit(1))
    (only,) = tmp_path.glob("part*")
    assert only.read_text() == expected


def test_an_output_path_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    with pytest.raises(InvalidJob, match="is a file"):
        FileSink.for_text(str(tmp_path / "f")).validate()


def test_an_unwritable_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    with pytest.raises(StorageError, match="cannot create the directory"):
        writer(FileSink.for_text(str(tmp_path / "f" / "below")), context())


def test_closing_without_a_checkpoint_leaves_nothing(tmp_path: Path) -> None:
    out = writer(FileSink.for_parquet(str(tmp_path)), context())
    out.write(batch(1))
    out.close()
    assert list(tmp_path.iterdir()) == []


class Hours(DateTimeBuckets):
    """The hours of a test, one for each batch."""

    hours: ClassVar[list[str]] = []

    def now(self) -> str:
        return self.hours.pop(0)


def test_a_part_file_belongs_to_the_bucket_of_its_time_and_an_hour_that_ends_ends_it(tmp_path: Path) -> None:
    Hours.hours[:] = ["03", "03", "04", "04"]
    sink = FileSink(str(tmp_path), ParquetEncoderFactory(), buckets=Hours())
    out = writer(sink, context())
    for n in (1, 2, 3):
        out.write(batch(n))
    committables = out.prepare_commit(1)
    assert (len(committables), hidden(tmp_path)) == (2, 2)
    out.write(batch(4))
    committer = sink.make_committer(context())
    assert committer is not None
    committer.commit(committables)
    committer.commit(committables)
    assert [visible(tmp_path / hour) for hour in ("03", "04")] == [[1, 2], [3]]
    committer.abort_unknown(committables, context(attempt=1, restored=1))
    assert hidden(tmp_path) == 0, "what was begun behind the checkpoint is removed, whatever its bucket"


def test_what_was_given_up_by_hand_in_a_bucket_is_not_asked_for(tmp_path: Path) -> None:
    Hours.hours[:] = ["03"]
    sink = FileSink(str(tmp_path), ParquetEncoderFactory(), buckets=Hours())
    out = writer(sink, context())
    out.write(batch(1))
    ((_, hidden_name, final, _),) = committables = out.prepare_commit(1)
    (tmp_path / hidden_name).unlink()
    Path(tombstone_of(str(tmp_path), final)).touch()
    committer = sink.make_committer(context())
    assert committer is not None
    committer.commit(committables)
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == []


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("yyyy-MM-dd--HH", "2026-01-02--03"),
        ("'year='yyyy/'day='D", "year=2026/day=2"),
        ("yy-M-d H:mm:ss", "26-1-2 3:04:05"),
        ("HH''mm", "03'04"),
    ],
)
def test_names_of_buckets_are_of_javas_pattern(pattern: str, name: str) -> None:
    assert DateTimeBuckets(pattern).of(datetime.datetime(2026, 1, 2, 3, 4, 5)) == name


@pytest.mark.parametrize("pattern", ["yyyy-MMM", "yyyy'day", "EEE", "../yyyy", "/yyyy"])
def test_a_pattern_that_is_not_there_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidJob, match="bucket pattern"):
        DateTimeBuckets(pattern)


def test_an_hour_is_one_of_the_time_zone() -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\d--\d\d", DateTimeBuckets(zone="Asia/Tokyo").now())
    with pytest.raises(InvalidJob, match="time zone 'Mars/Olympus'"):
        DateTimeBuckets(zone="Mars/Olympus")


@pytest.mark.parametrize("policy", [SinkPolicy.default_rolling_policy(7, 5), SinkPolicy.on_checkpoint_rolling_policy()])
def test_a_rolling_policy_of_pyflinks_names_arrives_in_a_subtask_as_ours(policy: RollingPolicy) -> None:
    shipped = pickle.loads(pickle.dumps(policy))
    assert type(shipped) is RollingPolicy
    assert (shipped.part_bytes, shipped.rollover_ms) == (policy.part_bytes, policy.rollover_ms)


class Keys(Buckets):
    """A directory for each of two rows in turn."""

    def split(self, data: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        for at in range(data.num_rows):
            yield f"k={data.column(0)[at].as_py() % 2}", data.slice(at, 1)


def committed(sink: FileSink, job: str, *subtasks: tuple[int, ...], again: bool = False) -> None:
    """What each subtask of a job writes, at its end."""
    votes = []
    for subtask, rows in enumerate(subtasks):
        out = writer(sink, replace(context(subtask=subtask, parallelism=len(subtasks)), job_id=job, attempt=job))
        if rows:
            out.write(batch(*rows))
        votes += out.prepare_commit(1)
        out.close()
    committer = sink.make_committer(context())
    assert committer is not None
    for _ in range(1 + again):
        committer.commit(votes)
    committer.all_committed(votes)


def test_files_of_a_sink_that_replaces_are_alone_there(tmp_path: Path) -> None:
    committed(FileSink.for_parquet(str(tmp_path)), "first", (1, 2))
    (tmp_path / "_SUCCESS").touch()
    committed(FileSink(str(tmp_path), ParquetEncoderFactory(), replaces=("",)), "second", (3,), (4,), (), again=True)
    assert sorted(visible_files(tmp_path)) == [3, 4]
    assert (tmp_path / "_SUCCESS").exists(), "hidden names stay, as in Flink"
    committed(FileSink(str(tmp_path), ParquetEncoderFactory(), replaces=("",)), "third", ())
    assert visible_files(tmp_path) == []


def test_directories_that_are_not_written_keep_their_files(tmp_path: Path) -> None:
    committed(FileSink(str(tmp_path), ParquetEncoderFactory(), buckets=Keys()), "first", (1, 2))
    committed(FileSink(str(tmp_path), ParquetEncoderFactory(), buckets=Keys(), replaces=()), "second", (3,))
    assert [visible(tmp_path / name) for name in ("k=0", "k=1")] == [[2], [3]]
    committed(FileSink(str(tmp_path), ParquetEncoderFactory(), buckets=Keys(), replaces=("k=0",)), "third", ())
    assert [visible(tmp_path / name) for name in ("k=0", "k=1")] == [[], [3]]


def visible_files(path: Path) -> list[int]:
    return [n for p in path.glob("part-*") for n in pq.read_table(p)["n"].to_pylist()]
