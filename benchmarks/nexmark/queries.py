"""Nexmark's queries in this API: columns wherever a query allows it, functions of one record for the rest.

A query takes the streams of the auction house and gives the stream of its results. What SQL would keep updating (q4, q15 to q17)
is given once, when event time has passed the end of its day or auction, so that results can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.nexmark.functions import (
    Q3,
    Q4,
    Q5,
    Q7,
    Q12,
    WINDOW_MS,
    Closing,
    Highest,
    MostOf,
    OfWindow,
    SellersFirst,
    more_bids,
)
from tidegate.common import Time, Types, WatermarkStrategy
from tidegate.datastream import DataStream, col, if_else, lit
from tidegate.datastream.aggregates import avg, count, first, max, min, sum
from tidegate.datastream.window import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from tidegate.functions.expressions import Expression, call

DAY = Time.days(1)
TEN_SECONDS = Time.seconds(10)


Streams = Callable[..., DataStream]
"""``bids("auction", "price")``: the stream of a kind with these columns, and ``dateTime``, by which it has event time."""


@dataclass(frozen=True)
class House:
    persons: Streams
    auctions: Streams
    bids: Streams


Query = Callable[[House], DataStream]
PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])


def _longs(*names: str) -> pa.Schema:
    return pa.schema([(name, pa.int64()) for name in names])


def _by(stream: DataStream, column: str) -> DataStream:
    """Functions of batches that change the number of rows leave them without event time: here it is, again."""
    in_order = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column(column)
    return stream.assign_timestamps_and_watermarks(in_order)


def q0(house: House) -> DataStream:
    """Pass-through."""
    return house.bids("auction", "bidder", "price", "extra")


def q1(house: House) -> DataStream:
    """Prices in euros."""
    bids = house.bids("auction", "bidder", "price", "extra")
    return bids.select("auction", "bidder", (col("price") * 0.908).alias("price"), "dateTime", "extra")


def q2(house: House) -> DataStream:
    """Bids on some auctions."""
    return house.bids("auction", "price").filter(col("auction") % 123 == 0).select("auction", "price")


AUCTIONS_OF_SELLER = pa.schema([("seller", pa.int64()), ("auctions", pa.list_(pa.int64()))])


def _auctions_of_each_seller(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The auctions of a batch as one row for each seller: the function behind is called once for all of them."""
    lists = pa.table(batch).group_by("seller", use_threads=False).aggregate([("id", "list")])
    columns = [lists[name].combine_chunks() for name in ("seller", "id_list")]
    return pa.RecordBatch.from_arrays(columns, schema=AUCTIONS_OF_SELLER)


def q3(house: House) -> DataStream:
    """Who sells in three states, and what."""
    persons = house.persons("id", "name", "city", "state").filter(col("state").is_in(["OR", "ID", "CA"]))
    auctions = house.auctions("id", "seller", "category").filter(col("category") == 10)
    auctions = auctions.map_batches(_auctions_of_each_seller, AUCTIONS_OF_SELLER)
    both = persons.key_by("id").connect(auctions.key_by("seller"))
    return both.process(SellersFirst(), Q3)


BIDS_OF_AUCTION = pa.schema(
    [("auction", pa.int64()), ("prices", pa.list_(pa.int64())), ("times", pa.list_(pa.int64()))]
)


def _bids_of_each_auction(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The bids of a batch as one row for each auction: the function behind is called once for all of them."""
    lists = pa.table(batch).group_by("auction", use_threads=False).aggregate([("price", "list"), ("dateTime", "list")])
    columns = [lists[name].combine_chunks() for name in ("auction", "price_list", "dateTime_list")]
    return pa.RecordBatch.from_arrays(columns, schema=BIDS_OF_AUCTION)


def q4(house: House) -> DataStream:
    """Final prices of a category: their number and sum, as auctions close; the last row of a category is its result."""
    auctions = house.auctions("id", "category", "expires")
    bids = house.bids("auction", "price").map_batches(_bids_of_each_auction, BIDS_OF_AUCTION)
    both = auctions.key_by("id").connect(bids.key_by("auction"))
    return both.process(Closing(), Q4).key_by("category").agg(count().alias("auctions"), sum("final").alias("total"))


def _largest(batch: pa.RecordBatch, groups: pa.Array, column: str) -> pa.RecordBatch:
    """The rows that have the largest value of their group, as far as this batch tells."""
    both = pa.table({"group": groups, "value": batch[column]})
    best = both.group_by("group", use_threads=False).aggregate([("value", "max")])
    of_row = best["value_max"].combine_chunks().take(pc.index_in(groups, best["group"].combine_chunks()))
    return batch.filter(pc.equal(batch[column], of_row))


COUNTED = _longs("auction", "num", "window_end")


def _most_of_each_window(batch: pa.RecordBatch) -> pa.RecordBatch:
    return _largest(batch, batch["window_end"], "num")


def q5(house: House) -> DataStream:
    """Hot items: the auctions with the most bids in the last ten seconds, every two seconds."""
    sliding = SlidingEventTimeWindows.of(TEN_SECONDS, Time.seconds(2))
    counted = house.bids("auction").key_by("auction").window(sliding).agg(count().alias("num"))
    most = counted.select(*COUNTED.names).map_batches(_most_of_each_window, COUNTED)
    return most.key_by("window_end").process(MostOf(), Q5)


BID = ("auction", "bidder", "price", "dateTime")
BID_IN_WINDOW = _longs(*BID, "window")


def _highest_of_each_window(batch: pa.RecordBatch) -> pa.RecordBatch:
    window = pc.divide(batch["dateTime"], WINDOW_MS)
    with_window = pa.RecordBatch.from_arrays([*batch.columns, window], schema=BID_IN_WINDOW)
    return _largest(with_window, window, "price")


def q7(house: House) -> DataStream:
    """The highest bids of every ten seconds. Every batch leaves only what may be the highest."""
    bids = house.bids("auction", "bidder", "price").select(*BID)
    best = _by(bids.map_batches(_highest_of_each_window, BID_IN_WINDOW), "dateTime")
    return best.key_by("window").window(TumblingEventTimeWindows.of(TEN_SECONDS)).process(Highest(), Q7)


def q8(house: House) -> DataStream:
    """Who became a seller within the ten seconds in which they came: persons and their auctions are rows of one stream, and
    those are told of whom there is a name and an auction."""
    persons = house.persons("id", "name").select("id", "name", auctions=col("id") * 0)
    nobody = lit(pa.scalar(None, pa.string()))
    auctions = house.auctions("seller").select(
        col("seller").alias("id"), nobody.alias("name"), (col("seller") * 0 + 1).alias("auctions")
    )
    windows = persons.union(auctions).key_by("id").window(TumblingEventTimeWindows.of(TEN_SECONDS))
    both = windows.agg(first("name").alias("name"), sum("auctions").alias("auctions"))
    return both.filter(col("name").is_not_null() & (col("auctions") > 0)).select("id", "name", "window_start")


def q11(house: House) -> DataStream:
    """How many bids somebody made in one go, with pauses of at most ten seconds."""
    sessions = house.bids("bidder").key_by("bidder").window(EventTimeSessionWindows.with_gap(TEN_SECONDS))
    counted = sessions.agg(count().alias("bids"))
    return counted.select("bidder", "bids", col("window_start").alias("start"), col("window_end").alias("end"))


OF_BIDDER = _longs("bidder", "bids")


def _bids_of_each_bidder(batch: pa.RecordBatch) -> pa.RecordBatch:
    counted = pa.table(batch).group_by("bidder", use_threads=False).aggregate([("bidder", "count")])
    return pa.RecordBatch.from_arrays([column.combine_chunks() for column in counted.columns], schema=OF_BIDDER)


def q12(house: House) -> DataStream:
    """The same in ten seconds of processing time. Windows that are open at the end of bounded input are not told, as in Flink."""
    counted = house.bids("bidder").map_batches(_bids_of_each_bidder, OF_BIDDER)
    windows = counted.key_by("bidder").window(TumblingProcessingTimeWindows.of(TEN_SECONDS))
    return windows.reduce(more_bids, window_function=OfWindow(), output_type=Q12)


def q14(house: House) -> DataStream:
    """Times of day, and how often the letter c occurs."""
    hour = (col("dateTime") // 3_600_000) % 24
    of_day = if_else(
        (hour >= 8) & (hour <= 18), "dayTime", if_else((hour <= 6) | (hour >= 20), "nightTime", "otherTime")
    )
    priced = house.bids("auction", "bidder", "price", "extra").select(
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
    bids = house.bids(*keys, "bidder", "auction", "price").select(
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
    bids = house.bids("auction", "price").select("auction", "price", **_ranks())
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
    return house.bids("auction", "bidder", "price", "channel", "url").map_batches(_directories, Q22)


QUERIES: Mapping[str, Query] = {
    query.__name__: query for query in (q0, q1, q2, q3, q4, q5, q7, q8, q11, q12, q14, q15, q16, q17, q22)
}
