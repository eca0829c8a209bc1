"""``distinct_spark.py`` moved over: a flag for each tap, which a timer clears when the watermark has passed the tap.

tidegate run distinct.py INPUT OUTPUT
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidegate.common import Duration, Row, Types, WatermarkStrategy
from tidegate.connectors.files import FileSink
from tidegate.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from tidegate.datastream.state import ValueStateDescriptor

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TAPS = "id long, card string, station string, cents long, at timestamp"
DISTINCT = Types.ROW_NAMED(
    ["id", "card", "station", "cents"], [Types.LONG(), Types.STRING(), Types.STRING(), Types.LONG()]
)


class FirstOfEach(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.BOOLEAN()))

    def process_element(self, tap: Row, ctx: KeyedProcessFunction.Context) -> Iterator[Row]:
        at, timers = ctx.timestamp(), ctx.timer_service()
        assert at is not None, "the watermark strategy gives each tap its time"
        if at > timers.current_watermark() and not self.seen.value():
            self.seen.update(True)
            timers.register_event_time_timer(at)
            yield Row(tap["id"], tap["card"], tap["station"], tap["cents"])

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> None:
        self.seen.clear()


def build(env: StreamExecutionEnvironment, source: str, target: str) -> None:
    def taps(spark: SparkSession) -> DataFrame:
        return spark.readStream.schema(TAPS).parquet(source)

    in_ten_seconds = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(10)).with_timestamp_column("at")
    stream = env.from_spark_stream(taps, in_ten_seconds).uid("taps")
    distinct = stream.key_by("id", "at").process(FirstOfEach(), DISTINCT).uid("distinct")
    distinct.sink_to(FileSink.for_parquet(target)).uid("files")


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(100)
    build(env, *sys.argv[1:])
    env.execute("distinct")
