"""What Nexmark's queries give over the same events in memory, by SQL in DuckDB. Every statement gives the columns of the query of
that name in ``queries``; ``q12`` has none, since its windows are of processing time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

_RANKS = {
    "all": "price >= 0",
    "rank1": "price < 10000",
    "rank2": "price BETWEEN 10000 AND 999999",
    "rank3": "price >= 1000000",
}
_DAY_MS = 86_400_000


def _statistics(keys: str) -> str:
    columns = [f"count(*) FILTER ({test}) AS bids_{rank}" for rank, test in _RANKS.items()]
    for who in ("bidder", "auction"):
        columns += [f"count(DISTINCT {who}) FILTER ({test}) AS {who}s_{rank}" for rank, test in _RANKS.items()]
    day = f"dateTime // {_DAY_MS} * {_DAY_MS}"
    return f'SELECT {day} AS window_start, {keys} {", ".join(columns)}, max("dateTime") AS last FROM bids GROUP BY ALL'


SQL: Mapping[str, str] = {
    "q0": "SELECT auction, bidder, price, dateTime, extra FROM bids",
    "q1": "SELECT auction, bidder, price * 0.908::DOUBLE AS price, dateTime, extra FROM bids",
    "q2": "SELECT auction, price FROM bids WHERE auction % 123 = 0",
    "q3": """SELECT p.name, p.city, p.state, a.id FROM auctions a JOIN persons p ON a.seller = p.id
             WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')""",
    "q4": """SELECT category, count(*) AS auctions, sum(final)::BIGINT AS total FROM (
               SELECT a.id, a.category, max(b.price) AS final FROM auctions a JOIN bids b ON a.id = b.auction
               WHERE b.dateTime BETWEEN a.dateTime AND a.expires GROUP BY ALL) GROUP BY category""",
    "q5": """WITH counted AS (
               SELECT auction, count(*) AS num, (dateTime // 2000 + slide) * 2000 AS window_end
               FROM bids, range(1, 6) AS slides(slide) GROUP BY ALL)
             SELECT auction, num, window_end FROM counted
             QUALIFY num = max(num) OVER (PARTITION BY window_end)""",
    "q7": """SELECT auction, price, bidder, dateTime FROM bids
             QUALIFY price = max(price) OVER (PARTITION BY dateTime // 10000)""",
    "q8": """SELECT DISTINCT p.id, p.name, p.dateTime // 10000 * 10000 AS window_start FROM persons p JOIN auctions a
             ON p.id = a.seller AND p.dateTime // 10000 = a.dateTime // 10000""",
    "q11": """WITH marked AS (
                SELECT bidder, dateTime, coalesce(dateTime - lag(dateTime) OVER one > 10000, true) AS begins
                FROM bids WINDOW one AS (PARTITION BY bidder ORDER BY dateTime)),
              numbered AS (SELECT *, count(*) FILTER (begins) OVER (PARTITION BY bidder ORDER BY dateTime) AS session FROM marked)
              SELECT bidder, count(*) AS bids, min(dateTime) AS start, max(dateTime) + 10000 AS "end"
              FROM numbered GROUP BY bidder, session""",
    "q14": """SELECT auction, bidder, price * 0.908::DOUBLE AS price,
                CASE WHEN dateTime // 3600000 % 24 BETWEEN 8 AND 18 THEN 'dayTime'
                     WHEN dateTime // 3600000 % 24 <= 6 OR dateTime // 3600000 % 24 >= 20 THEN 'nightTime'
                     ELSE 'otherTime' END AS bidTimeType,
                dateTime, extra, length(extra) - length(replace(extra, 'c', '')) AS c_counts
              FROM bids WHERE price * 0.908::DOUBLE > 1000000 AND price * 0.908::DOUBLE < 50000000""",
    "q15": _statistics(""),
    "q16": _statistics("channel,"),
    "q17": f"""SELECT dateTime // {_DAY_MS} * {_DAY_MS} AS window_start, (dateTime // {_DAY_MS} + 1) * {_DAY_MS} AS window_end,
                 auction, count(*) AS total_bid, count(*) FILTER (price < 10000) AS rank1_bids,
                 count(*) FILTER (price BETWEEN 10000 AND 999999) AS rank2_bids,
                 count(*) FILTER (price >= 1000000) AS rank3_bids, min(price) AS min_price, max(price) AS max_price,
                 avg(price) AS avg_price, sum(price)::BIGINT AS sum_price
               FROM bids GROUP BY ALL""",
    "q22": """SELECT auction, bidder, price, channel, split_part(url, '/', 4) AS dir1, split_part(url, '/', 5) AS dir2,
                split_part(url, '/', 6) AS dir3 FROM bids""",
}

LAST_OF: Mapping[str, tuple[str, ...]] = {
    "q4": ("category",),
    "q15": ("window_start",),
    "q16": ("window_start", "channel"),
}
"""Running aggregates tell a key again and again; its last row, which has the largest values, is the result."""


def rows_of(table: pa.Table, names: Iterable[str], key: tuple[str, ...] = ()) -> list[tuple[Any, ...]]:
    """The rows in some order that is the same everywhere; of each ``key`` the last one."""
    columns = list(names)
    rows = table.select(columns).to_pylist()
    if key:
        largest: dict[Any, tuple[Any, ...]] = {}
        for row in rows:
            at, values = tuple(row[name] for name in key), tuple(row.values())
            largest[at] = max(values, largest.get(at, values))
        return sorted(largest.values(), key=repr)
    return sorted((tuple(row.values()) for row in rows), key=repr)


def expected(name: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    """The result over ``persons``, ``auctions`` and ``bids``."""
    import duckdb

    with duckdb.connect() as database:
        for kind, table in tables.items():
            database.register(kind, table)
        return database.sql(SQL[name]).to_arrow_table()
