"""When partitions of tables of files are committed: as Flink 2.3 commits them, at the end of jobs and while they run (``files.json``, by ``record.py``)."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.contract.table_files.test_files import RECORDED, write_files
from tests.unit.taskmanager.runtime.in_process import Completed, InProcessJob
from tests.unit.tidegate.datastream.graph_kit import make_env, numbers
from tidegate.common.row import Row
from tidegate.common.typeinfo import Types
from tidegate.connectors.base import Sink, SinkContext
from tidegate.connectors.commit_reports import EOI, REPORTS, commit_report, places_report
from tidegate.connectors.file_sink import FileCommitter
from tidegate.connectors.files.success_files import write_success_files
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.functions.sql.scalar import arrow_schema
from tidegate.model.errors import InvalidJob, TidegateError, UserError
from tidegate.plan import decode_plan
from tidegate.plan.logical_types import parse_type
from tidegate.records.batch import ArrowBatch
from tidegate.table._connectors.partition_commits import (
    CommitTrigger,
    PartitionCommits,
    PartitionCommitSink,
    PartitionCommitter,
    PartitionTimes,
    partition_commits,
)
from tidegate.table._connectors.registry import check_table
from tidegate.table._connectors.shape import TableShape
from tidegate.table._connectors.sinks import commit_partitions, file_sink, write_table
from tidegate.table._connectors.sources import is_bounded_scan, read_table
from tidegate.table._execution.translation import translate
from tidegate.taskmanager.machines.subtask import EOI_CHECKPOINT_ID

TYPE = parse_type("ROW<`v` INT, `dt` STRING, `hour` STRING>")
_Rows = list[tuple[int, str | None, str]]
ROWS: _Rows = [(1, "2020-05-03", "10"), (2, "2020-05-03", "11"), (3, "2020-05-04", "10")]
GIVEN: dict[str, _Rows] = {
    "dynamic": ROWS,
    "bad-time": [(1, "yesterday", "10")],
    "static": [(1, "2020-05-05", "1"), (2, "2020-05-05", "1")],
    "half-static": [(1, "2020-05-05", "3")],
    "static-empty": [],
    "empty": [],
    "plain": ROWS,
    "plain-empty": [],
    "overwrite": ROWS[:1],
    "null": [(1, None, "")],
}
COMMITS = {"sink.partition-commit.policy.kind": "success-file", "sink.partition-commit.delay": "1 d"}
STATIC = {
    "static": {"dt": "2020-05-05", "hour": "1"},
    "static-empty": {"dt": "2020-05-05", "hour": "1"},
    "half-static": {"dt": "2020-05-05"},
}
CONTEXT = SinkContext(0, 1, "job", "attempt", "operator")


def written(sink: Sink, schema: pa.Schema, data: pa.RecordBatch) -> Sequence[str]:
    """Committed at the end. Returns the places that are reported."""
    writer = sink.make_writer(CONTEXT, [], Types.SCHEMA(schema))
    writer.write(ArrowBatch(data))
    writer.flush(end_of_input=True)
    places = writer.take_places()
    committer = sink.make_committer(CONTEXT)
    assert committer is not None
    if votes := writer.prepare_commit(1):
        committer.commit(votes)
    writer.close()
    return places


def tree(root: Path) -> list[str]:
    """As the recorder has it."""
    names = [path.relative_to(root) for path in root.rglob("*") if path.is_file()]
    shown = {
        str(name.parent / "part") if name.name.startswith("part-") else str(name)
        for name in names
        if not any(part.startswith(".") for part in name.parts)
    }
    return sorted(shown)


def case_name(case: dict[str, Any]) -> str:
    mode = "streaming" if case["is_streaming"] else "batch"
    return f"{mode} {case['statement']} {list(case['options'].values())}"


@pytest.mark.parametrize("case", RECORDED["commits"], ids=case_name)
def test_partitions_are_committed_at_the_end_of_jobs_as_by_flink(case: dict[str, Any], tmp_path: Path) -> None:
    name = case["statement"]
    shape = TableShape("t", TYPE.field_names, (), () if name.startswith("plain") else ("dt", "hour"))
    options = {"connector": "filesystem", "path": str(tmp_path), "format": "csv", **case["options"]}
    kinds = case["options"].get("sink.partition-commit.policy.kind", "")
    if "error" in case or "metastore" in kinds:
        with pytest.raises(TidegateError):
            refused_or_run(case, shape, options)
        return
    refused_or_run(case, shape, options)
    assert tree(tmp_path) == case["tree"]


def refused_or_run(case: dict[str, Any], shape: TableShape, options: dict[str, str]) -> None:
    check_table(shape, options, is_source=False)
    commits = partition_commits(shape, options)
    schema = arrow_schema(TYPE)
    rows = GIVEN[case["statement"]]
    arrays = [pa.array([row[at] for row in rows], field.type) for at, field in enumerate(schema)]
    data = pa.RecordBatch.from_arrays(arrays, schema=schema)
    static = STATIC.get(case["statement"], {})
    is_overwrite = case["statement"] == "overwrite"
    if not case["is_streaming"]:
        written(file_sink(shape, options, TYPE, static, commits, overwrites=is_overwrite), schema, data)
        return
    if is_overwrite:
        raise InvalidJob("Streaming mode not support overwrite.")  # by ``write_table``
    places = written(file_sink(shape, options, TYPE, static), schema, data)
    if commits is not None and shape.partition_keys:
        committer = PartitionCommitSink(options["path"], commits).make_writer(CONTEXT, [], Types.SCHEMA(REPORTS))
        committer.write(places_report(0, 1, places))
        committer.flush(end_of_input=True)
        committer.write(commit_report(0, 1, EOI))


@pytest.mark.parametrize(
    "case", RECORDED["times"], ids=lambda case: f"{case['pattern']} {case['formatter']} {case['values']}"
)
def test_times_of_partitions_are_flinks(case: dict[str, Any]) -> None:
    times = PartitionTimes(tuple(case["keys"]), case["pattern"], case["formatter"])
    if "error" in case:
        with pytest.raises(TidegateError):
            times.of(case["values"])
        return
    assert times.of(case["values"]) == np.datetime64(case["time"], "ms").astype(np.int64)


def job_of(folder: Path, restore: Completed | None = None) -> InProcessJob:
    """The plan of Flink: rows of a watched directory go to a table for each choice of options."""
    text = json.dumps(RECORDED["plan"]).replace("{read}", str(folder / "read")).replace("{root}", str(folder / "root"))
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    translate(
        decode_plan(text), env, lambda node: read_table(env, node, {}), write_table, "UTC", {}, is_bounded_scan, {}
    )
    again = restore is not None
    job = InProcessJob(env.build(), folder, restore=restore, attempt=int(again), first_checkpoint=100 if again else 1)
    job.start()
    return job


def test_partitions_are_committed_while_a_job_runs_as_by_flink(tmp_path: Path) -> None:
    """Also by a job that is restored in the middle."""
    read, root = tmp_path / "read", tmp_path / "root"
    read.mkdir()
    tables = [root / str(number) for number in range(len(RECORDED["running"]))]
    job = job_of(tmp_path)
    step = 0

    def have_all_rows() -> bool:
        return all(rows_in(table) == step + 1 for table in tables)

    def are_committed() -> bool:
        return [committed(table) for table in tables] == [case["steps"][step] for case in RECORDED["running"]]

    for step, (number, at, hour) in enumerate(RECORDED["events"]):
        if step == 3:
            kept = job.checkpoint()
            job.cut_off()
            job = job_of(tmp_path, kept)
        for path in root.rglob("_SUCCESS"):
            path.unlink()
        write_files(read, {f"{number}.csv": f"{number},2020-05-03 {at},{hour}"})
        job.checkpoint_until(have_all_rows)
        job.checkpoint_until(are_committed)
        job.checkpoint()
    job.cancel()


def rows_in(root: Path) -> int:
    return sum(len(path.read_text().splitlines()) for path in root.rglob("part-*"))


def committed(root: Path) -> list[str]:
    return [str(path.parent.relative_to(root)) for path in sorted(root.rglob("_SUCCESS"))]


@pytest.mark.parametrize("has_checkpoints", [True, False])
def test_partitions_of_a_job_that_ends_are_committed_when_all_files_are_visible(
    has_checkpoints: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where one of several subtasks commits its files late."""
    files, commit = tmp_path / "files", FileCommitter.commit
    calls: list[tuple[list[str], int]] = []

    def late(self: FileCommitter, committables: Sequence[Any]) -> None:
        if any("-00002-" in hidden for _, hidden, _, _ in committables):
            threading.Event().wait(0.3)
        commit(self, committables)

    def counted(path: str, name: str, places: Sequence[str]) -> None:
        calls.extend([(sorted(places), rows_in(files))] if places else [])
        write_success_files(path, name, places)

    monkeypatch.setattr(FileCommitter, "commit", late)
    monkeypatch.setattr("tidegate.table._connectors.partition_commits.write_success_files", counted)
    env = make_env(3)
    if has_checkpoints:
        env.enable_checkpointing(60_000)
    kind, shape = parse_type("ROW<`v` BIGINT, `p` BIGINT>"), TableShape("t", ("v", "p"), (), ("p",))
    options = {"connector": "filesystem", "path": str(files), "format": "csv", **COMMITS}
    commits = partition_commits(shape, options)
    assert commits is not None
    columns = Types.ROW_NAMED(["v", "p"], [Types.LONG(), Types.LONG()])
    rows = numbers(env).map(lambda value: Row(value, value % 4), columns)
    sink = rows.sink_to(file_sink(shape, options, kind))
    commit_partitions(rows, sink, options, commits)
    job = InProcessJob(env.build(), tmp_path)
    job.start_failing()
    if has_checkpoints:
        job.finish()
    else:
        job.until(lambda: job.is_over, "the end")
        job.join()
    assert calls == [([f"p={number}" for number in range(4)], 100)]
    assert committed(files) == calls[0][0]


class Table:
    """The committer of a table whose sink has ``subtasks``."""

    def __init__(
        self,
        root: Path,
        trigger: CommitTrigger,
        subtasks: int = 1,
        now_ms: int = 0,
        state: Sequence[Any] = (),
        restored: int | None = None,
    ) -> None:
        self.root, self.subtasks, self.now_ms = root, subtasks, now_ms
        context = SinkContext(0, 1, "job", "attempt", "operator", restored, now_ms=lambda: self.now_ms)
        self.committer = PartitionCommitter(str(root), PartitionCommits("_SUCCESS", trigger), context, state)

    def rows(self, *places: str, subtask: int = 0) -> None:
        self.committer.write(places_report(subtask, self.subtasks, places))

    def barrier(self, checkpoint_id: int) -> list[Any]:
        """Returns the state."""
        self.committer.flush(end_of_input=False)
        return self.committer.snapshot_state(checkpoint_id)

    def committed(self, checkpoint_id: int, subtask: int = 0) -> list[str]:
        """By a subtask of the sink. Returns the partitions that are committed then."""
        self.committer.write(commit_report(subtask, self.subtasks, checkpoint_id))
        found = committed(self.root)
        for path in self.root.rglob("_SUCCESS"):
            path.unlink()
        return found


def test_a_partition_is_committed_when_all_subtasks_have_committed_the_checkpoint_of_its_rows(tmp_path: Path) -> None:
    table = Table(tmp_path, CommitTrigger(), subtasks=2)
    table.rows("dt=1", subtask=0)
    table.barrier(1)
    assert table.committed(1, subtask=0) == []
    table.rows("dt=2", subtask=1)
    table.barrier(2)
    assert table.committed(2, subtask=0) == [], "the other one is slow: nothing fails, and nothing is waited for"
    assert table.committed(1, subtask=1) == ["dt=1"]
    assert table.committed(2, subtask=1) == ["dt=2"]


def test_rows_that_come_later_have_their_partition_committed_again(tmp_path: Path) -> None:
    table = Table(tmp_path, CommitTrigger())
    table.rows("dt=1")
    table.barrier(1)
    table.rows("dt=1")
    assert table.committed(1) == ["dt=1"]
    table.barrier(2)
    assert table.committed(2) == ["dt=1"]
    table.barrier(3)
    assert table.committed(3) == []


def test_part_files_of_a_checkpoint_that_failed_are_of_the_next_one(tmp_path: Path) -> None:
    table = Table(tmp_path, CommitTrigger(delay_ms=100))
    table.rows("dt=1")
    table.barrier(1)
    table.committer.notify_checkpoint_aborted(1)
    table.now_ms = 101
    table.rows("dt=1", "dt=2")
    assert table.barrier(2) == [["dt=1", 0], ["dt=2", 101]]
    assert table.committed(2) == ["dt=1"]


def test_what_waits_is_state_and_its_time_is_that_of_its_first_row(tmp_path: Path) -> None:
    trigger = CommitTrigger(delay_ms=100)
    table = Table(tmp_path, trigger, now_ms=1000)
    table.rows("dt=1", "dt=2")
    state = table.barrier(1)
    assert state == [["dt=1", 1000], ["dt=2", 1000]]
    again = Table(tmp_path, trigger, now_ms=1100, state=state, restored=1)
    again.rows("dt=2", "dt=3")
    state = again.barrier(2)
    assert again.committed(2) == []
    later = Table(tmp_path, trigger, now_ms=1101, state=state, restored=2)
    assert later.committed(1) == [], "a report of the attempt before"
    later.barrier(3)
    assert later.committed(3) == ["dt=1", "dt=2"]
    assert later.barrier(4) == [["dt=3", 1100]]
    later.committer.flush(end_of_input=True)
    assert later.committed(4) == ["dt=3"]
    assert later.barrier(5) == []


def test_without_checkpoints_all_is_committed_when_all_subtasks_have_ended(tmp_path: Path) -> None:
    table = Table(tmp_path, CommitTrigger(delay_ms=100), subtasks=2)
    table.rows("dt=1", subtask=0)
    assert table.committed(EOI, subtask=0) == []
    table.rows("dt=2", subtask=1)
    table.committer.flush(end_of_input=True)
    assert table.committed(EOI, subtask=1) == ["dt=1", "dt=2"]
    assert EOI == EOI_CHECKPOINT_ID


def test_a_watermark_has_to_be_behind_the_time_of_a_partition(tmp_path: Path) -> None:
    table = Table(tmp_path, CommitTrigger(3_600_000, PartitionTimes(("dt",)), "GMT+01:00"))
    table.rows("dt=1970-01-01")
    table.committer.write_watermark(0)
    table.barrier(1)
    table.committer.write_watermark(1)
    assert table.committed(1) == [], "the watermark is that of the barrier"
    table.barrier(2)
    assert table.committed(2) == ["dt=1970-01-01"]
    table.rows("dt=yesterday")
    table.barrier(3)
    with pytest.raises(UserError, match="Text 'yesterday' could not be parsed: it is the time of the partition"):
        table.committed(3)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"sink.partition-commit.policy.kind": "custom"},
            "needs a Java class, which tidegate cannot load: use 'success-file'",
        ),
        ({"sink.partition-commit.policy.kind": "success-file,nothing"}, "Unsupported policy: nothing"),
        ({"sink.partition-commit.policy.kind": "metastore"}, "You can only configure 'metastore' partition commit"),
        ({"partition.time-extractor.kind": "custom"}, "needs a Java class, which tidegate cannot load: use 'default'"),
        ({"sink.partition-commit.trigger": "never"}, "'never' is not one of process-time and partition-time"),
        ({"sink.partition-commit.watermark-time-zone": "Mars"}, "Invalid time zone for"),
        ({"sink.partition-commit.policy.class": "a.B"}, "Unsupported options:\n\nsink.partition-commit.policy.class"),
    ],
)
def test_what_is_not_there_is_refused_by_name(options: dict[str, str], said: str) -> None:
    told = {"connector": "filesystem", "path": "/x", "format": "csv", **options}
    with pytest.raises(InvalidJob) as refused:
        check_table(TableShape("t", TYPE.field_names, (), ("dt",)), told, is_source=False)
    assert said in refused.value.message
