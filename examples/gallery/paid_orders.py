"""Orders with the payments of the hour behind them: an interval join of two streams, of which both are out of order.

    python examples/gallery/paid_orders.py

    orders ───▶ by order ─┐
                          ├─▶ paid within an hour ─▶ how much, how long after the order ─▶ CSV
    payments ─▶ by order ─┘

An order may be paid in parts, and is kept only until the watermark says that no payment of its hour can come.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.common import Duration, Row, Time, Types, WatermarkStrategy
from tidegate.connectors.files import FileSink, FileSource
from tidegate.connectors.generators import ThrottledSource
from tidegate.datastream import ProcessJoinFunction, StreamExecutionEnvironment

ORDERS, START_MS, HOUR_MS = 40_000, 1_767_571_200_000, 3_600_000
LATE_MS = 60_000
"""So much later than it happened an order or a payment may come."""
PAID = Types.ROW_NAMED(
    ["order", "cents", "paid", "after_ms", "is_in_full"],
    [Types.LONG(), Types.LONG(), Types.LONG(), Types.LONG(), Types.BOOLEAN()],
)


class Paid(ProcessJoinFunction):
    """Gives a row for each payment of an order."""

    def process_element(self, left: Row, right: Row, ctx: ProcessJoinFunction.Context) -> Iterator[Row]:
        after_ms = ctx.get_right_timestamp() - ctx.get_left_timestamp()
        yield Row(left["order"], left["cents"], right["cents"], after_ms, left["cents"] == right["cents"])


def write_input(directory: Path) -> None:
    """A day of orders, and payments up to an hour and a half behind them: some orders have none, some two."""
    directory.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(46)
    ordered = START_MS + rng.integers(0, 24 * HOUR_MS, ORDERS)
    cents = rng.integers(500, 50_000, ORDERS)
    payer = np.sort(rng.integers(0, ORDERS, ORDERS))
    paid = ordered[payer] + (rng.beta(1, 3, ORDERS) * 1.5 * HOUR_MS).astype(np.int64)
    parts = np.where(rng.random(ORDERS) < 0.8, cents[payer], cents[payer] // 2)
    for name, number, amount, at in (("orders", np.arange(ORDERS), cents, ordered), ("payments", payer, parts, paid)):
        come = np.argsort(at + rng.integers(0, LATE_MS, ORDERS))
        times = pa.array(at[come]).cast(pa.timestamp("ms", "UTC"))
        table = pa.table({"order": number[come], "cents": amount[come], "at": times})
        pq.write_table(table, directory / f"{name}.parquet")


def main() -> None:
    parser = argparse.ArgumentParser(description="orders with the payments of the hour behind them")
    parser.add_argument("--directory", type=Path, default=Path("out/gallery/paid_orders"), help="of input and output")
    parser.add_argument("--rows-per-second", type=float, default=1e9, help="slows both streams down, to watch")
    arguments = parser.parse_args()
    write_input(directory := arguments.directory.absolute())

    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    env.enable_checkpointing(1000)
    late = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(LATE_MS)).with_timestamp_column("at")
    orders, payments = (
        env.from_source(
            ThrottledSource(FileSource.for_parquet(str(directory / f"{name}.parquet")), arguments.rows_per_second),
            late,
            name,
        )
        .set_parallelism(1)
        .key_by("order")
        for name in ("orders", "payments")
    )
    paid = orders.interval_join(payments).between(Time.seconds(0), Time.hours(1)).process(Paid(), PAID)
    paid.name("paid").uid("paid").sink_to(FileSink.for_csv(str(directory / "paid"))).name("files").uid("files")
    env.execute("paid orders")


if __name__ == "__main__":
    main()
