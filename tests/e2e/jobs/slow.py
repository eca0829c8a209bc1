"""Numbers counted by key, in front of a sink that takes ``--pause`` milliseconds a record, until the file ``--hurry`` is there.

Each line of the result is ``<value> <how many of its key there were before>``. Beside ``--hurry``, each slow process leaves an
empty file ``slow-<pid>``.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa

from tidegate.common import Types, WatermarkStrategy
from tidegate.common.serialization import Encoder
from tidegate.connectors.number_sequence import DataGeneratorSource
from tidegate.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from tidegate.datastream.connectors.file_system import FileSink
from tidegate.functions.state import ValueStateDescriptor

KEYS = 17


class Slow(KeyedProcessFunction):
    def __init__(self, pause_ms: float, hurry: str) -> None:
        self._pause_s = pause_ms / 1000
        self._hurry = hurry

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        if self._hurry:
            Path(self._hurry).with_name(f"slow-{os.getpid()}").touch()

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterable[str]:
        if self._pause_s and not (self._hurry and Path(self._hurry).exists()):
            time.sleep(self._pause_s)
        before = self.count.value() or 0
        self.count.update(before + 1)
        yield f"{value} {before}"


def rows(first: int, number: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(np.arange(first, first + number))], names=["value"])


def expected(total: int) -> list[list[int]]:
    """How often each count occurs, for each key: each once."""
    return [list(range(len(range(key, total, KEYS)))) for key in range(KEYS)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--hurry", default="")
    parser.add_argument("--output", required=True)
    parser.add_argument("--interval", type=int, required=True)
    args = parser.parse_args()
    env = StreamExecutionEnvironment.get_execution_environment().enable_checkpointing(args.interval)
    source = DataGeneratorSource(rows, args.rows)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    keyed = numbers.map(lambda row: row[0], Types.LONG()).key_by(lambda value: value % KEYS, Types.LONG())
    slow = keyed.process(Slow(args.pause, args.hurry), Types.STRING()).name("slow").uid("slow")
    sink = FileSink.for_row_format(args.output, Encoder.simple_string_encoder()).build()
    slow.sink_to(sink).uid("sink")
    env.execute("slow")


if __name__ == "__main__":
    main()
