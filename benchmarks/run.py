"""``make bench``: runs the benchmarks and prints ratios, with spread; draws them to ``benchmarks/results/``.

python benchmarks/run.py [--rows 200000000] [--repeats 5]
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import control_plane, kafka, keyed_window, plots, state, unaligned

RESULTS = Path(__file__).resolve().parent / "results"


@click.command(help=__doc__)
@click.option("--rows", default=200_000_000, show_default=True, help="Rows of the window benchmark.")
@click.option("--repeats", default=5, show_default=True, help="Alternating runs.")
def main(rows: int, repeats: int) -> None:
    console = Console()
    console.print(f"keyed windows: {rows:,} rows, 10,000 keys, parallelism 2, exactly-once checkpoints every second")
    runs = keyed_window.measure(rows, repeats)
    console.print(_rates(runs))
    console.print(_figures(runs))
    console.print(_checkpoints(runs))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "keyed_window.json").write_text(json.dumps(asdict(runs), indent=1))
    plots.keyed_window(runs, RESULTS / "keyed_window.png")
    console.print(f"drawn in {RESULTS / 'keyed_window.png'}")
    control_plane.report(console, RESULTS)
    state.report(console, RESULTS)
    unaligned.report(console, RESULTS)
    if shutil.which("mvn"):
        kafka.report(console, RESULTS)
    else:
        console.print("Kafka to Kafka is left out: its broker and Flink's connector are fetched by Maven (mvn)")


def _rates(runs: keyed_window.Runs) -> Table:
    table = Table("", "median M rows/s", "min", "max", "ratio")
    for name, rates, ratio in (
        ("pyarrow group_by in memory", runs.pyarrow, "1.00"),
        ("tidegate, end to end", runs.tidegate, f"{runs.ratio:.2f}"),
        (f"tidegate, {keyed_window.LONG} times the rows", runs.long, ""),
        (f"tidegate, {keyed_window.LONG} times the rows, no checkpoints", runs.without_checkpoints, ""),
    ):
        table.add_row(name, *(f"{f(rates):.1f}" for f in (statistics.median, min, max)), ratio)
    return table


def _figures(runs: keyed_window.Runs) -> Table:
    table = Table("figure", "value")
    cost = f"{runs.checkpointing_costs:.1%} of {statistics.median(runs.without_checkpoints):.1f} M rows/s"
    table.add_row("lost to a checkpoint every second, of the rate without", cost)
    first = runs.first_result_s
    table.add_row("from `tidegate run` to the first committed file", f"{statistics.median(first):.1f} s")
    for kind, mib in runs.memory.items():
        table.add_row(f"memory of {kind} (proportional)", f"{mib:.0f} MiB")
    return table


def _checkpoints(runs: keyed_window.Runs) -> Table:
    every = keyed_window.TIMED_INTERVAL_MS
    table = Table("trigger to durable _metadata, ms", "p50", "p95", "p99", "of")
    table.add_row("full load, every second", *_percentiles(runs.checkpoints_ms))
    for load, times in runs.timed_checkpoints_ms.items():
        table.add_row(f"{load} load, every {every} ms", *_percentiles(times))
    for phase, times in runs.phases_ms.items():
        table.add_row(f"  at full load, {phase}", *_percentiles(times), style="dim")
    return table


def _percentiles(times_ms: list[float]) -> list[str]:
    times = sorted(times_ms)
    found = [times[min(len(times) - 1, len(times) * share // 100)] for share in (50, 95, 99)]
    return [*(f"{value:.0f}" for value in found), str(len(times))]


if __name__ == "__main__":
    main()
