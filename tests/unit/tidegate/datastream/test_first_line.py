"""The first line of ``python job.py``: what a program has imported when it comes, since imports are what takes long on a busy machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tidegate.datastream._graph.executor import PREPARING

PROGRAM = """
import json, os, sys
from tidegate.common import Types, WatermarkStrategy
from tidegate.connectors.number_sequence import NumberSequenceSource
from tidegate.datastream import StreamExecutionEnvironment


class FirstLine:
    def write(self, text):
        print(json.dumps([text, sorted(sys.modules)]), flush=True)
        os._exit(0)


environment = StreamExecutionEnvironment.get_execution_environment()
numbers = environment.from_source(NumberSequenceSource(1, 10), WatermarkStrategy.no_watermarks(), "numbers")
environment.from_collection([1, 2], Types.LONG()).print()
environment.from_collection([("a", 0.5), ("b", 1.5)], Types.TUPLE([Types.STRING(), Types.DOUBLE()])).print()
environment.from_collection([{"a": 1}, None]).print()
numbers.map(lambda n: n % 3, Types.LONG()).key_by(lambda n: n).reduce(lambda a, b: a + b).print()
sys.stderr = FirstLine()
environment.execute("numbers")
"""
LATER = ("click", "google.protobuf", "grpc", "pandas", "psutil", "pyspark", "py4j", "rich", "yaml", "tidegate.cli")
"""What submits the job, and what a client does not need at all."""


def test_the_first_line_of_a_program_comes_before_the_imports_that_it_does_not_need_to_build_its_graph(
    tmp_path: Path,
) -> None:
    job = tmp_path / "job.py"
    job.write_text(PROGRAM, encoding="utf-8")
    done = subprocess.run([sys.executable, str(job)], capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    line, loaded = json.loads(done.stdout)
    assert line == f"{PREPARING}\n"
    assert "tidegate.datastream" in loaded
    assert [name for name in loaded if any(name == one or name.startswith(f"{one}.") for one in LATER)] == []
