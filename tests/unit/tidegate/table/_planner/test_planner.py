"""The Java process of the planner: plans, refusals, and its end, however it comes."""

from __future__ import annotations

import gc
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import py4j.java_gateway
import py4j.protocol
import pytest
from pyspark.errors.exceptions import captured

from tidegate.plan import decode_plan
from tidegate.table._planner import (
    InvalidStatement,
    Planner,
    PlannerUnavailable,
    make_table_environment,
    running_planner,
)
from tidegate.table._planner.process import start_planner

pytestmark = pytest.mark.timeout(300)  # a first start writes an archive of classes

TABLES = (
    "CREATE TABLE src (a BIGINT, b STRING) WITH ('connector' = 'datagen')",
    "CREATE TABLE snk (a BIGINT, b STRING) WITH ('connector' = 'print')",
    "CREATE TABLE files (a BIGINT, b BIGINT NOT NULL) WITH ('connector'='filesystem', 'path'='/x', 'format'='csv')",
)


def wait_until(true: Callable[[], bool], limit_s: float = 60.0) -> None:
    deadline = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.05)


def java_of(planner: Planner) -> psutil.Process:
    (found,) = psutil.Process(planner.process.process.pid).children()
    return found


def test_a_statement_becomes_a_plan_over_our_tables_without_jars_of_connectors() -> None:
    planner = running_planner()
    environment = make_table_environment(planner, {}, is_streaming=True)
    for table in TABLES:
        environment.executeSql(table)
    plan = decode_plan(
        str(environment.compilePlanSql("INSERT INTO snk SELECT a + 1, UPPER(b) FROM src").asJsonString())
    )
    assert [node.kind for node in plan.nodes] == [
        "stream-exec-table-source-scan_2",
        "stream-exec-calc_1",
        "stream-exec-sink_2",
    ]


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("INSERT INTO snk SELECT c, b FROM src", "SELECT c, b FROM src\n                       ^"),
        ("INSERT INTO snk SELECT a,, b FROM src", "INSERT INTO snk SELECT a,, b FROM src\n                         ^"),
        ("INSERT INTO files SELECT a, COUNT(*) FROM src GROUP BY a", "doesn't support consuming update changes"),
        ("INSERT INTO files SELECT a, 1 FROM snk", "'print' can only be used as a sink"),
        ("INSERT INTO src SELECT 1, 'a'", "'datagen' can only be used as a source"),
    ],
)
def test_refusals_are_in_flinks_words(statement: str, said: str) -> None:
    planner = running_planner()
    environment = make_table_environment(planner, {}, is_streaming=True)
    for table in TABLES:
        environment.executeSql(table)
    with pytest.raises(InvalidStatement) as refused, planner.errors(statement):
        environment.compilePlanSql(statement)
    assert said in refused.value.message


def test_refusals_stay_flinks_and_collections_end_where_pyspark_handles_errors_of_py4j(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handler = captured.capture_sql_exception(py4j.protocol.get_return_value)  # as captured.install_exception_handler
    monkeypatch.setattr(py4j.java_gateway, "get_return_value", handler)
    planner = running_planner()
    assert list(planner.jvm.java.util.Collections.singleton("a")) == ["a"]
    environment, statement = make_table_environment(planner, {}, is_streaming=True), "SELECT x FROM nowhere,,"
    with pytest.raises(InvalidStatement, match="line 1, column 22") as refused, planner.errors(statement):
        environment.executeSql(statement)
    assert "SqlParserException" in refused.value.details


def test_java_keeps_an_object_that_python_has_dropped() -> None:
    """What a table of ours returns may be dropped here before Java has taken it."""
    from py4j.java_gateway import JavaObject

    planner = running_planner()
    made = planner.jvm.java.util.ArrayList()
    target, client = made._target_id, made._gateway_client
    del made
    gc.collect()
    assert str(JavaObject(target, client)) == "[]"


def test_the_token_is_on_no_command_line() -> None:
    planner = running_planner()
    processes = [java_of(planner), psutil.Process(planner.process.process.pid)]
    assert planner.process.token
    assert not any(planner.process.token in part for process in processes for part in process.cmdline())


def test_a_planner_that_is_killed_is_one_clear_error_and_leaves_nothing() -> None:
    planner = Planner(start_planner())
    java_of(planner).kill()
    with pytest.raises(PlannerUnavailable, match="the Java process of Flink's planner has ended"):
        make_table_environment(planner, {}, is_streaming=True)
    wait_until(lambda: not planner.process.directory.exists())
    planner.stop()


def test_a_planner_that_hangs_is_ended() -> None:
    planner = Planner(start_planner(), limit_s=1.0)
    java = java_of(planner)
    java.suspend()
    with pytest.raises(PlannerUnavailable, match="does not answer, and was ended"):
        make_table_environment(planner, {}, is_streaming=True)
    wait_until(lambda: not java.is_running())
    assert not planner.process.directory.exists()


def test_a_java_that_does_not_start_is_one_clear_error(tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text('#!/bin/sh\n[ "$1" = -version ] && exit 0\necho "no memory" >&2\nexit 1\n')
    java.chmod(0o755)
    with pytest.raises(PlannerUnavailable, match="ended before it answered: no memory"):
        start_planner({**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "JAVA_HOME": ""})


_PROGRAM = """
import sys, time
from tidegate.table._planner import running_planner
planner = running_planner()
print(planner.process.directory, planner.process.process.pid, flush=True)
time.sleep(1000)
"""


def test_it_ends_with_a_program_that_is_killed() -> None:
    running_planner()  # the first planner of a machine writes the archive, at its end
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        directory, pid = program.stdout.readline().split()
        assert Path(directory).exists()
        program.send_signal(signal.SIGKILL)
    wait_until(lambda: not psutil.pid_exists(int(pid)))
    wait_until(lambda: not Path(directory).exists())


def test_calls_of_java_are_not_in_the_logs_of_a_program(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        environment = make_table_environment(running_planner(), {}, is_streaming=True)
        for table in TABLES[:2]:
            environment.executeSql(table)
        environment.compilePlanSql("INSERT INTO snk SELECT a, b FROM src")
    assert [record.message for record in caplog.records if record.name.startswith("py4j")] == []
