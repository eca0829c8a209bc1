"""CSV files are cut where records begin, and what is no CSV is refused by file and place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.tidegate.connectors.test_file_source import drain, states
from tidegate.connectors.base import Split, SplitState
from tidegate.connectors.file_source import FileSource
from tidegate.connectors.files import csv_blocks
from tidegate.model.errors import CorruptData, InvalidJob, SchemaMismatch

PAIR = pa.schema([("n", pa.int64()), ("s", pa.string())])


def file(path: Path, content: str | bytes) -> str:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def rows(source: FileSource) -> list[Any]:
    return drain(source, states(source))[0]


def test_line_ends_between_quotes_neither_cut_blocks_nor_splits(tmp_path: Path) -> None:
    path = file(tmp_path / "a.csv", "n,s\n" + "".join(f'{n},"line {n}\nits end"\n' for n in range(60_000)))
    source = FileSource.for_csv(path, range_bytes=1 << 19)
    assert len(states(source)) == 4
    assert rows(source) == [{"n": n, "s": f"line {n}\nits end"} for n in range(60_000)]


def test_a_file_without_newlines_in_values_is_cut_anywhere_unread(tmp_path: Path) -> None:
    path = file(tmp_path / "a.csv", "n,s\n" + "".join(f'{n},5"\n' for n in range(10)))
    source = FileSource.for_csv(path, schema=PAIR, range_bytes=7, newlines_in_values=False)
    assert [s.split.payload[1] for s in states(source)] == list(range(0, 64, 7))[: len(states(source))]
    assert rows(source) == [{"n": n, "s": '5"'} for n in range(10)]


def test_splits_and_positions_of_earlier_versions_are_read_on(tmp_path: Path) -> None:
    """They begin anywhere in a line; a position is the start of a line and rows behind it."""
    lines = [f"{n},s{n}\n".encode() for n in range(100)]
    path = file(tmp_path / "a.csv", b"n,s\n" + b"".join(lines))
    size = Path(path).stat().st_size
    source = FileSource.for_csv(path)
    old = [
        SplitState(Split(f"{path}@{start}", [path, start, min(start + 50, size), size])) for start in range(0, size, 50)
    ]
    whole, _ = drain(source, old)
    assert whole == [{"n": n, "s": f"s{n}"} for n in range(100)]
    middle = SplitState(Split(f"{path}@0", [path, 0, size, size]), [4 + len(b"".join(lines[:10])), 5])
    assert drain(source, [middle])[0] == whole[15:]


def test_a_quote_that_never_closes_is_named(tmp_path: Path) -> None:
    path = file(tmp_path / "a.csv", 'n,s\n1,a\n2,"b\n3,c\n')
    with pytest.raises(SchemaMismatch, match="the quote at byte 10 is never closed"):
        rows(FileSource.for_csv(path, schema=PAIR))
    with pytest.raises(SchemaMismatch, match="the quote at byte 10 is never closed"):
        FileSource.for_csv(path, schema=PAIR, range_bytes=12).list_splits(1)


def test_a_record_that_does_not_end_is_not_read_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_blocks, "_LONGEST_RECORD", 1 << 14)
    path = file(tmp_path / "a.csv", "n,s\n1," + "x" * (1 << 21))
    with pytest.raises(SchemaMismatch, match="the record at byte 4 has more than 16384 bytes"):
        rows(FileSource.for_csv(path, schema=PAIR))


def test_a_record_may_be_longer_than_a_block_and_a_range(tmp_path: Path) -> None:
    values = ["x" * 3_000_000, 'y"\n' * 1_000_000, "z"]
    path = file(tmp_path / "a.csv", "n,s\n" + "".join('1,"' + v.replace('"', '""') + '"\n' for v in values))
    assert [row["s"] for row in rows(FileSource.for_csv(path, schema=PAIR, range_bytes=1000))] == values


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\xef\xbb\xbfn,s\n1,a\n", [{"n": 1, "s": "a"}]),
        (b"\n\r\nn,s\n1,a\n\n2,b", [{"n": 1, "s": "a"}, {"n": 2, "s": "b"}]),
        (b"n,s\r1,a\r2,b\r", [{"n": 1, "s": "a"}, {"n": 2, "s": "b"}]),
        (b'"n","s"\n"1",a\n', [{"n": 1, "s": "a"}]),
        (b"n,s\n", []),
        (b"", []),
    ],
)
def test_heads_of_files(tmp_path: Path, content: bytes, expected: list[Any]) -> None:
    assert rows(FileSource.for_csv(file(tmp_path / "a.csv", content), schema=PAIR)) == expected


def test_an_encoding_is_said(tmp_path: Path) -> None:
    path = file(tmp_path / "a.csv", "n,é\n1,ü\n".encode("latin-1"))
    assert rows(FileSource.for_csv(path, encoding="latin-1")) == [{"n": 1, "é": "ü"}]
    with pytest.raises(CorruptData, match="the header is not utf-8 text"):
        FileSource.for_csv(path)
    utf_16 = file(tmp_path / "b.csv", "n,s\n1,a\n".encode("utf-16"))
    with pytest.raises(CorruptData, match="is UTF-16 text; convert it"):
        FileSource.for_csv(utf_16, schema=PAIR).list_splits(1)


@pytest.mark.parametrize("encoding", ["utf-16", "shift_jis", "cp500", "no such"])
def test_an_encoding_in_which_line_ends_cannot_be_found_is_refused(encoding: str) -> None:
    with pytest.raises(InvalidJob, match="encoding|convert it to UTF-8"):
        FileSource.for_csv("a.csv", schema=PAIR, encoding=encoding)


@pytest.mark.parametrize("delimiter", ["", ",,", '"', "\n", "é"])
def test_a_delimiter_is_one_character_that_means_nothing_else(delimiter: str) -> None:
    with pytest.raises(InvalidJob, match="a CSV delimiter is one ASCII character"):
        FileSource.for_csv("a.csv", schema=PAIR, delimiter=delimiter)


def test_columns_are_found_by_name_in_each_file(tmp_path: Path) -> None:
    file(tmp_path / "a.csv", "n,s\n1,a\n")
    file(tmp_path / "b.csv", "more,s,n,more\nx,b,2,y\n")
    assert rows(FileSource.for_csv(str(tmp_path))) == [{"n": 1, "s": "a"}, {"n": 2, "s": "b"}]
    turned = pa.schema([("s", pa.string()), ("n", pa.float64())])
    assert rows(FileSource.for_csv(str(tmp_path), schema=turned)) == [{"s": "a", "n": 1.0}, {"s": "b", "n": 2.0}]


def test_every_split_knows_the_order_of_its_files_columns(tmp_path: Path) -> None:
    path = file(tmp_path / "a.csv", "s,n\n" + "".join(f'"x\n",{n}\n' for n in range(20)))
    source = FileSource.for_csv(path, schema=PAIR, range_bytes=11)
    assert len(states(source)) > 5
    assert rows(source) == [{"n": n, "s": "x\n"} for n in range(20)]


@pytest.mark.parametrize(
    ("header", "message"),
    [("n,t", r"b\.csv has no column 's'; its header is n, t"), ("s,n,s", r"b\.csv has 2 columns 's'")],
)
def test_a_header_without_a_column_is_refused_at_submission_by_file(tmp_path: Path, header: str, message: str) -> None:
    file(tmp_path / "a.csv", "n,s\n1,a\n")
    file(tmp_path / "b.csv", f"{header}\n1,a\n")
    with pytest.raises(SchemaMismatch, match=message):
        FileSource.for_csv(str(tmp_path), schema=PAIR).list_splits(1)


def test_a_value_that_does_not_fit_is_named_by_the_files_own_columns(tmp_path: Path) -> None:
    file(tmp_path / "a.csv", "s,n\na,late\n")
    with pytest.raises(SchemaMismatch, match=r"a\.csv, in the block at byte 4: In column 'n'"):
        rows(FileSource.for_csv(str(tmp_path), schema=PAIR))


def test_a_bare_empty_cell_is_null_and_a_quoted_one_is_empty(tmp_path: Path) -> None:
    path = file(tmp_path / "a.csv", 'n,s\n1,\n2,""\n3,NA\n4,"NA"\n')
    assert [row["s"] for row in rows(FileSource.for_csv(path))] == [None, "", None, "NA"]


def test_an_inferred_schema_knows_the_null_values_and_columns_without_any(tmp_path: Path) -> None:
    path = file(tmp_path / "a.csv", "n,e,x\n1,,-\n-,,NaN\n")
    source = FileSource.for_csv(path, null_values=["", "-"])
    assert source.schema == pa.schema([("n", pa.int64()), ("e", pa.string()), ("x", pa.float64())])
    assert rows(source)[0] == {"n": 1, "e": None, "x": None}


@pytest.mark.parametrize(("content", "message"), [("", "it is empty"), ("a,a\n1,2\n", "has a name twice")])
def test_columns_that_cannot_be_inferred_are_asked_for(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(InvalidJob, match=message):
        FileSource.for_csv(file(tmp_path / "a.csv", content))
    with pytest.raises(InvalidJob, match="without a header need schema="):
        FileSource.for_csv(str(tmp_path), header=False)
