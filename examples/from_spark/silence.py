"""``silence_spark.py`` moved over: state and timers of a key, one tap at a time.

tidegate run silence.py INPUT OUTPUT
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidegate.common import Duration, Row, Types, WatermarkStrategy
from tidegate.connectors.file_sink import FileSink
from tidegate.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from tidegate.datastream.state import ValueStateDescriptor

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TAPS = "id long, card string, station string, cents long, at timestamp"
SILENT = Types.ROW_NAMED(["card", "since_ms"], [Types.STRING(), Types.LONG()])
MINUTE_MS = 60_000


class Silence(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.newest = runtime_context.get_state(ValueStateDescriptor("newest", Types.LONG()))

    def process_element(self, tap: Row, ctx: KeyedProcessFunction.Context) -> None:
        at = ctx.timestamp()
        assert at is not None, "the watermark strategy gives each tap its time"
        newest = max(at, self.newest.value() or 0)
        self.newest.update(newest)
        ctx.timer_service().register_event_time_timer(newest + MINUTE_MS)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Row]:
        since = self.newest.value()
        if since is not None and timestamp == since + MINUTE_MS:
            self.newest.clear()
            yield Row(ctx.get_current_key(), since)


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
