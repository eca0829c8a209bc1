"""Compressed files are read as if they were not, from any position."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from tests.unit.tidegate.connectors.test_file_source import drain, states
from tidegate.connectors.file_source import FileSource
from tidegate.connectors.files import compression, formats
from tidegate.connectors.files.compression import open_range
from tidegate.connectors.files.file_range import FileRange
from tidegate.model.errors import CorruptData, InvalidJob

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])
ROWS = [{"n": n, "text": f"row {n}"} for n in range(1_000)]
JSON = "".join(f'{{"n": {row["n"]}, "text": "{row["text"]}"}}\n' for row in ROWS).encode()
CSV = ("n,text\n" + "".join(f"{row['n']},{row['text']}\n" for row in ROWS)).encode()


def by_arrow(codec: str) -> Callable[[bytes], bytes]:
    def compress(data: bytes) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, codec) as stream:
            stream.write(data)
        return bytes(sink.getvalue().to_pybytes())

    return compress


def two_members(data: bytes) -> bytes:
    half = len(data) // 2
    return gzip.compress(data[:half]) + gzip.compress(data[half:])


COMPRESSED: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "gzip": two_members,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": by_arrow("zstd"),
    "lz4": by_arrow("lz4"),
}


@pytest.mark.parametrize("end", [*COMPRESSED, "GZ", "Bz2", "ZST"])
def test_each_compression_is_known_by_the_end_of_the_name(
    tmp_path: Path, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "BLOCK_BYTES", 700)
    csv = "CSV" if end.isupper() else "csv"
    (tmp_path / f"rows.jsonl.{end}").write_bytes(COMPRESSED[end.lower()](JSON))
    (tmp_path / f"rows.{csv}.{end}").write_bytes(COMPRESSED[end.lower()](CSV))
    sources = [
        FileSource.for_json_lines(str(tmp_path / f"rows.jsonl.{end}"), schema=SCHEMA, range_bytes=100),
        FileSource.for_json_lines(str(tmp_path / f"rows.jsonl.{end}"), range_bytes=100),
        FileSource.for_csv(str(tmp_path / f"rows.{csv}.{end}"), range_bytes=100),
        FileSource.for_csv(str(tmp_path / f"rows.{csv}.{end}"), schema=SCHEMA, newlines_in_values=False),
    ]
    for source in sources:
        assert len(states(source)) == 1, "it cannot be entered in the middle"
        first, position = drain(source, states(source), stop_after=500)
        rest, _ = drain(source, position)
        assert first + rest == ROWS


def test_text_and_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"one\ntwo"))
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b""))
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b""))
    source = FileSource.for_text(str(tmp_path / "*.txt.gz"))
    assert [row["value"] for row in drain(source, states(source))[0]] == ["one", "two"]  # type: ignore[index]
    empty = FileSource.for_csv(str(tmp_path / "b.csv.gz"), schema=SCHEMA)
    assert drain(empty, states(empty))[0] == []


def test_what_is_behind_is_let_go_and_read_again_when_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compression, "KEPT_BYTES", 1_000)
    monkeypatch.setattr(compression, "_PIECE_BYTES", 500)
    file = tmp_path / "x.gz"
    file.write_bytes(gzip.compress(JSON))
    size = file.stat().st_size
    with open_range(FileRange(str(file), 0, size, size)) as (content, _):
        for offset in (0, 500, 20_000, 19_500, 10, len(JSON) - 5, len(JSON), 7):
            assert content.read_at(300, offset) == JSON[offset : offset + 300]


def test_a_file_that_is_torn_or_something_else_is_named(tmp_path: Path) -> None:
    for name, content in (
        ("torn.jsonl.gz", gzip.compress(JSON)[:-400]),
        ("other.jsonl.gz", JSON),
        ("t.jsonl.xz", JSON),
    ):
        (tmp_path / name).write_bytes(content)
        source = FileSource.for_json_lines(str(tmp_path / name), schema=SCHEMA)
        with pytest.raises(CorruptData, match=f"{name} cannot be decompressed"):
            drain(source, states(source))


def test_a_schema_in_the_place_of_a_path_is_told_of(tmp_path: Path) -> None:
    for method in (FileSource.for_json_lines, FileSource.for_csv, FileSource.for_text, FileSource.for_parquet):
        with pytest.raises(InvalidJob, match="was given a Schema: give it by its name, schema="):
            method("orders", SCHEMA)
        with pytest.raises(InvalidJob, match="needs a path"):
            method()
