"""Tables and texts of the commands that list things."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from datetime import UTC, datetime

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from tidegate.model.units import show_duration_ms, show_size_bytes

PIPE_WIDTH = 240
"""The width of output that is no terminal, in columns; a table with longer rows is wider."""
_WORD = 24
"""Words up to this length are not cut: a name of a state or an operator, a date with its time. Chosen."""
_GAP = 3
"""The space between two columns of a table."""
_LONGEST_LINE = 1_000_000
"""A width that no row reaches."""

duration, size = show_duration_ms, show_size_bytes


def make_table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column in ("job", "id"))
    return table


def show(table: Table, *, keeps_columns: bool = False) -> None:
    for line in lines_of(table, keeps_columns=keeps_columns):
        print(line)


def lines_of(table: Table | Text, *, keeps_columns: bool = False) -> Iterator[str]:
    """Yields the lines of a table that fit the terminal.

    If its columns would be too narrow to read, each row is a block with a line for each cell, unless ``keeps_columns``. If the output is no
    terminal, a row is one line, however long, since other commands read it.
    """
    console = _console()
    if isinstance(table, Table) and not sys.stdout.isatty():
        longest = console.options.update(width=_LONGEST_LINE)
        console.width = max(console.width, Measurement.get(console, longest, table).maximum)
    elif isinstance(table, Table) and not keeps_columns and _least_width(table) > console.width:
        yield from _blocks(table, console.width)
        return
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        if Text.from_ansi(line).plain.strip():
            yield line.rstrip()


def _least_width(table: Table) -> int:
    """Returns the terminal width that a table needs: words of up to ``_WORD`` characters stay whole, longer ones are paths, which may be cut."""
    widths = []
    for column in table.columns:
        texts = [_plain(cell) for cell in (column.header, *column.cells)]
        whole = max(map(len, texts), default=0)
        words = max((len(word) for text in texts for word in text.split()), default=0)
        widths.append(whole if column.no_wrap else min(words, _WORD))
    return sum(widths) + _GAP * (len(widths) - 1)


def _blocks(table: Table, width: int) -> Iterator[str]:
    """Yields each row as a block: its first cell, and the others below it, each after the header of its column."""
    headers = [_plain(column.header).strip() for column in table.columns]
    indent = max(map(len, headers)) + 2
    for row in zip(*(column.cells for column in table.columns), strict=True):
        for number, (header, cell) in enumerate(zip(headers, row, strict=True)):
            text = _plain(cell).strip()
            if text:
                margin = "" if number == 0 else "  "
                before = f"{margin}{header}".ljust(indent + 2)
                yield from textwrap.wrap(
                    text, width, initial_indent=before, subsequent_indent=" " * len(before), break_on_hyphens=False
                )


def _plain(cell: object) -> str:
    return cell.plain if isinstance(cell, Text) else Text.from_markup(str(cell)).plain


def screen_width() -> int:
    """Returns the width that a table may have."""
    return _console().width


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False)


def counted(number: int, noun: str) -> str:
    """Returns a number with its noun, such as ``1 slot`` and ``2 slots``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def moment(epoch_ms: int) -> str:
    """Formats a local date and time as Flink's CLI does, with its time zone."""
    return datetime.fromtimestamp(epoch_ms / 1000, UTC).astimezone().strftime("%d.%m.%Y %H:%M:%S %Z")
