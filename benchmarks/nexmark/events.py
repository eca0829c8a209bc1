"""Nexmark's events, as columns: of every 50 events one is a person, three are auctions, 46 are bids.

Event n is a function of n alone, so any range of them can be made by anybody, in any order, again and again: sources split them,
and a restore makes the same ones. Ratios, hot items and price distribution are those of Nexmark's generator
(``com.github.nexmark.flink.generator``); its random numbers are not.

    n = 50 * epoch + offset      offset 0: person epoch · 1 to 3: auctions 3 * epoch ... · 4 to 49: bids 46 * epoch ...

Columns that nobody asks for are not made. ``rivals/NexmarkEvents.java`` makes the same events for Flink.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.connectors.number_sequence import DataGeneratorSource

EPOCH_EVENTS = 50
AUCTIONS, BIDS = 3, 46
"""In each epoch; and one person."""
BASE_MS = 1_436_918_400_000
"""2015-07-15, as Nexmark begins."""
FIRST_ID = 1000
FIRST_CATEGORY, CATEGORIES = 10, 5
HOT_GROUP = 100
IN_FLIGHT_AUCTIONS = 100
ACTIVE_PEOPLE = 1000

Ints = npt.NDArray[np.int64]

_STATES = pa.array(["AZ", "CA", "ID", "OR", "WA", "WY"])
_CITIES = pa.array(
    ["Phoenix", "Palo Alto", "San Mateo", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent", "Cheyenne"]
)
_FIRST = ["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"]
_LAST = ["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"]
_NAMES = pa.array([f"{first} {last}" for first in _FIRST for last in _LAST])
_HOT_CHANNELS = ["Google", "Facebook", "Baidu", "Apple"]
_COLD_CHANNELS = 1000
_CHANNELS = pa.array(_HOT_CHANNELS + [f"channel-{number}" for number in range(_COLD_CHANNELS)])


def _words(count: int, length: int, seed: int) -> pa.Array:
    letters = np.random.default_rng(seed).integers(97, 123, (count, length), dtype=np.uint8)
    return pa.array([row.tobytes().decode() for row in letters])


_EXTRAS = _words(1024, 64, 1)
_PATHS = pa.array(
    [f"https://www.nexmark.com/{a[:5]}/{a[5:8]}/{a[8:12]}/item.htm?query=1" for a in _words(1024, 12, 2).to_pylist()]
)


WORDS: Mapping[str, pa.Array] = {
    "names": _NAMES,
    "cities": _CITIES,
    "states": _STATES,
    "channels": _CHANNELS,
    "extras": _EXTRAS,
    "paths": _PATHS,
}
"""What texts are picked from."""


@dataclass(frozen=True)
class Numbers:
    """Of events of one kind: ``index`` among their kind, ``epoch``, and ``n`` among all events."""

    index: Ints
    epoch: Ints
    n: Ints
    events_per_second: float


Column = Callable[[Numbers], Any]


def _pick(words: pa.Array, salt: int) -> Column:
    return lambda at: words.take(pa.array(_below(at.n, salt, len(words))))


def _id(at: Numbers) -> Ints:
    return at.index + FIRST_ID


def _date_time(at: Numbers) -> Ints:
    return _time_ms(at.n, at.events_per_second)


def _expires(at: Numbers) -> Ints:
    horizon_ms = max(1, int(IN_FLIGHT_AUCTIONS * EPOCH_EVENTS / AUCTIONS * 1000 / at.events_per_second))
    return _date_time(at) + 1 + _below(at.n, 5, 2 * horizon_ms)


def _channel(at: Numbers) -> pa.Array:
    is_hot = _below(at.n, 7, 2) == 0
    cold = len(_HOT_CHANNELS) + _below(at.n, 9, _COLD_CHANNELS)
    return _CHANNELS.take(pa.array(np.where(is_hot, _below(at.n, 8, len(_HOT_CHANNELS)), cold)))


PERSON: Mapping[str, Column] = {
    "id": _id,
    "name": _pick(_NAMES, 1),
    "emailAddress": _pick(_EXTRAS, 2),
    "city": _pick(_CITIES, 3),
    "state": _pick(_STATES, 4),
    "dateTime": _date_time,
}
AUCTION: Mapping[str, Column] = {
    "id": _id,
    "itemName": _pick(_EXTRAS, 1),
    "initialBid": lambda at: _price(at.n, 3),
    "reserve": lambda at: _price(at.n, 3) + _price(at.n, 4),
    "dateTime": _date_time,
    "expires": _expires,
    "seller": lambda at: _hot_or_recent(at.n, 6, at.epoch, 4, ACTIVE_PEOPLE) + FIRST_ID,
    "category": lambda at: _below(at.n, 9, CATEGORIES) + FIRST_CATEGORY,
}
"""Three of four sellers are the hot one of their hundred."""
BID: Mapping[str, Column] = {
    "auction": lambda at: _hot_or_recent(at.n, 1, AUCTIONS * at.epoch + AUCTIONS - 1, 2, IN_FLIGHT_AUCTIONS) + FIRST_ID,
    "bidder": lambda at: _hot_or_recent(at.n, 4, at.epoch, 4, ACTIVE_PEOPLE) + FIRST_ID,
    "price": lambda at: _price(at.n, 10),
    "channel": _channel,
    "url": _pick(_PATHS, 11),
    "dateTime": _date_time,
    "extra": _pick(_EXTRAS, 12),
}
"""Half of the bids are on the hot auction of their hundred. ``dateTime`` is Unix ms everywhere."""

KINDS: Mapping[str, tuple[Mapping[str, Column], int, int]] = {
    "persons": (PERSON, 1, 0),
    "auctions": (AUCTION, AUCTIONS, 1),
    "bids": (BID, BIDS, 1 + AUCTIONS),
}
"""The columns of each kind, how many of them are in an epoch, and the offset of the first."""

STRIPE = 1 << 14
"""So many events of a kind in a row are of one source."""


def generate(
    kind: str, index: Ints, events_per_second: float = 10_000, columns: Sequence[str] | None = None
) -> pa.RecordBatch:
    """Events of a kind by their numbers among their kind; all columns, or those named."""
    makers, share, offset = KINDS[kind]
    epoch = index // share
    at = Numbers(index, epoch, epoch * EPOCH_EVENTS + offset + index % share, events_per_second)
    return pa.RecordBatch.from_pydict({name: makers[name](at) for name in columns or makers})


def dealt(first: int, rows: int, total: int, sources: int) -> Ints:
    """The events that rows ``first`` to ``first + rows - 1`` of ``total`` stand for. Rows are cut into a range for each
    source; in turn stripes of events are, so that event time goes on in all of them alike."""
    row = np.arange(first, first + rows)
    each = total // sources
    even = each // STRIPE * STRIPE
    source, at = row // each, row % each
    striped = (at // STRIPE * sources + source) * STRIPE + at % STRIPE
    rest = even * sources + source * (each - even) + (at - even)
    return np.where(at < even, striped, rest)


def source(
    kind: str,
    epochs: int,
    events_per_second: float = 10_000,
    columns: Sequence[str] | None = None,
    parallelism: int = 1,
) -> DataGeneratorSource:
    """All events of a kind in ``epochs`` times 50 events, for so many source subtasks, which must divide their number."""
    total = epochs * KINDS[kind][1]
    assert total % parallelism == 0, (kind, epochs, parallelism)

    def made(first: int, rows: int) -> pa.RecordBatch:
        return generate(kind, dealt(first, rows, total, parallelism), events_per_second, columns)

    return DataGeneratorSource(made, total)


def table(kind: str, epochs: int, events_per_second: float = 10_000) -> pa.Table:
    """The same in memory, for a reference."""
    return pa.Table.from_batches([generate(kind, np.arange(epochs * KINDS[kind][1]), events_per_second)])


def _time_ms(n: Ints, events_per_second: float) -> Ints:
    return BASE_MS + (n * 1000 / events_per_second).astype(np.int64)


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
