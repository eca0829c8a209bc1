"""Nexmark's events as Parquet files: of every 50 events one is a person, three are auctions, 46 are bids.

Event n is a function of n alone. Ratios, hot items and price distribution are those of Nexmark's generator
(``com.github.nexmark.flink.generator``) at 10,000 events a second of event time; its random numbers are not. Texts are picked from 1,024 ones
of 64 characters, bids of other channels than the four hot ones have the channel's number in their address.

    n = 50 * epoch + offset      offset 0: person epoch · 1 to 3: auctions 3 * epoch ... · 4 to 49: bids 46 * epoch ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

EPOCH_EVENTS = 50
AUCTIONS, BIDS = 3, 46
"""In each epoch; and one person."""
BASE_MS = 1_436_918_400_000
"""2015-07-15, as Nexmark begins."""
EVENTS_PER_SECOND = 10_000
"""Of event time."""
FIRST_ID = 1000
FIRST_CATEGORY, CATEGORIES = 10, 5
HOT_GROUP = 100
IN_FLIGHT_AUCTIONS = 100
ACTIVE_PEOPLE = 1000
_WRITTEN_TOGETHER = 500_000

Ints = npt.NDArray[np.int64]

_STATES = pa.array(["AZ", "CA", "ID", "OR", "WA", "WY"])
_CITIES = pa.array(
    ["Phoenix", "Palo Alto", "San Mateo", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent", "Cheyenne"]
)
_FIRST = ["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"]
_LAST = ["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"]
_NAMES = pa.array([f"{first} {last}" for first in _FIRST for last in _LAST])


def _words(count: int, length: int, seed: int) -> pa.Array:
    letters = np.random.default_rng(seed).integers(97, 123, (count, length), dtype=np.uint8)
    return pa.array([row.tobytes().decode() for row in letters])


_EXTRAS = _words(1024, 64, 1)
_CARDS = pa.array(
    [" ".join(f"{n * m % 10_000:04}" for m in (7919, 104_729, 1_299_709, 15_485_863)) for n in range(1024)]
)
_HOT_CHANNELS = ["Google", "Facebook", "Baidu", "Apple"]
_COLD_CHANNELS = 1000
_CHANNELS = pa.array(_HOT_CHANNELS + [f"channel-{number}" for number in range(_COLD_CHANNELS)])
_URLS = pa.array(
    [
        f"https://www.nexmark.com/{path[:5]}/{path[5:8]}/{path[8:12]}/item.htm?query=1"
        + (f"&channel_id={number * 7919}" if number >= len(_HOT_CHANNELS) and number % 10 else "")
        for number, path in enumerate(_words(len(_CHANNELS), 12, 2).to_pylist())
    ]
)
"""Of each channel."""


@dataclass(frozen=True)
class Numbers:
    """Of events of one kind: ``index`` among their kind, ``epoch``, and ``n`` among all events."""

    index: Ints
    epoch: Ints
    n: Ints


Column = Callable[[Numbers], Any]


def _pick(words: pa.Array, salt: int) -> Column:
    return lambda at: words.take(pa.array(_below(at.n, salt, len(words))))


def _id(at: Numbers) -> Ints:
    return at.index + FIRST_ID


def _date_time(at: Numbers) -> pa.Array:
    return pa.array(_time_ms(at.n), pa.timestamp("ms"))


def _expires(at: Numbers) -> pa.Array:
    horizon_ms = max(1, int(IN_FLIGHT_AUCTIONS * EPOCH_EVENTS / AUCTIONS * 1000 / EVENTS_PER_SECOND))
    return pa.array(_time_ms(at.n) + 1 + _below(at.n, 5, 2 * horizon_ms), pa.timestamp("ms"))


def _channel_number(at: Numbers) -> pa.Array:
    is_hot = _below(at.n, 7, 2) == 0
    cold = len(_HOT_CHANNELS) + _below(at.n, 9, _COLD_CHANNELS)
    return pa.array(np.where(is_hot, _below(at.n, 8, len(_HOT_CHANNELS)), cold))


PERSON: Mapping[str, Column] = {
    "id": _id,
    "name": _pick(_NAMES, 1),
    "emailAddress": _pick(_EXTRAS, 2),
    "creditCard": _pick(_CARDS, 5),
    "city": _pick(_CITIES, 3),
    "state": _pick(_STATES, 4),
    "dateTime": _date_time,
    "extra": _pick(_EXTRAS, 6),
}
AUCTION: Mapping[str, Column] = {
    "id": _id,
    "itemName": _pick(_EXTRAS, 1),
    "description": _pick(_EXTRAS, 2),
    "initialBid": lambda at: _price(at.n, 3),
    "reserve": lambda at: _price(at.n, 3) + _price(at.n, 4),
    "dateTime": _date_time,
    "expires": _expires,
    "seller": lambda at: _hot_or_recent(at.n, 6, at.epoch, 4, ACTIVE_PEOPLE) + FIRST_ID,
    "category": lambda at: _below(at.n, 9, CATEGORIES) + FIRST_CATEGORY,
    "extra": _pick(_EXTRAS, 10),
}
"""Three of four sellers are the hot one of their hundred."""
BID: Mapping[str, Column] = {
    "auction": lambda at: _hot_or_recent(at.n, 1, AUCTIONS * at.epoch + AUCTIONS - 1, 2, IN_FLIGHT_AUCTIONS) + FIRST_ID,
    "bidder": lambda at: _hot_or_recent(at.n, 4, at.epoch, 4, ACTIVE_PEOPLE) + FIRST_ID,
    "price": lambda at: _price(at.n, 10),
    "channel": lambda at: _CHANNELS.take(_channel_number(at)),
    "url": lambda at: _URLS.take(_channel_number(at)),
    "dateTime": _date_time,
    "extra": _pick(_EXTRAS, 12),
}
"""Half of the bids are on the hot auction of their hundred."""

KINDS: Mapping[str, tuple[Mapping[str, Column], int, int]] = {
    "person": (PERSON, 1, 0),
    "auction": (AUCTION, AUCTIONS, 1),
    "bid": (BID, BIDS, 1 + AUCTIONS),
}
"""The columns of each kind, how many of them are in an epoch, and the offset of the first."""


def of_kind(kind: str, index: Ints) -> dict[str, Any]:
    """The columns of events by their numbers among their kind."""
    columns, share, offset = KINDS[kind]
    epoch = index // share
    at = Numbers(index, epoch, epoch * EPOCH_EVENTS + offset + index % share)
    return {name: make(at) for name, make in columns.items()}


def table(numbers: Ints) -> pa.Table:
    """Events by their numbers among all, in that order: ``event_type`` (0: a person, 1: an auction, 2: a bid), ``dateTime``, and the columns of each
    kind with its initial in front of the name (``b_price``), which are null in events of other kinds."""
    parts = []
    for place, (kind, (_, share, offset)) in enumerate(KINDS.items()):
        within = numbers % EPOCH_EVENTS - offset
        is_one = (within >= 0) & (within < share)
        columns = of_kind(kind, numbers[is_one] // EPOCH_EVENTS * share + within[is_one])
        named = {"dateTime" if name == "dateTime" else f"{kind[0]}_{name}": made for name, made in columns.items()}
        kinds = np.full(int(is_one.sum()), place, np.int32)
        parts.append(pa.table({"number": numbers[is_one], "event_type": kinds, **named}))
    united = pa.concat_tables(parts, promote_options="default").sort_by("number")
    return united.drop_columns("number").combine_chunks()


def write(directory: Path, events: int, files: int) -> None:
    """Writes the first ``events`` to Parquet files of one row group each, epoch by epoch to one file after the other: each file is the split of one
    subtask of a source, and event time goes on in all of them alike."""
    directory.mkdir(parents=True)
    for file in range(files):
        parts = []
        for first in range(0, events, _WRITTEN_TOGETHER):
            numbers = np.arange(first, min(first + _WRITTEN_TOGETHER, events))
            parts.append(table(numbers[numbers // EPOCH_EVENTS % files == file]))
        whole = pa.concat_tables(parts)
        pq.write_table(whole, directory / f"{file}.parquet", row_group_size=max(1, len(whole)))


def write_pieces(directory: Path, events: int, rows: int) -> None:
    """Writes the same events, one after the other, to files of so many, for micro-batches."""
    directory.mkdir(parents=True)
    for number, first in enumerate(range(0, events, rows)):
        pq.write_table(table(np.arange(first, min(first + rows, events))), directory / f"{number:05}.parquet")


def _time_ms(n: Ints) -> Ints:
    return BASE_MS + n * 1000 // EVENTS_PER_SECOND


def _random(n: Ints, salt: int) -> npt.NDArray[np.uint64]:
    """SplitMix64 of the event's number and of what is asked for."""
    with np.errstate(over="ignore"):
        z = n.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(salt) * np.uint64(0xD1B54A32D192ED03)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def _below(n: Ints, salt: int, bound: Any) -> Ints:
    return np.asarray(_random(n, salt) % np.asarray(bound, np.uint64)).astype(np.int64)


def _price(n: Ints, salt: int) -> Ints:
    """From 100 to 100 million, evenly on a logarithmic scale."""
    unit = _random(n, salt) / float(2**64)
    return np.round(10.0 ** (unit * 6) * 100).astype(np.int64)


def _hot_or_recent(n: Ints, salt: int, last: Ints, ratio: int, recent: int) -> Ints:
    """The first of the last one's hundred, but one time in ``ratio`` any of the last ``recent`` ones."""
    is_hot = _below(n, salt, ratio) > 0
    oldest = np.maximum(0, last - recent + 1)
    any_recent = oldest + _below(n, salt + 1, last - oldest + 1)
    return np.where(is_hot, last // HOT_GROUP * HOT_GROUP, any_recent)
