"""Rows counted by key and minute, of files whose names sort against time; the last line printed is how many were counted.

With ``--behind`` the watermark strategy stands behind the source, where files can no longer be told apart, and a watermark follows each batch.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from tidegate.common import Duration, Time, WatermarkStrategy
from tidegate.connectors.file_sink import FileSink
from tidegate.connectors.file_source import FileSource
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.aggregates import count
from tidegate.datastream.window import TumblingEventTimeWindows

FILES = 3


def write(directory: Path, rows: int) -> None:
    directory.mkdir()
    for place in range(FILES):
        at = (np.arange(rows) + (FILES - 1 - place) * rows) * 10
        pyarrow.csv.write_csv(pa.table({"at": at, "key": np.arange(rows) % 1000}), directory / f"part-{place}.csv")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=100_000, help="of each file")
    parser.add_argument("--behind", action="store_true")
    args = parser.parse_args()
    write(args.directory / "in", args.rows)
    env = StreamExecutionEnvironment.get_execution_environment()
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_column("at")
    source = FileSource.for_csv(str(args.directory / "in"))
    if args.behind:
        env.get_config().set_auto_watermark_interval(1)
        read = env.from_source(source, WatermarkStrategy.no_watermarks(), "files")
        rows = read.assign_timestamps_and_watermarks(strategy)
    else:
        rows = env.from_source(source, strategy, "files")
    minutes = rows.key_by("key").window(TumblingEventTimeWindows.of(Time.minutes(1))).agg(count().alias("n"))
    minutes.sink_to(FileSink.for_parquet(str(args.directory / "out")))
    env.execute("backwards")
    print(pc.sum(pq.read_table(args.directory / "out", columns=["n"]).column("n")).as_py())


if __name__ == "__main__":
    main()
