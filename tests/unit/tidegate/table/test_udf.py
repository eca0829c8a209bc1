"""Functions of users: planned by Flink's planner, called where a job would call them, without a cluster."""

from __future__ import annotations

import asyncio
import datetime
import pickle
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import cloudpickle
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.unit.tidegate.table.linear_plans import run
from tidegate.common.row import Row
from tidegate.model.errors import InvalidJob, SchemaMismatch, UserFunctionError
from tidegate.table import (
    AsyncScalarFunction,
    DataTypes,
    EnvironmentSettings,
    FunctionContext,
    ScalarFunction,
    Table,
    TableEnvironment,
    TableFunction,
)
from tidegate.table._planner import InvalidStatement
from tidegate.table.expressions import call, col, lit
from tidegate.table.udf import udf, udtf

pytestmark = pytest.mark.timeout(300)

ROWS = [(1, "a b", 1.5), (2, "c", None), (3, None, 3.5)]


@pytest.fixture
def tables() -> TableEnvironment:
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    made.create_temporary_view("v", made.from_elements(ROWS, ["id", "name", "price"]))
    return made


def sql(tables: TableEnvironment, query: str) -> list[tuple[Any, ...]]:
    return run(tables, tables.sql_query(query))


@udf(input_types=[DataTypes.BIGINT(), DataTypes.BIGINT()], result_type=DataTypes.BIGINT())
def add(i: int, j: int) -> int | None:
    return None if i is None or j is None else i + j


def test_a_function_is_called_by_sql_and_by_the_table_api(tables: TableEnvironment) -> None:
    tables.create_temporary_system_function("Add2", add)
    tables.create_temporary_function("mine", add)
    assert sql(tables, "SELECT add2(id, 1), MINE(id + 1, add2(id, id)), `default_catalog`.`default_database`.mine(1, 2) FROM v") == [
        (2, 4, 3), (3, 7, 3), (4, 10, 3)
    ]  # fmt: skip
    view = tables.from_path("v")
    assert run(tables, view.select(add(col("id"), 10), call("add2", col("id"), lit(1)), call(add, col("id"), col("id")))) == [
        (11, 2, 2), (12, 3, 4), (13, 4, 6)
    ]  # fmt: skip
    assert run(tables, view.where(add(col("id"), 1) > 2).select(add(add(col("id"), 1), 1) + 1)) == [(5,), (6,)]


def test_names_are_forgotten_and_those_without_a_name_are_not_listed(tables: TableEnvironment) -> None:
    assert tables.from_path("v").select(add(col("id"), 1)).get_column_names() == ["_c0"]
    tables.create_temporary_system_function("f", add)
    tables.create_temporary_function("g", add)
    assert tables.list_user_defined_functions() == ["f", "g"]
    assert not any("*" in name for name in tables.list_functions())
    assert tables.drop_temporary_system_function("f")
    assert not tables.drop_temporary_system_function("f")
    assert tables.drop_temporary_function("g")
    with pytest.raises(InvalidStatement, match="No match found for function signature f"):
        tables.sql_query("SELECT f(id, 1) FROM v")


def test_arguments_are_of_the_declared_types_or_any(tables: TableEnvironment) -> None:
    tables.create_temporary_system_function("f", add)
    with pytest.raises(
        InvalidStatement,
        match=r"(?s)Invalid function call:\nf\(STRING, INT NOT NULL\).*BIGINT expected but STRING passed",
    ):
        tables.sql_query("SELECT f(name, 1) FROM v")
    shown = udf(lambda *given: repr(given), result_type="STRING", name="shown")
    tables.create_temporary_system_function("shown", shown)
    assert sql(tables, "SELECT shown(id, name, price) FROM v") == [
        ("(1, 'a b', 1.5)",),
        ("(2, 'c', None)",),
        ("(3, None, 3.5)",),
    ]
    assert sql(tables, "SELECT shown() FROM v") == [("()",)] * 3


VALUES: dict[str, tuple[Any, str, Any]] = {
    "BOOLEAN": (True, "TRUE", True),
    "TINYINT": (-1, "CAST(-1 AS TINYINT)", -1),
    "INT": (7, "7", 7),
    "FLOAT": (1.5, "CAST(1.5 AS FLOAT)", 1.5),
    "DOUBLE": (2, "CAST(1.25 AS DOUBLE)", 2.0),
    "DECIMAL(10, 2)": (Decimal("1.256"), "CAST(1.26 AS DECIMAL(10, 2))", Decimal("1.26")),
    "STRING": ("x", "'x'", "x"),
    "BYTES": (b"\x01", "x'01'", b"\x01"),
    "DATE": (datetime.date(2024, 2, 29), "DATE '2024-02-29'", datetime.date(2024, 2, 29)),
    "TIME(3)": (datetime.time(1, 2, 3), "TIME '01:02:03'", datetime.time(1, 2, 3)),
    "TIMESTAMP(3)": (
        datetime.datetime(2024, 1, 1, 0, 0, 0, 123456),
        "TIMESTAMP '2024-01-01 00:00:00.123'",
        datetime.datetime(2024, 1, 1, 0, 0, 0, 123000),
    ),
    "ARRAY<INT>": ([1, None], "ARRAY[1, CAST(NULL AS INT)]", [1, None]),
    "MAP<STRING, INT>": ({"a": 1}, "MAP['a', 1]", {"a": 1}),
    "ROW<x INT, y STRING>": (Row(1, "z"), "ROW(1, 'z')", (1, "z")),
    "ARRAY<ROW<x INT, y ARRAY<DECIMAL(3, 1)>>>": ([(1, [Decimal(2)])], "", [(1, [Decimal("2.0")])]),
}


def plain(value: Any) -> Any:
    if isinstance(value, Row):
        return tuple(plain(part) for part in value)
    return [plain(part) for part in value] if isinstance(value, list) else value


@pytest.mark.parametrize("kind", VALUES)
def test_values_of_all_types_come_back(kind: str, tables: TableEnvironment) -> None:
    returned, _, expected = VALUES[kind]
    tables.create_temporary_system_function("f", udf(lambda i: returned if i != 2 else None, result_type=kind))
    found = [plain(value) for (value,) in sql(tables, "SELECT f(id) FROM v")]
    assert found == [expected, None, expected]


@pytest.mark.parametrize("kind", [kind for kind in VALUES if VALUES[kind][1]])
def test_values_of_all_types_are_arguments(kind: str, tables: TableEnvironment) -> None:
    _, literal, _ = VALUES[kind]
    seen: list[Any] = []
    tables.create_temporary_system_function("f", udf(lambda i, value: seen.append(value), result_type="INT"))
    sql(tables, f"SELECT f(id, CAST({literal} AS {kind})) FROM v WHERE id = 1")
    same = udf(lambda value: value, result_type=kind)
    tables.create_temporary_system_function("same", same)
    back = sql(tables, f"SELECT same(CAST({literal} AS {kind})) FROM v WHERE id = 1")
    assert [plain(value) for value in seen] == [plain(value) for (value,) in back]
    assert seen[0] is not None


@pytest.mark.parametrize(
    ("kind", "returned", "said"),
    [
        ("BIGINT", "x", r"it returned 'x' \(str\) where BIGINT is declared"),
        ("BIGINT", 1.5, r"it returned 1.5 \(float\) where BIGINT is declared"),
        ("INT", 2**40, r"it returned 1099511627776 \(int\) where INT is declared"),
        ("INT", True, r"it returned True \(bool\) where INT is declared"),
        ("STRING", 1, r"it returned 1 \(int\) where VARCHAR\(2147483647\) is declared"),
        ("STRING", b"x", r"it returned b'x' \(bytes\) where"),
        (
            "DECIMAL(3, 1)",
            Decimal(1000),
            r"it returned Decimal\('1000'\) \(Decimal\) where DECIMAL\(3, 1\) is declared",
        ),
        ("DECIMAL(3, 1)", 1.5, r"it returned 1.5 \(float\) where DECIMAL\(3, 1\) is declared"),
        ("ARRAY<INT>", "ab", r"it returned 'ab' \(str\) where ARRAY<INT> is declared"),
        ("ROW<x INT>", (1, 2), r"it returned \(1, 2\) \(tuple\) where ROW<`x` INT> is declared"),
        ("DATE", "2024-01-01", r"it returned '2024-01-01' \(str\) where DATE is declared"),
    ],
)
def test_a_result_of_another_type_is_one_error_that_is_not_retried(
    kind: str, returned: object, said: str, tables: TableEnvironment
) -> None:
    tables.create_temporary_system_function("wrong", udf(lambda i: returned, result_type=kind, name="wrong"))
    with pytest.raises(SchemaMismatch, match=rf"the function wrong \(.*test_udf.py, line \d+\): {said}") as refused:
        sql(tables, "SELECT wrong(id) FROM v")
    assert not refused.value.retriable


def test_what_a_function_raises_names_it_its_arguments_and_the_line(tables: TableEnvironment) -> None:
    def helped(i: int) -> int:
        return 10 // (i - 2)

    @udf(result_type=DataTypes.BIGINT())
    def divide(i: int, name: str) -> int:
        return helped(i)

    tables.create_temporary_system_function("divide", divide)
    with pytest.raises(UserFunctionError) as raised:
        sql(tables, "SELECT divide(id, name) FROM v")
    line = helped.__code__.co_firstlineno + 1
    assert raised.value.message.endswith(
        f"test_udf.py, line {line}) raised ZeroDivisionError: integer division or modulo by zero"
    )
    assert raised.value.message.startswith("the function divide (")
    assert raised.value.inputs == ((2, "c"),)
    assert "python_functions.py" not in raised.value.details


class Counting(ScalarFunction):
    def __init__(self) -> None:
        self.calls: list[str] = []

    def open(self, function_context: FunctionContext) -> None:
        self.calls.append(function_context.get_job_parameter("greeting", "none"))

    def eval(self, i: int) -> str:
        return f"{self.calls[0]} {i} of {len(self.calls)}"

    def close(self) -> None:
        self.calls.append("closed")


def test_a_class_is_opened_with_a_context_and_closed(tables: TableEnvironment) -> None:
    counting = Counting()
    tables.create_temporary_system_function("counting", udf(counting, result_type="STRING"))
    query = tables.sql_query("SELECT counting(id) FROM v")
    assert run(tables, query, job_parameters={"greeting": "hi"}) == [("hi 1 of 1",), ("hi 2 of 1",), ("hi 3 of 1",)]
    assert counting.calls == ["hi", "closed"]


def test_functions_of_series_frames_and_arrays(tables: TableEnvironment) -> None:
    @udf(result_type=DataTypes.DOUBLE(), func_type="pandas")
    def plus(a: Any, b: Any) -> Any:
        assert isinstance(a, pd.Series)
        return a + b

    @udf(result_type=DataTypes.BIGINT(), func_type="arrow")
    def doubled(a: pa.Array) -> pa.Array:
        return pc.multiply(a, 2)

    @udf(result_type="ROW<a BIGINT, b STRING>", func_type="pandas")
    def pair(a: Any, b: Any) -> Any:
        return pd.DataFrame({"x": a, "y": b})

    for function in (plus, doubled, pair):
        tables.create_temporary_system_function(function.name, function)
    found = sql(tables, "SELECT plus(id, price), doubled(id), plus(doubled(id), 1), pair(id, name).b FROM v")
    assert [row[1:] for row in found] == [(2, 3.0, "a b"), (4, 5.0, "c"), (6, 7.0, None)]
    assert found[0][0] == 2.5


@pytest.mark.parametrize(
    ("func_type", "function", "said"),
    [
        ("pandas", lambda a: a[:1], "it returned 1 values for 3 rows"),
        ("pandas", lambda a: 1, r"it returned int, not a pandas.Series"),
        ("pandas", lambda a: a.astype(str), "what it returned does not fit the declared type BIGINT"),
        ("pandas", lambda a: a + 0.5, "what it returned does not fit the declared type BIGINT"),
        ("arrow", lambda a: a.to_pylist(), "it returned list, not a pyarrow.Array"),
        ("arrow", lambda a: pa.array(["1", "2", "3"]), "what it returned does not fit the declared type BIGINT"),
    ],
)
def test_batches_of_another_length_or_type_are_refused(
    func_type: str, function: Any, said: str, tables: TableEnvironment
) -> None:
    tables.create_temporary_system_function("f", udf(function, result_type="BIGINT", func_type=func_type))
    with pytest.raises(SchemaMismatch, match=said):
        sql(tables, "SELECT f(id) FROM v")


def test_asynchronous_functions_wait_together(tables: TableEnvironment) -> None:
    class Waits(AsyncScalarFunction):
        def __init__(self) -> None:
            self.waiting = 0

        async def eval(self, i: int) -> int:
            if i == 1:
                self.all_wait = asyncio.Event()
            self.waiting += 1
            if self.waiting == 3:
                self.all_wait.set()
            await self.all_wait.wait()
            return i * 2

    tables.create_temporary_system_function("waits", udf(Waits(), result_type="BIGINT"))
    assert sql(tables, "SELECT waits(id) FROM v") == [(2,), (4,), (6,)]

    @udf(result_type="BIGINT")
    async def fails(i: int) -> int:
        return 1 // (i - 2)

    tables.create_temporary_system_function("fails", fails)
    with pytest.raises(UserFunctionError, match="the function fails .* raised ZeroDivisionError") as raised:
        sql(tables, "SELECT fails(id) FROM v")
    assert raised.value.inputs == ((2,),)


@udtf(
    result_types=DataTypes.ROW([DataTypes.FIELD("word", DataTypes.STRING()), DataTypes.FIELD("size", DataTypes.INT())])
)
def split(text: str) -> Iterator[tuple[str, int]]:
    for word in (text or "").split():
        yield word, len(word)


def test_table_functions_give_rows_for_each_row(tables: TableEnvironment) -> None:
    tables.create_temporary_system_function("split", split)
    assert sql(tables, "SELECT id, w, n FROM v, LATERAL TABLE(split(name)) AS t(w, n)") == [
        (1, "a", 1),
        (1, "b", 1),
        (2, "c", 1),
    ]
    assert sql(tables, "SELECT id, word FROM v LEFT JOIN LATERAL TABLE(split(UPPER(name))) ON TRUE") == [
        (1, "A"),
        (1, "B"),
        (2, "C"),
        (3, None),
    ]
    view = tables.from_path("v")
    assert run(tables, view.join_lateral(split(col("name")).alias("w", "n")).select(col("id"), col("w"))) == [
        (1, "a"),
        (1, "b"),
        (2, "c"),
    ]
    assert len(run(tables, view.left_outer_join_lateral(split(col("name")).alias("w", "n")))) == 4

    class Upto(TableFunction):
        def eval(self, i: int) -> Any:
            return range(i)

    upto = udtf(Upto(), result_types=DataTypes.BIGINT())
    assert run(tables, view.join_lateral(upto(col("id")).alias("n")).select(col("n"))) == [
        (0,),
        (0,),
        (1,),
        (0,),
        (1,),
        (2,),
    ]
    one = udtf(lambda i: (i, "x"), result_types=[DataTypes.BIGINT(), DataTypes.STRING()])
    assert run(tables, view.join_lateral(one(col("id")).alias("a", "b")).select(col("b"))) == [("x",)] * 3
    none = udtf(lambda i: None, result_types=DataTypes.BIGINT())
    assert run(tables, view.join_lateral(none(col("id")).alias("a")).select(col("a"))) == []


def test_map_and_flat_map_give_a_function_whole_rows(tables: TableEnvironment) -> None:
    view: Table = tables.from_path("v").select(col("id"), col("name"))

    @udf(
        result_type=DataTypes.ROW([DataTypes.FIELD("a", DataTypes.BIGINT()), DataTypes.FIELD("b", DataTypes.STRING())])
    )
    def changed(row: Row) -> Row:
        return Row(row[0] + 1, row[1])

    @udtf(result_types=[DataTypes.STRING()])
    def words(row: Row) -> list[str]:
        return (row[1] or "").split()

    assert run(tables, view.map(changed).alias("x", "y")) == [(2, "a b"), (3, "c"), (4, None)]
    assert run(tables, view.flat_map(words)) == [("a",), ("b",), ("c",)]


@pytest.mark.parametrize("is_streaming", [True, False])
def test_whole_rows_have_the_names_of_the_columns(is_streaming: bool) -> None:
    mode = EnvironmentSettings.in_streaming_mode() if is_streaming else EnvironmentSettings.in_batch_mode()
    tables = TableEnvironment.create(mode)
    view = tables.from_elements([(1, "a b"), (2, "c")], ["id", "name"])
    kind = "ROW<id BIGINT, name STRING>"
    assert run(tables, view.map(udf(lambda row: Row(row.id * 10, row["name"]), result_type=kind))) == [
        (10, "a b"),
        (20, "c"),
    ]
    frames = udf(lambda frame: frame[["id", "name"]], result_type=kind, func_type="pandas")
    assert run(tables, view.map(frames)) == [(1, "a b"), (2, "c")]

    @udtf(result_types=[DataTypes.BIGINT(), DataTypes.STRING()])
    def words(row: Row) -> Iterator[tuple[int, str]]:
        for word in row.name.split():
            yield row.id, word

    assert run(tables, view.flat_map(words)) == [(1, "a"), (1, "b"), (2, "c")]
    joined = view.join_lateral(words.alias("n", "word")).select(col("id"), col("word"))
    assert run(tables, joined) == [(1, "a"), (1, "b"), (2, "c")]


def test_what_is_no_function_is_refused(tables: TableEnvironment) -> None:
    with pytest.raises(TypeError, match=r"make a function with udf\(\) or udtf\(\)"):
        tables.create_temporary_system_function("f", len)
    with pytest.raises(TypeError, match="Invalid function: not a function or callable"):
        udf(3, result_type="INT")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Invalid returnType: returnType should be DataType or str but is None"):
        udf(lambda i: i)
    with pytest.raises(TypeError, match="Invalid input_type"):
        udf(lambda i: i, input_types=[int], result_type="INT")  # type: ignore[list-item]
    with pytest.raises(ValueError, match="The func_type must be one of 'general, pandas, arrow', got panda."):
        udf(lambda i: i, result_type="INT", func_type="panda")
    with pytest.raises(ValueError, match="Inconsistent deterministic: False and True"):
        udf(Counting(), result_type="INT", deterministic=False)


def test_a_plan_that_calls_functions_needs_their_names(tables: TableEnvironment, tmp_path: Any) -> None:
    tables.create_temporary_function("mine", add)
    tables.execute_sql("CREATE TABLE p (id BIGINT) WITH ('connector' = 'print')")
    tables.compile_plan_sql("INSERT INTO p SELECT mine(1, 2)").write_to_file(tmp_path / "plan.json")
    other = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    with pytest.raises(
        InvalidJob, match=r"the function `default_catalog`.`default_database`.`mine` is not known: register it"
    ):
        other.load_plan(tmp_path / "plan.json").execute()
    tables.execute_sql("CREATE TEMPORARY VIEW w AS SELECT 1 AS id")
    made = tables.from_path("w").select(add(col("id").cast(DataTypes.BIGINT()), 1)).insert_into("p")
    unnamed = tables.create_statement_set().add(made).compile_plan()
    with pytest.raises(
        InvalidJob, match=r"the plan calls the function add, which has no name in the plan: register it"
    ):
        unnamed.write_to_file(tmp_path / "unnamed.json")


def test_functions_are_created_by_sql(tables: TableEnvironment) -> None:
    place = f"{__name__}.add"
    tables.execute_sql(f"CREATE TEMPORARY FUNCTION f AS '{place}' LANGUAGE PYTHON")
    tables.execute_sql(f"CREATE TEMPORARY SYSTEM FUNCTION IF NOT EXISTS g AS '{place}' LANGUAGE PYTHON")
    tables.execute_sql(f"CREATE FUNCTION h AS '{place}' LANGUAGE PYTHON")
    assert sql(tables, "SELECT f(1, 2), g(1, 2), h(1, 2) FROM v WHERE id = 1") == [(3, 3, 3)]
    tables.execute_sql("DROP FUNCTION h")
    tables.execute_sql("DROP TEMPORARY FUNCTION f")
    assert tables.list_user_defined_functions() == ["g"]
    for name, said in (
        ("nowhere.f", "there is no module 'nowhere'"),
        (f"{__name__}.ad", f"the module {__name__} has no 'ad'; did you mean 'add'\\?"),
        (f"{__name__}.run", "it was not made by udf"),
        ("f", "say module.name"),
    ):
        with pytest.raises(InvalidJob, match=f"(?s)CREATE FUNCTION .*{said}"):
            tables.execute_sql(f"CREATE TEMPORARY FUNCTION x AS '{name}' LANGUAGE PYTHON")
    with pytest.raises(
        InvalidJob, match="CREATE FUNCTION: only functions in Python are supported: add LANGUAGE PYTHON"
    ):
        tables.execute_sql("CREATE FUNCTION x AS 'org.example.F'")


def test_scalar_functions_run_in_batch_mode(tables: TableEnvironment) -> None:
    batch = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    batch.create_temporary_view("v", batch.from_elements(ROWS, ["id", "name", "price"]))
    batch.create_temporary_system_function("Add2", add)
    batch.create_temporary_function("mine", add)
    query = "SELECT add2(id, 1) + 1, mine(add2(id, id), 1), UPPER(name) FROM v WHERE add2(id, 1) > 2"
    assert sql(batch, query) == [(4, 5, "C"), (5, 7, None)]
    assert sql(batch, "SELECT add2(1, 2) FROM v WHERE id = 1") == [(3,)], "the planner calls none"
    view = batch.from_path("v")
    assert run(batch, view.select(add(col("id"), 10))) == [(11,), (12,), (13,)]
    with pytest.raises(InvalidStatement, match="Invalid function call:\nadd2"):
        batch.sql_query("SELECT add2(name, 1) FROM v")
    with pytest.raises(
        InvalidJob,
        match="Flink has a function UPPER of its own, which your function would replace in streaming mode only",
    ):
        batch.create_temporary_system_function("UPPER", add)
    assert batch.drop_temporary_system_function("add2")
    with pytest.raises(InvalidStatement, match="No match found for function signature add2"):
        batch.sql_query("SELECT add2(id, 1) FROM v")


def test_table_functions_run_in_batch_mode() -> None:
    batch = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    batch.create_temporary_view("v", batch.from_elements(ROWS, ["id", "name", "price"]))
    batch.create_temporary_function("split_words", split)
    batch.create_temporary_function("add_up", add)
    shout = udf(lambda text: text and text.upper(), result_type="STRING")
    assert sql(batch, "SELECT id, w FROM v, LATERAL TABLE(split_words(UPPER(name))) AS t(w, n) WHERE w <> 'B'") == [
        (1, "A"),
        (2, "C"),
    ]
    left = "SELECT add_up(id, n), w FROM v LEFT JOIN LATERAL TABLE(split_words(name)) AS t(w, n) ON TRUE"
    assert sql(batch, left) == [(2, "a"), (2, "b"), (3, "c"), (None, None)]
    assert "split_words" in batch.sql_query(left).explain()
    view = batch.from_path("v")
    assert run(batch, view.join_lateral(split(shout(col("name"))).alias("w", "n")).select(col("id"), col("w"))) == [
        (1, "A"),
        (1, "B"),
        (2, "C"),
    ]
    words = udtf(lambda row: (row[1] or "").split(), result_types=[DataTypes.STRING()])
    assert run(batch, view.flat_map(words)) == [("a",), ("b",), ("c",)]


def test_functions_travel(tables: TableEnvironment) -> None:
    back = pickle.loads(cloudpickle.dumps(udf(lambda i: i + 1, result_type="BIGINT")))
    assert back.func(1) == 2
