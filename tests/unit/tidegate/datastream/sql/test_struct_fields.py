"""Fields of structs in SQL: as DuckDB gives them, and refused when the graph is built where there are none."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from tests.unit.tidegate.datastream.sql.kit import answer_of, reference, stream
from tidegate.model.errors import InvalidJob, SchemaMismatch

INNER = pa.struct([("c", pa.string()), ("D", pa.list_(pa.int64()))])
TABLE = pa.RecordBatch.from_pydict(
    {
        "ts": pa.array([dt.datetime(2024, 1, 1)] * 3, pa.timestamp("ms")),
        "k": pa.array([1, 2, None]),
        "St": pa.array(
            [{"a": 5, "b": {"c": "x", "D": [1]}}, None, {"a": None, "b": None}],
            pa.struct([("a", pa.int64()), ("b", INNER)]),
        ),
        "__sql_0": pa.array([7, 8, 9]),
    }
)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT st.a FROM input",
        "SELECT input.st.a, ST.B.c FROM input",
        "SELECT i.st.b.d AS d FROM input i",
        "SELECT st.a + 1 AS x, upper(st.b.c) AS y, st.b.c LIKE 'x%' AS z FROM input WHERE st.a > 3 OR st.b.c IS NULL",
        "SELECT st.b FROM input",
        "SELECT st['a'] AS a, struct_extract(st, 'a') AS b, __sql_0, k::VARCHAR LIKE '1' AS l FROM input",
        "SELECT list_transform(st.b.d, lambda x: x + st.a) AS l FROM input",
    ],
)
def test_fields_are_duckdbs(query: str) -> None:
    assert answer_of(stream(TABLE).sql(query), TABLE) == reference(query, TABLE)


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("SELECT st.nope FROM input", "no field 'nope' in 'St', which has a, b"),
        ("SELECT st.b.nope FROM input", "no field 'nope' in 'St.b', which has c, D"),
        ("SELECT k.a FROM input", "no field 'a' in 'k', which is int64"),
        ("SELECT st.a.b FROM input", "no field 'b' in 'St.a', which is int64"),
        ("SELECT other.a FROM input", "no table or column 'other'"),
        ("SELECT count(*) AS n FROM input GROUP BY TUMBLE(st.a, INTERVAL '1' DAY)", "not a field"),
        (
            "SELECT st.a, count(*) AS n FROM input GROUP BY k, TUMBLE(ts, INTERVAL '1' DAY)",
            "st.a must be in GROUP BY|St.a must be in GROUP BY",
        ),
    ],
)
def test_what_is_no_field_is_refused(query: str, says: str) -> None:
    with pytest.raises((InvalidJob, SchemaMismatch), match=says):
        stream(TABLE).sql(query)


def test_fields_are_keys_and_aggregated() -> None:
    query = "SELECT st.a, sum(st.a) AS s, count(*) AS n FROM input GROUP BY st.a, TUMBLE(ts, INTERVAL '1' DAY) HAVING max(st.a) > 0"
    made = stream(TABLE).sql(query)
    assert made.get_type().arrow_schema().names == ["a", "s", "n"]
