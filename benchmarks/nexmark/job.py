"""Job of the Nexmark comparison: one query over generated events; what it gives is dropped, or written as Parquet.

Arguments: query, epochs (of 50 events), parallelism, checkpoint interval in ms, output directory (if any).
"""

from __future__ import annotations

import sys

from benchmarks.dropping import Dropping
from benchmarks.nexmark import events
from benchmarks.nexmark.queries import QUERIES, House, Streams
from tidegate.common import WatermarkStrategy
from tidegate.connectors.file_sink import FileSink
from tidegate.datastream import DataStream, StreamExecutionEnvironment


def house_of(
    env: StreamExecutionEnvironment, epochs: int, events_per_second: float = 10_000, parallelism: int = 1
) -> House:
    """``events_per_second`` are of event time."""

    def of_kind(kind: str) -> Streams:
        def stream(*columns: str) -> DataStream:
            source = events.source(kind, epochs, events_per_second, (*columns, "dateTime"), parallelism)
            in_order = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("dateTime")
            return env.from_source(source, in_order, kind)

        return stream

    return House(of_kind("persons"), of_kind("auctions"), of_kind("bids"))


def main(query: str, epochs: int, parallelism: int, interval_ms: int, output: str = "") -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(parallelism)
    if interval_ms:
        env.enable_checkpointing(interval_ms)
    QUERIES[query](house_of(env, epochs, parallelism=parallelism)).sink_to(
        FileSink.for_parquet(output) if output else Dropping()
    )
    env.execute(f"nexmark {query}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), *sys.argv[5:])
