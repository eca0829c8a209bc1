"""Nexmark's queries in SQL as a job over events that it makes itself. Each query writes its changes below a directory.

The statements are our own; ``unit/tidegate/table/_execution/test_nexmark_plans.py`` compares their plans with those that Flink made of the official ones.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.common import WatermarkStrategy
from tidegate.connectors.number_sequence import DataGeneratorSource
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.table import DataTypes, Schema, StatementSet, StreamTableEnvironment, TableEnvironment
from tidegate.table.udf import udf

BASE_MS = 1_437_004_680_000
"""Two minutes before a day is over."""
STEP_MS = 30
"""From an event to the next one, in event time."""
EPOCH = 50
"""Events of an epoch: one is a person, three are auctions and the others are bids."""
PERSON, AUCTION, BID, NONE = range(4)

Ints = npt.NDArray[np.int64]
_CHANNELS = np.array(["Google", "Facebook", "baidu", "Apple", "channel-1", "channel-22", "channel-333"])
_STATES = np.array(["AZ", "CA", "ID", "OR", "WA", "WY"])
_WORDS = np.array(["accuracy", "bid", "cc", "delta", "succinct"])
_FLOORS = np.array([100, 10_000, 5_000_000, 60_000_000])
"""The least prices of four ranges."""
_TIME, _TEXT, _NUMBER = pa.timestamp("ms"), pa.string(), pa.int64()
KINDS = {
    "person": {
        "id": _NUMBER,
        "name": _TEXT,
        "emailAddress": _TEXT,
        "creditCard": _TEXT,
        "city": _TEXT,
        "state": _TEXT,
        "dateTime": _TIME,
        "extra": _TEXT,
    },
    "auction": {
        "id": _NUMBER,
        "itemName": _TEXT,
        "description": _TEXT,
        "initialBid": _NUMBER,
        "reserve": _NUMBER,
        "dateTime": _TIME,
        "expires": _TIME,
        "seller": _NUMBER,
        "category": _NUMBER,
        "extra": _TEXT,
    },
    "bid": {
        "auction": _NUMBER,
        "bidder": _NUMBER,
        "price": _NUMBER,
        "channel": _TEXT,
        "url": _TEXT,
        "dateTime": _TIME,
        "extra": _TEXT,
    },
}
SCHEMA = pa.schema([("event_type", pa.int32())] + [(kind, pa.struct(fields)) for kind, fields in KINDS.items()])


def _mixed(numbers: Ints, salt: int) -> Ints:
    """Numbers that look like chance, below 2**31."""
    mixed = (numbers.astype(np.uint64) + np.uint64(salt * 0x9E3779B9)) * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0x94D049BB133111EB)
    return (mixed >> np.uint64(33)).astype(np.int64)


def _texts(start: str, numbers: Ints, end: str = "") -> list[str]:
    return [f"{start}{number}{end}" for number in numbers.tolist()]


def _picked(words: npt.NDArray[np.str_], numbers: Ints) -> list[str]:
    return [str(word) for word in words[numbers % len(words)]]


def _recent(epochs: Ints, each: int, back: int, chance: Ints) -> Ints:
    """Returns one of the last things of a kind of which each epoch makes some."""
    return epochs * each - chance % np.minimum(back, epochs * each + 1) + 1000


def make_events(numbers: Ints, count: int) -> pa.RecordBatch:
    """The events with these numbers. Behind ``count`` they are of no kind that a query reads, but have times."""
    epochs, places = numbers // EPOCH, numbers % EPOCH
    kinds = np.where(places == 0, PERSON, np.where(places < 4, AUCTION, BID))
    kinds = np.where(numbers < count, kinds, NONE)
    ms = BASE_MS + numbers * STEP_MS
    times = pa.array(ms.astype("datetime64[ms]"))
    extra = [
        f"{word}-{number}" for word, number in zip(_picked(_WORDS, _mixed(numbers, 1)), numbers.tolist(), strict=True)
    ]
    people = epochs + 1000
    auctions = epochs * 3 + places - 1 + 1000
    bids = epochs * 46 + places - 4
    channels = _picked(_CHANNELS, _mixed(numbers, 2))
    with_id = _mixed(numbers, 3) % 3 > 0
    urls = [
        f"https://www.nexmark.com/{channel}/item/{number % 97}/item.htm?query=1"
        + (f"&channel_id={number % 1009}" if id else "")
        for channel, number, id in zip(channels, numbers.tolist(), with_id.tolist(), strict=True)
    ]
    columns: dict[str, Sequence[object]] = {
        "person": [
            people,
            _texts("name ", people % 71),
            _texts("p", people, "@example.org"),
            _texts("4000 ", people),
            _texts("city ", people % 13),
            _picked(_STATES, _mixed(people, 4)),
            times,
            extra,
        ],
        "auction": [
            auctions,
            _texts("item ", auctions % 101),
            _texts("about ", auctions),
            _mixed(auctions, 5) % 1000,
            _mixed(auctions, 6) % 10_000,
            times,
            pa.array((ms + 4_000 + _mixed(auctions, 7) % 30_000).astype("datetime64[ms]")),
            _recent(epochs, 1, 40, _mixed(auctions, 8)),
            10 + _mixed(auctions, 9) % 5,
            extra,
        ],
        "bid": [
            _recent(epochs, 3, 60, _mixed(numbers, 10)),
            _recent(epochs, 1, 30, _mixed(numbers // 7, 11)),
            _FLOORS[_mixed(numbers, 12) % 4] + bids * 7919 % 9887,  # each price of an auction is there once
            channels,
            urls,
            times,
            extra,
        ],
    }
    structs: list[pa.Array] = [pa.array(kinds, pa.int32())]
    for index, (kind, fields) in enumerate(KINDS.items()):
        arrays = [pa.array(values, type) for values, type in zip(columns[kind], fields.values(), strict=True)]
        missing = kinds != index if index != BID else kinds < BID
        structs.append(pa.StructArray.from_arrays(arrays, fields=list(SCHEMA.field(kind).type), mask=pa.array(missing)))
    return pa.RecordBatch.from_arrays(structs, schema=SCHEMA)


class Events:
    """Events of two sources in turn, so that event time goes on in both alike."""

    def __init__(self, rows: int, count: int) -> None:
        self._half, self._count = rows // 2, count

    def __call__(self, first: int, count: int) -> pa.RecordBatch:
        row = np.arange(first, first + count)
        return make_events(row % self._half * 2 + row // self._half, self._count)


_HOPPING = (
    "SELECT auction, COUNT(*) AS num, window_start AS ws, window_end AS we "
    "FROM TABLE(HOP(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND, INTERVAL '10' SECOND)) "
    "GROUP BY auction, window_start, window_end"
)


def _tumbling(kind: str, columns: str) -> str:
    return (
        f"SELECT {columns}, window_start AS ws, window_end AS we "
        f"FROM TABLE(TUMBLE(TABLE {kind}, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND)) GROUP BY {columns}, window_start, window_end"
    )


def _ranked(what: str, name: str) -> str:
    ranges = ("", "price < 10000", "price >= 10000 AND price < 1000000", "price >= 1000000")
    return ", ".join(
        f"COUNT({what}) {f'FILTER (WHERE {condition})' if condition else ''} AS {name}_{number}"
        for number, condition in enumerate(ranges)
    )


_DAY = "DATE_FORMAT(`dateTime`, 'yyyy-MM-dd')"
_OF_A_DAY = ", ".join(
    _ranked(what, name)
    for what, name in (("*", "bids"), ("DISTINCT bidder", "bidders"), ("DISTINCT auction", "auctions"))
)
_WHILE_OPEN = "auction AS a, bid AS b WHERE a.id = b.auction AND b.`dateTime` BETWEEN a.`dateTime` AND a.expires"
_CHANNEL_ID = "REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2)"
_HOUR = "HOUR(`dateTime`)"
QUERIES = {
    "q0": "SELECT auction, bidder, price, `dateTime`, extra FROM bid",
    "q1": "SELECT auction, bidder, 0.908 * price AS euros, `dateTime`, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0",
    "q3": "SELECT p.name, p.city, p.state, a.id FROM auction AS a JOIN person AS p ON a.seller = p.id "
    "WHERE a.category = 10 AND (p.state = 'OR' OR p.state = 'ID' OR p.state = 'CA')",
    "q4": "SELECT category, AVG(most) AS average FROM "
    f"(SELECT a.category, MAX(b.price) AS most FROM {_WHILE_OPEN} GROUP BY a.id, a.category) GROUP BY category",
    "q5": f"SELECT counted.auction, counted.num FROM ({_HOPPING}) AS counted JOIN "
    f"(SELECT MAX(num) AS most, ws, we FROM ({_HOPPING}) GROUP BY ws, we) AS best "
    "ON counted.ws = best.ws AND counted.we = best.we AND counted.num >= best.most",
    "q7": "SELECT b.auction, b.price, b.bidder, b.`dateTime`, b.extra FROM bid AS b JOIN "
    "(SELECT MAX(price) AS most, window_end AS we FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND)) "
    "GROUP BY window_start, window_end) AS best ON b.price = best.most "
    "WHERE b.`dateTime` BETWEEN best.we - INTERVAL '10' SECOND AND best.we",
    "q8": f"SELECT p.id, p.name, p.ws FROM ({_tumbling('person', 'id, name')}) AS p "
    f"JOIN ({_tumbling('auction', 'seller')}) AS a ON p.id = a.seller AND p.ws = a.ws AND p.we = a.we",
    "q9": "SELECT id, itemName, description, initialBid, reserve, `dateTime`, expires, seller, category, extra, auction, bidder, price, since, more "
    "FROM (SELECT a.*, b.auction, b.bidder, b.price, b.`dateTime` AS since, b.extra AS more, "
    f"ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.`dateTime` ASC) AS place FROM {_WHILE_OPEN}) WHERE place <= 1",
    "q10": f"SELECT auction, bidder, price, `dateTime`, extra, {_DAY} AS dt, DATE_FORMAT(`dateTime`, 'HH:mm') AS hm FROM bid",
    "q11": "SELECT bidder, COUNT(*) AS bids, SESSION_START(`dateTime`, INTERVAL '10' SECOND) AS ws, SESSION_END(`dateTime`, INTERVAL '10' SECOND) AS we "
    "FROM bid GROUP BY bidder, SESSION(`dateTime`, INTERVAL '10' SECOND)",
    "q12": "SELECT bidder, COUNT(*) AS bids, window_start AS ws, window_end AS we "
    "FROM TABLE(TUMBLE(TABLE timed, DESCRIPTOR(clock), INTERVAL '10' SECOND)) GROUP BY bidder, window_start, window_end",
    "q13": "SELECT b.auction, b.bidder, b.price, b.`dateTime`, s.`value` FROM timed AS b "
    "JOIN side_input FOR SYSTEM_TIME AS OF b.clock AS s ON MOD(b.auction, 10000) = s.key",
    "q14": f"SELECT auction, bidder, 0.908 * price AS euros, CASE WHEN {_HOUR} >= 8 AND {_HOUR} <= 18 THEN 'dayTime' "
    f"WHEN {_HOUR} <= 6 OR {_HOUR} >= 20 THEN 'nightTime' ELSE 'otherTime' END AS part, `dateTime`, extra, "
    "count_char(extra, 'c') AS cs FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000",
    "q15": f"SELECT {_DAY} AS dt, {_OF_A_DAY} FROM bid GROUP BY {_DAY}",
    "q16": f"SELECT channel, {_DAY} AS dt, MAX(DATE_FORMAT(`dateTime`, 'HH:mm')) AS hm, {_OF_A_DAY} FROM bid GROUP BY channel, {_DAY}",
    "q17": f"SELECT auction, {_DAY} AS dt, {_ranked('*', 'bids')}, MIN(price) AS least, MAX(price) AS most, AVG(price) AS average, "
    f"SUM(price) AS total FROM bid GROUP BY auction, {_DAY}",
    "q18": "SELECT auction, bidder, price, channel, url, `dateTime`, extra FROM "
    "(SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY `dateTime` DESC) AS place FROM bid) WHERE place <= 1",
    "q19": "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS place FROM bid) WHERE place <= 10",
    "q20": "SELECT auction, bidder, price, channel, url, b.`dateTime`, b.extra, itemName, description, initialBid, reserve, "
    "a.`dateTime` AS since, expires, seller, category, a.extra AS more FROM bid AS b JOIN auction AS a ON b.auction = a.id WHERE a.category = 10",
    "q21": "SELECT auction, bidder, price, channel, CASE WHEN LOWER(channel) = 'apple' THEN '0' WHEN LOWER(channel) = 'google' THEN '1' "
    f"WHEN LOWER(channel) = 'facebook' THEN '2' WHEN LOWER(channel) = 'baidu' THEN '3' ELSE {_CHANNEL_ID} END AS channel_id "
    f"FROM bid WHERE {_CHANNEL_ID} IS NOT NULL OR LOWER(channel) IN ('apple', 'google', 'facebook', 'baidu')",
    "q22": "SELECT auction, bidder, price, channel, "
    + ", ".join(f"SPLIT_INDEX(url, '/', {number}) AS dir{number - 2}" for number in (3, 4, 5))
    + " FROM bid",
    "q23": "SELECT bidder, price, channel, url, b.extra, p.id, name, emailAddress, creditCard, city, state, p.extra AS about, itemName, description, "
    "initialBid, reserve, a.`dateTime`, expires, seller, category, a.extra AS more "
    "FROM bid AS b JOIN person AS p ON p.id = b.bidder JOIN auction AS a ON a.seller = b.bidder",
}
_TYPES = {_NUMBER: "BIGINT", _TEXT: "VARCHAR", _TIME: "TIMESTAMP(3)"}
COLUMNS = {"event_type": "INT"} | {
    kind: f"ROW<{', '.join(f'`{name}` {_TYPES[type]}' for name, type in fields.items())}>"
    for kind, fields in KINDS.items()
}
"""The columns of the table ``datagen``, beside ``dateTime``."""
TIME = "CASE WHEN event_type = 0 THEN person.`dateTime` WHEN event_type = 1 THEN auction.`dateTime` ELSE bid.`dateTime` END"
WATERMARK = "`dateTime` - INTERVAL '4' SECOND"
COMMITTED = """PARTITIONED BY (dt, hm) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'csv',
  'sink.partition-commit.trigger' = 'partition-time', 'sink.partition-commit.delay' = '1 min',
  'sink.partition-commit.policy.kind' = 'success-file', 'partition.time-extractor.timestamp-pattern' = '$dt $hm:00',
  'sink.rolling-policy.rollover-interval' = '1min', 'sink.rolling-policy.check-interval' = '1min')"""
"""The table of q10."""
SIDE_INPUT = {key: f"value {key}" for key in range(10_000) if key % 7}
"""The rows of the table that q13 looks up."""


_OFFICIAL_TYPES = {"DECIMAL(24, 3)": "DECIMAL(23, 3)", "VARCHAR(9) NOT NULL": "STRING", "VARCHAR(9)": "STRING"}
"""What columns of Nexmark's results have, where it is not what comes out of the query."""


@udf(result_type=DataTypes.BIGINT())
def count_char(text: str, character: str) -> int:
    return text.count(character)


def make_views(t_env: TableEnvironment) -> None:
    """The views that queries read, of the table ``datagen``, and their function."""
    for index, (kind, fields) in enumerate(KINDS.items()):
        columns = ", ".join("`dateTime`" if name == "dateTime" else f"{kind}.{name}" for name in fields)
        t_env.execute_sql(f"CREATE TEMPORARY VIEW {kind} AS SELECT {columns} FROM datagen WHERE event_type = {index}")
    t_env.execute_sql("CREATE TEMPORARY VIEW timed AS SELECT *, PROCTIME() AS clock FROM bid")
    t_env.create_temporary_system_function("count_char", count_char)


def make_side_input(t_env: TableEnvironment, directory: Path) -> None:
    """The table of q13, as a file. Nexmark's own has the properties of old, with which Flink 2.3 makes no table."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "rows.csv").write_text("".join(f"{key},{value}\n" for key, value in SIDE_INPUT.items()))
    t_env.execute_sql(
        "CREATE TEMPORARY TABLE side_input (key BIGINT, `value` VARCHAR) "
        f"WITH ('connector' = 'filesystem', 'path' = '{directory}', 'format' = 'csv')"
    )


def insert(t_env: TableEnvironment, name: str, place: str) -> str:
    """Makes the table of a result, and returns the statement that fills it."""
    table = t_env.sql_query(QUERIES[name])
    schema = table.get_schema()
    pairs = zip(schema.get_field_names(), schema.get_field_data_types(), strict=True)
    columns = ", ".join(f"`{column}` {_OFFICIAL_TYPES.get(str(type), type)}" for column, type in pairs)
    options = COMMITTED.format(place)
    if name != "q10":
        options = f"WITH ('connector' = 'filesystem', 'path' = '{place}', 'format' = 'debezium-json')"
    t_env.execute_sql(f"CREATE TEMPORARY TABLE nexmark_{name} ({columns}) {options}")
    return f"INSERT INTO nexmark_{name} {QUERIES[name]}"


def build(
    env: StreamExecutionEnvironment, queries: Sequence[str], count: int, rest: int, rate: float, out: str
) -> StatementSet:
    """The queries over one source of ``count`` events and ``rest`` that no query reads."""
    t_env = StreamTableEnvironment.create(env)
    source = DataGeneratorSource(Events(count + rest, count), count + rest, rate, SCHEMA)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "events")
    schema = Schema.new_builder()
    for name, type in COLUMNS.items():
        schema = schema.column(name, type)
    schema = schema.column_by_expression("dateTime", TIME).watermark("dateTime", WATERMARK)
    t_env.create_temporary_view("datagen", stream, schema.build())
    make_views(t_env)
    if "q13" in queries:
        make_side_input(t_env, Path(out) / "side_input")
    inserts = t_env.create_statement_set()
    for name in queries:
        inserts.add_insert_sql(insert(t_env, name, f"{out}/{name}"))
    return inserts


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--queries", required=True, help="names, with commas")
    parser.add_argument("--count", type=int, required=True, help="of events")
    parser.add_argument("--rest", type=int, default=0, help="of events behind them, which no query reads")
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(1_000)
    build(env, arguments.queries.split(","), arguments.count, arguments.rest, arguments.rate, arguments.out).execute()


if __name__ == "__main__":
    main()
