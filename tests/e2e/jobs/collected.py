"""Prints what it collects: ``collected.py numbers <marker>`` (fails once, under checkpoints),
``collected.py slowly <marker>``, ``collected.py brought <dir>``, or ``collected.py counted <dir>`` (by accumulators)."""

from __future__ import annotations

import shutil
import sys
import zipfile
from importlib import import_module
from pathlib import Path
from typing import Any

from tidegate.common import Configuration, RestartStrategies, Types, WatermarkStrategy
from tidegate.common.serialization import Encoder
from tidegate.connectors.throttle import ThrottledSource
from tidegate.datastream import MapFunction, RuntimeContext, StreamExecutionEnvironment
from tidegate.datastream.connectors.file_system import FileSink
from tidegate.datastream.connectors.number_seq import NumberSequenceSource

COUNT = 20_000
SLOW_COUNT, SLOW_S = 6_000, 12


def numbers(marker: Path) -> None:
    def fails_once(number: int) -> int:
        if number == COUNT // 2 and not marker.exists():
            marker.touch()
            raise ValueError("once")
        return number

    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(200)
    env.configure(Configuration(RestartStrategies.fixed_delay_restart(3, 100).options))
    source = NumberSequenceSource(1, COUNT)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    found = list(stream.map(fails_once, Types.LONG()).execute_and_collect())
    print(f"collected {len(found)}, each once: {sorted(found) == list(range(1, COUNT + 1))}, failed: {marker.exists()}")


def slowly(marker: Path) -> None:
    """So that something happens meanwhile, from when the marker is there."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(300)
    source = ThrottledSource(NumberSequenceSource(1, SLOW_COUNT), SLOW_COUNT / SLOW_S)
    found: list[int] = []
    for number in env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").execute_and_collect():
        found.append(number)
        if len(found) == SLOW_COUNT // 20:
            marker.touch()
    print(f"collected {len(found)}, each once: {sorted(found) == list(range(1, SLOW_COUNT + 1))}")


def brought(directory: Path) -> None:
    """Uses a module, an archive and a requirement that only the job has."""
    (directory / "brought_module.py").write_text("def add_two(number):\n    return number + 2\n")
    (directory / "data").mkdir()
    (directory / "data" / "three.txt").write_text("3")
    archive = shutil.make_archive(str(directory / "data"), "zip", directory / "data")
    packages = directory / "packages"
    packages.mkdir()
    info = "brought_package-1.0.dist-info"
    with zipfile.ZipFile(packages / "brought_package-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("brought_package.py", "def times(a, b):\n    return a * b\n")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: brought-package\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    (directory / "requirements.txt").write_text("brought-package==1.0\n")

    def function(number: int) -> int:
        module, package = import_module("brought_module"), import_module("brought_package")
        return int(package.times(module.add_two(number), int(Path("unpacked/three.txt").read_text())))

    env = StreamExecutionEnvironment.get_execution_environment()
    env.add_python_file(str(directory / "brought_module.py"))
    env.add_python_archive(archive, "unpacked")
    env.set_python_requirements(str(directory / "requirements.txt"), str(packages))
    print("brought", sorted(env.from_collection([1, 2, 3]).map(function).execute_and_collect(limit=3)))


class Counted(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_long_counter("seen")
        self.rests = runtime_context.get_histogram("rests")

    def map(self, value: Any) -> Any:
        self.seen.add(1)
        self.rests.add(value % 2)
        return value


def counted(directory: Path) -> None:
    """Two vertices that count, each in two subtasks."""
    env = StreamExecutionEnvironment.get_execution_environment()
    source = NumberSequenceSource(1, COUNT)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    twice = stream.rebalance().map(Counted(), Types.LONG()).rebalance().map(Counted(), Types.LONG())
    twice.sink_to(FileSink.for_row_format(str(directory), Encoder.simple_string_encoder()).build())
    client = env.execute_async("counted")
    result = client.get_job_execution_result().result()
    print("counted", result.get_all_accumulator_results())
    print("told again:", client.get_accumulators().result() == result.get_all_accumulator_results())


if __name__ == "__main__":
    {"numbers": numbers, "slowly": slowly, "brought": brought, "counted": counted}[sys.argv[1]](Path(sys.argv[2]))
