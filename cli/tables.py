"""Tables and texts of the commands that list things."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from tidegate.model.units import show_duration_ms, show_size_bytes

PIPE_WIDTH = 240
"""Columns when the output is no terminal; a table whose rows are longer has more."""
_LONGEST_LINE = 1_000_000
"""Characters: a limit that no row reaches."""

duration, size = show_duration_ms, show_size_bytes


def make_table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column in ("job", "id"))
    return table


def show(table: Table) -> None:
    for line in lines_of(table):
        print(line)


def lines_of(table: Table | Text) -> Iterator[str]:
    """The table as lines that fit the terminal. Elsewhere a row is one line, however long, since other commands read it."""
    console = _console()
    if isinstance(table, Table) and not sys.stdout.isatty():
        longest = console.options.update(width=_LONGEST_LINE)
        console.width = max(console.width, Measurement.get(console, longest, table).maximum)
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        if Text.from_ansi(line).plain.strip():
            yield line.rstrip()


def screen_width() -> int:
    """Columns that a table may have."""
    return _console().width


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False)


def counted(number: int, noun: str) -> str:
    """Such as ``1 slot`` and ``2 slots``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def moment(epoch_ms: int) -> str:
    """Local date and time as Flink's CLI writes them, and which zone that is."""
    return datetime.fromtimestamp(epoch_ms / 1000, UTC).astimezone().strftime("%d.%m.%Y %H:%M:%S %Z")
