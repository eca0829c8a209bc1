"""Job of the unaligned benchmark: numbers by key in front of a sink that takes so many ms a record.

Arguments: unaligned (true or false), parallelism, ms a record, rows per second (0: as fast as it goes), checkpoint interval
in ms.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from tidegate.common import Configuration, Types, WatermarkStrategy
from tidegate.connectors.number_sequence import DataGeneratorSource
from tidegate.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from tidegate.functions.state import ValueStateDescriptor

KEYS = 1_000
ROWS = 10**9
"""It is canceled before."""


class SlowSink(KeyedProcessFunction):
    """Counts the records of each key, and takes its time."""

    def __init__(self, pause_ms: float) -> None:
        self._pause_s = pause_ms / 1000

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterable[int]:
        if self._pause_s:
            time.sleep(self._pause_s)
        self.count.update((self.count.value() or 0) + 1)
        return ()


def rows(first: int, number: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(np.arange(first, first + number))], names=["value"])


def main(unaligned: str, parallelism: int, pause_ms: float, rows_per_second: int, interval_ms: int) -> None:
    options = Configuration()
    options.set_string("execution.checkpointing.unaligned.enabled", unaligned)
    env = StreamExecutionEnvironment.get_execution_environment(options).set_parallelism(parallelism)
    env.enable_checkpointing(interval_ms)
    source = DataGeneratorSource(rows, ROWS, rows_per_second=rows_per_second or None)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    keyed = numbers.map(lambda row: row[0], Types.LONG()).key_by(lambda value: value % KEYS, Types.LONG())
    keyed.process(SlowSink(pause_ms), Types.LONG()).print()
    env.execute("unaligned benchmark")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
