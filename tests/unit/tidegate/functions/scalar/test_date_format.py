"""``DATE_FORMAT`` of a batch writes each time as it is written alone, although times that a pattern shows alike are written once."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from tidegate.functions.sql.scalar import EvaluationContext, arrow_schema, compile_expression
from tidegate.functions.sql.scalar.calendar import offsets
from tidegate.functions.sql.scalar.time_patterns import write
from tidegate.plan.expressions import RexCall, RexInputRef, RexLiteral
from tidegate.plan.logical_types import Field, LogicalType, TypeRoot

PATTERNS = ("yyyy-MM-dd", "HH:mm", "hh a", "K", "k 'o''clock'", "E D w Q", "mm:ss", "yyyyMMdd HHmmss", "ss.SSS", "S")
STAMP, LOCAL = TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ


def written(pattern: str, kind: LogicalType, zone: str, stamps: list[int | None]) -> list[str | None]:
    row = LogicalType(TypeRoot.ROW, fields=(Field("t", kind),))
    literal = RexLiteral(type=LogicalType(TypeRoot.CHAR, length=len(pattern)), value=pattern)
    text = LogicalType(TypeRoot.VARCHAR, length=2147483647)
    call = RexCall(type=text, operands=(RexInputRef(0, kind), literal), internal_name="$DATE_FORMAT$1")
    schema = arrow_schema(row)
    batch = pa.RecordBatch.from_arrays([pa.array(stamps, pa.int64()).view(schema.field(0).type)], schema=schema)
    found: list[str | None] = (
        compile_expression(call, row, EvaluationContext(time_zone=zone)).evaluate(batch).to_pylist()
    )
    return found


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize(
    ("root", "precision", "zone"),
    [(STAMP, 3, "UTC"), (STAMP, 6, "UTC"), (LOCAL, 3, "Europe/Amsterdam"), (LOCAL, 6, "UTC")],
)
def test_each_time_is_written_as_alone(pattern: str, root: TypeRoot, precision: int, zone: str) -> None:
    per_second = 10**precision
    rng = random.Random(3)
    near = [
        base * per_second + rng.randrange(200_000 * per_second)
        for base in (-2_000_000_000, -1, 1_448_928_000)
        for _ in range(40)
    ]
    stamps: list[int | None] = [*near, None, 0, -1, 86_400 * per_second - 1, 86_400 * per_second]
    wanted: list[str | None] = []
    for stamp in stamps:
        if stamp is None:
            wanted.append(None)
            continue
        second, fraction = divmod(stamp, per_second)
        if root is LOCAL:
            second += int(offsets(pa.array([second]).to_numpy(), zone)[0])
        nanos = fraction * (10**9 // per_second)
        local_zone = zone if root is LOCAL else "UTC"
        wanted.append(write(pattern, second * 1000 + nanos // 1_000_000, nanos, local_zone, is_simple=False))
    assert written(pattern, LogicalType(root, precision=precision), zone, stamps) == wanted
