"""What Flink 2.3.0 computed for expressions over rows with nulls, extremes, empty and unicode texts, leap days and days of DST.

``recorded_expressions.json.xz`` holds groups by name: ``columns`` (name and type), ``rows``, ``options``, and ``cases``: the text of an
expression, the row type of its ``input``, its compiled form (``rex``) and the text of its result for each row, as Flink's
``RowDataToStringConverter`` writes it, ``null`` for NULL.

How it was recorded: the rows were a JSON file of the filesystem connector (so that the planner could not fold a constant); for each
group a statement ``SELECT <expression> AS c0, ... FROM args`` was run on a MiniCluster through py4j (``collectInternal`` and
``getRowDataToStringConverter``), and the projection of its calc taken from ``compilePlan().asJsonString()``.
"""

from __future__ import annotations

import json
import lzma
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from tidegate.functions.sql.scalar import EvaluationContext, arrow_schema, arrow_type
from tidegate.functions.sql.scalar.arrow_types import time_unit
from tidegate.functions.sql.scalar.calendar import UNITS_PER_SECOND, parse_date, parse_time_ms, parse_timestamp
from tidegate.plan.expressions import Rex
from tidegate.plan.logical_types import LogicalType, TypeRoot, decode_type

_ARCHIVE = Path(__file__).parent / "recorded_expressions.json.xz"
RECORDED_AT_MS = 1795828995000
"""What the clock of the recording showed: UNIX_TIMESTAMP() is among the expressions."""


@dataclass(frozen=True)
class RecordedExpression:
    group: str
    text: str
    input: LogicalType
    rex: Rex
    results: tuple[str | None, ...]

    def __str__(self) -> str:
        return f"{self.group}: {self.text}"

    def batch(self) -> pa.RecordBatch:
        group = _groups()[self.group]
        names = [name for name, _ in group["columns"]]
        columns = [
            pa.array(
                [_value(row[names.index(field.name)], field.type) for row in group["rows"]], arrow_type(field.type)
            )
            for field in self.input.fields
        ]
        return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(self.input))

    def context(self) -> EvaluationContext:
        options = _groups()[self.group]["options"]
        return EvaluationContext(options.get("table.local-time-zone", "UTC"), now_ms=lambda: RECORDED_AT_MS)


@cache
def recorded_expressions() -> tuple[RecordedExpression, ...]:
    return tuple(
        RecordedExpression(
            name, case["expression"], decode_type(case["input"]), decode_rex(case["rex"]), tuple(case["results"])
        )
        for name, group in _groups().items()
        for case in group["cases"]
    )


def decode_rex(value: object) -> Rex:
    """An expression from the JSON of a plan."""
    found: Rex = msgspec.convert(value, Rex, dec_hook=_decode)
    return found


def _decode(type: type, value: object) -> object:
    if type is LogicalType:
        return decode_type(value)
    raise NotImplementedError(type)


@cache
def _groups() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(lzma.decompress(_ARCHIVE.read_bytes()))
    return found


def _value(value: Any, type: LogicalType) -> Any:
    """The value of a row as Arrow takes it; times as numbers."""
    if value is None:
        return None
    match type.root:
        case TypeRoot.DECIMAL:
            return Decimal(value)
        case TypeRoot.DATE:
            return parse_date(value)
        case TypeRoot.TIME:
            return parse_time_ms(value)
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            nanos = parse_timestamp(value.removesuffix("Z"))
            assert nanos is not None
            return nanos // (1_000_000_000 // UNITS_PER_SECOND[time_unit(type)])
        case TypeRoot.MAP:
            return sorted(value.items(), key=lambda pair: ord(pair[0]) % 16)  # the order of java.util.HashMap
    return value
