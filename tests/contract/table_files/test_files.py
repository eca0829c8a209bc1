"""Tables of files by patterns, with metadata, and of directories that are watched: what Flink 2.3 reads of them (``files.json``, by ``record.py``)."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.taskmanager.runtime.collecting import CollectingSink, committed
from tests.unit.taskmanager.runtime.in_process import Completed, InProcessJob
from tests.unit.tidegate.connectors.test_file_monitoring import arrive
from tidegate.common import WatermarkStrategy
from tidegate.connectors.file_source import FileSource
from tidegate.connectors.files import hive
from tidegate.connectors.files.file_range import FileRange
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.functions.sql.scalar.kernels import python_values
from tidegate.functions.sql.scalar.texts import formatter
from tidegate.model.errors import InvalidJob
from tidegate.plan.logical_types import LogicalType, parse_type
from tidegate.table._connectors.file_tables import METADATA
from tidegate.table._connectors.registry import check_table, is_bounded
from tidegate.table._connectors.shape import TableShape
from tidegate.table._connectors.sources import _files as source_of
from tidegate.table._planner.errors import refusal

RECORDED = json.loads((Path(__file__).parent / "files.json").read_text("utf-8"))
FILES = {
    "a.csv": "1", "b.txt": "2", "sub/c.csv": "3", "sub/.hidden.csv": "4", "_skip/d.csv": "5", "sub/deep/a-2.csv": "6\n7",
    ".x/e.csv": "8", "sub/_SUCCESS": "9", "A.CSV": "10",
}  # fmt: skip
PARTITIONS = {"p=1/a.csv": "1", "p=1/b.txt": "2", "p=2/a.csv": "3", "p=2/sub/a.csv": "4"}
PLAIN = (TableShape("t", ("v",)), parse_type("ROW<`v` INT>"))
PARTITIONED = (TableShape("t", ("v", "p"), (), ("p",)), parse_type("ROW<`v` INT, `p` INT>"))
INTERVAL = "20 ms"
MODIFIED_S = 1_700_000_000.25


def write_files(root: Path, files: Mapping[str, str]) -> None:
    """Files that are whole when they are seen, all of the same time."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        arrive(path, f"{text}\n")
        os.utime(path, (MODIFIED_S, MODIFIED_S))


def table(is_partitioned: bool, root: Path) -> tuple[TableShape, LogicalType]:
    write_files(root, PARTITIONS if is_partitioned else FILES)
    return PARTITIONED if is_partitioned else PLAIN


def rows_read(source: FileSource, types: Sequence[LogicalType], root: Path) -> list[list[str | None]]:
    """Flink's texts of what is read."""
    found = []
    for split in source.list_splits(1):
        path, begin, end, size_bytes, *values = split.payload
        for block in hive.blocks(
            source._format, FileRange(path, begin, end, size_bytes), values[0] if values else {}, None, 0
        ):
            columns = [
                [None if value is None else formatter(type, "UTC")(value) for value in python_values(column)]
                for type, column in zip(types, block.data.columns, strict=True)
            ]
            found += [
                [None if text is None else text.replace(str(root), "{root}") for text in row]
                for row in zip(*columns, strict=True)
            ]
    return sorted(found, key=repr)


@pytest.mark.parametrize(
    "case", RECORDED["patterns"], ids=lambda case: f"{case['pattern']}{' of partitions' * case['is_partitioned']}"
)
def test_a_pattern_is_that_of_whole_paths(case: dict[str, Any], tmp_path: Path) -> None:
    shape, type = table(case["is_partitioned"], tmp_path)
    options = {"connector": "filesystem", "path": str(tmp_path), "format": "csv"}
    if case["pattern"] is not None:
        options["source.path.regex-pattern"] = case["pattern"].replace("{root}", str(tmp_path))
    check_table(shape, options, is_source=True)
    found = rows_read(source_of(shape, options, type), [field.type for field in type.fields], tmp_path)
    assert found == case["rows"]


@pytest.mark.parametrize("is_partitioned", [False, True], ids=["plain", "partitioned"])
def test_rows_have_the_metadata_of_their_file(is_partitioned: bool, tmp_path: Path) -> None:
    shape, type = table(is_partitioned, tmp_path)
    case = next(
        one
        for one in RECORDED["metadata"]
        if (one["columns"], one["query"], one["is_partitioned"]) == ("all", "*", is_partitioned)
    )
    options = {"connector": "filesystem", "path": str(tmp_path), "format": "csv"}
    types = [field.type for field in type.fields] + [parse_type(text) for text in METADATA.values()]
    found = rows_read(source_of(shape, options, type, tuple(METADATA)), types, tmp_path)
    places = [0, 2, 3, 4, 5, 1] if is_partitioned else [0, 1, 2, 3, 4]  # the partition stands behind the metadata there
    assert sorted(([row[place] for place in places] for row in found), key=repr) == case["rows"]


def test_metadata_of_rows_of_other_formats(tmp_path: Path) -> None:
    pq.write_table(pa.table({"v": pa.array([1, 2], pa.int32())}), tmp_path / "a.parquet")
    write_files(tmp_path, {"b.jsonl": '{"v": 3}'})
    keys, types = ("file.name",), [PLAIN[1].fields[0].type, parse_type("STRING")]
    found = {
        format: rows_read(
            source_of(
                PLAIN[0],
                {"path": str(tmp_path), "format": format, "source.path.regex-pattern": f".*{suffix}"},
                PLAIN[1],
                keys,
            ),
            types,
            tmp_path,
        )
        for format, suffix in (("parquet", "parquet"), ("json", "jsonl"))
    }
    assert found == {"parquet": [["1", "a.parquet"], ["2", "a.parquet"]], "json": [["3", "b.jsonl"]]}


def job_of(source: FileSource, tmp_path: Path, parallelism: int, restore: Completed | None = None) -> InProcessJob:
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(parallelism)
    rows = env.from_source(source, WatermarkStrategy.no_watermarks(), "rows").uid("rows")
    rows.sink_to(CollectingSink(str(tmp_path))).uid("sink")
    again = restore is not None
    job = InProcessJob(env.build(), tmp_path, restore=restore, attempt=int(again), first_checkpoint=100 if again else 1)
    job.start()
    return job


def texts_of(tmp_path: Path) -> list[list[str]]:
    return sorted([str(value) for value in row] for row in committed(str(tmp_path)))


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_watched_table_has_the_rows_that_flink_has_across_a_restart(parallelism: int, tmp_path: Path) -> None:
    """Files of each step; before the third one the job is restored from a checkpoint."""
    directory = tmp_path / "table"
    directory.mkdir()
    write_files(directory, {"a.csv": "1", "b.csv": "2"})
    options = {
        "path": str(directory),
        "format": "csv",
        "source.monitor-interval": INTERVAL,
        "source.path.regex-pattern": r".*\.csv",
    }
    assert not is_bounded({"connector": "filesystem", **options})
    expected: list[list[str]] = []

    def have_come() -> bool:
        return len(texts_of(tmp_path)) >= len(expected)

    job = job_of(source_of(PLAIN[0], options, PLAIN[1], ("file.name",)), tmp_path, 2)
    for number, step in enumerate(RECORDED["monitored"]):
        if number == 2:
            kept = job.checkpoint()
            job.cut_off()
        write_files(directory, step["files"])
        if number == 2:
            job = job_of(source_of(PLAIN[0], options, PLAIN[1], ("file.name",)), tmp_path, parallelism, restore=kept)
        expected = sorted(expected + step["rows"])
        job.checkpoint_until(have_come)
    job.checkpoint()
    job.cancel()
    assert texts_of(tmp_path) == expected


def test_new_partitions_are_seen(tmp_path: Path) -> None:
    """Flink watches those that are there when it plans."""
    directory = tmp_path / "table"
    directory.mkdir()
    options = {"path": str(directory), "format": "csv", "source.monitor-interval": INTERVAL}
    write_files(directory, {"p=1/a.csv": "1"})
    job = job_of(source_of(*PARTITIONED[:1], options, PARTITIONED[1]), tmp_path, 1)
    write_files(directory, {"p=2/b.csv": "2", "c.csv": "3,3"})
    job.checkpoint_until(lambda: len(texts_of(tmp_path)) >= 2)
    job.cancel()
    assert texts_of(tmp_path) == [["1", "1"], ["2", "2"]]
    flinks = [row for step in RECORDED["monitored_partitions"] for row in step["rows"]]
    assert flinks == [["1", "1"], ["3", "1"]]


@pytest.mark.parametrize(
    ("key", "text", "said"),
    [
        ("source.monitor-interval", "0 ms", "a duration from 1 ms"),
        ("source.monitor-interval", "often", "a duration from 1 ms"),
        ("source.path.regex-pattern", "[", "a regular expression"),
    ],
)
def test_what_these_options_do_not_take_is_named(key: str, text: str, said: str) -> None:
    options = {"connector": "filesystem", "path": "/x", "format": "csv", key: text}
    with pytest.raises(InvalidJob, match=re.escape(f"Invalid value for option '{key}': '{text}' is not {said}")):
        check_table(PLAIN[0], options, is_source=True)


@pytest.mark.parametrize(
    "case",
    [case for case in RECORDED["legacy"] if "error" in case and "connector.type" not in case["options"]],
    ids=lambda case: f"{case['statement'].split()[0]} {case['options']}",
)
def test_properties_of_old_are_refused_as_flink_refuses_them(case: dict[str, Any]) -> None:
    """Those with ``connector.type`` are refused by Flink's own planner."""
    with pytest.raises(InvalidJob) as refused:
        check_table(PLAIN[0], case["options"], is_source=case["at"] == "SELECT")
    reason = case["error"][-1].partition(": ")[2]
    assert refused.value.message.startswith(reason.partition("Supported options")[0].split(".")[0])


def test_tables_of_csv_files_with_properties_of_old_are_refused_by_name() -> None:
    said = "Can not serialize ExecNode with id: 1. Missing type (through JsonPlanGraph[0]->StreamExecLegacyTableSourceScan)"
    assert "('connector.type', 'format.type', ...) do not run" in refusal([("TableException", said)]).message
