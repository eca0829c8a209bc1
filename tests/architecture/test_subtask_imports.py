"""What a subtask's process imports: neither the DSL that builds graphs, nor the library that inspects state, nor a bare name of ours."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.source import ROOT

LOADED = """
import json, sys
from pathlib import Path
import tidegate.taskmanager.runtime.launch, tidegate.taskmanager.spark.worker
from tidegate.taskmanager.spark.user_code import load_program
for path in sys.argv[1:]:
    load_program(Path(path).read_bytes(), path)
print(json.dumps(sorted(sys.modules)))
"""
BUILT = """
import sys
from pathlib import Path
from tidegate.cli.program import run_program
from tidegate.datastream._graph.executor import PlanRecorded, PlanRecorder
recorder = PlanRecorder()
try:
    run_program(Path(sys.argv[1]), sys.argv[3:], recorder, {})
except PlanRecorded:
    pass
for number, vertex in enumerate(recorder.graph.vertices):
    Path(sys.argv[2], str(number)).write_bytes(recorder.blobs[vertex.program])
"""
ROWS = """
from tidegate.common import Types, WatermarkStrategy
from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from tidegate.datastream.state import ValueStateDescriptor
from tidegate.datastream.window import TumblingEventTimeWindows
from tidegate.common import Time

class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
    def process_element(self, value, ctx):
        yield value

env = StreamExecutionEnvironment.get_execution_environment()
numbers = env.from_collection([1, 2, 3], Types.LONG()).key_by(lambda n: n % 2).process(Count(), Types.LONG())
numbers.key_by(lambda n: n).window(TumblingEventTimeWindows.of(Time.seconds(1))).reduce(lambda a, b: a + b).print()
env.execute("rows")
"""


OTHERS = """
import pyarrow as pa
from tidegate.common import Types
from tidegate.common.time import Time
from tidegate.datastream import AsyncDataStream, AsyncFunction, StreamExecutionEnvironment, col
from tidegate.common.serialization import Encoder
from tidegate.datastream.connectors.file_system import FileSink, RollingPolicy
from tidegate.datastream.formats.avro import AvroRowDeserializationSchema, AvroRowSerializationSchema
from tidegate.datastream.window import TumblingEventTimeWindows
from tests.enumerated_numbers import NumbersSource
from tidegate.common.watermark_strategy import WatermarkStrategy

class Same(AsyncFunction):
    async def async_invoke(self, value):
        return [value]

env = StreamExecutionEnvironment.get_execution_environment()
pairs = env.from_collection([(1, 2), (3, 4)], Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.LONG()]))
schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
pairs.map_pandas(lambda frame: frame, schema).map_polars(lambda frame: frame, schema).select(col("a")).print()
pairs.sql("SELECT a, b % 3 AS c, printf('%d', b) AS d FROM input WHERE a > 1").print()
first, second = env.from_collection([1, 2], Types.LONG()), env.from_collection([2, 3], Types.LONG())
windows = TumblingEventTimeWindows.of(Time.seconds(1))
first.join(second).where(lambda n: n).equal_to(lambda n: n).window(windows).apply(lambda a, b: a + b).print()
first.partition_custom(lambda key, n: key % n, lambda n: n).map(lambda n: n, Types.LONG()).print()
env.from_source(NumbersSource(10, 5), WatermarkStrategy.no_watermarks(), "numbers").print()
AsyncDataStream.ordered_wait(first, Same(), Time.seconds(1), 10, Types.LONG()).print()
files = FileSink.for_row_format("/nowhere", Encoder.simple_string_encoder())
rolling = RollingPolicy.default_rolling_policy()
pairs.sink_to(files.with_rolling_policy(rolling).build())
LONG = '{"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}]}'
both = (AvroRowDeserializationSchema(avro_schema_string=LONG), AvroRowSerializationSchema(avro_schema_string=LONG))
first.map(lambda n: n if both else None, Types.LONG()).print()
env.execute("others")
"""


@pytest.mark.parametrize("program", [ROWS, OTHERS], ids=["functions of rows", "the other operators"])
def test_a_subtask_loads_neither_the_dsl_nor_the_inspection_library(program: str, tmp_path: Path) -> None:
    job, programs = tmp_path / "job.py", tmp_path / "programs"
    job.write_text(program, encoding="utf-8")
    programs.mkdir()
    _python(BUILT, str(job), str(programs))
    loaded = json.loads(_python(LOADED, *(str(path) for path in sorted(programs.iterdir()))))
    assert "tidegate.functions.interfaces" in loaded
    assert [name for name in loaded if name.startswith(("tidegate.datastream", "tidegate.state_reader"))] == []


def test_nothing_of_ours_is_imported_under_a_name_of_its_own() -> None:
    """The installed package is ``tidegate`` alone: ``cli`` and its like belong to users."""
    loaded = json.loads(
        _python(
            "import tidegate.cli.main, tidegate.jobmanager.service.app, tidegate.taskmanager.service.assembly\n"
            + LOADED
        )
    )
    assert [name for name in loaded if name.partition(".")[0] in ("cli", "jobmanager", "taskmanager", "proto")] == []


def test_a_task_manager_starts_its_jvm_before_it_imports_what_takes_long() -> None:
    """The JVM takes seconds, on a processor of its own; what is imported before it begins delays the start by as much."""
    loaded = set(
        json.loads(
            _python("import json, sys, tidegate.taskmanager.service.app\nprint(json.dumps(sorted(sys.modules)))")
        )
    )
    assert "tidegate.taskmanager.spark.session" in loaded
    assert loaded & {"numpy", "pandas", "pyarrow", "grpc", "pyspark", "tidegate.taskmanager.service.assembly"} == set()


def test_a_program_waits_for_no_import_that_a_warm_cluster_spares_it() -> None:
    """What takes a tenth of a second and more, and is needed for a configuration file, a terminal, processes of its own, or plans of SQL."""
    loaded = set(
        json.loads(
            _python(
                "import json, sys, tidegate.datastream.window, tidegate.cli.embedded.local\nprint(json.dumps(sorted(sys.modules)))"
            )
        )
    )
    assert "grpc" in loaded
    assert loaded & {"pandas", "psutil", "rich", "yaml", "tidegate.plan", "tidegate.functions.cep"} == set()


def _python(program: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=ROOT, capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
