"""Nexmark's queries in this API: columns wherever a query allows it, functions of one record for the rest.

A query takes the streams of the auction house and gives the stream of its results. What SQL would keep updating (q4, q15 to q17)
is given once, when event time has passed the end of its day or auction, so that results can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.nexmark.functions import (
    Q3,
    Q4,
    Q5,
    Q7,
    Q8,
    Q11,
    WINDOW_MS,
    Closing,
    CountOf,
    Highest,
    MostOf,
    NewSellers,
    SellersFirst,
    Session,
)
from tidegate.common import Time, Types, WatermarkStrategy
from tidegate.datastream import DataStream, col, if_else
from tidegate.datastream.aggregates import avg, count, max, min, sum
from tidegate.datastream.expressions import Expression, call
from tidegate.datastream.window import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)

DAY = Time.days(1)
TEN_SECONDS = Time.seconds(10)


@dataclass(frozen=True)
class House:
    """Streams with event time in ``dateTime``."""

    persons: DataStream
    auctions: DataStream
    bids: DataStream


Query = Callable[[House], DataStream]


def q0(house: House) -> DataStream:
    """Pass-through."""
    return house.bids.select("auction", "bidder", "price", "dateTime", "extra")


def q1(house: House) -> DataStream:
    """Prices in euros."""
    return house.bids.select("auction", "bidder", (col("price") * 0.908).alias("price"), "dateTime", "extra")


def q2(house: House) -> DataStream:
    """Bids on some auctions."""
    return house.bids.filter(col("auction") % 123 == 0).select("auction", "price")


def q3(house: House) -> DataStream:
    """Who sells in three states, and what."""
    persons = house.persons.filter(col("state").is_in(["OR", "ID", "CA"])).select(
        "id", "name", "city", "state", "dateTime"
    )
    auctions = house.auctions.filter(col("category") == 10).select("id", "seller", "dateTime")
    both = persons.key_by(_of("id"), Types.LONG()).connect(auctions.key_by(_of("seller"), Types.LONG()))
    return both.process(SellersFirst(), Q3)


def q4(house: House) -> DataStream:
    """Final prices of a category: their number and sum, as auctions close; the last row of a category is its result."""
    auctions = house.auctions.select("id", "category", "dateTime", "expires")
    bids = house.bids.select("auction", "price", "dateTime")
    both = auctions.key_by(_of("id"), Types.LONG()).connect(bids.key_by(_of("auction"), Types.LONG()))
    return both.process(Closing(), Q4).key_by("category").agg(count().alias("auctions"), sum("final").alias("total"))


def q5(house: House) -> DataStream:
    """Hot items: the auctions with the most bids in the last ten seconds, every two seconds."""
    sliding = SlidingEventTimeWindows.of(TEN_SECONDS, Time.seconds(2))
    pair = Types.TUPLE([Types.LONG(), Types.LONG()])
    ones = house.bids.select("auction").map(lambda bid: (bid["auction"], 1), pair)
    windows = ones.key_by(lambda one: one[0], Types.LONG()).window(sliding)
    counted = windows.reduce(lambda a, b: (a[0], a[1] + b[1]), window_function=CountOf(), output_type=Q5)
    return counted.key_by(lambda row: row[2], Types.LONG()).process(MostOf(), Q5)


BID = pa.schema([("auction", pa.int64()), ("bidder", pa.int64()), ("price", pa.int64()), ("dateTime", pa.int64())])


def _highest_of_each_window(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows that can be the highest of their window, as far as this batch tells."""
    window = pc.divide(batch["dateTime"], WINDOW_MS)
    best = pa.table({"window": window, "price": batch["price"]}).group_by("window").aggregate([("price", "max")])
    of_row = best["price_max"].combine_chunks().take(pc.index_in(window, best["window"].combine_chunks()))
    return batch.filter(pc.equal(batch["price"], of_row))


def q7(house: House) -> DataStream:
    """The highest bids of every ten seconds. Every batch leaves only what may be the highest; functions of batches make new
    rows, which need their event time again."""
    best = house.bids.select("auction", "bidder", "price", "dateTime").map_batches(_highest_of_each_window, BID)
    in_order = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("dateTime")
    by_window = best.assign_timestamps_and_watermarks(in_order).key_by(
        lambda bid: bid["dateTime"] // WINDOW_MS, Types.LONG()
    )
    return by_window.window(TumblingEventTimeWindows.of(TEN_SECONDS)).process(Highest(), Q7)


def q8(house: House) -> DataStream:
    """Who became a seller within the ten seconds in which they came."""
    persons = house.persons.select("id", "name", "dateTime")
    auctions = house.auctions.select("seller", "dateTime")
    grouped = persons.co_group(auctions).where(_of("id"), Types.LONG()).equal_to(_of("seller"))
    return grouped.window(TumblingEventTimeWindows.of(TEN_SECONDS)).apply(NewSellers(), Q8)


def q11(house: House) -> DataStream:
    """How many bids somebody made in one go, with pauses of less than ten seconds."""
    pair = Types.TUPLE([Types.LONG(), Types.LONG()])
    ones = house.bids.select("bidder").map(lambda bid: (bid["bidder"], 1), pair)
    windows = ones.key_by(lambda one: one[0], Types.LONG()).window(EventTimeSessionWindows.with_gap(TEN_SECONDS))
    return windows.reduce(lambda a, b: (a[0], a[1] + b[1]), window_function=Session(), output_type=Q11)


def q12(house: House) -> DataStream:
    """The same in ten seconds of processing time. Windows that are open at the end of bounded input are not told, as in Flink."""
    pair = Types.TUPLE([Types.LONG(), Types.LONG()])
    ones = house.bids.select("bidder").map(lambda bid: (bid["bidder"], 1), pair)
    windows = ones.key_by(lambda one: one[0], Types.LONG()).window(TumblingProcessingTimeWindows.of(TEN_SECONDS))
    return windows.reduce(lambda a, b: (a[0], a[1] + b[1]), window_function=Session(), output_type=Q11)


def q14(house: House) -> DataStream:
    """Times of day, and how often the letter c occurs."""
    hour = (col("dateTime") // 3_600_000) % 24
    of_day = if_else(
        (hour >= 8) & (hour <= 18), "dayTime", if_else((hour <= 6) | (hour >= 20), "nightTime", "otherTime")
    )
    priced = house.bids.select(
        "auction",
        "bidder",
        (col("price") * 0.908).alias("price"),
        of_day.alias("bidTimeType"),
        "dateTime",
        "extra",
        call("count_substring", col("extra"), pattern="c").alias("c_counts"),
    )
    return priced.filter((col("price") > 1_000_000) & (col("price") < 50_000_000))


def _one_if(condition: Expression) -> Expression:
    return if_else(condition, 1, 0)


def _ranks() -> dict[str, Expression]:
    return {
        "rank1": _one_if(col("price") < 10_000),
        "rank2": _one_if((col("price") >= 10_000) & (col("price") < 1_000_000)),
        "rank3": _one_if(col("price") >= 1_000_000),
    }


def _statistics(house: House, keys: tuple[str, ...]) -> DataStream:
    """Bids, bidders and auctions of a day, of all and of each rank of prices: once by bidder, once by auction, and one row of
    both. Distinct ones are counted as rows of the inner aggregation."""
    days = TumblingEventTimeWindows.of(DAY)
    bids = house.bids.select(
        *keys, "bidder", "auction", "dateTime", "price", all=_one_if(col("price") >= 0), **_ranks()
    )
    measures = ("all", *_ranks())
    parts = []
    for who in ("bidder", "auction"):
        each = (
            bids.key_by(*keys, who)
            .window(days)
            .agg(*(sum(m).alias(m) for m in measures), max("dateTime").alias("last"))
        )
        seen = each.select(
            "window_start", *keys, *measures, "last", **{f"seen_{m}": _one_if(col(m) > 0) for m in measures}
        )
        counted = [sum(f"seen_{m}").alias(f"{who}s_{m}") for m in measures]
        totals = [sum(m).alias(f"bids_{m}") for m in measures]
        parts.append(seen.key_by("window_start", *keys).agg(*counted, *totals, max("last").alias("last")))
    first, second = parts
    missing = {"bidder": first, "auction": second}
    columns = [f"{kind}_{m}" for kind in ("bids", "bidders", "auctions") for m in measures]
    filled = [
        part.select(
            "window_start",
            *keys,
            *((col(c) if not c.startswith(f"{other}s_") else _zero()).alias(c) for c in columns),
            "last",
        )
        for (who, part), other in zip(missing.items(), ("auction", "bidder"), strict=True)
    ]
    united = filled[0].union(filled[1])
    return united.key_by("window_start", *keys).agg(*(max(c).alias(c) for c in columns), max("last").alias("last"))


def _zero() -> Expression:
    return col("window_start") * 0


def q15(house: House) -> DataStream:
    """Bids of a day by rank of price, with distinct bidders and auctions. The last row of a day is its result."""
    return _statistics(house, ())


def q16(house: House) -> DataStream:
    """The same for each channel, with the moment of its last bid."""
    return _statistics(house, ("channel",))


def q17(house: House) -> DataStream:
    """Each auction's bids of a day."""
    bids = house.bids.select("auction", "price", "dateTime", **_ranks())
    days = bids.key_by("auction").window(TumblingEventTimeWindows.of(DAY))
    ranks = [sum(rank).alias(f"{rank}_bids") for rank in _ranks()]
    price = col("price")
    return days.agg(
        count().alias("total_bid"),
        *ranks,
        min(price).alias("min_price"),
        max(price).alias("max_price"),
        avg(price).alias("avg_price"),
        sum(price).alias("sum_price"),
    )


Q22 = pa.schema(
    [("auction", pa.int64()), ("bidder", pa.int64()), ("price", pa.int64()), ("channel", pa.string())]
    + [(f"dir{n}", pa.string()) for n in (1, 2, 3)]
)


def _directories(batch: pa.RecordBatch) -> pa.RecordBatch:
    parts = pc.split_pattern(batch["url"], "/")
    found = [pc.list_element(parts, n) for n in (3, 4, 5)]
    columns = [batch[name] for name in ("auction", "bidder", "price", "channel")]
    return pa.RecordBatch.from_arrays([*columns, *found], schema=Q22)


def q22(house: House) -> DataStream:
    """Parts of addresses."""
    return house.bids.select("auction", "bidder", "price", "channel", "url").map_batches(_directories, Q22)


QUERIES: Mapping[str, Query] = {
    query.__name__: query for query in (q0, q1, q2, q3, q4, q5, q7, q8, q11, q12, q14, q15, q16, q17, q22)
}


def _of(name: str) -> Callable[[Any], Any]:
    return lambda row: row[name]
