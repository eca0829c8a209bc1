"""``make bench``: runs the benchmarks and prints ratios, with spread; draws them to ``benchmarks/results/``.

python benchmarks/run.py [--rows 200000000] [--repeats 5] [--only nexmark,latency]
python benchmarks/run.py --only keyed_window,many_keys --quick

The ratios to pyarrow of keyed_window and many_keys are compared with those of an earlier commit (baseline.json); when one fell by more than
15 %, the exit code is 1. --quick measures only them, in about two minutes.

What compares with Flink runs where tests have installed one; elsewhere it says so, and measures tidegate alone.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import benchmarks.nexmark.__main__ as nexmark
from benchmarks import (
    control_plane,
    flink_sql,
    kafka,
    keyed_window,
    latency,
    many_keys,
    plots,
    records,
    regressions,
    state,
    unaligned,
)  # fmt: skip
from benchmarks.flink_cluster import has_flink
from benchmarks.percentiles import percentiles

RESULTS = Path(__file__).resolve().parent / "results"
PARTS = {
    "keyed_window": "columnar windows beside pyarrow in memory",
    "many_keys": "columnar windows of a million keys: rate and memory",
    "flink_sql": "columnar windows beside Flink SQL and Spark Structured Streaming",
    "records": "functions of one record beside PyFlink",
    "nexmark": "Nexmark beside Flink SQL and Spark Structured Streaming",
    "latency": "latency at half of the maximum load",
    "control_plane": "checkpoints of many subtasks",
    "state": "snapshots of large state",
    "unaligned": "checkpoints under backpressure",
    "kafka": "Kafka to Kafka",
}


@click.command(help=__doc__)
@click.option(
    "--rows", default=None, type=int, help="Rows of the window benchmark. [default: 200000000; --quick: 120000000]"
)
@click.option("--repeats", default=None, type=int, help="Alternating runs. [default: 5; --quick: 3]")
@click.option("--only", default="", help="Parts, by comma: " + ", ".join(PARTS) + ". Default: all.")
@click.option("--quick", is_flag=True, help="Of keyed_window only the ratio to pyarrow.")
@click.option("--write-baseline", is_flag=True, help="Keep the ratios of this run as those of this commit.")
def main(rows: int | None, repeats: int | None, only: str, quick: bool, write_baseline: bool) -> None:
    console = Console()
    rows, repeats = rows or (120_000_000 if quick else 200_000_000), repeats or (3 if quick else 5)
    chosen = only.split(",") if only else list(PARTS)
    strange = set(chosen) - set(PARTS)
    if strange:
        raise click.BadParameter(f"there is no part {', '.join(sorted(strange))}", param_hint="--only")
    RESULTS.mkdir(exist_ok=True)
    flink = has_flink()
    ratios: dict[str, float] = {}
    for name in chosen:
        began = time.monotonic()
        console.rule(f"{name}: {PARTS[name]}")
        if name == "keyed_window":
            ratios[name] = _keyed_window(console, rows, repeats, quick=quick)
        elif name == "many_keys":
            ratios[name] = many_keys.report(console, RESULTS, rows=rows // 2).ratio
        else:
            _run(console, name, repeats, flink=flink)
        console.print(f"{name}: {time.monotonic() - began:.0f} s")
    if write_baseline:
        found = regressions.Baseline(_commit(), datetime.now(UTC).date().isoformat(), rows, repeats, ratios)
        regressions.write(found)
        console.print(f"written to {regressions.BASELINE}: {ratios}")
    elif ratios:
        _compare(console, rows, ratios)


def _commit() -> str:
    command = ["git", "rev-parse", "--short=8", "HEAD"]
    return subprocess.run(command, cwd=RESULTS.parent, capture_output=True, text=True, check=True).stdout.strip()


def _compare(console: Console, rows: int, ratios: Mapping[str, float]) -> None:
    """Ends the process with 1 when a ratio fell, or cannot be compared."""
    try:
        baseline = regressions.read()
        if baseline is None:
            console.print(f"nothing to compare with: there is no {regressions.BASELINE}")
            return
        compared = regressions.compare(baseline, rows, ratios)
    except regressions.UnfitBaseline as unfit:
        raise click.ClickException(str(unfit)) from None
    console.rule(f"compared with {baseline.commit} of {baseline.date}")
    for one in compared:
        console.print(one.says(), style="bold red" if one.has_fallen else "", highlight=False)
    if any(one.has_fallen for one in compared):
        raise SystemExit(1)


def _run(console: Console, name: str, repeats: int, *, flink: bool) -> None:
    if not flink and name in ("flink_sql", "records", "nexmark"):
        console.print("Flink is left out: no apache-flink of tests/servers/flink_environment.py (run `make soak` once)")
    match name:
        case "flink_sql":
            flink_sql.report(console, RESULTS, rows=40_000_000, repeats=repeats, without_flink=not flink)
        case "records":
            records.report(console, RESULTS, repeats=repeats, seconds=3, without_flink=not flink)
        case "nexmark":
            nexmark.report(console, RESULTS, total=2_000_000, limit_s=20, rounds=3, without=() if flink else ("flink",))
        case "latency":
            latency.report(console, RESULTS, seconds=15)
        case "control_plane":
            control_plane.report(console, RESULTS)
        case "state":
            state.report(console, RESULTS)
        case "unaligned":
            unaligned.report(console, RESULTS)
        case "kafka" if shutil.which("mvn"):
            kafka.report(console, RESULTS)
        case _:
            console.print("Kafka to Kafka is left out: its broker and Flink's connector are fetched by Maven (mvn)")


def _keyed_window(console: Console, rows: int, repeats: int, *, quick: bool) -> float:
    """The ratio to pyarrow."""
    console.print(f"keyed windows: {rows:,} rows, 10,000 keys, parallelism 2, exactly-once checkpoints every second")
    runs = keyed_window.measure(rows, repeats, only_ratio=quick)
    console.print(_rates(runs))
    if quick:
        return runs.ratio
    console.print(_figures(runs))
    console.print(_checkpoints(runs))
    (RESULTS / "keyed_window.json").write_text(json.dumps(asdict(runs), indent=1))
    plots.keyed_window(runs, RESULTS / "keyed_window.png")
    console.print(f"drawn in {RESULTS / 'keyed_window.png'}")
    return runs.ratio


def _rates(runs: keyed_window.Runs) -> Table:
    table = Table("", "median M rows/s", "min", "max", "ratio")
    rows = [
        ("pyarrow group_by in memory", runs.pyarrow, "1.00"),
        ("tidegate, end to end", runs.tidegate, f"{runs.ratio:.2f}"),
    ]
    for parallelism, pairs in runs.pairs.items():
        name = f"tidegate, {keyed_window.LONG} times the rows, parallelism {parallelism}"
        rows += [(name, pairs.with_them.tidegate, ""), (f"{name}, no checkpoints", pairs.without.tidegate, "")]
    for name, rates, ratio in rows:
        table.add_row(name, *(f"{f(rates):.1f}" for f in (statistics.median, min, max)), ratio)
    return table


def _figures(runs: keyed_window.Runs) -> Table:
    table = Table("figure", "value")
    for parallelism, pairs in runs.pairs.items():
        cost = f"{pairs.lost:.1%} of {statistics.median(pairs.without.tidegate):.1f} M rows/s"
        table.add_row(f"lost to a checkpoint every second at parallelism {parallelism}, of the rate without", cost)
    first = runs.first_result_s
    table.add_row("from `tidegate run` to the first committed file", f"{statistics.median(first):.1f} s")
    for kind, mib in runs.memory.items():
        table.add_row(f"memory of {kind} (proportional)", f"{mib:.0f} MiB")
    return table


def _checkpoints(runs: keyed_window.Runs) -> Table:
    every = keyed_window.TIMED_INTERVAL_MS
    table = Table("trigger to durable _metadata, ms", "p50", "p95", "p99", "of")
    to_last_ack = "  to the last acknowledgement (Flink's End to End Duration)"
    for parallelism, pairs in runs.pairs.items():
        table.add_row(
            f"full load, parallelism {parallelism}, every second", *_with_count(pairs.with_them.checkpoints_ms)
        )
        table.add_row(to_last_ack, *_with_count(pairs.with_them.end_to_end_ms))
    for load, times in runs.timed_checkpoints_ms.items():
        table.add_row(f"{load} load, every {every} ms", *_with_count(times))
        table.add_row(to_last_ack, *_with_count(runs.timed_end_to_end_ms[load]))
    for phase, times in runs.phases_ms.items():
        table.add_row(f"  at full load, {phase}", *_with_count(times), style="dim")
    return table


def _with_count(times_ms: list[float]) -> list[str]:
    return [*percentiles(times_ms, (50, 95, 99)), str(len(times_ms))]


if __name__ == "__main__":
    main()
