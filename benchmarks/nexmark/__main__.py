"""Nexmark beside Flink SQL and Spark Structured Streaming: the same statements over the same Parquet files, in turns.

    python -m benchmarks.nexmark [--queries q0,q5] [--events 20000000] [--limit 60] [--rounds 3] [--without flink,spark]

Parallelism 2, exactly-once checkpoints every second, clusters up and warm (a run of a quarter of the events that does not count); timed from
RUNNING to FINISHED. Rows go to ``blackhole``, those of q10 to partitions of CSV. A system that would need longer than the limit for all events
gets a quarter of them. Structured Streaming has the queries that it can express, over micro-batches of 500,000 events, and is timed from its first to
its last. Rates are events a second, whatever kinds a query reads. That the rows of these statements are right is tested elsewhere
(``tests/e2e/test_nexmark.py``).
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from benchmarks import plots
from benchmarks.nexmark import events, published
from benchmarks.nexmark.statements import NOT_IN_FLINK, QUERIES, SETTINGS
from benchmarks.nexmark.systems import PARALLELISM, Flink, Run, Spark, System, Tidegate, pieces_of
from benchmarks.rivals.spark_nexmark import SQL as SPARK_SQL

FEWER = 4
"""One part of so many of all events is what a warm-up has, and what a system has that needs longer than the limit for all of them."""
PATIENCE = 5
"""A run that takes so many times the limit is canceled."""
PIECE = 250_000
"""Events of a file of micro-batches, which are of two."""
TIDEGATE, FLINK, SPARK = "tidegate", "Flink SQL", "Spark"
RESULTS = Path(__file__).resolve().parent.parent / "results"


@dataclass
class OfSystem:
    """The runs of a query in a system, each over so many ``events``."""

    events: int = 0
    runs: list[Run] = field(default_factory=list)
    refused: str = ""
    """Why there are none."""

    def rates(self) -> list[float]:
        """Million events a second."""
        return [self.events / run.seconds / 1e6 for run in self.runs]

    def checkpoint_ms(self) -> float | None:
        """The median of all checkpoints."""
        times = [ms for run in self.runs for ms in run.checkpoints_ms]
        return statistics.median(times) if times else None

    def state_mb(self) -> float:
        return max((run.state_bytes for run in self.runs), default=0) / 1e6


Found = dict[str, dict[str, OfSystem]]
"""By query and system."""


def ratio(of_query: Mapping[str, OfSystem], to: str = FLINK) -> float | None:
    """How many times the other system's rate is tidegate's."""
    if not all(system in of_query and of_query[system].runs for system in (TIDEGATE, to)):
        return None
    return statistics.median(of_query[TIDEGATE].rates()) / statistics.median(of_query[to].rates())


def measure(
    systems: Mapping[str, System], query: str, events_of: EventFiles, limit_s: float, rounds: int
) -> dict[str, OfSystem]:
    """Runs a query in turns. What a system refuses is told, and not raised."""
    found: dict[str, OfSystem] = {}
    for name, system in systems.items():
        found[name] = one = OfSystem()
        if name == FLINK and query in NOT_IN_FLINK:
            one.refused = NOT_IN_FLINK[query]
        if name == SPARK and query not in SPARK_SQL:
            one.refused = "it cannot be expressed"
        if one.refused:
            continue
        try:
            warm = system.run(query, events_of.share(FEWER), f"{query}-warm", PATIENCE * limit_s)
        except RuntimeError as error:
            one.refused = str(error)
            continue
        one.events = events_of.total if warm.seconds * FEWER <= limit_s else events_of.total // FEWER
    for number in range(rounds):
        for name, system in systems.items():
            one = found[name]
            if not one.refused:
                files = events_of.share(events_of.total // one.events)
                try:
                    one.runs.append(system.run(query, files, f"{query}-{number}", PATIENCE * limit_s))
                except RuntimeError as error:
                    one.refused = str(error)
    return found


class EventFiles:
    """Parquet files of all events, and of a part of them; each is made once."""

    def __init__(self, directory: Path, total: int) -> None:
        self._directory, self.total = directory, total

    def share(self, share: int) -> Path:
        """The first events, one part of ``share``."""
        size = self.total // share
        found = self._directory / f"events-{size}"
        if not found.exists():
            events.write(found, size, PARALLELISM)
            events.write_pieces(pieces_of(found), size, PIECE)
        return found


def table_of(found: Found) -> Table:
    table = Table(
        "query", "system", "M events/s", "min", "max", "M events", "tidegate is", "checkpoint, ms", "state, MB"
    )
    for query, systems in found.items():
        for name, one in systems.items():
            if not one.runs:
                table.add_row(query, name, "-", "", "", "", one.refused.splitlines()[0][:60])
                continue
            figures = (f"{f(one.rates()):.3f}" for f in (statistics.median, min, max))
            times = ratio(systems, name) if name != TIDEGATE else None
            compared = "" if times is None else f"{times:.2f} x"
            checkpoint = one.checkpoint_ms()
            table.add_row(
                query,
                name,
                *figures,
                f"{one.events / 1e6:.2f}",
                compared,
                "" if checkpoint is None else f"{checkpoint:.0f}",
                f"{one.state_mb():.1f}",
            )
    return table


def published_table(found: Found) -> Table:
    """Beside what others have published, thousand events a second for each core."""
    table = Table(
        "query", "tidegate, here", "Feldera*", "Flink beside it*", "RisingWave*", title="* from other machines"
    )
    for query, systems in found.items():
        here = systems[TIDEGATE]
        rate = f"{statistics.median(here.rates()) * 1e3 / PARALLELISM:.0f}" if here.runs else ""
        others = (of.get(query, "") for of in (published.FELDERA, published.FLINK, published.RISINGWAVE))
        table.add_row(query, rate, *map(str, others))
    return table


def summary(found: Found) -> str:
    ratios = [times for systems in found.values() if (times := ratio(systems)) is not None]
    if not ratios:
        return "nothing to compare with"
    faster = sum(times >= 1 for times in ratios)
    return f"of {len(ratios)} queries {faster} are not slower than in Flink; median ratio {statistics.median(ratios):.2f}, least {min(ratios):.2f}"


def report(
    console: Console,
    results: Path,
    *,
    queries: tuple[str, ...] = (),
    total: int,
    limit_s: float,
    rounds: int,
    without: Collection[str] = (),
    directory: Path | None = None,
) -> None:
    """Measures, prints a table and draws it. ``directory``: where files of events are kept for the next time."""
    found: Found = {}
    results.mkdir(exist_ok=True)
    with ExitStack() as stack:
        place = directory or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-bench-")))
        files = EventFiles(place, total)
        systems: dict[str, System] = {TIDEGATE: stack.enter_context(Tidegate(SETTINGS))}
        if "flink" not in without:
            systems[FLINK] = stack.enter_context(Flink(SETTINGS))
        if "spark" not in without:
            systems[SPARK] = stack.enter_context(Spark())
        console.print(f"{total:,} events, parallelism {PARALLELISM}, a checkpoint every second; both: {SETTINGS}")
        for query in queries or tuple(QUERIES):
            found[query] = measure(systems, query, files, limit_s, rounds)
            console.print(table_of({query: found[query]}))
            told = {name: {query: asdict(one) for query, one in systems.items()} for name, systems in found.items()}
            (results / "nexmark.json").write_text(json.dumps(told, indent=1))
    console.print(table_of(found))
    console.print(published_table(found))
    console.print(summary(found))
    drawn = {query: {name: one.rates() for name, one in of.items() if one.runs} for query, of in found.items()}
    plots.nexmark(drawn, results / "nexmark.png")
    console.print(f"drawn in {results / 'nexmark.png'}")


def chosen(queries: str) -> tuple[str, ...]:
    """Raises ``BadParameter`` for a query that is not there."""
    names = tuple(queries.split(",")) if queries else ()
    strange = sorted(set(names) - set(QUERIES))
    if strange:
        raise click.BadParameter(
            f"there is no {', '.join(strange)}; there are {', '.join(QUERIES)}", param_hint="--queries"
        )
    return names


@click.command(help=__doc__)
@click.option("--queries", default="", help="By comma. Default: all.")
@click.option("--events", "total", default=20_000_000, show_default=True)
@click.option("--limit", "limit_s", default=60.0, show_default=True, help="Seconds of a run, about, at most.")
@click.option("--rounds", default=3, show_default=True)
@click.option("--without", default="", help="flink, spark, or both by comma.")
@click.option(
    "--files", "directory", type=click.Path(path_type=Path), help="Where files of events are kept. Default: nowhere."
)
def main(queries: str, total: int, limit_s: float, rounds: int, without: str, directory: Path | None) -> None:
    names = chosen(queries)
    report(
        Console(width=120),
        RESULTS,
        queries=names,
        total=total,
        limit_s=limit_s,
        rounds=rounds,
        without=without.split(","),
        directory=directory,
    )


if __name__ == "__main__":
    main()
