"""Nexmark's events, as columns: of every 50 events one is a person, three are auctions, 46 are bids.

Event n is a function of n alone, so any range of them can be made by anybody, in any order, again and again: sources split them,
and a restore makes the same ones. Ratios, hot items and price distribution are those of Nexmark's generator
(``com.github.nexmark.flink.generator``); its random numbers are not.

    n = 50 * epoch + offset      offset 0: person epoch · 1 to 3: auctions 3 * epoch ... · 4 to 49: bids 46 * epoch ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


def persons(first: int, rows: int, events_per_second: float = 10_000) -> pa.RecordBatch:
    """Persons ``first`` to ``first + rows - 1``. ``dateTime`` is Unix ms."""
    index = np.arange(first, first + rows)
    n = index * EPOCH_EVENTS
    return pa.RecordBatch.from_pydict(
        {
            "id": index + FIRST_ID,
            "name": _NAMES.take(pa.array(_below(n, 1, len(_NAMES)))),
            "emailAddress": _EXTRAS.take(pa.array(_below(n, 2, len(_EXTRAS)))),
            "city": _CITIES.take(pa.array(_below(n, 3, len(_CITIES)))),
            "state": _STATES.take(pa.array(_below(n, 4, len(_STATES)))),
            "dateTime": _time_ms(n, events_per_second),
        }
    )


def auctions(first: int, rows: int, events_per_second: float = 10_000) -> pa.RecordBatch:
    """Auctions ``first`` to ``first + rows - 1``. Three of four sellers are the hot one of their hundred."""
    index = np.arange(first, first + rows)
    epoch = index // AUCTIONS
    n = epoch * EPOCH_EVENTS + 1 + index % AUCTIONS
    at_ms = _time_ms(n, events_per_second)
    horizon_ms = max(1, int(IN_FLIGHT_AUCTIONS * EPOCH_EVENTS / AUCTIONS * 1000 / events_per_second))
    price = _price(n, 3)
    return pa.RecordBatch.from_pydict(
        {
            "id": index + FIRST_ID,
            "itemName": _EXTRAS.take(pa.array(_below(n, 1, len(_EXTRAS)))),
            "initialBid": price,
            "reserve": price + _price(n, 4),
            "dateTime": at_ms,
            "expires": at_ms + 1 + _below(n, 5, 2 * horizon_ms),
            "seller": _hot_or_recent(n, 6, epoch, 4, ACTIVE_PEOPLE) + FIRST_ID,
            "category": _below(n, 9, CATEGORIES) + FIRST_CATEGORY,
        }
    )


def bids(first: int, rows: int, events_per_second: float = 10_000) -> pa.RecordBatch:
    """Bids ``first`` to ``first + rows - 1``. Half of them are on the hot auction of their hundred."""
    index = np.arange(first, first + rows)
    epoch = index // BIDS
    n = epoch * EPOCH_EVENTS + 1 + AUCTIONS + index % BIDS
    is_hot_channel = _below(n, 7, 2) == 0
    channel = np.where(
        is_hot_channel, _below(n, 8, len(_HOT_CHANNELS)), len(_HOT_CHANNELS) + _below(n, 9, _COLD_CHANNELS)
    )
    return pa.RecordBatch.from_pydict(
        {
            "auction": _hot_or_recent(n, 1, AUCTIONS * epoch + AUCTIONS - 1, 2, IN_FLIGHT_AUCTIONS) + FIRST_ID,
            "bidder": _hot_or_recent(n, 4, epoch, 4, ACTIVE_PEOPLE) + FIRST_ID,
            "price": _price(n, 10),
            "channel": _CHANNELS.take(pa.array(channel)),
            "url": _PATHS.take(pa.array(_below(n, 11, len(_PATHS)))),
            "dateTime": _time_ms(n, events_per_second),
            "extra": _EXTRAS.take(pa.array(_below(n, 12, len(_EXTRAS)))),
        }
    )


KINDS: Mapping[str, tuple[Callable[..., pa.RecordBatch], int]] = {
    "persons": (persons, 1),
    "auctions": (auctions, AUCTIONS),
    "bids": (bids, BIDS),
}
"""The generator of each kind, and how many of them are in an epoch."""


def source(kind: str, epochs: int, events_per_second: float = 10_000) -> DataGeneratorSource:
    """All events of a kind in ``epochs`` times 50 events."""
    generate, share = KINDS[kind]

    def made(first: int, rows: int) -> pa.RecordBatch:
        return generate(first, rows, events_per_second)

    return DataGeneratorSource(made, epochs * share)


def table(kind: str, epochs: int, events_per_second: float = 10_000) -> pa.Table:
    """The same in memory, for a reference."""
    generate, share = KINDS[kind]
    return pa.Table.from_batches([generate(0, epochs * share, events_per_second)])


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
