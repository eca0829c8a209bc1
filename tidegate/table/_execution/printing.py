"""Formatting of rows as the text table of Flink's ``TableResult.print`` (``TableauStyle``)."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from tidegate.common.row import RowKind
from tidegate.functions.sql.scalar.kernels import python_values
from tidegate.functions.sql.scalar.texts import formatter
from tidegate.plan.errors import UnsupportedPlan
from tidegate.plan.logical_types import LogicalType, TypeRoot
from tidegate.table._execution.rows import column_values, value_text

MOST_SIGNS = 30
"""The default of Flink's ``table.display.max-column-width``: longer texts are truncated with an ellipsis."""
_NULL = "<NULL>"
_TEXTS = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_WIDTHS = {
    TypeRoot.BOOLEAN: 5,
    TypeRoot.TINYINT: 4,
    TypeRoot.SMALLINT: 6,
    TypeRoot.INTEGER: 11,
    TypeRoot.BIGINT: 20,
    TypeRoot.DATE: 10,
}


def rows_in_set(count: int) -> str:
    """Returns the last line of ``TableResult.print``: ``2 rows in set``."""
    return f"{count} {'row' if count == 1 else 'rows'} in set"


def print_table(
    lines: Iterable[list[str]],
    kind: LogicalType,
    *,
    shows_kinds: bool,
    knows_all: bool,
    ending: Callable[[int], str] = rows_in_set,
) -> None:
    """Prints rows of texts as a table. ``knows_all``: column widths follow the longest text; otherwise they follow the types, and each row is printed
    when it arrives. ``ending`` makes the last line from the number of rows."""
    names = [*(["op"] if shows_kinds else []), *kind.field_names]
    if knows_all:
        lines = list(lines)
        widths = [max([_width(name), *(_width(line[i]) for line in lines)]) for i, name in enumerate(names)]
    else:
        widths = [*([2] if shows_kinds else []), *(_type_width(field.name, field.type) for field in kind.fields)]
    border = "+" + "+".join("-" * (width + 2) for width in widths) + "+\n"
    count = 0
    for line in lines:
        if count == 0:
            sys.stdout.write(border + _line(names, widths) + border)
        count += 1
        sys.stdout.write(_line(line, widths))
        if not knows_all:
            sys.stdout.flush()
    if count == 0:
        sys.stdout.write("Empty set\n")
    else:
        sys.stdout.write(f"{border}{ending(count)}\n")
    sys.stdout.flush()


def texts_of(
    batch: pa.RecordBatch, kind: LogicalType, *, shows_kinds: bool, time_zone: str = "UTC"
) -> Iterator[list[str]]:
    """Yields the rows of a batch as texts: CAST AS STRING of each value, in a time zone. ``shows_kinds``: row kinds come first; they are read from a
    further last column, without which all rows are inserts."""
    columns = [_texts(batch, index, field.type, time_zone) for index, field in enumerate(kind.fields)]
    if shows_kinds:
        width = len(kind.fields)
        found = batch.column(width).to_pylist() if batch.num_columns > width else [0] * batch.num_rows
        columns.insert(0, [str(RowKind(row_kind)) for row_kind in found])
    return map(list, zip(*columns, strict=True))


def _texts(batch: pa.RecordBatch, index: int, type: LogicalType, time_zone: str) -> list[str]:
    column = batch.column(index)
    if type.root in _TEXTS:
        found = column.to_pylist()
    else:
        try:
            write = formatter(type, time_zone, prints=True)
            found = [None if value is None else write(value) for value in python_values(column)]
        except UnsupportedPlan:
            found = [None if value is None else value_text(value, type) for value in column_values(column, type)]
    return [_NULL if text is None else text for text in found]


def _type_width(name: str, type: LogicalType) -> int:
    """Returns the width of a column by its type (Flink: ``PrintStyle``)."""
    match type.root:
        case TypeRoot.DECIMAL:
            width = (type.precision or 0) + 2
        case TypeRoot.TIME:
            width = 8 + (1 + type.precision if type.precision else 0)
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            width = 19 + (1 + type.precision if type.precision else 0)
        case _:
            width = _WIDTHS.get(type.root, MOST_SIGNS)
    return max(min(width, MOST_SIGNS), _width(name), len(_NULL))


def _line(texts: Iterable[str], widths: Iterable[int]) -> str:
    cells = [
        f" {' ' * (width - _width(_cut(text, width)))}{_cut(text, width)} "
        for text, width in zip(texts, widths, strict=True)
    ]
    return f"|{'|'.join(cells)}|\n"


def _cut(text: str, width: int) -> str:
    if _width(text) <= width:
        return text
    kept = ""
    for sign in text:
        if _width(kept + sign) > width - 3:
            break
        kept += sign
    return kept + "..."


def _width(text: str) -> int:
    """Returns the display width of a text; wide characters count twice."""
    return sum(2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text)
