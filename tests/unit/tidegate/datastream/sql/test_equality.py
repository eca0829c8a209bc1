"""``stream.sql`` gives DuckDB's types and DuckDB's values, or DuckDB's error: generated expressions over generated rows, with
nulls, extremes, NaN, -0.0, empty texts and texts beyond ASCII."""

from __future__ import annotations

import datetime as dt
import math
import random
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.tidegate.datastream.sql.kit import answer_of, engines_of, reference, stream
from tidegate.model.errors import InvalidJob, TidegateError

_TIMES = [
    dt.datetime(1970, 1, 1),
    dt.datetime(2024, 2, 29, 12, 30, 1),
    dt.datetime(1969, 12, 31, 23, 59, 59),
    dt.datetime(9999, 12, 31),
]
_FLOATS = [0.0, -0.0, 1.0, 1.5, -2.5, 0.1, math.nan, math.inf, -math.inf, 5e-324]
_TEXTS = ["", "a", "A", "abc", "ABC", "ß", "é", "İ", "a%", "1", "\U0001f600", "x y"]


def _whole(bits: int, *, signed: bool = True) -> list[int]:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return [low, high, high - 1, 0, 1, 2, 3, 7, 100, *([-1, -2, -7] if signed else [])]


COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i8": (pa.int8(), _whole(8)),
    "i16": (pa.int16(), _whole(16)),
    "i32": (pa.int32(), _whole(32)),
    "a": (pa.int64(), [*_whole(64), 2**53, 2**53 + 1]),
    "b": (pa.int64(), [0, 1, 2, 3, -1, 7, 100]),
    "u8": (pa.uint8(), _whole(8, signed=False)),
    "u64": (pa.uint64(), _whole(64, signed=False)),
    "g": (pa.float32(), [0.0, -0.0, 1.5, -2.5, math.nan, math.inf, 16777216.0]),
    "f": (pa.float64(), [*_FLOATS, 1.7e308]),
    "h": (pa.float64(), _FLOATS),
    "s": (pa.string(), _TEXTS),
    "t": (pa.string(), _TEXTS),
    "ls": (pa.large_string(), _TEXTS),
    "d": (pa.dictionary(pa.int32(), pa.string()), _TEXTS),
    "p": (pa.bool_(), [True, False]),
    "q": (pa.bool_(), [True, False]),
    "ts": (pa.timestamp("ms"), _TIMES),
    "us": (pa.timestamp("us"), _TIMES),
    "sec": (pa.timestamp("s"), _TIMES),
    "ns": (pa.timestamp("ns"), _TIMES[:3]),
    "z": (pa.timestamp("ms", "UTC"), _TIMES),
    "day": (pa.date32(), [one.date() for one in _TIMES]),
    "n": (pa.decimal128(9, 2), [0, 1, -2, 9999999]),
}


def table_of(seed: int, most_rows: int = 6) -> pa.RecordBatch:
    """By chance, since values drawn one by one take longer than what is tested."""
    chance = random.Random(seed)
    rows = chance.randint(1, most_rows)
    found = {name: pa.array(chance.choices([None, *values], k=rows), kind) for name, (kind, values) in COLUMNS.items()}
    return pa.RecordBatch.from_pydict(found)


SEEDS = st.integers(0, 2**32)


def _forms(templates: list[str], *inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(lambda template, *parts: template.format(*parts), st.sampled_from(templates), *inner)


_NUMBER = st.sampled_from(["i8", "i16", "i32", "a", "b", "b", "u8", "u64", "g", "f", "h", "f", "n"])
_DIGITS = st.sampled_from(
    ["0", "1", "2", "-3", "7", "300", "3000000000", "1.5", "0.1", "1e3", "NULL", "9007199254740993", "16777217"]
)
_TEXT = st.sampled_from(
    ["s", "t", "s", "ls", "d", "'a'", "''", "'ß'", "NULL", "upper(s)", "lower(t)", "s || t", "CAST(b AS VARCHAR)"]
)
_TIME = st.sampled_from(
    ["ts", "us", "sec", "ns", "z", "day", "ts", "us", "TIMESTAMP '2024-02-29 12:30:01'", "'1970-01-01'", "DATE '1970-01-01'",
     "'2024-02-29 12:30:01.0009'"]
)  # fmt: skip
_NUMBERS = st.recursive(
    _NUMBER | _NUMBER | _DIGITS,
    lambda inner: (
        _forms(["({} + {})", "({} - {})", "({} * {})", "({} / {})", "({} % {})", "({} // {})", "coalesce({}, {})"], inner, inner)
        | _forms(["(-{})", "abs({})", "floor({})", "ceil({})", "CAST({} AS DOUBLE)", "CAST({} AS BIGINT)", "CAST({} AS INTEGER)",
                  "CAST({} AS SMALLINT)", "CASE WHEN p THEN {} END", "CASE WHEN p THEN {} ELSE b END"], inner)
    ),
    max_leaves=4,
)  # fmt: skip
_COMPARE = ["({} = {})", "({} <> {})", "({} < {})", "({} <= {})", "({} > {})", "({} >= {})", "({} IN ({}, NULL))"]
_TRIPLE = ["({} BETWEEN {} AND {})", "({} IN ({}, {}))", "({} NOT IN ({}, {}))", "({} NOT BETWEEN {} AND {})"]
_LEAVES = (
    _forms(_COMPARE, _NUMBERS, _NUMBERS)
    | _forms(_COMPARE, _NUMBER, _DIGITS)
    | _forms([*_COMPARE, "({} LIKE {})"], _TEXT, _TEXT)
    | _forms(_COMPARE, _TIME, _TIME)
    | _forms(_TRIPLE, _NUMBER, _NUMBER | _DIGITS, _DIGITS)
    | _forms(_TRIPLE, _TEXT, _TEXT, _TEXT)
    | _forms(_TRIPLE, _TIME, _TIME, _TIME)
    | _forms(["({} IS NULL)", "({} IS NOT NULL)"], _NUMBER | _TEXT | _TIME)
    | st.sampled_from(["p", "q", "true", "(p = q)", "(p < q)", "(p = true)", "NULL", "b"])
)
_CONDITIONS = st.recursive(
    _LEAVES,
    lambda inner: _forms(["({} AND {})", "({} OR {})"], inner, inner) | _forms(["(NOT {})"], inner),
    max_leaves=3,
)
_VALUES = (
    _NUMBERS
    | _CONDITIONS
    | _TEXT
    | _TIME
    | _forms(["coalesce({}, {})", "CASE WHEN p THEN {} WHEN q THEN {} END"], _TEXT, _TEXT)
    | _forms(["coalesce({}, {})", "CASE WHEN p THEN {} ELSE {} END"], _TIME, _TIME)
    | _forms(["CASE WHEN {} THEN {} ELSE {} END"], _CONDITIONS, _NUMBERS, _NUMBERS)
    | _forms(["CASE WHEN {} THEN 'x' ELSE 'y' END", "CASE WHEN {} THEN 1 ELSE 2 END"], _CONDITIONS)
)
QUERIES = st.builds(
    lambda value, where: f"SELECT b, {value} AS x FROM input{where}",
    _VALUES,
    st.just("") | st.just("") | _CONDITIONS.map(lambda one: f" WHERE {one}"),
)


def checked(query: str, table: pa.RecordBatch) -> set[str] | None:
    """Which engines compute the query. Fails where the answer is not DuckDB's; ``None``: it is refused."""
    try:
        made = stream(table).sql(query)
    except TidegateError:
        return None
    try:
        expected = reference(query, table)
    except duckdb.Error:
        with pytest.raises(duckdb.Error):
            answer_of(made, table)
    else:
        assert answer_of(made, table) == expected
    return engines_of(made)


@settings(max_examples=120, deadline=None, derandomize=True)
@given(QUERIES, SEEDS)
def test_any_expression_has_the_type_and_the_values_that_duckdb_gives(query: str, seed: int) -> None:
    checked(query, table_of(seed))


@pytest.mark.parametrize(
    ("query", "engines"),
    [
        ("SELECT a * 2 + 1 AS x, f / 3 AS y, upper(s) AS u FROM input WHERE b > 100", {"kernels"}),
        ("SELECT a % 10 AS x, a // 7 AS y, CAST(b AS DOUBLE) AS z, CAST(b AS VARCHAR) AS v FROM input", {"kernels"}),
        ("SELECT f > h AS x, f = 1.5 AS y, f BETWEEN 0 AND 1 AS z FROM input WHERE s IN ('a', 'b') AND p", {"kernels"}),
        ("SELECT CASE WHEN f > 1 THEN 'x' ELSE 'y' END AS x, coalesce(b, 0) AS y FROM input", {"kernels"}),
        ("SELECT ts > TIMESTAMP '2024-01-01' AS x, day = '2024-01-01' AS y, ts > us AS z FROM input", {"kernels"}),
        ("SELECT b * 1.5 AS x, u64 + b AS y, b + 1 AS z FROM input", {"kernels", "DuckDB"}),
        ("SELECT s LIKE 'a%' AS x, CAST(f AS INTEGER) AS y, f % 2 AS z FROM input WHERE b > 0", {"kernels", "DuckDB"}),
    ],
)
def test_what_kernels_compute_and_what_duckdb_does(query: str, engines: set[str]) -> None:
    assert checked(query, table_of(1)) == engines


def test_an_integer_that_overflows_is_duckdbs_error_and_not_another_number() -> None:
    table = pa.RecordBatch.from_pydict({"ts": pa.array([0], pa.timestamp("ms")), "a": [2**63 - 1], "b": [0]})
    assert checked("SELECT b, CASE WHEN b > 0 THEN a + 1 ELSE a END AS x FROM input", table) == {"kernels"}
    with pytest.raises(duckdb.Error, match="Overflow"):
        answer_of(stream(table).sql("SELECT a + 1 AS x FROM input"), table)


def test_a_text_among_times_of_several_types_has_the_type_that_they_have_in_common() -> None:
    now = dt.datetime(2024, 2, 29, 12, 30, 1)
    columns = {"ts": pa.array([now], pa.timestamp("ms")), "sec": pa.array([now], pa.timestamp("s"))}
    table = pa.RecordBatch.from_pydict({**columns, "day": pa.array([dt.date(2024, 1, 1)])})
    for test in ("BETWEEN day AND sec", "IN (sec, day)", "IN (sec, ts)"):
        assert checked(f"SELECT '2024-02-29 12:30:01.0009' {test} AS x FROM input", table) == {"kernels", "DuckDB"}


def test_names_do_not_see_case_and_are_those_of_the_stream() -> None:
    table = pa.RecordBatch.from_pydict({"ts": pa.array([0], pa.timestamp("ms")), "Delay": [1], "b": [2]})
    assert answer_of(stream(table).sql("SELECT DELAY, i.delay + B AS x FROM input i"), table)[0] == ["Delay", "x"]
    assert checked("SELECT DELAY, reverse('x') AS r FROM input", table) == {"kernels", "DuckDB"}
    both = pa.RecordBatch.from_pydict({"ts": table["ts"], "a": [1], "A": [2]})
    with pytest.raises(InvalidJob, match="differ by case only"):
        stream(both).sql("SELECT a FROM input")
    with pytest.raises(InvalidJob, match="twice"):
        stream(table).sql("SELECT b AS x, Delay AS X FROM input")


@pytest.mark.parametrize(
    ("aggregate", "said"),
    [
        ("max(a, 2)", "takes 1 arguments, not 2"),
        ("min(a, 3)", "takes 1 arguments, not 2"),
        ("median(a)", "approx_quantile"),
        ("max(s)", "does not support max of string"),
        ("sum(n)", "does not support sum of decimal"),
        ("avg(ts)", "does not support avg of timestamp"),
        ("sum(s)", "sum"),
    ],
)
def test_aggregates_that_would_give_something_else_are_refused(aggregate: str, said: str) -> None:
    with pytest.raises(InvalidJob, match=said):
        stream(table_of(1)).sql(f"SELECT {aggregate} AS x FROM input GROUP BY TUMBLE(ts, INTERVAL '5' SECOND)")
