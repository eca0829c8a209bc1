"""A keyed window whose state is ten times its memory, beside the same with all of it in memory: rates, memory, and the answers.

    python -m benchmarks.spilled_windows [--rows 20000000] [--keys 5000000] [--managed "20 mb"] [--turns 2]

The job of the window benchmark; with five million keys, each row of a window has a key of its own, and the partial
aggregates of a window take 80 MB in each of the two subtasks. Both ways in turns, exactly-once checkpoints every second, each result checked.
"""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from benchmarks.many_keys import Measured, measure

RESULTS = Path(__file__).resolve().parent / "results"
IN_MEMORY, SPILLED = "in memory", "on disk"


@click.command(help=__doc__)
@click.option("--rows", default=20_000_000, show_default=True)
@click.option("--keys", default=5_000_000, show_default=True)
@click.option(
    "--managed", default="20 mb", show_default=True, help="Managed memory of the TaskManager, which has two slots."
)
@click.option("--turns", default=2, show_default=True)
def main(rows: int, keys: int, managed: str, turns: int) -> None:
    ways = {IN_MEMORY: {}, SPILLED: {"taskmanager.memory.managed.size": managed}}
    found: dict[str, list[Measured]] = {way: [] for way in ways}
    for _ in range(turns):
        for way, options in ways.items():
            found[way].append(measure(rows, keys, options))
    console, table = (
        Console(width=140),
        Table("", "M rows/s", "checkpoints", "peak of a subtask", "ratio"),
    )
    base = statistics.median(one.million_rows_per_second for one in found[IN_MEMORY])
    for way, runs in found.items():
        rates = [one.million_rows_per_second for one in runs]
        table.add_row(
            way,
            f"{statistics.median(rates):.2f} ({min(rates):.2f} to {max(rates):.2f})",
            str(sum(one.checkpoints for one in runs)),
            f"{max(one.peak_subtask_mib for one in runs):,.0f} MiB",
            f"{statistics.median(rates) / base:.2f}",
        )
    console.print(f"{rows:,} rows, {keys:,} keys, managed memory {managed}, {turns} turns")
    console.print(table)
    RESULTS.mkdir(exist_ok=True)
    told = {way: [asdict(one) for one in runs] for way, runs in found.items()}
    (RESULTS / "spilled_windows.json").write_text(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
