"""Results of Nexmark are matched with the events that make them."""

from __future__ import annotations

import json

import click
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from benchmarks.nexmark import events, live
from benchmarks.nexmark.causes import BEHIND_MS, KEYS, Cause, causes_of, key_of, match, partition_of
from benchmarks.nexmark.latency import COLUMNS, OfSystem, chosen, table_of
from benchmarks.nexmark.statements import QUERIES, tables_of

RATE, COUNT = 100, 4_000
"""Forty seconds of event time: a window of ten seconds is passed by its watermark three times."""


@pytest.fixture(scope="module")
def stream() -> live.Stream:
    return live.make_stream(COUNT, RATE)


def _arrivals() -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Event n comes at n."""
    return np.arange(COUNT, dtype=np.float64)


def test_a_result_is_matched_with_its_cause() -> None:
    causes = [Cause(("a",), 100.0), Cause(("b",), 200.0), Cause(("c",), 300.0)]
    found = match(causes, [(("b",), 230.0), (("d",), 1.0), (("a",), 105.0)], 0)
    assert found.latencies_ms == [30.0, 5.0]
    assert (found.missing, found.unexpected) == (1, 1)


def test_equal_results_are_matched_in_order_and_none_twice() -> None:
    causes = [Cause(("a",), 100.0), Cause(("a",), 200.0)]
    found = match(causes, [(("a",), 101.0), (("a",), 204.0), (("a",), 300.0)], 0)
    assert found.latencies_ms == [1.0, 4.0]
    assert (found.missing, found.unexpected) == (0, 1)


def test_what_came_before_the_warm_up_was_over_is_matched_and_does_not_count() -> None:
    causes = [Cause(("a",), 100.0), Cause(("b",), 200.0)]
    found = match(causes, [(("a",), 150.0), (("b",), 250.0)], 200.0)
    assert found.latencies_ms == [50.0]
    assert found.missing == 0


def test_event_time_follows_the_rate_and_auctions_are_open_as_long(stream: live.Stream) -> None:
    before = events.table(np.arange(COUNT))
    times = stream.table["dateTime"].cast(pa.int64()).to_numpy()
    assert (times == events.BASE_MS + np.arange(COUNT) * 1000 // RATE).all()

    def open_for(table: pa.Table) -> list[int | None]:
        found = pc.subtract(table["a_expires"].cast(pa.int64()), table["dateTime"].cast(pa.int64()))
        return list(found.to_pylist())

    assert open_for(stream.table) == open_for(before)


def test_messages_are_events_without_the_columns_of_other_kinds(stream: live.Stream) -> None:
    rows = [json.loads(message) for message in stream.messages[:5]]
    assert [row["event_type"] for row in rows] == [0, 1, 1, 1, 2]
    assert rows[4]["dateTime"] == "2015-07-15 00:00:00.040"
    assert set(rows[4]) == {"event_type", "dateTime", *(f"b_{name}" for name in events.BID if name != "dateTime")}
    assert len(stream.first(3).messages) == len(stream.first(3).table) == 3 * RATE


def test_a_bid_is_the_cause_of_its_row(stream: live.Stream) -> None:
    causes = causes_of("q0", stream.table, _arrivals(), 2)
    assert [cause.arrival_ms for cause in causes] == [n for n in range(COUNT) if n % 50 >= 4]
    row = json.loads(stream.messages[4])
    result = {name.removeprefix("b_"): value for name, value in row.items()}
    assert key_of("q0", result) == causes[0].key


def test_the_later_one_of_bid_and_auction_is_the_cause_of_a_pair(stream: live.Stream) -> None:
    arrivals = _arrivals()
    is_auction = stream.table["event_type"].to_numpy() == 1
    arrivals[is_auction] += COUNT  # each auction comes behind all bids
    table = stream.table.to_pylist()
    by_id = {row["a_id"]: (n, row) for n, row in enumerate(table) if row["event_type"] == 1 and row["a_category"] == 10}
    pairs = [(row, by_id[row["b_auction"]]) for row in table if row["b_auction"] in by_id]
    causes = causes_of("q20", stream.table, arrivals, 2)
    assert len(causes) == len(pairs) > 100
    for cause, (bid, (number, auction)) in zip(causes, pairs, strict=True):
        assert cause.key[:3] == (bid["b_auction"], bid["b_bidder"], bid["b_price"])
        assert cause.key[-1] == auction["a_itemName"]
        assert cause.arrival_ms == number + COUNT


def _passed_at(end_ms: int) -> float:
    """The number of the event with which the watermark of both partitions passes the end of a window."""
    least = (end_ms - 1 + BEHIND_MS - events.BASE_MS) * RATE / 1000
    return max(next(n for n in range(COUNT) if n >= least and n // 50 % 2 == part) for part in (0, 1))


def test_windows_of_counts_are_caused_by_the_watermark_of_both_partitions(stream: live.Stream) -> None:
    causes = causes_of("q5", stream.table, _arrivals(), 2)
    ends = [events.BASE_MS + second * 1000 for second in range(2, 36, 2)]
    assert sorted({cause.arrival_ms for cause in causes}) == [_passed_at(end) for end in ends]
    bids = [row for row in stream.table.to_pylist() if row["event_type"] == 2]
    first = [row["b_auction"] for row in bids[: sum(n % 50 >= 4 for n in range(2 * RATE))]]
    most = max(map(first.count, first))
    of_first = [cause.key for cause in causes if cause.arrival_ms == _passed_at(ends[0])]
    assert of_first == [(auction, most) for auction in sorted(set(first)) if first.count(auction) == most]


def test_windows_of_maxima_are_caused_by_the_watermark_of_both_partitions(stream: live.Stream) -> None:
    causes = causes_of("q7", stream.table, _arrivals(), 2)
    ends = [events.BASE_MS + second * 1000 for second in (10, 20, 30)]
    assert [cause.arrival_ms for cause in causes] == [_passed_at(end) for end in ends]
    prices = stream.table["b_price"].to_pylist()
    highest = [max(filter(None, prices[first : first + 10 * RATE])) for first in (0, 1000, 2000)]
    assert [cause.key[1] for cause in causes] == highest


def test_epochs_go_to_partitions_in_turn() -> None:
    assert partition_of(np.array([0, 49, 50, 99, 100]), 2).tolist() == [0, 0, 1, 1, 0]


def test_tables_of_results_have_the_columns_by_which_they_are_matched() -> None:
    assert set(KEYS) == set(COLUMNS) <= set(QUERIES)
    for query, columns in COLUMNS.items():
        names = {column.split()[0].strip("`") for column in columns.split(", ")}
        assert names >= set(KEYS[query])
    assert "WITH ('connector' = 'kafka')" in tables_of("'connector' = 'kafka'")[0]


def test_runs_are_added_up_and_told() -> None:
    one = OfSystem()
    one.add(OfSystem([1.0, 9.0], [2], [0.5], 1, 0))
    one.add(OfSystem([3.0], [1], [0.25], 0, 2))
    assert one == OfSystem([1.0, 9.0, 3.0], [2, 1], [0.5, 0.25], 1, 2)
    cells = [next(iter(column.cells)) for column in table_of({"q0": {"tidegate": one}}).columns]
    assert cells == ["q0", "tidegate", "2, 1", "3", "3", "9", "9", "1", "2", "0.50, 0.25"]


def test_queries_with_latencies_are_chosen_by_name() -> None:
    assert chosen("q7,q0") == ("q7", "q0")
    with pytest.raises(click.BadParameter, match="q3 is not measured"):
        chosen("q3,q0")
