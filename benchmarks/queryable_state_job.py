"""Job of the benchmark of queryable state: counts numbers by key, as fast as it can, until it is canceled. Argument: how many keys."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from tidegate.common import Types, WatermarkStrategy
from tidegate.connectors.number_sequence import DataGeneratorSource
from tidegate.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from tidegate.functions.state import ValueStateDescriptor

ROWS = 10**11
"""It is canceled before."""


class Count(KeyedProcessFunction):
    """Counts the records of each key, for clients to see."""

    def open(self, runtime_context: RuntimeContext) -> None:
        counts = ValueStateDescriptor("count", Types.LONG())
        counts.set_queryable("counts")
        self.count = runtime_context.get_state(counts)

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterable[int]:
        self.count.update((self.count.value() or 0) + 1)
        return ()


def rows(first: int, number: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(np.arange(first, first + number))], names=["value"])


def main(keys: int) -> None:
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    env.enable_checkpointing(1_000)
    source = DataGeneratorSource(rows, ROWS)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    keyed = numbers.map(lambda row: row[0], Types.LONG()).key_by(lambda value: value % keys, Types.LONG())
    keyed.process(Count(), Types.LONG()).print()
    env.execute("queryable state benchmark")


if __name__ == "__main__":
    main(int(sys.argv[1]))
