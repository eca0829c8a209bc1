"""Scripts of SQL: how they are cut into statements, and what each does, with an executor that takes jobs and runs none."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tidegate.common.job_client import JobControl
from tidegate.common.job_execution_result import JobExecutionResult
from tidegate.datastream._graph.executor import installed
from tidegate.model.errors import InvalidJob, TidegateError
from tidegate.model.graph import JobGraph
from tidegate.model.ids import BlobKey
from tidegate.plan import MalformedPlan, UnsupportedPlan
from tidegate.table import EnvironmentSettings, TableEnvironment
from tidegate.table._planner import InvalidStatement
from tidegate.table.sql_script import run_plan, run_script, split_statements

pytestmark = pytest.mark.timeout(300)

TABLES = "CREATE TABLE p (a INT, b STRING) WITH ('connector' = 'print');\n"


class TakesJobs:
    def __init__(self) -> None:
        self.waited_for: list[str] = []

    def execute(self, graph: JobGraph, blobs: Mapping[BlobKey, bytes]) -> JobExecutionResult:
        self.waited_for.append(graph.name)
        return JobExecutionResult(graph.job_id, 0)

    def execute_async(self, graph: JobGraph, blobs: Mapping[BlobKey, bytes]) -> JobControl:
        raise AssertionError("nothing here goes on by itself")


def run(script: str, configuration: Mapping[str, str] | None = None) -> tuple[list[str], list[str]]:
    """The names of the jobs, and the lines of the script itself."""
    executor, told = TakesJobs(), list[str]()
    with installed(executor, configuration or {}):
        run_script(script, "a.sql", configuration or {}, told.append)
    return executor.waited_for, told


def refusal(script: str) -> TidegateError:
    with pytest.raises(TidegateError) as refused:
        run(script)
    return refused.value


def test_statements_end_at_a_semicolon_outside_of_texts_and_comments() -> None:
    script = """-- first; not a statement
SELECT 'a;b', "c;d", `e;f` -- more; of it
  FROM t; /* ; */ ;;
INSERT INTO s SELECT 'it''s; one';
  SELECT 1"""
    found = split_statements(script)
    assert [(s.number, s.line, s.column) for s in found] == [(1, 2, 1), (2, 4, 1), (3, 5, 3)]
    assert [s.text for s in found] == [
        "SELECT 'a;b', \"c;d\", `e;f` -- more; of it\n  FROM t",
        "INSERT INTO s SELECT 'it''s; one'",
        "SELECT 1",
    ]
    assert found[2].placed == "\n\n\n\n  SELECT 1"
    assert split_statements(" \n-- nothing\n ; ") == []


def test_hints_stay_in_their_statement() -> None:
    assert [s.text for s in split_statements("SELECT * FROM t /*+ OPTIONS('a'=';') */ WHERE b; SELECT 2")] == [
        "SELECT * FROM t /*+ OPTIONS('a'=';') */ WHERE b",
        "SELECT 2",
    ]


def test_a_statement_set_is_one_statement() -> None:
    script = """EXECUTE STATEMENT SET BEGIN
INSERT INTO a SELECT CASE WHEN x = 1 THEN ';' ELSE CASE y WHEN 1 THEN 2 END END FROM t;
INSERT INTO b SELECT 1;
END;
SELECT 1"""
    assert [s.line for s in split_statements(script)] == [1, 5]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("SELECT 1;\nSELECT 'abc;", r"line 2, column 8: a text in quotes \('\) does not end"),
        ("SELECT `abc", r"line 1, column 8: a name in quotes \(`\) does not end"),
        ("SELECT 1 /* abc */;\n /* x", r"line 2, column 2: a comment \(/\*\) does not end"),
        ("SELECT 1 /*/", r"line 1, column 10: a comment \(/\*\) does not end"),
    ],
)
def test_what_does_not_end_is_named_with_its_place(script: str, said: str) -> None:
    with pytest.raises(InvalidJob, match=said):
        split_statements(script)


def test_inserts_and_statement_sets_are_jobs_that_are_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    jobs, told = run(
        TABLES
        + """CREATE TABLE q (a INT, b STRING) WITH ('connector' = 'blackhole');
        SET 'pipeline.name' = 'mine';
        INSERT INTO p VALUES (1, 'x;y');
        RESET 'pipeline.name';
        BEGIN STATEMENT SET;
        INSERT INTO p SELECT 1, 'a';
        INSERT INTO q SELECT 2, 'b';
        END;
        SHOW TABLES;
        QUIT;
        SELECT nothing;"""
    )
    place = "default_catalog.default_database"
    assert jobs == ["mine", f"insert-into_{place}.p,{place}.q"]
    assert told == ["[INFO] Execute statement succeeded."] * 7
    printed = capsys.readouterr().out.splitlines()
    assert printed[:-1] == [
        "+------------+",
        "| table name |",
        "+------------+",
        "|          p |",
        "|          q |",
        "+------------+",
    ]
    assert printed[-1].startswith("2 rows in set (")


def test_the_mode_of_a_script_may_change_and_its_tables_stay() -> None:
    batch = "SET 'execution.runtime-mode' = 'batch';\n"
    assert (
        "unbounded table"
        in refusal(
            "CREATE TABLE g (a INT, b STRING) WITH ('connector' = 'datagen');"
            + TABLES
            + batch
            + "INSERT INTO p SELECT * FROM g"
        ).message
    )
    assert len(run(TABLES + batch + "INSERT INTO p VALUES (1, 'a')")[0]) == 1
    assert (
        "'execution.runtime-mode' must be 'streaming' or 'batch', not 'bach'"
        in refusal("SET 'execution.runtime-mode' = 'bach'").message
    )


def test_an_error_names_statement_line_and_column_and_the_text_is_underlined() -> None:
    error = refusal(TABLES + "\n  SELECT a, nme\n  FROM p;")
    assert isinstance(error, InvalidStatement)
    assert error.message.startswith(
        "a.sql, statement 2, line 3, column 3: SQL validation failed. From line 3, column 13"
    )
    assert error.message.endswith("  SELECT a, nme\n            ^^^")
    error = refusal(TABLES + "SHOW TABLES; INSERT INTO p SELECT DISTINCT 1, SPLIT_INDEX('a', ',', 1) FROM;")
    assert error.message.startswith('a.sql, statement 3, line 2, column 14: Encountered "<EOF>" at line 2, column 75.')
    error = refusal("SELECT 1 +\n")
    assert error.message.startswith(
        'a.sql, statement 1, line 1, column 1: SQL parse failed. Encountered "+ <EOF>" at line 1, column 10'
    )


def test_an_error_without_a_place_underlines_the_statement() -> None:
    error = refusal(" CREATE TABLE k (a INT) WITH ('connector' = 'kafkaa');\n INSERT INTO k\n VALUES (1)")
    assert error.message.startswith("a.sql, statement 2, line 2, column 2: ")
    assert error.message.endswith("\n INSERT INTO k\n ^^^^^^^^^^^^^")


def test_a_set_that_does_not_end_and_an_end_without_a_set_are_refused() -> None:
    assert "does not end: write END;" in refusal("BEGIN STATEMENT SET;").message
    assert "END; ends no statement set" in refusal("END;").message
    assert (
        "a statement set takes only INSERT statements until END, and this statement is SHOW TABLES"
        in refusal("BEGIN STATEMENT SET; SHOW TABLES; END;").message
    )


def test_a_compiled_plan_is_a_job_that_is_waited_for_and_needs_no_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    made.execute_sql(TABLES)
    path = tmp_path / "plan.json"
    made.compile_plan_sql("INSERT INTO p SELECT 1, 'a'").write_to_file(path)
    executor = TakesJobs()
    monkeypatch.delattr("tidegate.table._planner.planner.running_planner")
    with installed(executor, {}):
        run_plan(path)
    assert executor.waited_for == ["insert-into_default_catalog.default_database.p"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "plan.json: this is not a compiled plan"),
        (
            '{"flinkVersion": "1.19", "nodes": [], "edges": []}',
            r"plan.json: the plan was compiled by Flink 1.19; plans of 2.3 can",
        ),
    ],
)
def test_what_is_no_plan_is_named(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)
    with installed(TakesJobs(), {}), pytest.raises((MalformedPlan, UnsupportedPlan), match=said):
        run_plan(path)
