"""Rows as the text table that Flink's ``TableResult.print`` writes (``TableauStyle``)."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from tidegate.common.row import Row, RowKind
from tidegate.functions.sql.scalar import arrow_type, compile_expression
from tidegate.plan.errors import UnsupportedPlan
from tidegate.plan.expressions import RexCall, RexInputRef
from tidegate.plan.logical_types import Field, LogicalType, TypeRoot
from tidegate.table._execution.rows import value_text

MOST_SIGNS = 30
"""Flink's ``table.display.max-column-width``: what is longer is cut, with dots behind it."""
_STRING = LogicalType(TypeRoot.VARCHAR, length=2147483647)
_WIDTHS = {
    TypeRoot.BOOLEAN: 5,
    TypeRoot.TINYINT: 4,
    TypeRoot.SMALLINT: 6,
    TypeRoot.INTEGER: 11,
    TypeRoot.BIGINT: 20,
    TypeRoot.DATE: 10,
}


def print_rows(rows: Iterable[Row], kind: LogicalType, *, shows_kinds: bool, knows_all: bool) -> None:
    """Writes to the standard output. ``knows_all``: columns are as wide as their longest text; otherwise by their types, and each row is
    written when it comes."""
    names = [*(["op"] if shows_kinds else []), *kind.field_names]
    if knows_all:
        texts = [_texts(row, kind, shows_kinds) for row in rows]
        widths = [max([_width(name), *(_width(line[i]) for line in texts)]) for i, name in enumerate(names)]
        lines: Iterable[list[str]] = texts
    else:
        widths = [*([2] if shows_kinds else []), *(_type_width(field.name, field.type) for field in kind.fields)]
        lines = (_texts(row, kind, shows_kinds) for row in rows)
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
        sys.stdout.write(border + f"{count} {'row' if count == 1 else 'rows'} in set\n")
    sys.stdout.flush()


def _texts(row: Row, kind: LogicalType, shows_kinds: bool) -> list[str]:
    texts = [_text(value, field.type) for value, field in zip(row, kind.fields, strict=True)]
    return [*([str(RowKind(row.get_row_kind()))] if shows_kinds else []), *texts]


def _text(value: Any, type: LogicalType) -> str:
    """CAST AS STRING."""
    if value is None:
        return "<NULL>"
    if type.root in (TypeRoot.CHAR, TypeRoot.VARCHAR):
        return str(value)
    try:
        column = pa.RecordBatch.from_arrays([pa.array([value], arrow_type(type))], names=["value"])
        row = LogicalType(TypeRoot.ROW, fields=(Field("value", type),))
        call = RexCall(type=_STRING, operands=(RexInputRef(input_index=0, type=type),), internal_name="$CAST$1")
        return str(compile_expression(call, row).evaluate(column)[0].as_py())
    except (UnsupportedPlan, pa.ArrowException, TypeError):
        return value_text(value, type)


def _type_width(name: str, type: LogicalType) -> int:
    """Flink: ``PrintStyle``'s widths by type."""
    match type.root:
        case TypeRoot.DECIMAL:
            width = (type.precision or 0) + 2
        case TypeRoot.CHAR | TypeRoot.VARCHAR:
            width = type.length or MOST_SIGNS
        case TypeRoot.TIME:
            width = 8 + (1 + type.precision if type.precision else 0)
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            width = 19 + (1 + type.precision if type.precision else 0)
        case _:
            width = _WIDTHS.get(type.root, MOST_SIGNS)
    least = len("<NULL>") if type.nullable else 1
    return max(min(width, MOST_SIGNS), _width(name), least)


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
    """Wide signs take two places."""
    return sum(2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text)
