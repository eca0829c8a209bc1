"""Counts records per key, and tells which process counted: each output row names the Spark partition that it ran in."""

from __future__ import annotations

import argparse
import os
from typing import Any

from tidegate.common import Row, Types, WatermarkStrategy
from tidegate.connectors.file_sink import FileSink
from tidegate.connectors.number_sequence import NumberSequenceSource
from tidegate.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from tidegate.functions.state import ValueStateDescriptor

NAMES = ["key", "count", "subtask", "partition", "attempt", "pid", "parent"]


class Count(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        from pyspark import TaskContext

        context: Any = TaskContext.get()
        self._where = [runtime_context.get_index_of_this_subtask(), context.partitionId(), context.attemptNumber()]
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        yield Row(ctx.get_current_key(), count, *self._where, os.getpid(), os.getppid())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--output", required=True)
    arguments = parser.parse_args()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(500)
    numbers = env.from_source(NumberSequenceSource(1, arguments.rows), WatermarkStrategy.no_watermarks(), "numbers")
    counted = numbers.key_by(lambda number: number % 10, Types.LONG()).process(
        Count(), Types.ROW_NAMED(NAMES, [Types.LONG()] * len(NAMES))
    )
    counted.sink_to(FileSink.for_parquet(arguments.output))
    env.execute("who counts")


if __name__ == "__main__":
    main()
