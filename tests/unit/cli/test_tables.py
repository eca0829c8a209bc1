"""Tables of the commands, in a terminal and in a pipe."""

from __future__ import annotations

import click
import pytest

from tidegate.cli.tables import make_table, show

PATH = "/checkpoints/" + "a" * 400 + "/chk-200"


def test_a_row_is_one_line_where_the_output_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    table = make_table("id", "path or failure")
    table.add_row("200", PATH)
    table.add_row("199", "none")
    show(table)
    assert [line.split() for line in capsys.readouterr().out.splitlines()[2:]] == [["200", PATH], ["199", "none"]]


def test_a_long_path_takes_several_lines_of_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    table = make_table("id", "path or failure")
    table.add_row("200", PATH)
    show(table)
    lines = click.unstyle(capsys.readouterr().out).splitlines()
    assert max(map(len, lines)) <= 80
    assert "".join(line[3:].strip() for line in lines[2:]) == PATH


JOBS = (
    ("job", "name", "state", "start", "duration", "tasks", "restarts", "checkpoints"),
    ("a" * 32, "sessions of clicks by user", "RUNNING", "29.11.2026 18:49:00 UTC", "3 min", "4 RUNNING", "0", "17"),
)
CHECKPOINTS = (
    ("id", "status", "type", "trigger", "duration", "size", "acknowledged", "path or failure"),
    ("17", "COMPLETED", "CHECKPOINT", "29.11.2026 18:49:00 UTC", "120 ms", "2.0 MiB", "4/4", PATH),
)
PROCESSES = (
    ("process", "pid", "state"),
    ("taskmanager-1", "-", "lost since 29.11.2026 18:49:00 UTC, 3 min ago"),
)


@pytest.mark.parametrize("width", range(60, 201, 10))
@pytest.mark.parametrize("rows", [JOBS, CHECKPOINTS, PROCESSES], ids=["jobs", "checkpoints", "processes"])
def test_tables_fit_any_terminal_and_are_read_in_whole_words(
    width: int, rows: tuple[tuple[str, ...], ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    table = make_table(*rows[0])
    for row in rows[1:]:
        table.add_row(*row)
    show(table)
    text = click.unstyle(capsys.readouterr().out)
    assert max(map(len, text.splitlines())) <= width
    words = text.split()
    for cell in (*rows[0], *rows[1]):
        for word in cell.split():
            assert word in words or word == PATH, (word, text)


def test_rows_of_a_narrow_terminal_are_blocks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    table = make_table(*JOBS[0])
    table.add_row(*JOBS[1])
    table.add_row("b" * 32, "[bold]", *JOBS[1][2:5], "", *JOBS[1][6:])
    show(table)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [
        f"job            {'a' * 32}",
        "  name         sessions of clicks by user",
        "  state        RUNNING",
    ]
    assert f"job            {'b' * 32}" in lines
    assert sum("tasks" in line for line in lines) == 1, "what is empty is left out"
