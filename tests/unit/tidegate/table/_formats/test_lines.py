"""Files of lines as rows of tables, cut anywhere. What Flink 2.3 makes of the same files was run (``SELECT`` of a table of ``filesystem``)."""

from __future__ import annotations

from pathlib import Path

import pyarrow.fs as pafs
import pytest

from tidegate.connectors.files.formats import FileFormat
from tidegate.model.errors import SchemaMismatch
from tidegate.plan.logical_types import parse_type
from tidegate.table._formats.formats import make_reading
from tidegate.table._formats.lines import file_format

ID_AND_TEXT = "ROW<`id` BIGINT, `s` STRING>"


def made(name: str, type: str, **options: str) -> FileFormat:
    return file_format(make_reading(name, {f"{name}.{key}": text for key, text in options.items()}, parse_type(type)))


def rows(made: FileFormat, path: Path, content: bytes, range_bytes: int = 1 << 20) -> list[tuple[object, ...]]:
    path.write_bytes(content)
    parts = made.ranges(pafs.LocalFileSystem().get_file_info(str(path)), str(path), range_bytes)
    found = [block.data for part in parts for block in made.blocks(part, None, 0)]
    return [tuple(row.values()) for batch in found for row in batch.to_pylist()]


def test_lines_of_csv_are_cut_at_their_ends(tmp_path: Path) -> None:
    content = b'1,"x\ny"\r\n2,"""q"", z"\n3,' + "é".encode() + b"\n4,"
    expected = [(1, "x\ny"), (2, '"q", z'), (3, "é"), (4, "")]
    assert rows(made("csv", ID_AND_TEXT), tmp_path / "f", content) == expected
    for range_bytes in range(1, len(content)):
        assert rows(made("csv", ID_AND_TEXT), tmp_path / "f", content, range_bytes) == expected


@pytest.mark.parametrize(
    ("type", "content", "said"),
    [
        ("ROW<`id` BIGINT, `price` DOUBLE>", b"1,2.5\n2,\n", "field price: '' is no number"),
        (ID_AND_TEXT, b"1,x\n\n2,y\n", "Row length mismatch. 2 fields expected but was 1.*line 2"),
        ("ROW<`id` BIGINT, `s` STRING, `z` INT>", b"1,a\n", "Row length mismatch. 3 fields expected but was 2"),
        ("ROW<`id` BIGINT>", b"\n1\n", "field id: '' is no whole number"),
    ],
)
def test_what_flink_refuses_of_csv_is_refused_by_line(tmp_path: Path, type: str, content: bytes, said: str) -> None:
    with pytest.raises(SchemaMismatch, match=said):
        rows(made("csv", type), tmp_path / "f", content)


def test_empty_lines_of_json_are_none(tmp_path: Path) -> None:
    content = b'{"id":1}\n\n{"id":2}\r\n[{"id":3},{"id":4}]\n'
    expected = [(1, None), (2, None), (3, None), (4, None)]
    for range_bytes in (1, 7, 100):
        assert rows(made("json", ID_AND_TEXT), tmp_path / "f", content, range_bytes) == expected
    with pytest.raises(SchemaMismatch, match="no JSON object.*line 4"):
        rows(made("json", ID_AND_TEXT), tmp_path / "f", content.replace(b"[", b"null ["))


def test_rows_within_a_line_are_skipped_by_their_number(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b'[{"id":1},{"id":2}]\n{"id":3}\n')
    json = made("json", ID_AND_TEXT)
    (part,) = json.ranges(pafs.LocalFileSystem().get_file_info(str(tmp_path / "f")), str(tmp_path / "f"), 1000)
    (block,) = json.blocks(part, 0, 1)
    assert block.data.column("id").to_pylist() == [2, 3]


def test_an_empty_line_of_raw_is_an_empty_text(tmp_path: Path) -> None:
    assert rows(made("raw", "ROW<`s` STRING>"), tmp_path / "f", b"x\ny\r\n\n") == [("x",), ("y",), ("",)]
    assert rows(made("raw", "ROW<`s` BYTES>"), tmp_path / "f", b"\xff\n") == [(b"\xff",)]


def test_a_file_without_lines_has_no_rows(tmp_path: Path) -> None:
    for name, type in (("csv", ID_AND_TEXT), ("json", ID_AND_TEXT), ("raw", "ROW<`s` STRING>")):
        assert rows(made(name, type), tmp_path / "f", b"") == []
