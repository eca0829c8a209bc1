"""Each Nexmark query gives what SQL gives over the same events; events are the same however they are cut."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.nexmark import events
from benchmarks.nexmark.job import house_of
from benchmarks.nexmark.queries import QUERIES, House
from benchmarks.nexmark.reference import LAST_OF, SQL, expected, rows_of
from tests.unit.docs.test_guides import InThisProcess
from tests.unit.taskmanager.runtime import in_process
from tidegate.connectors.file_sink import FileSink
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream._graph.executor import installed

EPOCHS, RATE = 100, 100.0
"""5,000 events in 50 seconds."""


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    return {kind: events.table(kind, EPOCHS, RATE) for kind in events.KINDS}


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole queries take longer than single operators, and a busy machine more so."""
    monkeypatch.setattr(in_process, "TIMEOUT_S", 100.0)


def house(env: StreamExecutionEnvironment) -> House:
    return house_of(env, EPOCHS, RATE, parallelism=2)


def result_of(name: str, directory: Path) -> pa.Table:
    env = StreamExecutionEnvironment()
    env.set_parallelism(2)
    QUERIES[name](house(env)).sink_to(FileSink.for_parquet(str(directory / "out")))
    here = InThisProcess(directory)
    with installed(here):  # type: ignore[arg-type]
        env.execute(name)
    found: pa.Table = ds.dataset(str(directory / "out"), exclude_invalid_files=True).to_table()
    return found


@pytest.mark.parametrize("name", sorted(SQL))
def test_a_query_gives_what_sql_gives(name: str, tables: dict[str, pa.Table], tmp_path: Path) -> None:
    wanted = expected(name, tables)
    found = result_of(name, tmp_path)
    assert wanted.num_rows > 0
    columns = wanted.column_names
    assert rows_of(found, columns, LAST_OF.get(name, ())) == rows_of(wanted, columns)


def test_windows_of_processing_time_count_nothing_twice(tables: dict[str, pa.Table], tmp_path: Path) -> None:
    totals: Counter[int] = Counter()
    for row in result_of("q12", tmp_path).to_pylist():  # none at all if no window ended meanwhile
        totals[row["bidder"]] += row["bids"]
    assert totals <= Counter(tables["bids"]["bidder"].to_pylist())


@given(first=st.integers(0, 10_000), rows=st.integers(1, 300))
@settings(max_examples=25, deadline=None)
@pytest.mark.parametrize("kind", sorted(events.KINDS))
def test_events_are_the_same_however_they_are_cut(kind: str, first: int, rows: int) -> None:
    whole = events.generate(kind, np.arange(max(0, first - 50), first + rows + 50))
    assert events.generate(kind, np.arange(first, first + rows)).equals(whole.slice(min(first, 50), rows))


@given(sources=st.integers(1, 4), each=st.integers(1, 3 * events.STRIPE))
@settings(max_examples=25, deadline=None)
def test_every_event_is_of_one_source_and_in_order_there(sources: int, each: int) -> None:
    total = each * sources
    found = np.concatenate(
        [events.dealt(first, min(50_000, total - first), total, sources) for first in range(0, total, 50_000)]
    )
    assert np.array_equal(np.sort(found), np.arange(total))
    assert all((np.diff(found[at : at + each]) > 0).all() for at in range(0, total, each))


def test_the_mix_is_nexmarks(tables: dict[str, pa.Table]) -> None:
    assert {kind: table.num_rows for kind, table in tables.items()} == {
        "persons": EPOCHS,
        "auctions": 3 * EPOCHS,
        "bids": 46 * EPOCHS,
    }
    per_auction = tables["bids"].group_by("auction").aggregate([("price", "count")])["price_count"].to_pylist()
    assert max(per_auction) > 50 * sum(per_auction) / len(per_auction) / 10, "some are hot"
    sellers, people = set(tables["auctions"]["seller"].to_pylist()), set(tables["persons"]["id"].to_pylist())
    assert sellers <= people
