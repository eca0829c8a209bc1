"""What ``stream.sql`` does not know is refused when the graph is built; what it takes means what DuckDB means by it."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.tidegate.datastream.sql.kit import TABLE, answer_of, reference, stream
from tidegate.common import Types, WatermarkStrategy
from tidegate.datastream import DataStream, StreamExecutionEnvironment, col
from tidegate.datastream.sql.engine import interval_ms
from tidegate.model.errors import InvalidJob, SchemaMismatch, TidegateError

TUMBLE = "TUMBLE(ts, INTERVAL '5' SECOND)"


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT COLUMNS('a|b') FROM input", "COLUMNS"),
        ("SELECT COLUMNS(*) FROM input", "COLUMNS"),
        ("SELECT * LIKE 'a%' FROM input", r"\* inside of an expression"),
        ("SELECT struct_pack(UNPACK COLUMNS(*)) AS s FROM input", "sql"),
        ("SELECT a FROM input TABLESAMPLE 10%", "samples"),
        ("SELECT x FROM input t(x, y)", "new names of all columns"),
        ("SELECT a FROM main.input", "names of schemas"),
        ("SELECT main.lower(s) AS l FROM input", "names of schemas"),
        ("SELECT a FROM input AT (VERSION => 1)", "AT"),
        ("SELECT $1 AS p FROM input", "parameters"),
        ("SELECT DEFAULT AS p FROM input", "DEFAULT"),
        ("SELECT lower(DISTINCT s) AS l FROM input", "not an aggregate"),
        ("SELECT a FROM input WHERE count(*) > 1", "aggregate in WHERE"),
        (f"SELECT count(*) AS n FROM input GROUP BY sum(a), {TUMBLE}", "aggregate in GROUP BY"),
        (f"SELECT sum(count(*)) AS n FROM input GROUP BY {TUMBLE}", "aggregate of an aggregate"),
        (f"SELECT GROUPING(a) AS g FROM input GROUP BY a, {TUMBLE}", "grouping"),
        (f"SELECT count(*) AS n FROM input GROUP BY GROUPING SETS ((a, {TUMBLE}), ({TUMBLE}))", "sets of groups"),
        ("SELECT 1 AS n FROM input GROUP BY ()", "sets of groups"),
        (f"SELECT count(*) FILTER (WHERE a > 1) AS n FROM input GROUP BY {TUMBLE}", "FILTER"),
        (f"SELECT count(*) AS n FROM input GROUP BY 7, {TUMBLE}", "position"),
        ("SELECT unnest(l) AS one FROM input", "one value for each row"),
        ("SELECT unnest({'a': 1, 'b': 2}) AS one FROM input", "one value for each row"),
        ("SELECT unnest({'a': 1}, recursive := true) AS one FROM input", "one value for each row"),
        ("SELECT regexp_split_to_table(s, ',') AS one FROM input", "one value for each row"),
        ("SELECT geomean(a) AS g FROM input", "one value for each row"),
        ("SELECT a = ANY(l) AS g FROM input", "subqueries"),
        ("SELECT * EXCLUDE (nosuch) FROM input", "nosuch"),
        ("SELECT * EXCLUDE (other.a) FROM input", "other"),
        ("SELECT * EXCLUDE (a) REPLACE (1 AS a) FROM input", "sql"),
        ("SELECT other.* FROM input", "other"),
        ("SELECT count(*) AS n FROM input GROUP BY TUMBLE(ts, INTERVAL '1' MONTH)", "no fixed length"),
        ("SELECT count(*) AS n FROM input GROUP BY TUMBLE(ts, INTERVAL '1 year 2 days')", "no fixed length"),
        ("SELECT count(*) AS n FROM input GROUP BY TUMBLE(ts, INTERVAL '1500 microseconds')", "milliseconds"),
        ("SELECT count(*) AS n FROM input GROUP BY TUMBLE(ts, INTERVAL (a) SECOND)", "interval"),
        ("SELECT count(*) AS n FROM input GROUP BY TUMBLE(other_ts, INTERVAL '5' SECOND)", "event time"),
    ],
)
def test_what_is_not_known_is_refused_before_anything_runs(query: str, said: str) -> None:
    with pytest.raises((InvalidJob, SchemaMismatch), match=said):
        stream().sql(query)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * EXCLUDE (a, L) FROM input",
        "SELECT * EXCLUDE (input.a) FROM input",
        "SELECT * REPLACE (a + 1 AS a, upper(s) AS s) FROM input",
        "SELECT * RENAME (a AS first) FROM input WHERE b > 3",
        "SELECT i.* EXCLUDE (a, l) FROM input i",
        "SELECT list_transform(l, lambda x: x + 1) AS more, list_filter(l, lambda x: x > 2) AS some FROM input",
        "SELECT {'x': a, 'y': s} AS pair, [a, b] AS both, l[1] AS head FROM input",
        "SELECT s COLLATE NOCASE = 'ABC' AS same, a IS DISTINCT FROM b AS other FROM input",
        "SELECT TRY_CAST(s AS INTEGER) AS n, CAST(a AS DECIMAL(9, 2)) AS d, a::TINYINT AS small FROM input",
        "SELECT ts::DATE AS day, date_trunc('hour', instant) AS hour, instant::DATE AS local FROM input",
        "SELECT nullif(a, 3) AS n, a NOT IN (1, 2) AS i, a NOT BETWEEN 1 AND 3 AS o, s NOT LIKE 'a%' AS l FROM input",
    ],
)
def test_what_is_taken_gives_what_duckdb_gives(query: str) -> None:
    assert answer_of(stream().sql(query)) == reference(query)


@pytest.mark.parametrize("having", ["", " HAVING n > 3", " HAVING count(*) > 3"])
def test_groups_by_position_and_alias_are_those_of_the_select_list(having: str) -> None:
    by_name = stream().sql(f"SELECT a % 3 AS k, count(*) AS n FROM input GROUP BY a % 3, {TUMBLE}{having}")
    by_alias = stream().sql(f"SELECT a % 3 AS k, count(*) AS n FROM input GROUP BY k, {TUMBLE}{having}")
    by_position = stream().sql(f"SELECT a % 3 AS k, count(*) AS n FROM input GROUP BY 1, {TUMBLE}{having}")
    assert _shape(by_name) == _shape(by_alias) == _shape(by_position)


def _shape(made: DataStream) -> list[str]:
    """The operators of a stream and their options, from the last to the first."""
    found: list[str] = []
    step: Any = made._transformation
    while step is not None:
        options = getattr(step, "options", {})
        found.append(
            f"{getattr(step, 'kind', type(step).__name__)} {options.get('columns')} {options.get('predicate')}"
        )
        step = (getattr(step, "inputs", None) or [getattr(step, "input", None)])[0]
    return found


def test_the_time_column_of_a_window_is_followed_through_select_and_filter() -> None:
    renamed = stream().select(col("ts").alias("moment"), "a", other=col("ts")).filter(col("a") > 1)
    renamed.sql("SELECT count(*) AS n FROM input GROUP BY TUMBLE(moment, INTERVAL '5' SECOND)")
    renamed.sql("SELECT moment, a + 1 AS b, reverse('x') AS r FROM input").sql(
        "SELECT count(*) AS n FROM input GROUP BY TUMBLE(moment, INTERVAL '5' SECOND)"
    )
    computed = stream().select((col("a") + 1).alias("ts"))
    with pytest.raises(InvalidJob, match="with_timestamp_column"):
        computed.sql("SELECT count(*) AS n FROM input GROUP BY TUMBLE(ts, INTERVAL '5' SECOND)")


def test_the_time_column_of_records_is_that_of_the_strategy() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    made = env.from_collection([(1, 2)], Types.ROW_NAMED(["moment", "v"], [Types.LONG(), Types.LONG()]))
    by_column = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("moment")
    query = "SELECT count(*) AS n FROM input GROUP BY TUMBLE({}, INTERVAL '5' SECOND)"
    made.assign_timestamps_and_watermarks(by_column).sql(query.format("moment"))
    with pytest.raises(InvalidJob, match="event time"):
        made.assign_timestamps_and_watermarks(by_column).sql(query.format("v"))
    by_function = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda row, _: row[1])
    with pytest.raises(InvalidJob, match="with_timestamp_column"):
        made.assign_timestamps_and_watermarks(by_function).sql(query.format("moment"))


@pytest.mark.parametrize(("text", "length_ms"), [("INTERVAL '2' DAY", 172_800_000), ("INTERVAL 90 MINUTE", 5_400_000)])
def test_intervals_of_fixed_length(text: str, length_ms: int) -> None:
    assert interval_ms(text) == length_ms


# --- any query: refused, or DuckDB's answer

_COLUMNS = st.sampled_from(["a", "b", "s", "f", "ts", "instant", "l", "A"])
_LITERALS = st.sampled_from(["1", "0", "-3", "2.5", "'abc'", "'1'", "NULL", "true", "DATE '2024-01-01'", "[1, 2]"])
_FORMS = st.sampled_from(
    [
        "({} + {})", "({} / {})", "({} % {})", "({} = {})", "({} <> {})", "({} < {})", "({} AND {})", "({} OR {})", "({} || {})",
        "coalesce({}, {})", "nullif({}, {})", "({} IN ({}, 2))", "({} NOT IN ({}, NULL))", "CASE WHEN {} THEN {} END",
        "({} IS NULL OR {} IS NOT NULL)", "({} BETWEEN 1 AND {})", "greatest({}, {})", "({} LIKE {})", "({} IS DISTINCT FROM {})",
        "({} // {})", "([{}, {}])", "if({}, {}, 3)", "concat({}, {})",
    ]
)  # fmt: skip
_UNARY = st.sampled_from(
    [
        "(NOT {})", "(-{})", "upper({})", "lower({})", "abs({})", "floor({})", "ceil({})", "round({})", "CAST({} AS DOUBLE)",
        "TRY_CAST({} AS BIGINT)", "CAST({} AS VARCHAR)", "({}::DATE)", "length({})", "unnest({})", "count({})", "sum({})",
        "date_trunc('day', {})", "(SELECT {})", "({} COLLATE NOCASE)", "COLUMNS({})", "({})[1]", "list_sum({})",
    ]
)  # fmt: skip
_EXPRESSIONS = st.recursive(
    _COLUMNS | _LITERALS,
    lambda inner: (
        st.builds(lambda form, a, b: form.format(a, b), _FORMS, inner, inner)
        | st.builds(lambda form, a: form.format(a), _UNARY, inner)
    ),
    max_leaves=6,
)
_STARS = st.sampled_from(
    ["*", "* EXCLUDE (a)", "* REPLACE (b AS a)", "* RENAME (a AS z)", "input.*", "COLUMNS(*)", "*, 1 AS x"]
)
_ITEMS = st.lists(_EXPRESSIONS, min_size=1, max_size=3).map(
    lambda items: ", ".join(f"{item} AS c{i}" for i, item in enumerate(items))
)
_TAILS = st.sampled_from(["", "", "", " LIMIT 3", " QUALIFY true", " USING SAMPLE 3", " GROUP BY ALL", " HAVING true"])


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.builds(lambda items, where, tail: f"SELECT {items} FROM input{where}{tail}", _ITEMS | _STARS,
                 st.just("") | _EXPRESSIONS.map(lambda e: f" WHERE {e}"), _TAILS))  # fmt: skip
def test_any_query_is_refused_or_answered_as_duckdb_answers(query: str) -> None:
    try:
        made = stream().sql(query)
    except TidegateError:
        return
    try:
        found = answer_of(made)
    except (duckdb.Error, pa.ArrowException):  # a value that cannot be cast fails the job: no wrong answer
        return
    assert found == reference(query)


def test_the_table_has_what_the_queries_read() -> None:
    assert TABLE.num_rows > 30


def test_a_column_of_a_type_that_cannot_be_read_is_named() -> None:
    union = pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["x", "y"])])
    table = pa.RecordBatch.from_pydict({"a": pa.array([1, 2]), "u": union, "ts": TABLE["ts"].slice(0, 2)})
    with pytest.raises(InvalidJob, match=r"the column 'u' is of type sparse_union.* which a query cannot read"):
        stream(table).sql("SELECT union_extract(u, '0') AS x FROM input")


def test_a_replaced_column_is_called_as_the_query_writes_it() -> None:
    query = 'SELECT * EXCLUDE (ts, other_ts, instant, l) REPLACE (a + 1 AS "A") FROM input'
    assert answer_of(stream().sql(query)) == reference(query)
