"""Renders rows as a table: HTML for a notebook, text for a terminal. Numbers are right-aligned; long values are cut."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from html import escape

import pyarrow as pa

from tidegate.notebook.display import kernel_shell, show_html

LONGEST_CELL = 200
"""The most characters of a value in a table."""
_BORDER = "1px solid rgba(128,128,128,.3)"
_NULL = "null"


def is_number(kind: pa.DataType) -> bool:
    """Tells whether a type has whole, floating point or decimal numbers."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def show_table(table: pa.Table, note: str = "") -> None:
    """Displays all rows of ``table`` below the cell of a notebook, or prints them, with ``note`` below."""
    text = text_table(table, note)
    if kernel_shell() is not None:
        show_html(html_table(table, note), text)
    else:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()


def html_table(table: pa.Table, note: str = "") -> str:
    """Renders all rows of ``table`` as HTML, with the types of its columns, and ``note`` below."""
    heads = "".join(
        f'<th style="text-align:{_side(field.type)};padding:4px 10px;border-bottom:{_BORDER};vertical-align:bottom">{escape(field.name)}'
        f'<div style="font-weight:normal;opacity:.65;font-size:11px">{escape(str(field.type))}</div></th>'
        for field in table.schema
    )
    sides = [_side(field.type) for field in table.schema]
    lines = "".join(f"<tr>{_cells(values, sides)}</tr>" for values in zip(*_columns(table), strict=True))
    below = f'<div style="opacity:.7;font-size:12px;padding:4px 0">{escape(note)}</div>' if note else ""
    return (
        '<div style="overflow-x:auto;max-width:100%"><table style="border-collapse:collapse;font-size:13px">'
        f"<thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>{below}</div>"
    )


def text_table(table: pa.Table, note: str = "") -> str:
    """Renders all rows of ``table`` as lines of text, with ``note`` below."""
    columns = [[_NULL if value is None else value for value in column] for column in _columns(table)]
    widths = [max([len(name), *map(len, column)]) for name, column in zip(table.column_names, columns, strict=True)]
    sides = [_side(field.type) for field in table.schema]

    def line(values: Sequence[str]) -> str:
        parts = (
            value.rjust(width) if side == "right" else value.ljust(width)
            for value, width, side in zip(values, widths, sides, strict=True)
        )
        return "  ".join(parts).rstrip()

    ruler = "  ".join("-" * width for width in widths)
    found = [line(table.column_names), ruler, *(line(values) for values in zip(*columns, strict=True))]
    return "\n".join([*found, *([note] if note else [])])


def _columns(table: pa.Table) -> list[list[str | None]]:
    return [[_text(value) for value in column.to_pylist()] for column in table.columns]


def _text(value: object) -> str | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else str(value)
    text = text.replace("\r", "\\r").replace("\n", "\\n")
    return text if len(text) <= LONGEST_CELL else f"{text[:LONGEST_CELL]}…"


def _cells(values: Sequence[str | None], sides: Sequence[str]) -> str:
    return "".join(
        f'<td style="text-align:{side};padding:2px 10px;border-bottom:{_BORDER};white-space:pre-wrap">'
        + ('<span style="opacity:.55">null</span>' if value is None else escape(value))
        + "</td>"
        for value, side in zip(values, sides, strict=True)
    )


def _side(kind: pa.DataType) -> str:
    return "right" if is_number(kind) else "left"
