"""What the queries of ``jobs/nexmark.py`` give, by DuckDB over all events at once. In a query that changes what it said, the rows that are left."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from urllib.parse import unquote

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tests.e2e.jobs.nexmark import KINDS, SIDE_INPUT, make_events

_SOME_TIME = datetime.fromisoformat("1970-01-01T00:00")
Value = int | str | Decimal | datetime | None
Row = tuple[Value, ...]


def _counted(keys: str, more: str = "") -> str:
    ranks = ("true", "price < 10000", "price >= 10000 AND price < 1000000", "price >= 1000000")
    counts = [
        f"count({what}) FILTER ({rank})" for what in ("*", "DISTINCT bidder", "DISTINCT auction") for rank in ranks
    ]
    return f"SELECT {keys}, {more} {', '.join(counts)} FROM bid GROUP BY {keys}"


_DAY = "strftime(dateTime, '%Y-%m-%d')"
_IN_TIME = "auction a JOIN bid b ON a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires"
_CHANNEL_ID = r"nullif(regexp_extract(url, '(&|^)channel_id=([^&]*)', 2), '')"
ANSWERS = {
    "q0": "SELECT auction, bidder, price, dateTime, extra FROM bid",
    "q1": "SELECT auction, bidder, CAST(price AS DECIMAL(19)) * 0.908, dateTime, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE auction % 123 = 0",
    "q3": "SELECT p.name, p.city, p.state, a.id FROM person p JOIN auction a ON a.seller = p.id "
    "WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')",
    "q4": "SELECT category, CAST(sum(final) // count(*) AS BIGINT) FROM "
    f"(SELECT a.id, category, max(price) AS final FROM {_IN_TIME} GROUP BY a.id, category) GROUP BY category",
    "q5": "SELECT auction, n FROM (SELECT auction, start, count(*) AS n FROM "
    "(SELECT auction, time_bucket(INTERVAL 2 SECOND, dateTime) - to_seconds(2 * unnest(range(5))) AS start FROM bid) GROUP BY ALL) "
    "QUALIFY n = max(n) OVER (PARTITION BY start)",
    "q7": "SELECT auction, price, bidder, dateTime, extra FROM bid JOIN "
    "(SELECT max(price) AS most, time_bucket(INTERVAL 10 SECOND, dateTime) AS start FROM bid GROUP BY start) ON price = most "
    "WHERE dateTime BETWEEN start AND start + INTERVAL 10 SECOND",
    "q8": "SELECT DISTINCT p.id, p.name, time_bucket(INTERVAL 10 SECOND, p.dateTime) FROM person p JOIN auction a ON p.id = a.seller "
    "AND time_bucket(INTERVAL 10 SECOND, p.dateTime) = time_bucket(INTERVAL 10 SECOND, a.dateTime)",
    "q9": "SELECT a.*, b.auction, b.bidder, b.price, b.dateTime, b.extra "
    f"FROM {_IN_TIME} QUALIFY row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.dateTime) = 1",
    "q10": f"SELECT auction, bidder, price, dateTime, extra, {_DAY}, strftime(dateTime, '%H:%M') FROM bid",
    "q11": "SELECT bidder, count(*), min(dateTime), max(dateTime) + INTERVAL 10 SECOND FROM "
    "(SELECT bidder, dateTime, sum(fresh) OVER (PARTITION BY bidder ORDER BY dateTime) AS session FROM "
    "(SELECT bidder, dateTime, CAST(dateTime - lag(dateTime) OVER (PARTITION BY bidder ORDER BY dateTime) > INTERVAL 10 SECOND AS INT) AS fresh "
    "FROM bid)) GROUP BY bidder, coalesce(session, 0)",
    "q12": "SELECT bidder, count(*) FROM bid GROUP BY bidder",
    "q13": "SELECT auction, bidder, price, dateTime, value FROM bid JOIN side_input ON auction % 10000 = key",
    "q14": "SELECT auction, bidder, CAST(price AS DECIMAL(19)) * 0.908, CASE WHEN hour(dateTime) BETWEEN 8 AND 18 THEN 'dayTime' "
    "WHEN hour(dateTime) <= 6 OR hour(dateTime) >= 20 THEN 'nightTime' ELSE 'otherTime' END, dateTime, extra, "
    "len(extra) - len(replace(extra, 'c', '')) FROM bid WHERE price * 908 > 1000000000 AND price * 908 < 50000000000",
    "q15": _counted(_DAY),
    "q16": _counted(f"channel, {_DAY}", "max(strftime(dateTime, '%H:%M')),"),
    "q17": f"SELECT auction, {_DAY}, count(*), count(*) FILTER (price < 10000), count(*) FILTER (price >= 10000 AND price < 1000000), "
    "count(*) FILTER (price >= 1000000), min(price), max(price), CAST(sum(price) // count(*) AS BIGINT), CAST(sum(price) AS BIGINT) "
    f"FROM bid GROUP BY auction, {_DAY}",
    "q18": "SELECT * FROM bid QUALIFY row_number() OVER (PARTITION BY bidder, auction ORDER BY dateTime DESC) = 1",
    "q19": "SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC) AS number FROM bid QUALIFY number <= 10",
    "q20": "SELECT b.*, itemName, description, initialBid, reserve, a.dateTime, expires, seller, category, a.extra "
    "FROM bid b JOIN auction a ON b.auction = a.id WHERE a.category = 10",
    "q21": "SELECT auction, bidder, price, channel, CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' "
    f"WHEN 'baidu' THEN '3' ELSE {_CHANNEL_ID} END AS id FROM bid WHERE id IS NOT NULL",
    "q22": "SELECT auction, bidder, price, channel, split_part(url, '/', 4), split_part(url, '/', 5), split_part(url, '/', 6) FROM bid",
    "q23": "SELECT bidder, price, channel, url, b.extra, p.id, name, emailAddress, creditCard, city, state, p.extra, itemName, description, "
    "initialBid, reserve, a.dateTime, expires, seller, category, a.extra "
    "FROM bid b JOIN person p ON p.id = b.bidder JOIN auction a ON a.seller = b.bidder",
}


def answers(count: int) -> duckdb.DuckDBPyConnection:
    """A database with the first events, for ``rows_of_answer``."""
    database = duckdb.connect()
    database.execute("SET threads = 1")
    events = make_events(np.arange(count), count)
    for kind, fields in KINDS.items():
        structs = pc.filter(events[kind], pc.is_valid(events[kind]))
        columns = {name: structs.field(index) for index, name in enumerate(fields)}
        database.register(f"{kind}_events", pa.table(columns))
        database.execute(f"CREATE TABLE {kind} AS SELECT * FROM {kind}_events")
    database.register("side_rows", pa.table({"key": list(SIDE_INPUT), "value": list(SIDE_INPUT.values())}))
    database.execute("CREATE TABLE side_input AS SELECT * FROM side_rows")
    return database


def found_rows(name: str, directory: Path, types: Row) -> Counter[Row]:
    """What a query has written, as ``rows_of_answer`` has it. ``types``: a row of the answer."""
    match name:
        case "q9":
            return best_written(directory, types)
        case "q10":
            return written_in_partitions(directory, types)
        case "q12":
            return totals_of_windows(directory)
        case _:
            return written(directory, types)


def rows_of_answer(database: duckdb.DuckDBPyConnection, name: str) -> Counter[Row]:
    return Counter(database.execute(ANSWERS[name]).fetchall())


def written(directory: Path, types: Row) -> Counter[Row]:
    """The rows that are left of the changes in ``debezium-json`` below a directory. ``types``: a row with values of the types that they are to have.
    Raises ``AssertionError`` where a row goes that was not there."""
    rows: Counter[Row] = Counter()
    for path in _files(directory):
        for line in path.read_text().splitlines():
            change = json.loads(line, parse_float=Decimal)
            if change["op"] == "c":
                rows[_typed(list(change["after"].values()), types)] += 1
            else:
                assert change["op"] == "d", line
                rows[_typed(list(change["before"].values()), types)] -= 1
    gone = [row for row, count in rows.items() if count < 0]
    assert not gone, f"{len(gone)} rows went that had not come: {gone[:5]}"
    return +rows


def written_in_partitions(directory: Path, types: Row) -> Counter[Row]:
    """The rows of a table of CSV in partitions."""
    rows: Counter[Row] = Counter()
    for path in _files(directory):
        keys = [unquote(part.partition("=")[2]) for part in path.relative_to(directory).parts[:-1]]
        for cells in csv.reader(path.read_text().splitlines()):
            rows[_typed([*cells, *keys], types)] += 1
    return rows


def best_written(directory: Path, types: Row) -> Counter[Row]:
    """The rows of q9: of each auction the best one of those that followed each other. Flink 2.3 plans it without rows that go. None may come twice."""
    seen = written(directory, types)
    assert max(seen.values()) == 1
    best: dict[Value, Row] = {}
    for row in sorted(seen, key=_price_and_time):
        best[row[0]] = row
    return Counter(best.values())


def _price_and_time(row: Row) -> tuple[int, float]:
    """The order of q9, the best one last."""
    price, time = row[12:14]
    assert isinstance(price, int)
    assert isinstance(time, datetime)
    return price, -time.timestamp()


def totals_of_windows(place: Path) -> Counter[Row]:
    """The rows of q12 as rows of its answer: each bidder with its bids in all windows, of which none may come twice."""
    of_bidder: Counter[int] = Counter()
    seen = written(place, (1, 1, _SOME_TIME, _SOME_TIME))
    assert set(Counter((bidder, start) for bidder, _, start, _ in seen.elements()).values()) <= {1}
    for bidder, bids, start, end in seen:
        assert isinstance(bidder, int)
        assert isinstance(bids, int)
        assert isinstance(start, datetime)
        assert isinstance(end, datetime)
        assert (start.second % 10, start.microsecond, (end - start).total_seconds()) == (0, 0, 10)
        of_bidder[bidder] += bids
    return Counter(of_bidder.items())


def _files(directory: Path) -> Iterator[Path]:
    return (path for path in directory.rglob("part-*") if path.is_file())


def _typed(values: list[str | int | Decimal | None], types: Row) -> Row:
    assert len(values) == len(types)
    typed: list[Value] = []
    for value, type in zip(values, types, strict=True):
        if value is None:
            typed.append(None)
        elif isinstance(type, datetime):
            typed.append(datetime.fromisoformat(str(value)))
        elif isinstance(type, (Decimal, int)):
            typed.append(Decimal(value) if isinstance(type, Decimal) else int(value))
        else:
            typed.append(str(value))
    return tuple(typed)
