"""CSV files are read as Python's ``csv`` reads them, whatever is quoted, wherever they are cut and wherever a reader is restored."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.unit.tidegate.connectors.test_file_source import drain, states
from tidegate.connectors.file_source import FileSource
from tidegate.connectors.files import csv_blocks, csv_format
from tidegate.connectors.files.csv_quotes import RecordEnds
from tidegate.connectors.files.file_range import FileRange

CELL = st.text(st.sampled_from('ab,;|"\r\né\ufeff '), max_size=6)
DELIMITERS = st.sampled_from(",;|\t")
LINE_ENDS = st.sampled_from(["\n", "\r\n", "\r"])
SETTINGS = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def rendered(cells: list[str], delimiter: str, quoted: list[bool]) -> str:
    """Cells that need quotes have them; others where it is said, and a bare quote inside a cell stays."""
    return delimiter.join(
        '"' + cell.replace('"', '""') + '"'
        if is_quoted or any(c in cell for c in f"{delimiter}\r\n") or cell.startswith('"')
        else cell
        for cell, is_quoted in zip(cells, quoted, strict=True)
    )


def by_python(text: str, delimiter: str) -> list[list[str]]:
    return [cells for cells in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if cells]


def small(monkeypatch: pytest.MonkeyPatch, block: int, ahead: int) -> None:
    monkeypatch.setattr(csv_format, "BLOCK_BYTES", block)
    monkeypatch.setattr(csv_blocks, "_AHEAD_BYTES", ahead)


@pytest.mark.timeout(120)
@settings(SETTINGS, max_examples=40)
@given(data=st.data(), has_header=st.booleans(), has_bom=st.booleans(), last_end=st.booleans())
def test_rows_are_those_of_pythons_csv(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    data: st.DataObject,
    has_header: bool,
    has_bom: bool,
    last_end: bool,
) -> None:
    """Two to three columns, at random between quotes, with line ends of three kinds inside and outside; empty lines anywhere."""
    width = data.draw(st.integers(2, 3))
    delimiter, line_end = data.draw(DELIMITERS), data.draw(LINE_ENDS)
    encoding = data.draw(st.sampled_from(["utf-8", "latin-1"])) if not has_bom else "utf-8"
    names = ["x", 'the "y"', "z\n,"][:width]
    rows = data.draw(st.lists(st.lists(CELL, min_size=width, max_size=width), max_size=12))
    lines = [*([rendered(names, delimiter, [False, True, True][:width])] if has_header else [])]
    for cells in rows:
        lines += [""] * data.draw(st.integers(0, 1))
        lines.append(rendered(cells, delimiter, data.draw(st.lists(st.booleans(), min_size=width, max_size=width))))
    text = line_end.join(lines) + (line_end if last_end else "")
    if encoding == "latin-1":
        text = text.replace("\ufeff", "ÿ")
    expected = by_python(text, delimiter)[int(has_header) :]
    path = tmp_path / "file.csv"
    path.write_bytes((b"\xef\xbb\xbf" if has_bom else b"") + text.encode(encoding))
    small(monkeypatch, data.draw(st.integers(1, 30)), data.draw(st.integers(1, 10)))
    source = FileSource.for_csv(
        str(path),
        schema=pa.schema([(name, pa.string()) for name in names]),
        delimiter=delimiter,
        header=has_header,
        null_values=[],
        range_bytes=data.draw(st.integers(1, 60)),
        encoding=encoding,
    )
    if not has_bom and not has_header and text.startswith("\ufeff"):
        expected[0][0] = expected[0][0].removeprefix("\ufeff")  # it is the file's then
    whole, after = drain(source, states(source))
    assert [list(row.values()) for row in whole] == expected  # type: ignore[attr-defined]
    assert all(state.done for state in after)
    head, middle = drain(source, states(source), stop_after=data.draw(st.integers(0, 15)))
    tail, _ = drain(source, middle)
    assert head + tail == whole


def test_a_quoted_line_end_behind_letters_that_grow_in_utf8_stays_in_its_cell(tmp_path: Path) -> None:
    path = tmp_path / "file.csv"
    path.write_bytes('€€€é,"é\r\n€"\n'.encode("cp1252"))
    schema = pa.schema([("x", pa.string()), ("y", pa.string())])
    source = FileSource.for_csv(str(path), schema=schema, header=False, encoding="cp1252")
    whole, _ = drain(source, states(source))
    assert [list(row.values()) for row in whole] == [["€€€é", "é\r\n€"]]  # type: ignore[attr-defined]


@settings(SETTINGS, max_examples=1000)
@example(text='\n,"\r"', at=0)
@given(text=st.text(st.sampled_from('a,"\r\n'), max_size=24), at=st.integers(0, 24))
def test_a_record_ends_where_one_reads_it_by_characters(text: str, at: int) -> None:
    """Any text, also with quotes in the middle of cells and behind closed ones."""
    raw = text.encode()
    ends = [end for end in _ends(text) if end > at]
    assert RecordEnds().first(raw, min(at, len(raw))) == (ends[0] if ends else 0)


def _ends(text: str) -> list[int]:
    """Offsets behind the line ends that end records, character by character, as ``_csv.c`` does."""
    found, state, place = [], "start", 0
    while place < len(text):
        char = text[place]
        if state == "quoted":
            if char == '"' and text[place + 1 : place + 2] == '"':
                place += 1
            elif char == '"':
                state = "bare"
        elif char == '"' and state == "start":
            state = "quoted"
        elif char in "\r\n":
            place += text[place : place + 2] == "\r\n"
            if char == "\n" or place + 1 < len(text) or text[place] == "\n":
                found.append(place + 1)
            state = "start"
        else:
            state = "start" if char == "," else "bare"
        place += 1
    return found


@settings(SETTINGS, max_examples=40)
@given(
    rows=st.lists(st.tuples(st.integers(), CELL), min_size=1, max_size=20),
    range_bytes=st.integers(1, 40),
    terminator=LINE_ENDS,
)
def test_a_file_is_cut_into_ranges_that_begin_with_a_record(
    tmp_path: Path, rows: list[tuple[int, str]], range_bytes: int, terminator: str
) -> None:
    path = tmp_path / "file.csv"
    with path.open("w", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator=terminator).writerows([("n", "text"), *rows])
    source = FileSource.for_csv(str(path), schema=pa.schema([("n", pa.string())]), range_bytes=range_bytes)
    parts = [FileRange(*state.split.payload) for state in states(source)]
    assert [part.start for part in parts] == [0, *[part.end for part in parts[:-1]]]
    assert parts[-1].end == path.stat().st_size
    begins = {len(f'"n","text"{terminator}')}
    for row in rows:
        out = io.StringIO(newline="")
        csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator=terminator).writerow(row)
        begins.add(max(begins) + len(out.getvalue().encode()))
    assert {part.start for part in parts[1:]} <= begins
