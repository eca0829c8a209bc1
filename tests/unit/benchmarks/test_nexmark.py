"""Nexmark's events are the same however they are cut, and the table says what was measured."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.nexmark import events, published
from benchmarks.nexmark.__main__ import FLINK, TIDEGATE, EventFiles, OfSystem, chosen, measure, ratio, summary
from benchmarks.nexmark.statements import QUERIES
from benchmarks.nexmark.systems import Run
from tests.e2e.jobs.nexmark import KINDS

COUNT = 5_000


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return events.table(np.arange(COUNT))


@given(first=st.integers(0, 10_000), rows=st.integers(1, 300))
@settings(max_examples=25, deadline=None)
def test_events_are_the_same_however_they_are_cut(first: int, rows: int) -> None:
    whole = events.table(np.arange(max(0, first - 50), first + rows + 50))
    cut = events.table(np.arange(first, first + rows))
    assert cut.to_pylist() == whole.slice(min(first, 50), rows).to_pylist()


def test_files_share_the_events_epoch_by_epoch_as_one_split_each(tmp_path: Path, table: pa.Table) -> None:
    events.write(tmp_path / "events", COUNT, 2)
    files = [pq.ParquetFile(tmp_path / "events" / f"{number}.parquet") for number in range(2)]
    assert [file.num_row_groups for file in files] == [1, 1]
    read = [file.read() for file in files]
    assert [rows["dateTime"].to_pylist() for rows in read] == [sorted(rows["dateTime"].to_pylist()) for rows in read]
    assert read[1].slice(0, 50).to_pylist() == table.slice(50, 50).to_pylist()
    united = pa.concat_tables(read).sort_by([("dateTime", "ascending")])
    assert united["b_price"].null_count == table["b_price"].null_count
    assert pc.sum(united["b_price"]) == pc.sum(table["b_price"])


def test_the_mix_is_nexmarks(table: pa.Table) -> None:
    assert [table["event_type"].to_pylist().count(kind) for kind in range(3)] == [100, 300, 4_600]
    bids = table.filter(pc.equal(table["event_type"], 2))
    assert bids["b_url"].null_count == bids["b_auction"].null_count == 0
    assert bids["p_id"].null_count == bids.num_rows
    per_auction = [count["counts"] for count in pc.value_counts(bids["b_auction"]).to_pylist()]
    assert max(per_auction) > 5 * sum(per_auction) / len(per_auction), "some are hot"
    assert set(pc.drop_null(table["a_seller"]).to_pylist()) <= set(pc.drop_null(table["p_id"]).to_pylist())
    with_id = pc.sum(pc.match_substring(bids["b_url"], "channel_id=")).as_py()
    assert 0.3 < with_id / bids.num_rows < 0.6


def test_files_have_the_columns_of_each_kind(table: pa.Table) -> None:
    wanted = {f"{kind[0]}_{name}" for kind, fields in KINDS.items() for name in fields if name != "dateTime"}
    assert set(table.column_names) == wanted | {"event_type", "dateTime"}


class Slow:
    """A system whose runs take a time for each event, and that refuses some queries."""

    def __init__(self, seconds: float, refused: str = "") -> None:
        self._seconds, self._refused = seconds, refused
        self.read: list[str] = []

    def run(self, query: str, events: Path, name: str, limit_s: float) -> Run:
        if query == self._refused:
            raise RuntimeError("no operator for it")
        self.read.append(events.name)
        return Run(self._seconds * int(events.name.removeprefix("events-")), [10.0, 30.0], 5_000_000)


def test_systems_take_turns_and_a_slow_one_gets_fewer_events(tmp_path: Path) -> None:
    for size in (50_000, 200_000):
        (tmp_path / f"events-{size}").mkdir()
    fast, slow = Slow(1e-5), Slow(2e-4)
    found = measure({TIDEGATE: slow, FLINK: fast}, "q4", EventFiles(tmp_path, 200_000), 10.0, 3)
    assert fast.read == ["events-50000"] + 3 * ["events-200000"]
    assert slow.read == 4 * ["events-50000"]
    assert ratio(found) == pytest.approx(0.05)
    assert found[TIDEGATE].checkpoint_ms() == 20
    assert found[TIDEGATE].state_mb() == 5
    assert "of 1 queries 0 are not slower" in summary({"q4": found})


def test_what_a_system_refuses_is_told(tmp_path: Path) -> None:
    (tmp_path / "events-50000").mkdir()
    (tmp_path / "events-200000").mkdir()
    files = EventFiles(tmp_path, 200_000)
    found = measure({TIDEGATE: Slow(1e-5), FLINK: Slow(1e-5, refused="q9")}, "q9", files, 10.0, 1)
    assert found[FLINK] == OfSystem(events=0, runs=[], refused="no operator for it")
    assert ratio(found) is None
    lookups = measure({TIDEGATE: Slow(1e-5), FLINK: Slow(1e-5)}, "q13", files, 10.0, 1)
    assert "cannot look up" in lookups[FLINK].refused


def test_queries_are_chosen_by_name() -> None:
    assert chosen("q3,q0") == ("q3", "q0")
    with pytest.raises(click.BadParameter, match="there is no q6"):
        chosen("q3,q6")


def test_published_figures_are_of_queries_that_are_there() -> None:
    assert {*published.FELDERA, *published.FLINK, *published.RISINGWAVE} <= set(QUERIES)
