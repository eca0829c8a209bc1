"""Tables of Avro files read what Flink 2.3 writes, and write what it reads (``avro_files.json``, by ``record_avro_files.py``).

``python -m tests.contract.table_formats.test_avro_files FOLDER`` writes our files, which Flink then reads.
"""

from __future__ import annotations

import base64
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from tidegate.common.typeinfo import Types
from tidegate.connectors.base import SinkContext
from tidegate.connectors.files.file_range import FileRange
from tidegate.functions.sql.scalar.kernels import python_values
from tidegate.functions.sql.scalar.texts import formatter
from tidegate.model.errors import InvalidJob
from tidegate.plan.logical_types import LogicalType, parse_type
from tidegate.records.batch import ArrowBatch
from tidegate.table._connectors.registry import check_table
from tidegate.table._connectors.shape import TableShape
from tidegate.table._connectors.sinks import file_sink
from tidegate.table._connectors.sources import _files as source_of
from tidegate.table._formats.formats import AVRO_CODECS

RECORDING = Path(__file__).parent / "avro_files.json"
RECORDED: dict[str, list[dict[str, Any]]] = json.loads(RECORDING.read_text("utf-8")) if RECORDING.exists() else {}
OF_FLINK = {case["name"]: case for case in RECORDED.get("flink", ())}
OURS = {case["name"]: case for case in RECORDED.get("ours", ())}
READABLE = [name for name, case in OF_FLINK.items() if "file" in case]


def row_type(columns: str) -> LogicalType:
    return parse_type("ROW<" + re.sub(r"(?<![a-z0-9])([a-z][a-z0-9]*)\s(?=[A-Z])", r"`\1` ", columns) + ">")


def options_of(case: dict[str, Any], folder: Path) -> dict[str, str]:
    given = {f"avro.{key}": text for key, text in case["options"].items()}
    return {"connector": "filesystem", "path": str(folder), "format": "avro", **given}


def shape_of(case: dict[str, Any]) -> TableShape:
    return TableShape("t", row_type(case["columns"]).field_names)


def batches_of(case: dict[str, Any], folder: Path) -> list[pa.RecordBatch]:
    (folder / "part-0").write_bytes(base64.b64decode(case["file"]))
    source = source_of(shape_of(case), options_of(case, folder), row_type(case["columns"]))
    found = []
    for split in source.list_splits(1):
        path, begin, end, size, *_ = split.payload
        found += [block.data for block in source._format.blocks(FileRange(path, begin, end, size), None, 0)]
    return found


def text_of(value: Any, type: LogicalType) -> str:
    """Flink's text of a value that is printed."""
    return f"x'{value.hex()}'" if isinstance(value, bytes) else formatter(type, "UTC")(value)


def texts_of(batches: list[pa.RecordBatch], type: LogicalType) -> list[list[str | None]]:
    found = []
    for batch in batches:
        columns = [
            [None if value is None else text_of(value, one.type) for value in python_values(column)]
            for one, column in zip(type.fields, batch.columns, strict=True)
        ]
        found += [list(row) for row in zip(*columns, strict=True)]
    return sorted(found, key=str)


def written(case: dict[str, Any], batches: list[pa.RecordBatch], folder: Path) -> bytes:
    sink = file_sink(shape_of(case), options_of(case, folder), row_type(case["columns"]))
    context = SinkContext(0, 1, "job", "attempt", "operator")
    writer = sink.make_writer(context, [], Types.SCHEMA(batches[0].schema))
    for batch in batches:
        writer.write(ArrowBatch(batch))
    committer = sink.make_committer(context)
    assert committer is not None
    committer.commit(writer.prepare_commit(1))
    writer.close()
    (file,) = folder.glob("part-*")
    return file.read_bytes()


def records_in(file: bytes) -> tuple[Any, str, list[Any]]:
    reader = fastavro.reader(io.BytesIO(file))
    return json.loads(reader.metadata["avro.schema"]), reader.codec, list(reader)


@pytest.mark.parametrize("name", READABLE)
def test_what_flink_wrote_is_read_as_it_reads_it(name: str, tmp_path: Path) -> None:
    case = OF_FLINK[name]
    assert texts_of(batches_of(case, tmp_path), row_type(case["columns"])) == case["rows"]


@pytest.mark.parametrize("name", READABLE)
def test_files_are_those_of_flink(name: str, tmp_path: Path) -> None:
    case = OF_FLINK[name]
    (tmp_path / "in").mkdir()
    ours = records_in(written(case, batches_of(case, tmp_path / "in"), tmp_path / "out"))
    theirs = records_in(base64.b64decode(case["file"]))
    assert ours[1:] == theirs[1:]
    assert bare(ours[0]) == bare(theirs[0])


def bare(schema: Any) -> Any:
    """With names without their namespace, which is in the names or beside them."""
    match schema:
        case list():
            return [bare(one) for one in schema]
        case dict():
            found = {key: bare(part) for key, part in schema.items() if key != "namespace"}
            return {**found, "name": found["name"].rpartition(".")[2]} if "name" in found else found
    return schema


@pytest.mark.parametrize("name", READABLE)
def test_flink_reads_what_is_written_here(name: str, tmp_path: Path) -> None:
    case = OURS[name]
    assert case["rows"] == OF_FLINK[name]["rows"]
    assert texts_of(batches_of(case, tmp_path), row_type(case["columns"])) == case["rows"]


@pytest.mark.parametrize(
    "name", [name for name, case in OF_FLINK.items() if "refused" in case and name != "xz"]
)  # Flink's jar has no xz
def test_what_flink_refuses_is_refused(name: str, tmp_path: Path) -> None:
    case = OF_FLINK[name]
    check_table(shape_of(case), options_of(case, tmp_path), is_source=False)
    with pytest.raises(InvalidJob) as raised:
        file_sink(shape_of(case), options_of(case, tmp_path), row_type(case["columns"]))
    reason = case["refused"].partition(": ")[2].replace("Unsupported type", "Unsupported to derive Schema for type")
    assert raised.value.message.startswith(reason)


def test_an_option_that_the_format_does_not_have_is_refused(tmp_path: Path) -> None:
    """Flink's connector does not look at it."""
    case = OF_FLINK["no-option"]
    with pytest.raises(InvalidJob, match=r"avro\.kodec"):
        check_table(shape_of(case), options_of(case, tmp_path), is_source=False)


def test_every_codec_writes_what_is_read(tmp_path: Path) -> None:
    case = OF_FLINK["null"]
    (tmp_path / "in").mkdir()
    batches = batches_of(case, tmp_path / "in")
    for codec in AVRO_CODECS:
        given = {**case, "options": {"codec": codec}}
        file = written(given, batches, tmp_path / codec)
        assert records_in(file)[1] == codec
        (tmp_path / codec / "again").mkdir()
        again = {**given, "file": base64.b64encode(file).decode()}
        assert texts_of(batches_of(again, tmp_path / codec / "again"), row_type(case["columns"])) == case["rows"]


def main(folder: Path) -> None:
    for name in READABLE:
        (folder / "in" / name).mkdir(parents=True)
        written(OF_FLINK[name], batches_of(OF_FLINK[name], folder / "in" / name), folder / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
