from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import cloudpickle
import pyarrow as pa
import pytest

from tidegate.common import Time, WatermarkStrategy
from tidegate.common.typeinfo import Types
from tidegate.connectors.base import SinkContext
from tidegate.connectors.print_sink import PrintSink
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.connectors.number_seq import NumberSequenceSource
from tidegate.datastream.window import TumblingEventTimeWindows
from tidegate.records.batch import RecordsBatch
from tidegate.table import DataTypes
from tidegate.table._connectors.sinks import BlackHoleSink
from tidegate.table._connectors.sources import PickedColumns
from tidegate.table._formats.lines import CsvTableFormat
from tidegate.table.udf import udf
from tidegate.taskmanager.spark.daemon import PREIMPORTED, prepare_path
from tidegate.taskmanager.spark.entry import SubtaskEntry
from tidegate.taskmanager.spark.partitions import SubtaskPartition
from tidegate.taskmanager.spark.process import PrintedLines, step_back


def test_only_whole_lines_are_handed_on() -> None:
    told: list[str] = []
    lines = PrintedLines(told.append)
    print("one", file=lines)
    print("tw", end="", file=lines)
    print("o\nthree\nfo", end="", file=lines)
    assert "".join(told) == "one\ntwo\nthree\n"
    assert all(text.endswith("\n") for text in told)
    lines.finish()
    lines.finish()
    assert "".join(told) == "one\ntwo\nthree\nfo\n"


def test_a_sink_that_prints_finds_the_way_around_the_name_of_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    named: list[str] = []
    bare: list[str] = []
    monkeypatch.setattr(sys, "stdout", PrintedLines(named.append, PrintedLines(bare.append)))
    writer = PrintSink("id").make_writer(SinkContext(1, 4, "job", "attempt", "operator"), [], Types.LONG())
    writer.write(RecordsBatch([7]))
    print("seven")
    assert (named, bare) == (["seven\n"], ["id:2> 7\n"])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a thread has no priority of its own here")
def test_one_thread_steps_back_and_no_other() -> None:
    before = os.getpriority(os.PRIO_PROCESS, 0)
    found: list[int] = []

    def run(nice: int) -> None:
        step_back(nice)
        found.append(os.getpriority(os.PRIO_PROCESS, 0) - before)

    for nice in (0, 1):
        thread = threading.Thread(target=run, args=(nice,))
        thread.start()
        thread.join()
    assert found == [0, 1]
    assert os.getpriority(os.PRIO_PROCESS, 0) == before


def test_archives_leave_the_path() -> None:
    assert prepare_path(["/a/pyspark.zip", "/b", "/c.jar", "/d/py4j-src.zip"]) == ["/b"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel tells the number of threads on Linux only")
def test_the_daemon_has_one_thread_after_its_imports() -> None:
    code = (
        "import importlib, os\n"
        "from tidegate.taskmanager.spark import daemon\n"
        "os.environ.update(daemon.ENVIRONMENT)\n"
        "for name in daemon.PREIMPORTED: importlib.import_module(name)\n"
        "print(daemon.thread_count())\n"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert told.stdout == "1\n", told.stderr
    assert "tidegate.taskmanager.spark.worker" in PREIMPORTED


def test_a_worker_imports_nothing_for_a_plain_job(tmp_path: Path) -> None:
    """Its daemon has everything, so that 128 workers do not import it one by one."""
    env = StreamExecutionEnvironment()
    numbers = env.from_source(
        NumberSequenceSource(0, 9), WatermarkStrategy.for_monotonous_timestamps(), "numbers", Types.LONG()
    )
    rows = env.from_collection([1, 2], Types.LONG()).union(numbers).key_by(lambda number: number, Types.LONG())
    rows.window(TumblingEventTimeWindows.of(Time.seconds(1))).reduce(max).print()
    assert _imported_for([*env.build().blobs.values()], tmp_path) == "3 []\n"


def test_a_worker_imports_nothing_for_a_table(tmp_path: Path) -> None:
    """Neither for what Flink's planner makes of a connector, nor for a user's function."""

    @udf(result_type=DataTypes.BIGINT())
    def twice(number: int) -> int:
        return 2 * number

    objects = [BlackHoleSink(), PickedColumns([0], pa.schema([])), CsvTableFormat, twice]
    assert _imported_for([cloudpickle.dumps(one) for one in objects], tmp_path) == "4 []\n"


def _imported_for(pickles: list[bytes], tmp_path: Path) -> str:
    """Returns the number of pickles, and the modules that a worker imports to load them and its entry."""
    entry = SubtaskEntry("unix:/nowhere", "attempt", "token")
    (tmp_path / "content").write_bytes(cloudpickle.dumps((SubtaskPartition(entry).over_partition, pickles)))
    code = (
        "import importlib, pickle, sys\n"
        "from tidegate.taskmanager.spark import daemon\n"
        "for name in daemon.PREIMPORTED: importlib.import_module(name)\n"
        "before = set(sys.modules)\n"
        "_, blobs = pickle.load(open(sys.argv[1], 'rb'))\n"
        "for blob in blobs: pickle.loads(blob)\n"
        "print(len(blobs), sorted(set(sys.modules) - before))\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "content")]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert not told.stderr
    return told.stdout


def test_the_daemon_begins_again_with_what_the_c_library_reads_at_its_start() -> None:
    code = (
        "import os\n"
        "from tidegate.taskmanager.spark import daemon\n"
        "daemon.set_environment()\n"
        "print(os.getpid(), all(name in os.environ for name in daemon.ENVIRONMENT), os.environ['MALLOC_ARENA_MAX'])\n"
    )
    environment = {**os.environ, "MALLOC_ARENA_MAX": "7"}  # a user's own stays
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment)
    told, _ = process.communicate(timeout=60)
    assert told == f"{process.pid} True 7\n"


def test_a_daemon_whose_jvm_is_gone_does_not_start() -> None:
    command = [sys.executable, "-m", "tidegate.taskmanager.spark.daemon", "pyspark.worker"]
    told = subprocess.run(command, input=b"", capture_output=True, timeout=60, check=False)
    assert told.returncode == 1
    assert told.stderr.decode().endswith("the JVM is gone; not starting\n")


def test_log_lines_of_a_subtask_carry_time_and_level() -> None:
    program = (
        "import logging; from tidegate.taskmanager.spark.process import log_with_time_and_level; log_with_time_and_level();"
        "logging.getLogger('sink').warning('it is late'); logging.getLogger('sink').info('it is well')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} WARN  sink - it is late\n", done.stderr)
