"""`tidegate savepoint check`: a real checkpoint, and later versions of its job."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.cli.test_commands import refused, tidegate
from tests.unit.taskmanager.runtime.collecting import committed
from tests.unit.taskmanager.runtime.in_process import InProcessJob
from tests.unit.tidegate.state_reader.real_checkpoint import write_manifest
from tidegate.cli.program import run_program
from tidegate.datastream._graph.executor import PlanRecorded, PlanRecorder
from tidegate.datastream._graph.job_graph_builder import BuiltJob
from tidegate.model.checkpoint import InFlightEdge
from tidegate.model.graph import Partitioner
from tidegate.wire.manifest import manifest_from_bytes, manifest_to_parts

JOB = """
import numpy as np, pyarrow as pa
from tests.unit.taskmanager.runtime.collecting import CollectingSink
from tidegate.common import Types, WatermarkStrategy
from tidegate.common.time import Time
from tidegate.connectors.number_sequence import DataGeneratorSource
from tidegate.datastream import *
from tidegate.datastream import aggregates
from tidegate.functions.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from tidegate.datastream.window import TumblingEventTimeWindows

LISTED = ListStateDescriptor("listed", Types.LONG())

def rows(first, number):
    index = np.arange(first, first + number, dtype=np.int64)
    return pa.RecordBatch.from_arrays([pa.array(index % 10), pa.array(index), pa.array(index)], names=["key", "value", "ts"])

class Remember(KeyedProcessFunction):
    total = ValueStateDescriptor("total", Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()]))
    def open(self, runtime_context):
        self.total_state = runtime_context.get_state(self.total)
        self.late = runtime_context.get_state(ValueStateDescriptor("late", Types.LONG()))
    def process_element(self, value, ctx):
        self.total_state.update(Row(a=1, b="x"))
        self.late.update(value["value"])
        yield value["value"]

class Gather(MapFunction, CheckpointedFunction):
    def initialize_state(self, context):
        self.state = context.get_operator_state_store().get_list_state(LISTED)
    def snapshot_state(self, context):
        pass
    def map(self, value):
        if not list(self.state.get()):
            self.state.add(value)
        return value

from tidegate.common import Row
env = StreamExecutionEnvironment.get_execution_environment()
env.enable_checkpointing(60_000)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("ts")
stream = env.from_source(DataGeneratorSource(rows, 10_000_000, rows_per_second=4000.0), strategy, "rows").uid("rows")
windows = stream.key_by("key").window(TumblingEventTimeWindows.of(Time.seconds(10_000_000)))
windows.agg(aggregates.sum("value").alias("total")).uid("windows").sink_to(CollectingSink("check-windows"))
typed = stream.key_by(lambda row: row["key"], Types.LONG())
seen = typed.process(Remember(), Types.LONG()).name("remember").uid("remember")
seen.rebalance().map(Gather(), Types.LONG()).name("gather").sink_to(CollectingSink("check")).name("out").uid("out")
env.execute("checked")
"""


@pytest.fixture(scope="module")
def savepoint() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="tg-") as path:
        directory = Path(path)
        recorder = PlanRecorder()
        with suppress(PlanRecorded):
            run_program(
                job_file(directory),
                [],
                recorder,
                {"parallelism.default": "2", "execution.checkpointing.data-inline-threshold": "0 b"},
            )
        assert recorder.graph is not None
        job = InProcessJob(BuiltJob(recorder.graph, recorder.blobs, {}), directory)
        job.start()
        job.checkpoint_until(lambda: bool(committed("check")))
        location = write_manifest(job, job.checkpoint())
        job.cancel()
        yield location


def job_file(folder: Path, *changes: tuple[str, str]) -> Path:
    text = JOB
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    path = folder / "job.py"
    path.write_text(text)
    return path


def checked(savepoint: str, folder: Path, *changes: tuple[str, str], options: tuple[str, ...] = ()) -> tuple[int, str]:
    """Exit code and output."""
    result = tidegate("savepoint", "check", "-p", 2, *options, job_file(folder, *changes), savepoint)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.stderr == ""
    return result.exit_code, result.stdout


def verdicts(output: str) -> dict[str, str]:
    rows = [re.split(r"\s{2,}", line) for line in output.splitlines()]
    return {row[0]: row[3] for row in rows if len(row) == 4 and row[0] != "operator"}


def test_the_same_job_restores(savepoint: str, tmp_path: Path) -> None:
    """Keyed functions, too: they are opened apart to learn what they ask for."""
    code, output = checked(savepoint, tmp_path)
    assert (code, output.splitlines()[-1]) == (0, "All state restores.")
    assert set(verdicts(output).values()) == {"restores", "nothing stored"}


def test_without_opening_functions_their_state_is_not_known(savepoint: str, tmp_path: Path) -> None:
    code, output = checked(savepoint, tmp_path, options=("--no-open",))
    last = "Whether state of 'remember', 'gather' restores is not known."
    assert (code, output.splitlines()[-1]) == (3, last), "functions declare it when they open"
    assert output.startswith("Job 'checked' from checkpoint ")
    found = verdicts(output)
    assert {found.pop(name) for name in ("Source: rows", "GlobalWindowAggregate")} == {"restores"}
    assert {found.pop(name) for name in ("remember", "gather")} == {"not known"}
    assert found["LocalWindowAggregate"] == "nothing stored"
    assert "remember, state 'late': not known: declared when the function opens: see --open" in output
    assert "gather, state 'listed': not known: it restores if the function asks for list state" in output
    assert "gather: it has no uid and was found by its place in the graph" in output


def test_the_verdicts_as_json(savepoint: str, tmp_path: Path) -> None:
    code, output = checked(savepoint, tmp_path, options=("--json", "--no-open"))
    told = json.loads(output)
    assert (code, told["job"], told["checkpoint"]["job"]) == (3, "checked", "checked")
    by_name = {one["name"]: one for one in told["operators"]}
    assert by_name["Source: rows"]["verdict"] == "RESTORES"
    assert by_name["remember"]["uid"] == "remember"
    (late,) = [state for state in by_name["remember"]["states"] if state["name"] == "late"]
    assert late["verdict"] == "UNKNOWN"
    assert told["summary"] == "Whether state of 'remember', 'gather' restores is not known."


def test_functions_are_opened_on_request_and_can_refuse(savepoint: str, tmp_path: Path) -> None:
    code, output = checked(savepoint, tmp_path, options=("--open",))
    assert (code, output.splitlines()[-1]) == (0, "All state restores.")
    assert "late" not in output
    changed = ('"late", Types.LONG()', '"late", Types.STRING()')
    code, output = checked(savepoint, tmp_path, changed, options=("--open",))
    assert code == 2
    assert "remember, state 'late': cannot be read: value: stored as int64, the job declares string" in output
    assert output.splitlines()[-1] == "The job cannot start from it: state of 'remember' cannot be read."
    assert checked(savepoint, tmp_path, changed) == (code, output), "it is seen by default, too"
    assert checked(savepoint, tmp_path, changed, options=("--no-open",))[0] == 3
    job = job_file(
        tmp_path,
        ("def open(self, runtime_context):", "def open(self, runtime_context):\n        raise ValueError('no table')"),
    )
    line = refused(tidegate("savepoint", "check", "-p", 2, "--open", job, savepoint), 2)
    assert line == "operator 'remember': ValueError: no table"


OPEN = "def open(self, runtime_context):"


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("raise ValueError('no table')", "ValueError: no table"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("import socket; socket.create_connection(('127.0.0.1', 1))", "it connects to the network"),
        ("import subprocess; subprocess.run(['true'])", "it starts a program"),
        ("import os; os.fork()", "it starts a program"),
        ("open('written', 'w')", "it writes written"),
        ("import os; os._exit(7)", "its process ended with 7"),
        ("import ctypes; ctypes.string_at(0)", "its process ended with -11"),
    ],
)
def test_a_function_that_cannot_be_opened_apart_is_not_known(
    savepoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, output = checked(savepoint, tmp_path, (OPEN, f"{OPEN}\n        {statement}"), options=("--no-verify",))
    assert code == 3
    late = f"remember, state 'late': not known: the function could not be opened here to find what state it asks for: {said}; see --open"
    assert late in output.splitlines()
    assert verdicts(output)["gather"] == "restores", "the functions behind it are opened all the same"
    assert output.splitlines()[-1] == "Whether state of 'remember' restores is not known."
    assert not (tmp_path / "written").exists()


def test_state_that_nothing_asks_for_when_functions_open_is_not_green(savepoint: str, tmp_path: Path) -> None:
    lazily = (
        'self.late = runtime_context.get_state(ValueStateDescriptor("late", Types.LONG()))',
        "self.context = runtime_context",
    )
    asked = (
        'self.late.update(value["value"])',
        'self.context.get_state(ValueStateDescriptor("late", Types.STRING())).update("x")',
    )
    code, output = checked(savepoint, tmp_path, lazily, asked, options=("--open",))
    assert code == 3
    assert "remember, state 'late': not known: the function does not ask for this state when it opens" in output
    assert output.splitlines()[-1] == "Whether state of 'remember' restores is not known."


def test_damage_is_found_when_it_is_looked_for(savepoint: str, tmp_path: Path) -> None:
    copy = shutil.copytree(savepoint, tmp_path / "chk")
    victims = sorted(copy.glob("remember-*"))
    largest = max(victims, key=lambda path: path.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[len(content) // 2] ^= 1
    largest.write_bytes(content)
    code, output = checked(str(copy), tmp_path)
    assert code == 2
    assert f"cannot be read: state file {largest} is damaged" in output
    assert checked(str(copy), tmp_path, options=("--no-verify",))[0] == 0
    assert checked(savepoint, tmp_path, options=("--open",))[0] == 0
    largest.unlink()
    job = job_file(tmp_path)
    assert f"{largest} of operator 'remember' is missing" in refused(tidegate("savepoint", "check", job, copy), 2)


def test_what_evolves_is_told(savepoint: str, tmp_path: Path) -> None:
    evolved = ('["a", "b"], [Types.INT(), Types.STRING()]', '["a", "c"], [Types.LONG(), Types.DOUBLE()]')
    code, output = checked(savepoint, tmp_path, evolved, options=("--open",))
    assert code == 0
    (line,) = [line for line in output.splitlines() if line.startswith("remember, state 'total': ")]
    assert "value.b: dropped" in line
    assert "value.a: widened from int32 to int64" in line
    assert "value.c: added, null" in line


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            ('[Types.INT(), Types.STRING()]', '[Types.STRING(), Types.STRING()]'),
            "remember, state 'total': cannot be read: value.a: stored as int32, the job declares string",
        ),
        (('row["key"], Types.LONG()', 'row["key"], Types.STRING()'), "key: stored as int64, the job declares string"),
        (('ListStateDescriptor("listed", Types.LONG())', 'ListStateDescriptor("listed", Types.STRING())'),
         "gather, state 'listed': cannot be read: element: stored as int64"),
        (('.alias("total")', '.alias("all")'), "GlobalWindowAggregate, state 'windows': cannot be read: its aggregates differ"),
        (('key_by("key").window', 'key_by("value").window'), "stored with the keys ['key'], the job has ['value']"),
        (('.uid("remember")', '.uid("remember").set_max_parallelism(64)'), "max parallelism of 'remember' is set to 64"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_says_why(savepoint: str, tmp_path: Path, change: tuple[str, str], said: str) -> None:
    code, output = checked(savepoint, tmp_path, change)
    assert code == 2, output
    assert said in output
    assert "cannot be read" in verdicts(output).values()


def test_dropped_state_exits_with_1_unless_it_is_allowed(savepoint: str, tmp_path: Path) -> None:
    renamed = ('.uid("remember")', '.uid("other")')
    code, output = checked(savepoint, tmp_path, renamed)
    assert code == 1
    assert "holds state of operator 'remember'" in output
    assert output.splitlines()[-1].endswith("is dropped: the job needs -n to start.")
    assert checked(savepoint, tmp_path, renamed, options=("-n", "--open"))[0] == 0


def test_state_of_a_sort_that_the_operator_no_longer_keeps_is_dropped(savepoint: str, tmp_path: Path) -> None:
    unkeyed = ("typed.process(Remember(), Types.LONG())", "stream.map(lambda row: row[1], Types.LONG())")
    code, output = checked(savepoint, tmp_path, unkeyed)
    assert code == 1
    assert "remember, state 'late': dropped: the operator has no keys now" in output
    assert output.splitlines()[-1].startswith("State of 'remember' is dropped")
    assert checked(savepoint, tmp_path, unkeyed, options=("-n", "--no-open"))[0] == 3, "dropped is fine, unknown is not"


def test_parallelism_is_told_and_damage_is_one_line(savepoint: str, tmp_path: Path) -> None:
    result = tidegate("savepoint", "check", "-p", 3, "--open", job_file(tmp_path), savepoint)
    assert result.exit_code == 0
    assert re.search(r"remember +remember +2 to 3 +restores", result.stdout)
    assert "no such directory" in refused(tidegate("savepoint", "check", job_file(tmp_path), tmp_path / "none"), 2)
    assert "cannot read the job file" in refused(tidegate("savepoint", "check", tmp_path / "x.py", savepoint), 2)


def test_data_in_flight_without_a_place_is_told(savepoint: str, tmp_path: Path) -> None:
    copy = shutil.copytree(savepoint, tmp_path / "chk")
    metadata = copy / "_metadata"
    manifest = manifest_from_bytes(metadata.read_bytes(), "here")
    ids = {operator.uid or operator.name: operator.operator_id for operator in manifest.operators}
    edge = InFlightEdge(0, ids["rows"], ids["gather"], 0, Partitioner.REBALANCE, 2, 2, 128)
    metadata.write_bytes(b"".join(manifest_to_parts(replace(manifest, edges=(edge,)))))
    code, output = checked(str(copy), tmp_path)
    assert code == 1
    assert "holds data in flight from operator 'Source: rows' to operator 'gather'" in output
    assert checked(str(copy), tmp_path, options=("-n", "--open"))[0] == 0


def test_windows_of_another_length_cannot_be_read(savepoint: str, tmp_path: Path) -> None:
    code, output = checked(savepoint, tmp_path, ("Time.seconds(10_000_000)", "Time.seconds(30_000_000)"))
    assert code == 2
    assert "10000000000 ms long" in output
    assert "give the operator another uid" in output
