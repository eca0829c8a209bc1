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
