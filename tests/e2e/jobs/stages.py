"""A bounded job of three stages: numbers, their sums by key, the sums as text.

    numbers ─ key_by ─▶ sums ─ rebalance ─▶ lines ─▶ files

With ``--held``, the second subtask of the sums writes its process id there in its first attempt, and goes no further.
"""

from __future__ import annotations

import argparse
import os
import threading
from pathlib import Path

from tidegate.common import Types, WatermarkStrategy
from tidegate.common.serialization import Encoder
from tidegate.connectors.number_sequence import NumberSequenceSource
from tidegate.datastream import MapFunction, RuntimeContext, RuntimeExecutionMode, StreamExecutionEnvironment
from tidegate.datastream.connectors.file_system import FileSink

KEYS = 100
PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])


class Held(MapFunction):
    def __init__(self, path: str) -> None:
        self._path = path

    def open(self, runtime_context: RuntimeContext) -> None:
        is_first = runtime_context.get_attempt_number() == 0
        if self._path and is_first and runtime_context.get_index_of_this_subtask() == 1:
            Path(self._path).with_suffix(".part").write_text(str(os.getpid()))
            Path(self._path).with_suffix(".part").rename(self._path)
            threading.Event().wait()

    def map(self, value: tuple[int, int]) -> tuple[int, int]:
        return value


def expected(numbers: int) -> list[str]:
    return sorted(f"{key} {sum(range(key or KEYS, numbers + 1, KEYS))}" for key in range(KEYS))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--numbers", type=int, required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--held", default="")
    args = parser.parse_args()
    env = StreamExecutionEnvironment.get_execution_environment().set_runtime_mode(RuntimeExecutionMode.BATCH)
    source = NumberSequenceSource(1, args.numbers)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    pairs = numbers.map(lambda value: (value % KEYS, value), PAIR)
    sums = pairs.key_by(lambda pair: pair[0], Types.LONG()).sum(1).map(Held(args.held), PAIR).name("sums")
    lines = sums.rebalance().map(lambda pair: f"{pair[0]} {pair[1]}", Types.STRING()).name("lines")
    lines.sink_to(FileSink.for_row_format(args.output, Encoder.simple_string_encoder()).build())
    env.execute("stages")


if __name__ == "__main__":
    main()
