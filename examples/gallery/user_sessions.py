"""Sessions of the visitors of a shop: session windows over columns, with views that come out of order.

    python examples/gallery/user_sessions.py

    page views ─▶ by user ─▶ sessions: 30 minutes without a view end one ─▶ landing page, exit page, views, cents ─▶ Parquet

The stream never leaves Arrow: Python is called for no row.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.common import Duration, Time, WatermarkStrategy
from tidegate.connectors.files import FileSink, FileSource
from tidegate.connectors.generators import ThrottledSource
from tidegate.datastream import StreamExecutionEnvironment, col
from tidegate.datastream.aggregates import count, first, last, sum
from tidegate.datastream.window import EventTimeSessionWindows

VIEWS, USERS = 400_000, 20_000
START_MS, DAY_MS, MINUTE_MS = 1_767_571_200_000, 86_400_000, 60_000
PAGES = ["/", "/search", "/offers", "/cart", "/pay", "/help", *(f"/item/{n}" for n in range(200))]


def write_input(directory: Path) -> None:
    """A day of page views, which come up to five minutes later than they happened."""
    directory.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(42)
    visits = rng.integers(0, USERS, VIEWS // 8)  # a visit is eight views; a user has several, and some touch
    begins = rng.integers(START_MS, START_MS + DAY_MS, len(visits))
    steps = rng.exponential(5 * MINUTE_MS, (len(visits), 8)).astype(np.int64)
    at = (begins[:, None] + np.cumsum(steps, axis=1)).ravel()
    pages = rng.integers(0, len(PAGES), VIEWS)
    cents = np.where(np.array(PAGES)[pages] == "/pay", rng.integers(500, 20_000, VIEWS), 0)
    come = np.argsort(at + rng.integers(0, 5 * MINUTE_MS, VIEWS))
    table = pa.table(
        {
            "user": pa.array(np.repeat(visits, 8)),
            "page": pa.array(PAGES).take(pa.array(pages)),
            "cents": pa.array(cents),
            "at": pa.array(at).cast(pa.timestamp("ms", "UTC")),
        }
    )
    pq.write_table(table.take(pa.array(come)), directory / "views.parquet")


def main() -> None:
    parser = argparse.ArgumentParser(description="sessions of the visitors of a shop")
    parser.add_argument("--directory", type=Path, default=Path("out/gallery/user_sessions"), help="of input and output")
    parser.add_argument("--rows-per-second", type=float, default=1e9, help="slows the views down, to watch")
    arguments = parser.parse_args()
    write_input(directory := arguments.directory.absolute())

    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    env.enable_checkpointing(1000)
    views = ThrottledSource(FileSource.for_parquet(str(directory / "views.parquet")), arguments.rows_per_second)
    late = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_minutes(5)).with_timestamp_column("at")
    sessions = (
        env.from_source(views, late, "page views")
        .set_parallelism(1)
        .key_by("user")
        .window(EventTimeSessionWindows.with_gap(Time.minutes(30)))
        .agg(
            count().alias("views"),
            sum("cents").alias("cents"),
            first("page").alias("landing"),
            last("page").alias("exit"),
        )
        .name("sessions")
        .uid("sessions")
    )
    minutes = (col("window_end") - col("window_start")) / MINUTE_MS - 30
    rows = sessions.select("user", "window_start", "views", "cents", "landing", "exit", minutes=minutes)
    rows.sink_to(FileSink.for_parquet(str(directory / "sessions"))).name("Parquet").uid("files")
    env.execute("user sessions")


if __name__ == "__main__":
    main()
