"""Which event makes each result of a query: the last one that the result waits for. Results are matched with it by what identifies them.

    q0    the bid
    q20   the later one of bid and auction
    q5    for each window, the event with which the watermark passes its end in the last partition of the topic
    q7    likewise

An event number is followed by its time of arrival in ``arrivals``; event times rise with the numbers.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.nexmark.events import EPOCH_EVENTS

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Key = tuple[Any, ...]

BEHIND_MS = 4_000
"""How far the watermark is behind event time, as the table of events declares it."""
KEYS = {
    "q0": ("auction", "bidder", "price", "dateTime", "extra"),
    "q5": ("auction", "num"),
    "q7": ("auction", "price", "bidder", "dateTime", "extra"),
    "q20": ("auction", "bidder", "price", "dateTime", "extra", "since", "itemName"),
}
"""The columns of results that identify them; ``dateTime`` and ``since`` as milliseconds."""
TIMES = frozenset({"dateTime", "since"})
_Q5_SLIDE_MS, _WINDOW_MS, _Q20_CATEGORY = 2_000, 10_000, 10


@dataclass(frozen=True)
class Cause:
    """A result that is expected, and when the event that makes it came."""

    key: Key
    arrival_ms: float


@dataclass
class Matched:
    """What came of expected results. ``latencies_ms`` are of those whose cause came behind the warm-up."""

    latencies_ms: list[float] = field(default_factory=list)
    missing: int = 0
    unexpected: int = 0


def match(causes: Iterable[Cause], results: Iterable[tuple[Key, float]], warm_until_ms: float) -> Matched:
    """Matches results, each with the time at which it came, with their causes: equal ones in the order of both."""
    waiting: defaultdict[Key, deque[float]] = defaultdict(deque)
    for cause in causes:
        waiting[cause.key].append(cause.arrival_ms)
    found = Matched()
    for key, at_ms in results:
        arrivals = waiting.get(key)
        if not arrivals:
            found.unexpected += 1
            continue
        arrival_ms = arrivals.popleft()
        if arrival_ms >= warm_until_ms:
            found.latencies_ms.append(at_ms - arrival_ms)
    found.missing = sum(map(len, waiting.values()))
    return found


def partition_of(numbers: Ints, partitions: int) -> Ints:
    """Epoch by epoch to one partition after the other."""
    return numbers // EPOCH_EVENTS % partitions


def causes_of(query: str, events: pa.Table, arrivals_ms: Floats, partitions: int) -> list[Cause]:
    """``events`` as ``benchmarks.nexmark.events.table`` makes them, numbered from 0. Windows that the watermark does not pass are left out."""
    bids = _bids(events)
    if query == "q0":
        columns = [bids[name].to_pylist() for name in KEYS["q0"]]
        came = arrivals_ms[bids["n"].to_numpy()].tolist()
        return [Cause(key, at) for *key_values, at in zip(*columns, came, strict=True) for key in [tuple(key_values)]]
    if query == "q20":
        return _of_joined(bids, events, arrivals_ms)
    passes = _Watermarks(_times_ms(events), arrivals_ms, partitions)
    return _of_counts(bids, passes) if query == "q5" else _of_maxima(bids, passes)


class _Watermarks:
    """When the watermark of all partitions passes a time."""

    def __init__(self, times_ms: Ints, arrivals_ms: Floats, partitions: int) -> None:
        of = partition_of(np.arange(len(times_ms)), partitions)
        self._parts = [(times_ms[of == part], arrivals_ms[of == part]) for part in range(partitions)]

    def arrival_ms(self, end_ms: int) -> float | None:
        """Arrival of the event with which windows fire that end there; ``None``: of none of them."""
        least = end_ms - 1 + BEHIND_MS
        found = []
        for times, arrivals in self._parts:
            place = int(np.searchsorted(times, least))
            if place == len(times):
                return None
            found.append(float(arrivals[place]))
        return max(found)


def _of_joined(bids: pa.Table, events: pa.Table, arrivals_ms: Floats) -> list[Cause]:
    numbered = events.append_column("n", pa.array(np.arange(len(events))))
    auctions = numbered.filter(pc.equal(events["a_category"], _Q20_CATEGORY))
    columns = zip(
        auctions["a_id"].to_pylist(),
        _times_ms(auctions).tolist(),
        auctions["a_itemName"].to_pylist(),
        arrivals_ms[auctions["n"].to_numpy()].tolist(),
        strict=True,
    )
    by_id = {id: rest for id, *rest in columns}
    causes = []
    keys = zip(*(bids[name].to_pylist() for name in KEYS["q20"][:5]), strict=True)
    for key, at in zip(keys, arrivals_ms[bids["n"].to_numpy()].tolist(), strict=True):
        if (auction := by_id.get(key[0])) is not None:
            since, item, auction_at = auction
            causes.append(Cause((*key, since, item), max(at, auction_at)))
    return causes


def _of_counts(bids: pa.Table, passes: _Watermarks) -> list[Cause]:
    times, auctions = bids["dateTime"].to_numpy(), bids["auction"].to_numpy()
    causes = []
    end = int(times[0]) // _Q5_SLIDE_MS * _Q5_SLIDE_MS + _Q5_SLIDE_MS
    while (arrival := passes.arrival_ms(end)) is not None:
        within = slice(*np.searchsorted(times, [end - _WINDOW_MS, end]))
        ids, counts = np.unique(auctions[within], return_counts=True)
        causes += [Cause((int(id), int(counts.max())), arrival) for id in ids[counts == counts.max()]]
        end += _Q5_SLIDE_MS
    return causes


def _of_maxima(bids: pa.Table, passes: _Watermarks) -> list[Cause]:
    times, prices = bids["dateTime"].to_numpy(), bids["price"].to_numpy()
    causes = []
    end = int(times[0]) // _WINDOW_MS * _WINDOW_MS + _WINDOW_MS
    while (arrival := passes.arrival_ms(end)) is not None:
        first, behind = np.searchsorted(times, [end - _WINDOW_MS, end])
        near = int(np.searchsorted(times, end, "right"))  # BETWEEN has the end itself
        highest = prices[first:behind].max()
        for place in np.flatnonzero(prices[first:near] == highest) + first:
            row = bids.slice(int(place), 1).to_pylist()[0]
            causes.append(Cause(tuple(row[name] for name in KEYS["q7"]), arrival))
        end += _WINDOW_MS
    return causes


def _bids(events: pa.Table) -> pa.Table:
    """With the names of the view, event time in ms and the numbers of events."""
    is_bid = pc.equal(events["event_type"], 2)
    names = ("auction", "bidder", "price", "extra")
    columns = {name: events[f"b_{name}"] for name in names}
    made = pa.table({**columns, "dateTime": _times_ms(events), "n": np.arange(len(events))})
    return made.filter(is_bid).combine_chunks()


def _times_ms(events: pa.Table) -> Ints:
    found: Ints = events["dateTime"].cast(pa.int64()).to_numpy()
    return found


def key_of(query: str, row: dict[str, Any]) -> Key:
    """Of a result as it was read from JSON."""
    return tuple(_ms(row[name]) if name in TIMES else row[name] for name in KEYS[query])


def _ms(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)
