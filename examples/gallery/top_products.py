"""The three products of each hour that earn most: a top-N in SQL, planned by Flink's planner, between streams.

    python examples/gallery/top_products.py        needs Java, and pip install 'tidegate[table]'

    sales ─▶ a table ─▶ earnings by hour and product ─▶ the first three of each hour ─▶ a stream ─▶ CSV

A window is over when the watermark has passed it, so each rank is written once and no row is taken back.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.common import Duration, WatermarkStrategy
from tidegate.connectors.files import FileSink, FileSource
from tidegate.connectors.generators import ThrottledSource
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.table import DataTypes, Schema, StreamTableEnvironment

SALES, PRODUCTS, START_MS, DAY_MS = 100_000, 500, 1_767_571_200_000, 86_400_000
TOP = """
    SELECT CAST(window_start AS STRING) AS begins, rank_number, product, earned, sold FROM (
        SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY earned DESC, product) AS rank_number FROM (
            SELECT window_start, window_end, product, SUM(cents * pieces) AS earned, SUM(pieces) AS sold
            FROM TABLE(TUMBLE(TABLE sales, DESCRIPTOR(rowtime), INTERVAL '1' HOUR))
            GROUP BY window_start, window_end, product
        )
    ) WHERE rank_number <= 3"""


def write_input(directory: Path) -> None:
    """A day of sales, which come up to a minute late; what is in fashion changes by the hour."""
    directory.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(49)
    at = START_MS + rng.integers(0, DAY_MS, SALES)
    products = (rng.zipf(1.3, SALES) + at // 3_600_000 * 17) % PRODUCTS
    prices = rng.integers(100, 20_000, PRODUCTS)
    come = np.argsort(at + rng.integers(0, 60_000, SALES))
    columns = {"product": products, "cents": prices[products], "pieces": rng.integers(1, 4, SALES)}
    table = pa.table({**columns, "at": pa.array(at).cast(pa.timestamp("ms", "UTC"))})
    pq.write_table(table.take(pa.array(come)), directory / "sales.parquet")


def main() -> None:
    parser = argparse.ArgumentParser(description="the three products of each hour that earn most")
    parser.add_argument("--directory", type=Path, default=Path("out/gallery/top_products"), help="of input and output")
    parser.add_argument("--rows-per-second", type=float, default=1e9, help="slows the sales down, to watch")
    arguments = parser.parse_args()
    write_input(directory := arguments.directory.absolute())

    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    env.enable_checkpointing(1000)
    t_env = StreamTableEnvironment.create(env)
    t_env.get_config().set("table.local-time-zone", "UTC")
    late = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_minutes(1)).with_timestamp_column("at")
    sold = ThrottledSource(FileSource.for_parquet(str(directory / "sales.parquet")), arguments.rows_per_second)
    sales = env.from_source(sold, late, "sales").set_parallelism(1)
    with_time = (
        Schema.new_builder()
        .column_by_metadata("rowtime", DataTypes.TIMESTAMP_LTZ(3))
        .watermark("rowtime", "SOURCE_WATERMARK()")
        .build()
    )
    t_env.create_temporary_view("sales", t_env.from_data_stream(sales, with_time))
    top = t_env.to_data_stream(t_env.sql_query(TOP))
    top.sink_to(FileSink.for_csv(str(directory / "top"))).name("top").uid("top")
    env.execute("top products")


if __name__ == "__main__":
    main()
