"""Tables of files with partitions write the directories that Flink 2.3 writes, and read Flink's (``partitions.json``, by ``record.py``)."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tidegate.common.typeinfo import Types
from tidegate.connectors.base import SinkContext
from tidegate.connectors.file_sink import FileSink
from tidegate.connectors.files import hive
from tidegate.connectors.files.file_range import FileRange
from tidegate.functions.sql.scalar import arrow_schema
from tidegate.functions.sql.scalar.kernels import python_values
from tidegate.functions.sql.scalar.texts import formatter
from tidegate.model.errors import InvalidJob
from tidegate.plan.logical_types import LogicalType, parse_type
from tidegate.records.batch import ArrowBatch
from tidegate.table._connectors.partitions import partition_columns, stored_type
from tidegate.table._connectors.shape import TableShape
from tidegate.table._connectors.sinks import file_sink
from tidegate.table._connectors.sources import _files as source_of

RECORDED = json.loads((Path(__file__).parent / "partitions.json").read_text("utf-8"))
SHAPE = TableShape("t", ("v", "p", "w", "q"), (), ("q", "p"))
NULL = "CAST(NULL AS "


def value_of(type: LogicalType, text: str) -> Any:
    """What a constant of a recorded statement is in Python."""
    if text.startswith(NULL):
        return None
    inner = text.removeprefix("CAST(").split(" AS ")[0].partition(" '")
    bare = inner[2].removesuffix("'")
    match str(type).partition("(")[0]:
        case "VARCHAR" | "CHAR":
            return text[1:-1].replace("''", "'")
        case "BOOLEAN":
            return text == "TRUE"
        case "DECIMAL":
            return Decimal(text)
        case "FLOAT" | "DOUBLE":
            return float(text)
        case "DATE":
            return datetime.date.fromisoformat(bare)
        case "TIME":
            return datetime.time.fromisoformat(bare)
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            zone = datetime.UTC if "LTZ" in text else None
            return datetime.datetime.fromisoformat(bare).replace(tzinfo=zone)
        case _:
            return int(text)


def table(case: dict[str, Any]) -> tuple[LogicalType, pa.RecordBatch]:
    row_type = parse_type(f"ROW<`v` INT, `p` {case['type']}, `w` STRING, `q` INT>")
    values = [value_of(row_type.fields[1].type, text) for text in case["values"]]
    count = len(values)
    columns = [list(range(count)), values, ["w"] * count, [at % 2 for at in range(count)]]
    schema = arrow_schema(row_type)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return row_type, pa.RecordBatch.from_arrays(arrays, schema=schema)


def written(folder: Path, options: dict[str, str], row_type: LogicalType, data: pa.RecordBatch) -> FileSink:
    sink = file_sink(SHAPE, {"path": str(folder), **options}, row_type)
    context = SinkContext(0, 1, "job", "attempt", "operator")
    writer = sink.make_writer(context, [], Types.SCHEMA(data.schema))
    writer.write(ArrowBatch(data))
    committer = sink.make_committer(context)
    assert committer is not None
    committer.commit(writer.prepare_commit(1))
    writer.close()
    return sink


def tree(folder: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("part-*")):
        found.setdefault(str(path.parent.relative_to(folder)), []).extend(path.read_text("utf-8").splitlines())
    return {name: sorted(lines) for name, lines in found.items()}


def rows_read(folder: Path, options: dict[str, str], row_type: LogicalType) -> list[list[str | None]]:
    """Flink's texts of what is read."""
    source = source_of(SHAPE, {"path": str(folder), **options}, row_type)
    found = []
    for split in source.list_splits(1):
        path, begin, end, size_bytes, values = split.payload
        for block in hive.blocks(source._format, FileRange(path, begin, end, size_bytes), values, None, 0):
            columns = [
                [None if value is None else formatter(field.type, "UTC")(value) for value in python_values(column)]
                for field, column in zip(row_type.fields, block.data.columns, strict=True)
            ]
            found += [list(row) for row in zip(*columns, strict=True)]
    return sorted(found, key=repr)


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: case["type"])
def test_rows_are_in_the_directories_that_flink_gives_them(case: dict[str, Any], tmp_path: Path) -> None:
    written(tmp_path, {"format": "json"}, *table(case))
    assert tree(tmp_path) == case["tree"]


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: case["type"])
def test_what_flink_wrote_is_read_as_it_reads_it(case: dict[str, Any], tmp_path: Path) -> None:
    for name, lines in case["tree"].items():
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "part-0").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    row_type, data = table(case)
    found = rows_read(tmp_path, {"format": "json"}, row_type)
    if "rows" in case:
        assert found == sorted(case["rows"], key=repr)
        return
    texts = formatter(row_type.fields[1].type, "UTC")
    held = [
        None if value in (None, "", "__DEFAULT_PARTITION__") else texts(value)
        for value in python_values(data.column(1))
    ]
    assert found == sorted(([str(at), text, "w", str(at % 2)] for at, text in enumerate(held)), key=repr)


@pytest.mark.parametrize("format", ["json", "csv", "parquet", "debezium-json"])
def test_formats_and_names_of_partitions_without_a_value(format: str, tmp_path: Path) -> None:
    case = next(case for case in RECORDED if case["type"] == "INT")
    row_type, data = table(case)
    options = {"format": format, "partition.default-name": "none"}
    written(tmp_path, options, row_type, data)
    assert sorted(path.name for path in tmp_path.glob("q=*/*")) == ["p=-5", "p=1", "p=none"]
    if format != "debezium-json":
        assert rows_read(tmp_path, options, row_type) == [
            ["0", "1", "w", "0"],
            ["1", "-5", "w", "1"],
            ["2", None, "w", "0"],
        ]


def test_files_outside_of_partitions_are_not_read(tmp_path: Path) -> None:
    row_type, data = table(next(case for case in RECORDED if case["type"] == "INT"))
    written(tmp_path, {"format": "json"}, row_type, data)
    (tmp_path / "part-0").write_text('{"v": 9, "w": "w"}\n')
    (tmp_path / "q=1" / "part-0").write_text('{"v": 9, "w": "w"}\n')
    assert len(rows_read(tmp_path, {"format": "json"}, row_type)) == 3


def test_a_partition_has_one_open_file_and_all_are_sealed_at_a_checkpoint(tmp_path: Path) -> None:
    row_type, data = table(next(case for case in RECORDED if case["type"] == "INT"))
    sink = file_sink(SHAPE, {"path": str(tmp_path), "format": "parquet"}, row_type)
    context = SinkContext(0, 1, "job", "attempt", "operator")
    writer = sink.make_writer(context, [], Types.SCHEMA(data.schema))
    for _ in range(3):
        writer.write(ArrowBatch(data))
    committables = writer.prepare_commit(1)
    assert sorted(final.rpartition("/")[0] for _, _, final, _ in committables) == [
        "q=0/p=1", "q=0/p=__DEFAULT_PARTITION__", "q=1/p=-5",
    ]  # fmt: skip
    writer.write(ArrowBatch(data))
    writer.close()
    assert not [
        path
        for path in tmp_path.glob(".part*inprogress")
        if path.name not in {hidden for _, hidden, _, _ in committables}
    ]


def test_types_whose_values_flink_does_not_write_are_refused() -> None:
    row_type = parse_type("ROW<`v` INT, `p` BYTES, `w` STRING, `q` INT>")
    with pytest.raises(InvalidJob, match="cannot be partitioned by a column of the type VARBINARY"):
        partition_columns(SHAPE, {}, row_type)
    assert stored_type(row_type, SHAPE).field_names == ("v", "w")
