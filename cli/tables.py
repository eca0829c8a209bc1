"""Tables and texts of the commands that list things."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

PIPE_WIDTH = 240
"""Columns when the output is no terminal: nothing is cut."""


def make_table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column in ("job", "id"))
    return table


def show(table: Table) -> None:
    for line in lines_of(table):
        print(line)


def lines_of(table: Table | Text) -> Iterator[str]:
    """The table as lines that fit the terminal."""
    console = _console()
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


def moment(epoch_ms: int) -> str:
    """Local date and time, as Flink's CLI writes it."""
    return datetime.fromtimestamp(epoch_ms / 1000, UTC).astimezone().strftime("%d.%m.%Y %H:%M:%S")


def duration(span_ms: int) -> str:
    """`1h 02m 03s`, `2m 03s`, `3.4s`, `120ms`."""
    if span_ms < 1_000:
        return f"{span_ms}ms"
    if span_ms < 60_000:
        return f"{span_ms / 1000:.1f}s"
    seconds = span_ms // 1000
    hours, minutes = seconds // 3600, seconds // 60 % 60
    return f"{hours}h {minutes:02d}m {seconds % 60:02d}s" if hours else f"{minutes}m {seconds % 60:02d}s"


def size(size_bytes: int) -> str:
    """`12 B`, `3.4 KiB`, `1.2 MiB`."""
    value = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"
