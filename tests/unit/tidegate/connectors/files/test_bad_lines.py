"""Lines that are no rows: left out and counted, or in a side output, each exactly once wherever the reading stops."""

from __future__ import annotations

import logging
from pathlib import Path

import pyarrow as pa
import pytest

from tidegate.common.typeinfo import Types
from tidegate.connectors.base import ReaderContext, SplitState
from tidegate.connectors.file_source import FileSource
from tidegate.connectors.files import csv_format, formats
from tidegate.connectors.files.bad_lines import BAD_LINE
from tidegate.functions.output_tag import OutputTag
from tidegate.model.errors import InvalidJob, SchemaMismatch

CONTEXT = ReaderContext(0, 1, 128, "j", "a", "o")
SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])
BAD = OutputTag("bad", BAD_LINE)
JSON = ['{"n": 0, "text": "a"}', '{"n"', '{"n": 2, "text": "c"}', "null", '{"n": "x"}', '{"n": 5}']
CSV = ["n,text", "0,a", "x,b", '2,"c\nd"', "3", "4,e,f", "5,"]


def read(
    source: FileSource, start: list[SplitState] | None = None, stop_after: int | None = None
) -> tuple[list[tuple[str, dict[str, object]]], list[SplitState], int]:
    """Rows with their side outputs, the state after ``stop_after`` of them, and the errors that were counted."""
    reader = source.make_reader(CONTEXT)
    reader.open(start or [SplitState(split) for split in source.list_splits(1)])
    rows: list[tuple[str, dict[str, object]]] = []
    errors = 0
    try:
        while not reader.is_finished():
            polled = reader.poll()
            if polled is None:
                continue
            errors += polled.errors
            for at in range(len(polled.batch)):
                if len(rows) == stop_after:
                    return rows, reader.snapshot_state(), errors
                rows.append((polled.side, polled.batch.slice(at, at + 1).data.to_pylist()[0]))  # type: ignore[union-attr]
                reader.advance(1)
        return rows, reader.snapshot_state(), errors
    finally:
        reader.close()


def sources(directory: Path, bad_lines: str | OutputTag) -> dict[str, FileSource]:
    (directory / "rows.jsonl").write_text("\n".join(JSON))
    (directory / "rows.csv").write_text("\n".join(CSV))
    return {
        "json": FileSource.for_json_lines(str(directory / "rows.jsonl"), schema=SCHEMA, bad_lines=bad_lines),
        "csv": FileSource.for_csv(str(directory / "rows.csv"), schema=SCHEMA, bad_lines=bad_lines),
    }


GOOD = {"json": [0, 2, 5], "csv": [0, 2, 5]}
LINES = {"json": [JSON[1], JSON[3], JSON[4]], "csv": ["x,b", "3", "4,e,f"]}


@pytest.mark.parametrize("block", [1 << 20, 30, 1])
@pytest.mark.parametrize("kind", ["json", "csv"])
def test_bad_lines_go_to_a_side_output_exactly_once_wherever_it_stops(
    tmp_path: Path, kind: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "BLOCK_BYTES", block)
    monkeypatch.setattr(csv_format, "BLOCK_BYTES", block)
    source = sources(tmp_path, BAD)[kind]
    whole, _, errors = read(source)
    assert [row["n"] for side, row in whole if not side] == GOOD[kind]
    bad = [row for side, row in whole if side == "bad"]
    content = (tmp_path / ("rows.jsonl" if kind == "json" else "rows.csv")).read_text()
    assert [row["line"] for row in bad] == LINES[kind]
    for row in bad:
        assert str(row["path"]).endswith(f"rows.{'jsonl' if kind == 'json' else 'csv'}")
        assert content[int(str(row["offset"])) :].startswith(str(row["line"]))
        assert row["error"]
    assert errors == 3
    for stop in range(len(whole) + 1):
        first, state, _ = read(source, stop_after=stop)
        rest, _, _ = read(source, state)
        assert first + rest == whole


@pytest.mark.parametrize("block", [1 << 20, 1])
@pytest.mark.parametrize("kind", ["json", "csv"])
def test_bad_lines_may_be_left_out_and_are_counted(
    tmp_path: Path, kind: str, block: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(formats, "BLOCK_BYTES", block)
    monkeypatch.setattr(csv_format, "BLOCK_BYTES", block)
    with caplog.at_level(logging.WARNING, "tidegate.files"):
        rows, _, errors = read(sources(tmp_path, "skip")[kind])
    assert [row["n"] for _, row in rows] == GOOD[kind]
    assert errors == 3
    assert "skipped" in caplog.text


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_a_bad_line_fails_the_job_unless_something_else_was_chosen(tmp_path: Path, kind: str) -> None:
    with pytest.raises(SchemaMismatch):
        read(sources(tmp_path, "fail")[kind])


def test_other_choices_are_refused() -> None:
    with pytest.raises(InvalidJob, match=r"'fail' \(the job fails\)"):
        FileSource.for_json_lines("x", schema=SCHEMA, bad_lines="ignore")
    with pytest.raises(InvalidJob, match="has the wrong type: write OutputTag"):
        FileSource.for_json_lines("x", schema=SCHEMA, bad_lines=OutputTag("bad", Types.STRING()))
