"""``milestones_spark.py`` moved over: the state of a key is a value that the function reads and updates at each tap.

tidegate run milestones.py INPUT OUTPUT
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidegate.common import Row, Types
from tidegate.connectors.files import FileSink
from tidegate.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from tidegate.datastream.state import ValueStateDescriptor

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TAPS = "id long, card string, station string, cents long, at timestamp"
REACHED = Types.ROW_NAMED(["card", "taps"], [Types.STRING(), Types.LONG()])


class Milestones(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.taps = runtime_context.get_state(ValueStateDescriptor("taps", Types.LONG()))

    def process_element(self, tap: Row, ctx: KeyedProcessFunction.Context) -> Iterator[Row]:
        taps = (self.taps.value() or 0) + 1
        self.taps.update(taps)
        if taps % 10 == 0:
            yield Row(tap["card"], taps)


def build(env: StreamExecutionEnvironment, source: str, target: str) -> None:
    def cards(spark: SparkSession) -> DataFrame:
        return spark.readStream.schema(TAPS).parquet(source).select("card")

    stream = env.from_spark_stream(cards).uid("taps")
    reached = stream.key_by("card").process(Milestones(), REACHED).uid("milestones")
    reached.sink_to(FileSink.for_parquet(target)).uid("files")


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(100)
    build(env, *sys.argv[1:])
    env.execute("milestones")
