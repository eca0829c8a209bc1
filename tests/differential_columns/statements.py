"""Random expressions and SQL of single rows, each from a seed alone.

expression ─▶ refused when the graph is built, or of the promised type, and the same however the rows are cut
SQL        ─▶ what DuckDB gives over the same rows as a table; what it refuses is refused when the graph is built
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa

from tests.unit.tidegate.datastream.sql.kit import answer_of, plain, reference, stream
from tidegate.functions.expressions import Expression, call, coalesce, col, if_else, lit
from tidegate.model.errors import InvalidJob, SchemaMismatch

ROWS = 12
CAUSED_BY_ROWS = (
    "divide by zero",
    "out of bounds timestamp",
    "not in range",
    "out of range",
    "overflow",
    "does not fit",
    "truncated",
    "failed to parse",
)
_VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i8": (pa.int8(), [-128, 127, 0, 3]),
    "i32": (pa.int32(), [-(2**31), 2**31 - 1, 5]),
    "i64": (pa.int64(), [-(2**63), 2**63 - 1, 2**53 + 1, -7, 0]),
    "u64": (pa.uint64(), [2**64 - 1, 2**63, 7, 0]),
    "f32": (pa.float32(), [1.5, -0.0, float("nan")]),
    "f64": (pa.float64(), [0.1, -1.5, 1e300, float("inf"), float("nan")]),
    "d": (pa.decimal128(9, 2), [Decimal("1.50"), Decimal("-0.07")]),
    "b": (pa.bool_(), [True, False]),
    "s": (pa.string(), ["", "abc", "ÄB"]),
    "ts": (pa.timestamp("ms"), [dt.datetime(1970, 1, 1), dt.datetime(2024, 2, 29, 23, 59)]),
    "day": (pa.date32(), [dt.date(1970, 1, 1), dt.date(2024, 2, 29)]),
    "St": (pa.struct([("a", pa.int64()), ("t", pa.string())]), [{"a": 1, "t": "x"}, {"a": None, "t": "y"}]),
}
_CONSTANTS: list[Any] = [0, 1, -1, 200, 2**62, 2**63, 0.5, -2.5, 1e-9, Decimal("0.25"), True, "abc", None]
_SQL_CONSTANTS = ["0", "1", "-1", "200", "9223372036854775807", "0.5", "1e-9", "'abc'", "NULL", "true"]


def table_of(r: random.Random) -> pa.RecordBatch:
    """Returns rows of all types, some null; ``ts`` is there in every row."""
    columns = {}
    for name, (kind, values) in _VALUES.items():
        picked = [r.choice(values) if name == "ts" or r.random() < 0.8 else None for _ in range(ROWS)]
        columns[name] = pa.array(picked, kind)
    return pa.RecordBatch.from_pydict(columns)


def check_expression(seed: int) -> bool:
    """Raises ``AssertionError`` that begins with the seed. Returns whether it was computed."""
    r = random.Random(seed)
    table = table_of(r)
    expression: Expression | None = None
    try:
        expression = _expression(r, 3)
        kind = expression.output_field(table.schema).type
    except (SchemaMismatch, InvalidJob):
        return False
    try:
        whole = expression.compute(table)
    except pa.ArrowException as error:
        if not any(text in str(error).lower() for text in CAUSED_BY_ROWS):
            raise AssertionError(f"seed {seed}: {expression!r}: {error}") from error
        return False
    assert whole.type == kind, f"seed {seed}: {expression!r} is {whole.type}, promised is {kind}"
    size = r.randint(1, ROWS)
    parts = [expression.compute(table.slice(at, size)) for at in range(0, ROWS, size)]
    assert _shown(pa.concat_arrays(parts)) == _shown(whole), f"seed {seed}: {expression!r} depends on how rows are cut"
    return True


def check_sql(seed: int) -> bool:
    """As ``check_expression``."""
    r = random.Random(seed)
    table = table_of(r)
    where = f" WHERE {_sql_condition(r)}" if r.random() < 0.3 else ""
    query = f"SELECT {_sql(r, 3)} AS x FROM input{where}"
    wanted: Any = None
    try:
        wanted = reference(query, table)
    except (duckdb.BinderException, duckdb.ParserException, duckdb.CatalogException, duckdb.NotImplementedException):
        wanted = InvalidJob
    except duckdb.Error:
        wanted = duckdb.Error
    try:
        made = stream(table).sql(query)
    except (InvalidJob, SchemaMismatch) as error:
        if wanted not in (InvalidJob, duckdb.Error):
            raise AssertionError(f"seed {seed}: {query} is refused: {error}") from error
        return False
    assert wanted is not InvalidJob, f"seed {seed}: {query} is not refused"
    try:
        found = answer_of(made, table)
    except (duckdb.Error, pa.ArrowException) as error:
        if wanted is not duckdb.Error:
            raise AssertionError(f"seed {seed}: {query}: {error}, DuckDB gives {wanted}") from error
        return False
    if wanted is duckdb.Error:  # unless its optimizer finds that what fails is not needed
        wanted = _optimised(query, table)
    assert repr(found) == repr(wanted), f"seed {seed}: {query} gives {found}, DuckDB {wanted}"
    return True


def _optimised(query: str, table: pa.RecordBatch) -> Any:
    with duckdb.connect(config={"threads": 1, "enable_external_access": False}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("input", pa.Table.from_batches([table]))
        try:
            return plain(connection.sql(query).to_arrow_table())
        except duckdb.Error as error:
            return f"the error {error}"


def _shown(column: pa.Array) -> str:
    return repr(column.to_pylist())


def _expression(r: random.Random, depth: int) -> Expression:
    if depth == 0 or r.random() < 0.2:
        return col(r.choice(list(_VALUES))) if r.random() < 0.7 else lit(r.choice(_CONSTANTS))
    left, right = _expression(r, depth - 1), _expression(r, depth - 1)
    made: Callable[[], Expression] = r.choice(
        [
            lambda: left + right, lambda: left - right, lambda: left * right, lambda: left / right, lambda: left // right, lambda: left % right,
            lambda: left == right, lambda: left < right, lambda: left >= right, lambda: -left, left.is_null, lambda: left.fill_null(right),
            lambda: coalesce(left, right), lambda: if_else(left == right, left, right), lambda: left.is_in([0, 1, 3]), lambda: left.between(0, right),
            lambda: call("max_element_wise", left, right), lambda: left.cast("float64"), lambda: left["a"], lambda: call("abs", left),
            lambda: call("sqrt", left), lambda: call("utf8_upper", left), lambda: left & right,
        ]
    )  # fmt: skip
    return made()


def _sql(r: random.Random, depth: int) -> str:
    if depth == 0 or r.random() < 0.2:
        names = [name for name in _VALUES if name != "St"]
        return r.choice([r.choice(names), r.choice(names), r.choice(["St.a", "st.t"]), r.choice(_SQL_CONSTANTS)])
    left, right = _sql(r, depth - 1), _sql(r, depth - 1)
    return r.choice(
        [
            f"({left} + {right})", f"({left} - {right})", f"({left} * {right})", f"({left} / {right})", f"({left} // {right})", f"({left} % {right})",
            f"({left} = {right})", f"({left} < {right})", f"({left} >= {right})", f"(- {left})", f"({left} IS NULL)", f"coalesce({left}, {right})",
            f"(CASE WHEN {left} = {right} THEN {left} ELSE {right} END)", f"({left} IN ({right}, {left}))", f"({left} BETWEEN {right} AND {left})",
            f"upper({left})", f"abs({left})", f"CAST({left} AS DOUBLE)", f"CAST({left} AS BIGINT)", f"({left} || {right})", f"floor({left})",
        ]
    )  # fmt: skip


def _sql_condition(r: random.Random) -> str:
    return f"{_sql(r, 1)} {r.choice(['=', '<', '<>'])} {_sql(r, 1)}"
