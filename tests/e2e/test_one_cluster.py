"""One embedded cluster for all jobs of a program: the first starts it, the others find it, and it ends with the program."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster import JOBS, MARK, REPOSITORY, marked
from tests.e2e.waiting import wait_until

LIMIT_S = 240
GONE_WITHIN_S = 60
PROGRAM = JOBS / "many_executions.py"
COUNTS = {
    "first": 2,
    "second": 0,
    "fails": 0,
    "after a failure": 0,
    "forked": 0,
    "wider": 1,
    "narrow": 0,
    "beside it": 0,
    "cancelled": 0,
    "after it": 0,
    "other": 2,
    "first again": 0,
    "after a lost JobManager": 2,
}
"""Processes that a job starts: a JobManager and a TaskManager, a TaskManager for slots that are missing, or none."""


@pytest.fixture
def short_tmp() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="tg-") as made:
        yield Path(made)
        for member in marked(Path(made).name):
            member.kill()


def environment(tmp: Path) -> dict[str, str]:
    own = {MARK: tmp.name, "TMPDIR": str(tmp), "PYTHONPATH": str(REPOSITORY), "TIDEGATE_HOME": str(tmp / "home")}
    return {**os.environ, **own}


def started(short_tmp: Path, *command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *command],
        env=environment(short_tmp),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def told(line: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(line) if line.startswith("{") else {}
    return found


def test_all_jobs_of_a_program_run_on_one_cluster(short_tmp: Path) -> None:
    with started(short_tmp, str(PROGRAM), "all") as process:
        said, _ = process.communicate(timeout=LIMIT_S)
    lines = [found for line in said.splitlines() if (found := told(line))]
    assert process.returncode == 0, said
    assert {line["what"]: line["new"] for line in lines} == COUNTS, said
    assert [line["ended"] for line in lines] == [0] * (len(lines) - 1) + [3]
    for what in ("first", "second", "wider", "narrow", "other", "first again"):
        assert sum(line.endswith(f"{what} 2") for line in said.splitlines()) == 1, said
        assert f"{what}: FINISHED" in said, "each job shows its progress"
    assert said.index("second 2") < said.index('{"what": "second"'), "what a job prints is there when execute() returns"
    assert said.count("Job has been submitted") == said.count("has finished in") == 7, said
    assert marked(short_tmp.name) == []
    assert sorted((short_tmp / "home" / "clusters").iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_the_cluster_ends_with_a_program_that_is_ended(short_tmp: Path, number: signal.Signals) -> None:
    """Between two jobs."""
    with started(short_tmp, str(PROGRAM), "idle") as process:
        assert process.stdout is not None
        for line in process.stdout:
            if told(line):
                break
        assert len(marked(short_tmp.name)) >= 3
        process.send_signal(number)
        assert process.stdin is not None
        process.wait(GONE_WITHIN_S)
        wait_until(lambda: not marked(short_tmp.name), GONE_WITHIN_S, "the cluster is gone")


NOTEBOOK = """
import pandas as pd
import psutil
from tidegate.datastream import StreamExecutionEnvironment, col

class Point:
    def __init__(self, x): self.x = x

def cell(n):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    points = env.from_collection([n, n + 1]).map(lambda x: Point(x * 2))
    with points.execute_and_collect() as results:
        return [point.x for point in results if isinstance(point, Point)]

def frames(n):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    frame = pd.DataFrame({"n": [n, n + 1], "name": ["a", None]})
    return env.from_pandas(frame).select("name", twice=col("n") * 2).to_pandas().to_dict("list")

def names():
    query = lambda spark: spark.sql("SELECT 1 AS `a.b`, 2 AS `A.B`, 3 AS `b``c`, named_struct('b', 4) AS a")
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    return env.from_spark(query).select("a.b", "A.B", "b`c", "a").to_pandas().to_dict("list")

print("CELL", cell(1))
print("CHILDREN", sorted(child.pid for child in psutil.Process().children()))
print("FRAME", frames(10))
print("CELL", cell(10))
print("CHILDREN", sorted(child.pid for child in psutil.Process().children()))
print("NAMES", names())
"""


def test_cells_of_an_interpreter_find_the_cluster_of_the_cell_before(short_tmp: Path) -> None:
    """Without a file of its own, as in a notebook; its classes are those of the cells."""
    with started(short_tmp, "-i", "-q") as process:
        said, _ = process.communicate(NOTEBOOK, timeout=LIMIT_S)
    cells = [line.partition("CELL ")[2] for line in said.splitlines() if "CELL [" in line]
    children = [line.partition("CHILDREN ")[2] for line in said.splitlines() if "CHILDREN [" in line]
    assert cells == ["[2, 4]", "[20, 22]"], said
    assert "FRAME {'name': ['a', None], 'twice': [20, 22]}" in said
    assert "NAMES {'a.b': [1], 'A.B': [2], 'b`c': [3], 'a': [{'b': 4}]}" in said, (
        "names of a query are taken as they are"
    )
    assert len(set(children)) == 1, said
    assert children[0] != "[]"
    assert marked(short_tmp.name) == []
