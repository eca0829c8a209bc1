"""Jobs that are wrong, one for each name given; ``ok`` is right and takes ``--output``."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

from tidegate.common import Row, Types, WatermarkStrategy
from tidegate.connectors.file_sink import FileSink
from tidegate.connectors.file_source import FileSource
from tidegate.connectors.number_sequence import NumberSequenceSource
from tidegate.connectors.throttle import ThrottledSource
from tidegate.datastream import StreamExecutionEnvironment, col

LOCK = threading.Lock()


def locked(value: int) -> int:
    with LOCK:
        return value


def raises_at_42(value: int) -> int:
    if value == 42:
        raise ValueError("42 is not a number that I like")
    return value


def build(env: StreamExecutionEnvironment, case: str, output: str) -> None:
    if case == "raises":
        raise KeyError("a mistake in the program itself")
    if case == "missing-input":
        env.from_source(FileSource.for_text("/no/such/file.txt"), WatermarkStrategy.no_watermarks(), "lines").print()
        return
    source: Any = NumberSequenceSource(1, 1_000)
    if case == "long":
        source = ThrottledSource(NumberSequenceSource(1, 1_000_000), 1_000)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    if case == "unpicklable":
        numbers.map(locked, Types.LONG()).name("locks").print()
    elif case == "schema":
        numbers.select(col("valeu") + 1).print()
    elif case == "wrong-type":
        row = Types.ROW_NAMED(["number"], [Types.LONG()])
        numbers.map(lambda number: Row(number=f"<{number}>"), row).name("formats").rebalance().print()
    elif case == "function-raises":
        numbers.map(raises_at_42, Types.LONG()).name("picky").print()
    else:
        keyed = numbers.key_by(lambda number: number % 10, Types.LONG())
        keyed.reduce(lambda a, b: a + b).uid("sums").sink_to(FileSink.for_text(output)).uid("sink")


def main() -> None:
    case = sys.argv[1]
    output = sys.argv[2] if len(sys.argv) > 2 else str(Path.cwd() / "out")
    env = StreamExecutionEnvironment.get_execution_environment()
    if "no-checkpoints" not in sys.argv:
        env.enable_checkpointing(200)
    build(env, case, output)
    env.execute(case)


if __name__ == "__main__":
    main()
