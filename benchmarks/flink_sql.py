"""Columnar keyed windows beside Flink SQL: the same rows and windows, alternating runs, totals compared.

    python -m benchmarks.flink_sql [--rows 50000000] [--repeats 5]

Parallelism 2, exactly-once checkpoints every second, both clusters up and warm; timed from RUNNING to FINISHED. Flink reads its own
generator (`datagen`) and reuses objects; tidegate generates with numpy and writes Parquet. Asked: 5 times Flink SQL.
"""

from __future__ import annotations

import csv
import json
import statistics
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

import click
import pyarrow.compute as pc
import pyarrow.dataset as ds
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import plots
from benchmarks.cluster import ROOT, BenchCluster
from benchmarks.flink_cluster import FlinkCluster

PARALLELISM = 2
INTERVAL_MS = 1_000
RESULTS = Path(__file__).resolve().parent / "results"

Answer = tuple[int, int]
"""Rows, and the sum of their values."""


@dataclass
class Rates:
    """Million rows a second."""

    tidegate: list[float] = field(default_factory=list)
    flink: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        return statistics.median(self.tidegate) / statistics.median(self.flink)


def run_tidegate(cluster: BenchCluster, rows: int, name: str) -> tuple[float, Answer]:
    output = cluster.directory / name
    arguments = (str(rows), str(PARALLELISM), str(output), str(INTERVAL_MS), "0")
    times = cluster.wait(cluster.run("benchmarks/keyed_window_job.py", *arguments)).state_timestamps_ms
    table = ds.dataset(output, format="parquet").to_table()
    answer = (pc.sum(table["rows"]).as_py(), pc.sum(table["total"]).as_py())
    return rows / (times["FINISHED"] - times["RUNNING"]) / 1e3, answer


def run_flink(cluster: FlinkCluster, rows: int, name: str) -> tuple[float, Answer]:
    output = cluster.directory / name
    job = ROOT / "benchmarks" / "flink_sql_job.py"
    times = cluster.wait(cluster.run_python(job, str(rows), str(PARALLELISM), str(output), str(INTERVAL_MS)))
    counted = total = 0
    for path in output.iterdir():
        with path.open(newline="") as file:
            for _, _, number, value in csv.reader(file):
                counted, total = counted + int(number), total + int(value)
    return rows / (times["FINISHED"] - times["RUNNING"]) / 1e3, (counted, total)


def measure(rows: int, repeats: int) -> Rates:
    """Raises ``RuntimeError`` when the totals differ."""
    rates = Rates()
    with BenchCluster(PARALLELISM) as tidegate, FlinkCluster(PARALLELISM) as flink:
        run_tidegate(tidegate, rows, "warm-up")
        run_flink(flink, rows // 5, "warm-up")
        for repeat in range(repeats):
            rate, answer = run_tidegate(tidegate, rows, f"run-{repeat}")
            rates.tidegate.append(rate)
            rate, other = run_flink(flink, rows, f"run-{repeat}")
            rates.flink.append(rate)
            if answer != other:
                raise RuntimeError(f"the totals differ: tidegate {answer}, Flink SQL {other}")
    return rates


@click.command(help=__doc__)
@click.option("--rows", default=50_000_000, show_default=True)
@click.option("--repeats", default=5, show_default=True)
def main(rows: int, repeats: int) -> None:
    console = Console()
    rates = measure(rows, repeats)
    table = Table("", "median M rows/s", "min", "max", "ratio")
    for name, found, ratio in (("Flink SQL", rates.flink, 1.0), ("tidegate", rates.tidegate, rates.ratio)):
        table.add_row(name, *(f"{f(found):.2f}" for f in (statistics.median, min, max)), f"{ratio:.1f}")
    console.print(table)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "flink_sql.json").write_text(json.dumps(asdict(rates), indent=1))
    plots.records(
        {"keyed windows": {name: [r * 1e6 for r in f] for name, f in asdict(rates).items()}}, RESULTS / "flink_sql.png"
    )


if __name__ == "__main__":
    main()
