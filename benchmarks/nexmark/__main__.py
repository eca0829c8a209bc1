"""Nexmark beside Flink SQL: the same events, alternating runs; both results compared with a reference in SQL beforehand.

    python -m benchmarks.nexmark [--query q5 ...] [--repeats 3] [--seconds 5] [--without-flink]

Both make the events themselves, as columns that the query reads (`nexmark/events.py`, `rivals/NexmarkEvents.java`), and drop the
results. Parallelism 2, exactly-once checkpoints every second, clusters up and warm; timed from RUNNING to FINISHED; rates are events a
second, whatever their kind, so those of bids alone count 50 for 46.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click
import pyarrow.dataset as ds
from rich.console import Console
from rich.table import Table

from benchmarks import plots
from benchmarks.cluster import BenchCluster
from benchmarks.flink_cluster import FlinkCluster, FlinkSession
from benchmarks.nexmark import events, flink
from benchmarks.nexmark.queries import QUERIES
from benchmarks.nexmark.reference import LAST_OF, SQL, expected, rows_of

PARALLELISM, INTERVAL_MS = 2, 1_000
CHECKED_EPOCHS = 3_000
"""15 seconds of event time."""
FEWER_EPOCHS = {"q0": 100, "q1": 100, "q2": 100, "q4": 300, "q14": 100, "q16": 300, "q17": 300, "q22": 100}
"""Where a result has many rows: PyFlink collects some thousand a second."""
WARM_UP_EPOCHS = 20_000
TIDEGATE, FLINK = "tidegate", "Flink SQL"
RESULTS = Path(__file__).resolve().parent.parent / "results"


@dataclass
class Runs:
    """Of one query: events of a run, and million events a second, by system."""

    events: dict[str, int] = field(default_factory=dict)
    rates: dict[str, list[float]] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        if FLINK not in self.rates:
            return None
        return statistics.median(self.rates[TIDEGATE]) / statistics.median(self.rates[FLINK])


class Contest:
    """Both clusters, and what is asked of them."""

    def __init__(self, tidegate: BenchCluster, flink_cluster: FlinkCluster | None, jar: Path | None) -> None:
        self._tidegate = tidegate
        self._flink = flink_cluster
        self._jar = jar
        self._session: FlinkSession | None = None
        if flink_cluster is not None:
            self._session = flink_cluster.session(PARALLELISM, INTERVAL_MS)

    def names(self) -> list[str]:
        return [TIDEGATE] if self._flink is None else [TIDEGATE, FLINK]

    def check(self, query: str) -> None:
        """Raises ``RuntimeError`` when somebody's result is not the reference's."""
        epochs = FEWER_EPOCHS.get(query, CHECKED_EPOCHS)
        tables = {kind: events.table(kind, epochs) for kind in events.KINDS}
        wanted = expected(query, tables)
        output = self._tidegate.directory / f"checked-{query}"
        self._tidegate.wait(self._submit(query, epochs, str(output)))
        found = ds.dataset(output, format="parquet", exclude_invalid_files=True).to_table()
        names, last = wanted.column_names, LAST_OF.get(query, ())
        if rows_of(found, names, last) != rows_of(wanted, names):
            raise RuntimeError(f"{query}: tidegate's result is not the reference's")
        if self._flink is not None:
            compared = [name for name in names if name not in NOT_COMPARED]
            here, there = _rounded(rows_of(wanted, compared)), _rounded(self._collect(query, epochs, compared))
            if here != there:
                difference = (list((here - there).items())[:3], list((there - here).items())[:3])
                raise RuntimeError(f"{query}: Flink's result is not the reference's: {difference}")

    def run(self, name: str, query: str, epochs: int) -> float:
        """Million events a second."""
        if name == TIDEGATE:
            times: Any = self._tidegate.wait(self._submit(query, epochs)).state_timestamps_ms
        else:
            assert self._flink is not None
            times = self._flink.wait(self._order(query, epochs, flink.SQL[query])["job"])
        return float(epochs * events.EPOCH_EVENTS / (times["FINISHED"] - times["RUNNING"]) / 1e3)

    def _submit(self, query: str, epochs: int, *output: str) -> str:
        return self._tidegate.run(
            "benchmarks/nexmark/job.py", query, str(epochs), str(PARALLELISM), str(INTERVAL_MS), *output
        )

    def _collect(self, query: str, epochs: int, columns: list[str]) -> list[tuple[Any, ...]]:
        """What is left of the changelog."""
        quoted = ", ".join(f"`{name}`" for name in columns)
        told = self._order(query, epochs, f"SELECT {quoted} FROM ({flink.SQL[query]})", collect=True)["rows"]
        left: Counter[tuple[Any, ...]] = Counter()
        for kind, values in told:
            left[tuple(values)] += 1 if kind in ("INSERT", "UPDATE_AFTER") else -1
        return list(left.elements())

    def _order(self, query: str, epochs: int, sql: str, *, collect: bool = False) -> dict[str, Any]:
        assert self._session is not None
        assert self._jar is not None
        functions, views = flink.setup(self._jar)
        kinds = [flink.numbers(kind, epochs, PARALLELISM) for kind in events.KINDS]
        return self._session.order(
            settings=flink.SETTINGS, functions=functions, numbers=kinds, statements=views, query=sql, collect=collect
        )


NOT_COMPARED = {"dateTime", "window_start", "window_end", "start", "end", "last", "bidTimeType", "avg_price"}
"""Instants, of which Flink's have another type here; its average of integers is an integer."""


def _rounded(rows: list[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(round(float(v), 3) if isinstance(v, (int, float)) else v for v in row) for row in rows)


def measure(contest: Contest, query: str, repeats: int, seconds: float) -> Runs:
    runs = Runs()
    if query in SQL:
        contest.check(query)
    epochs = {}
    for name in contest.names():
        rate = contest.run(name, query, WARM_UP_EPOCHS)
        rate = contest.run(name, query, max(WARM_UP_EPOCHS, _even(rate * 1e6 * seconds / 2 / events.EPOCH_EVENTS)))
        epochs[name] = max(WARM_UP_EPOCHS, _even(rate * 1e6 * seconds / events.EPOCH_EVENTS))
        runs.events[name] = epochs[name] * events.EPOCH_EVENTS
    for _ in range(repeats):
        for name in contest.names():
            runs.rates.setdefault(name, []).append(contest.run(name, query, epochs[name]))
    return runs


def _even(epochs: float) -> int:
    return int(epochs) // 1000 * 1000


def table_of(found: dict[str, Runs]) -> Table:
    table = Table("query", "system", "median M events/s", "min", "max", "million events", "tidegate is")
    for query, runs in found.items():
        for name, rates in runs.rates.items():
            figures = (f"{f(rates):.2f}" for f in (statistics.median, min, max))
            ratio = f"{runs.ratio:.1f} x" if name == FLINK and runs.ratio is not None else ""
            table.add_row(query, name, *figures, f"{runs.events[name] / 1e6:.0f}", ratio)
    return table


def report(
    console: Console,
    results: Path,
    *,
    queries: tuple[str, ...] = (),
    repeats: int,
    seconds: float,
    without_flink: bool = False,
) -> None:
    """Measures, prints a table and draws it."""
    found: dict[str, Runs] = {}
    with tempfile.TemporaryDirectory() as directory, BenchCluster(PARALLELISM) as tidegate:
        flink_cluster = None if without_flink else FlinkCluster(PARALLELISM).__enter__()
        try:
            jar = None
            if flink_cluster is not None:
                jar = flink.build_jar(flink_cluster.environment.home, Path(directory))
                told = {**flink_cluster.options, **flink.SETTINGS, "pipeline.object-reuse": "true"}
                console.print(
                    f"Nexmark, 10,000 events a second of event time. Flink: {told}; tidegate: defaults; both: parallelism 2, a checkpoint every second"
                )
            contest = Contest(tidegate, flink_cluster, jar)
            for query in queries or tuple(QUERIES):
                found[query] = measure(contest, query, repeats, seconds)
                console.print(table_of({query: found[query]}))
        finally:
            if flink_cluster is not None:
                flink_cluster.__exit__(None, None, None)
    console.print(table_of(found))
    results.mkdir(exist_ok=True)
    (results / "nexmark.json").write_text(json.dumps({query: asdict(runs) for query, runs in found.items()}, indent=1))
    plots.nexmark({query: runs.rates for query, runs in found.items()}, results / "nexmark.png")
    console.print(f"drawn in {results / 'nexmark.png'}")


@click.command(help=__doc__)
@click.option("--query", "queries", type=click.Choice(list(QUERIES)), multiple=True, help="Default: all.")
@click.option("--repeats", default=3, show_default=True)
@click.option("--seconds", default=5.0, show_default=True, help="Of each run, about.")
@click.option("--without-flink", is_flag=True)
def main(queries: tuple[str, ...], repeats: int, seconds: float, without_flink: bool) -> None:
    report(Console(), RESULTS, queries=queries, repeats=repeats, seconds=seconds, without_flink=without_flink)


if __name__ == "__main__":
    main()
