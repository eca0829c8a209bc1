"""Files are split into ranges and read back to the row, from any position."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidegate.connectors.base import ReaderContext, Source, SplitState
from tidegate.connectors.file_source import FileSource
from tidegate.connectors.files import formats as file_formats
from tidegate.model.errors import CorruptData, InvalidJob, SchemaMismatch

CONTEXT = ReaderContext(0, 1, 128, "j", "a", "o")


def states(source: Source) -> list[SplitState]:
    return [SplitState(split) for split in source.list_splits(1)]


def drain(
    source: Source, start: list[SplitState], stop_after: int | None = None
) -> tuple[list[object], list[SplitState]]:
    """Rows, and the state after ``stop_after`` of them (emitted in slices of at most three)."""
    reader = source.make_reader(CONTEXT)
    reader.open(start)
    rows: list[object] = []
    try:
        while not reader.is_finished():
            polled = reader.poll()
            if polled is None:
                continue
            for first in range(0, len(polled.batch), 3):
                piece = polled.batch.slice(first, min(first + 3, len(polled.batch)))
                if stop_after is not None and len(rows) >= stop_after:
                    return rows, reader.snapshot_state()
                rows.extend(piece.data.to_pylist())  # type: ignore[union-attr]
                reader.advance(len(piece))
        return rows, reader.snapshot_state()
    finally:
        reader.close()


@pytest.mark.timeout(60)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(
        st.text(st.characters(blacklist_characters="\r\n", blacklist_categories=["Cs"]), max_size=12), max_size=30
    ),
    range_bytes=st.integers(1, 40),
    block=st.integers(1, 30),
    stop=st.integers(0, 30),
    last_newline=st.booleans(),
)
def test_every_line_is_read_once_whatever_the_ranges_and_wherever_it_restarts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lines: list[str],
    range_bytes: int,
    block: int,
    stop: int,
    last_newline: bool,
) -> None:
    monkeypatch.setattr(file_formats, "BLOCK_BYTES", block)
    path = tmp_path / "lines.txt"
    text = "\n".join(lines) + ("\n" if last_newline and lines else "")
    path.write_bytes(text.encode())
    expected = text.split("\n")
    if not expected[-1]:
        expected.pop()
    source = FileSource.for_text(str(path), range_bytes=range_bytes)
    whole, after = drain(source, states(source))
    assert [row["value"] for row in whole] == expected  # type: ignore[index]
    assert all(state.done for state in after)
    head, middle = drain(source, states(source), stop_after=stop)
    tail, _ = drain(source, middle)
    assert head + tail == whole


def test_csv_takes_names_and_types_from_its_header(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("carrier,delay\nUA,3\nAA,NA\n")
    source = FileSource.for_csv(str(path))
    rows, _ = drain(source, states(source))
    assert rows == [{"carrier": "UA", "delay": 3}, {"carrier": "AA", "delay": None}]


def test_csv_names_the_column_that_does_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("carrier,delay\nUA,late\n")
    source = FileSource.for_csv(str(path), schema=pa.schema([("carrier", pa.string()), ("delay", pa.int64())]))
    with pytest.raises(SchemaMismatch, match="column 'delay'"):
        drain(source, states(source))


def test_json_lines_are_read_by_schema(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1, "b": "x"}\n{"a": 2, "c": true}\n')
    source = FileSource.for_json_lines(str(path), schema=pa.schema([("a", pa.int64()), ("b", pa.string())]))
    assert drain(source, states(source))[0] == [{"a": 1, "b": "x"}, {"a": 2, "b": None}]


@pytest.mark.parametrize("stop", [0, 1, 7, 500, 999, 1000])
def test_parquet_resumes_within_a_row_group(tmp_path: Path, stop: int) -> None:
    table = pa.table({"n": range(1000), "s": [str(i) for i in range(1000)]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=300)
    source = FileSource.for_parquet(str(tmp_path), columns=["n"])
    assert len(states(source)) == 4
    head, middle = drain(source, states(source), stop_after=stop)
    tail, after = drain(source, middle)
    assert [row["n"] for row in head + tail] == list(range(1000))  # type: ignore[index]
    assert all(state.done for state in after)


def test_a_parquet_file_with_another_type_is_refused_by_column(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1]}), tmp_path / "a.parquet")
    source = FileSource.for_parquet(str(tmp_path), schema=pa.schema([("n", pa.int32())]))
    with pytest.raises(SchemaMismatch, match="column 'n' is int64, the job expects int32"):
        source.list_splits(1)


SECONDS = pa.schema(
    [
        ("at", pa.timestamp("s")),
        ("instant", pa.timestamp("s", "UTC")),
        ("time", pa.time32("s")),
        ("day", pa.date64()),
        ("days", pa.list_(pa.timestamp("s"))),
        ("row", pa.struct([("at", pa.timestamp("s"))])),
        ("by_name", pa.map_(pa.string(), pa.timestamp("s"))),
        ("millis", pa.timestamp("ms")),
        ("plain", pa.list_(pa.int64())),
    ]
)
"""Most of them Parquet keeps in another unit."""


def seconds() -> pa.Table:
    at = dt.datetime(2026, 11, 27, 21, 50, 1)
    row = {
        "at": at,
        "instant": at.replace(tzinfo=dt.UTC),
        "time": at.time(),
        "day": at.date(),
        "days": [at],
        "row": {"at": at},
    }
    return pa.Table.from_pylist([{**row, "by_name": [("a", at)], "millis": at, "plain": [1]}], SECONDS)


@pytest.mark.parametrize("schema", [None, SECONDS])
def test_seconds_come_back_from_parquet_as_seconds(tmp_path: Path, schema: pa.Schema | None) -> None:
    pq.write_table(seconds(), tmp_path / "a.parquet")
    source = FileSource.for_parquet(str(tmp_path), schema=schema)
    assert source.schema == SECONDS
    assert drain(source, states(source))[0] == seconds().to_pylist()


def test_milliseconds_that_are_no_whole_seconds_are_not_cut(tmp_path: Path) -> None:
    pq.write_table(pa.table({"at": pa.array([1500], pa.timestamp("ms"))}), tmp_path / "a.parquet")
    assert FileSource.for_parquet(str(tmp_path)).schema.field("at").type == pa.timestamp("ms")
    source = FileSource.for_parquet(str(tmp_path), schema=pa.schema([("at", pa.timestamp("s"))]))
    with pytest.raises(CorruptData, match="would lose data"):
        drain(source, states(source))


def test_checksums_of_pages_are_verified_on_request(tmp_path: Path) -> None:
    path, content = tmp_path / "a.parquet", list(range(1000))
    pq.write_table(pa.table({"n": content}), path, write_page_checksum=True, use_dictionary=False, compression="none")
    data = bytearray(path.read_bytes())
    at = bytes(data).index((500).to_bytes(8, "little"))
    data[at] ^= 1
    path.write_bytes(data)
    unverified = FileSource.for_parquet(str(path))
    assert [row["n"] for row in drain(unverified, states(unverified))[0]] != content  # type: ignore[index]
    source = FileSource.for_parquet(str(path), page_checksum_verification=True)
    with pytest.raises(CorruptData, match=r"a.parquet, row group 0: .*CRC"):
        drain(source, states(source))


def test_a_missing_path_and_an_empty_directory_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidJob, match="does not exist"):
        FileSource.for_text(str(tmp_path / "no")).list_splits(1)
    with pytest.raises(InvalidJob, match="holds no files"):
        FileSource.for_text(str(tmp_path)).list_splits(1)
    table = FileSource.for_text(str(tmp_path))
    table.may_be_empty = True
    assert table.list_splits(1) == []


def test_hidden_files_are_not_data(tmp_path: Path) -> None:
    for name in (".part.inprogress", "_SUCCESS", "a.txt"):
        (tmp_path / name).write_text("x\n")
    assert len(FileSource.for_text(str(tmp_path)).list_splits(1)) == 1


def test_a_file_that_shrank_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\n")
    source = FileSource.for_text(str(path))
    start = states(source)
    path.write_text("one\n")
    with pytest.raises(CorruptData, match=r"a\.txt has 4 bytes now, but had 8 when"):
        drain(source, start)


def test_bytes_that_are_not_text_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"ok\n\xff\n")
    source = FileSource.for_text(str(path))
    with pytest.raises(CorruptData, match="not UTF-8 text at byte 3"):
        drain(source, states(source))


def test_a_reader_asks_when_everything_was_emitted_and_ends_when_nothing_is_left(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text(f"{name}1\n{name}2\n")
    source = FileSource.for_text(str(tmp_path))
    first, second = source.list_splits(1)
    asked: list[int] = []
    rows: list[object] = []
    reader = source.make_reader(replace(CONTEXT, request_split=lambda: asked.append(len(rows))))
    reader.open([SplitState(first)])

    def read_until(condition: Callable[[], bool]) -> None:
        while not condition():
            polled = reader.poll()
            if polled is not None:
                rows.extend(polled.batch.data.to_pylist())  # type: ignore[union-attr]
                reader.advance(len(polled.batch))

    read_until(lambda: len(asked) == 1)
    assert asked == [2], "not before the first split was emitted"
    reader.add_splits([second])
    assert {state.split.split_id: state.done for state in reader.snapshot_state()} == {
        first.split_id: True,
        second.split_id: False,
    }
    read_until(lambda: len(asked) == 2)
    assert not reader.is_finished()
    reader.no_more_splits()
    read_until(reader.is_finished)
    assert [text for row in rows for text in row.values()] == ["a1", "a2", "b1", "b2"]  # type: ignore[attr-defined]
    reader.close()
