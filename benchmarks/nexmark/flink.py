"""Nexmark's queries as Flink SQL: statements for views of the events, and a SELECT for each query, after the SQL of
github.com/nexmark/nexmark, with the result columns of ``queries``. What it keeps updating is told as a changelog.

Events are made in Flink by functions in Java (``rivals/NexmarkEvents.java``), a function for each column, so that only columns are
made that a query reads. Events are those of ``events.py``, dealt to subtasks the same way.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from benchmarks.nexmark import events

SOURCE = Path(__file__).resolve().parent.parent / "rivals" / "NexmarkEvents.java"
_FUNCTIONS = {
    "dealt": "Dealt",
    "event_time": "EventTime",
    "bid_auction": "BidAuction",
    "bid_bidder": "BidBidder",
    "bid_price": "BidPrice",
    "bid_channel": "BidChannel",
    "bid_url": "BidUrl",
    "bid_extra": "BidExtra",
    "auction_expires": "AuctionExpires",
    "auction_seller": "AuctionSeller",
    "auction_category": "AuctionCategory",
    "person_word": "PersonWord",
    "count_char": "CountChar",
}
_VIEWS = {
    "persons": "n + 1000 AS id, person_word(n, 1) AS name, person_word(n, 3) AS city, person_word(n, 4) AS state",
    "auctions": "n + 1000 AS id, auction_seller(n) AS seller, auction_category(n) AS category, "
    "CAST(TO_TIMESTAMP_LTZ(auction_expires(n), 3) AS TIMESTAMP(3)) AS expires",
    "bids": "bid_auction(n) AS auction, bid_bidder(n) AS bidder, bid_price(n) AS price, bid_channel(n) AS channel, "
    "bid_url(n) AS url, bid_extra(n) AS extra, PROCTIME() AS proc_time",
}
SETTINGS = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "50000",
    "table.optimizer.distinct-agg.split.enabled": "true",
}
"""Nexmark's own settings of Flink."""


def numbers(kind: str, epochs: int, parallelism: int) -> tuple[str, str, str, int]:
    """How the session makes the stream of row numbers of a kind: name of the view, an expression for the event's number and one
    for its time in ms, and how many rows there are."""
    _, share, offset = events.KINDS[kind]
    total = epochs * share
    number = f"dealt(f0, {total}, {parallelism})"
    return f"{kind}_numbers", number, f"event_time({number}, {share}, {offset})", total


def setup(jar: Path) -> tuple[list[str], list[str]]:
    """Statements in front of the streams of numbers, and behind them."""
    made = [
        f"CREATE TEMPORARY SYSTEM FUNCTION {name} AS 'NexmarkEvents${kind}' LANGUAGE JAVA USING JAR '{jar}'"
        for name, kind in _FUNCTIONS.items()
    ]
    views = [
        f"CREATE TEMPORARY VIEW {kind} AS SELECT {columns}, `dateTime` FROM {kind}_numbers"
        for kind, columns in _VIEWS.items()
    ]
    return made, views


def build_jar(flink_home: Path, directory: Path) -> Path:
    """The functions and the words that they pick from. Raises ``CalledProcessError``."""
    for name, words in events.WORDS.items():
        (directory / f"{name}.txt").write_text("\n".join(words.to_pylist()) + "\n")
    path = ":".join(str(jar) for jar in sorted((flink_home / "lib").glob("flink-*.jar")))
    subprocess.run(["javac", "-nowarn", "-cp", path, "-d", str(directory), str(SOURCE)], check=True, timeout=120)
    jar = directory / "nexmark.jar"
    subprocess.run(["jar", "cf", str(jar), "-C", str(directory), "."], check=True, timeout=60)
    return jar


def _sessions(kind: str) -> str:
    return f"""SELECT bidder, COUNT(*) AS bids, window_start AS `start`, window_end AS `end` FROM TABLE({kind})
               GROUP BY bidder, window_start, window_end"""


def _statistics(keys: str) -> str:
    ranks = {"all": "price >= 0", "rank1": "price < 10000", "rank2": "price >= 10000 AND price < 1000000"}
    ranks["rank3"] = "price >= 1000000"
    columns = [f"COUNT(*) FILTER (WHERE {test}) AS bids_{rank}" for rank, test in ranks.items()]
    for who in ("bidder", "auction"):
        columns += [f"COUNT(DISTINCT {who}) FILTER (WHERE {test}) AS {who}s_{rank}" for rank, test in ranks.items()]
    day = "DATE_FORMAT(`dateTime`, 'yyyy-MM-dd')"
    return (
        f"SELECT {day} AS `day`, {keys} {', '.join(columns)}, MAX(`dateTime`) AS `last` FROM bids GROUP BY {keys} {day}"
    )


_COUNTED = """SELECT auction, COUNT(*) AS num, window_start, window_end
              FROM TABLE(HOP(TABLE bids, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
              GROUP BY auction, window_start, window_end"""

SQL: Mapping[str, str] = {
    "q0": "SELECT auction, bidder, price, `dateTime`, extra FROM bids",
    "q1": "SELECT auction, bidder, 0.908 * price AS price, `dateTime`, extra FROM bids",
    "q2": "SELECT auction, price FROM bids WHERE MOD(auction, 123) = 0",
    "q3": """SELECT p.name, p.city, p.state, a.id FROM auctions a JOIN persons p ON a.seller = p.id
             WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')""",
    "q4": """SELECT category, COUNT(*) AS auctions, SUM(`final`) AS total FROM (
               SELECT a.id, a.category, MAX(b.price) AS `final` FROM auctions a JOIN bids b ON a.id = b.auction
               WHERE b.`dateTime` BETWEEN a.`dateTime` AND a.expires GROUP BY a.id, a.category) GROUP BY category""",
    "q5": f"""SELECT c.auction, c.num, c.window_end FROM ({_COUNTED}) c JOIN (
                SELECT MAX(num) AS most, window_start, window_end FROM ({_COUNTED}) GROUP BY window_start, window_end) m
              ON c.window_start = m.window_start AND c.window_end = m.window_end AND c.num >= m.most""",
    "q7": """SELECT b.auction, b.price, b.bidder, b.`dateTime` FROM bids b JOIN (
               SELECT MAX(price) AS price, window_end AS ends
               FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND)) GROUP BY window_start, window_end) m
             ON b.price = m.price WHERE b.`dateTime` >= m.ends - INTERVAL '10' SECOND AND b.`dateTime` < m.ends""",
    "q8": """SELECT p.id, p.name, p.window_start FROM (
               SELECT id, name, window_start, window_end
               FROM TABLE(TUMBLE(TABLE persons, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND)) GROUP BY id, name, window_start, window_end) p
             JOIN (SELECT seller, window_start, window_end
               FROM TABLE(TUMBLE(TABLE auctions, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND)) GROUP BY seller, window_start, window_end) a
             ON p.id = a.seller AND p.window_start = a.window_start AND p.window_end = a.window_end""",
    "q11": _sessions("SESSION(TABLE bids PARTITION BY bidder, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND)"),
    "q12": _sessions("TUMBLE(TABLE bids, DESCRIPTOR(proc_time), INTERVAL '10' SECOND)"),
    "q14": """SELECT auction, bidder, 0.908 * price AS price,
                CASE WHEN HOUR(`dateTime`) >= 8 AND HOUR(`dateTime`) <= 18 THEN 'dayTime'
                     WHEN HOUR(`dateTime`) <= 6 OR HOUR(`dateTime`) >= 20 THEN 'nightTime' ELSE 'otherTime' END AS bidTimeType,
                `dateTime`, extra, count_char(extra, 'c') AS c_counts
              FROM bids WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000""",
    "q15": _statistics(""),
    "q16": _statistics("channel,"),
    "q17": """SELECT auction, DATE_FORMAT(`dateTime`, 'yyyy-MM-dd') AS `day`, COUNT(*) AS total_bid,
                COUNT(*) FILTER (WHERE price < 10000) AS rank1_bids,
                COUNT(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
                COUNT(*) FILTER (WHERE price >= 1000000) AS rank3_bids,
                MIN(price) AS min_price, MAX(price) AS max_price, AVG(price) AS avg_price, SUM(price) AS sum_price
              FROM bids GROUP BY auction, DATE_FORMAT(`dateTime`, 'yyyy-MM-dd')""",
    "q22": """SELECT auction, bidder, price, channel, SPLIT_INDEX(url, '/', 3) AS dir1, SPLIT_INDEX(url, '/', 4) AS dir2,
                SPLIT_INDEX(url, '/', 5) AS dir3 FROM bids""",
}
