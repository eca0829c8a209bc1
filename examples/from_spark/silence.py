"""``silence_spark.py`` moved over: state and timers of a key, one tap at a time.

Taps come in any order, and those of the next session may come before the watermark; timers fire in the order of event time. So a tap is
looked at when its own timer fires.

tidegate run silence.py INPUT OUTPUT
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidegate.common import Duration, Row, Types, WatermarkStrategy
from tidegate.connectors.files import FileSink
from tidegate.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from tidegate.datastream.state import MapStateDescriptor, ValueStateDescriptor

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TAPS = "id long, card string, station string, cents long, at timestamp"
SILENT = Types.ROW_NAMED(["card", "since_ms"], [Types.STRING(), Types.LONG()])
MINUTE_MS = 60_000


class Silence(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.taps = runtime_context.get_map_state(MapStateDescriptor("taps", Types.LONG(), Types.BOOLEAN()))
        self.newest = runtime_context.get_state(ValueStateDescriptor("newest", Types.LONG()))

    def process_element(self, tap: Row, ctx: KeyedProcessFunction.Context) -> None:
        at, timers = ctx.timestamp(), ctx.timer_service()
        assert at is not None, "the watermark strategy gives each tap its time"
        if at + MINUTE_MS > timers.current_watermark():  # else it is late
            self.taps.put(at, True)
            timers.register_event_time_timer(at)
            timers.register_event_time_timer(at + MINUTE_MS)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Row]:
        newest = self.newest.value()
        if self.taps.contains(timestamp):
            self.taps.remove(timestamp)
            self.newest.update(max(timestamp, newest or timestamp))
        elif newest is not None and timestamp == newest + MINUTE_MS:  # no tap since
            self.newest.clear()
            yield Row(ctx.get_current_key(), newest)


def build(env: StreamExecutionEnvironment, source: str, target: str) -> None:
    def taps(spark: SparkSession) -> DataFrame:
        files = spark.readStream.schema(TAPS).option("maxFilesPerTrigger", 1).parquet(source)
        return files.select("card", "at")

    in_ten_seconds = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(10)).with_timestamp_column("at")
    stream = env.from_spark_stream(taps, in_ten_seconds).uid("taps")
    silent = stream.key_by("card").process(Silence(), SILENT).uid("silence")
    silent.sink_to(FileSink.for_parquet(target)).uid("files")


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(100)
    build(env, *sys.argv[1:])
    env.execute("silence")
