"""Latency at half of the maximum load: from the making of a row in the source to the output of an operator by key.

    python -m benchmarks.latency [--seconds 20]
    python -m benchmarks.latency --rates 1000,10000,100000 [--seconds 8]

The maximum is measured first, by a run whose rate nobody limits. Exactly-once checkpoints every second; parallelism 2. Asked:
p50 under 10 ms, p99 under 50 ms. With ``--rates`` these are the loads instead, for a map without state too, and each load is measured in turn on Flink,
a job in Java in one JVM, at its default buffer timeout and at 5 ms, where tests have installed Flink.
"""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import plots
from benchmarks.cluster import BenchCluster
from benchmarks.latency_job import KEYS
from benchmarks.latency_rivals import FlinkLatency
from tests.servers.flink_environment import is_installed

PARALLELISM = 2
JOB = "benchmarks/latency_job.py"
UNLIMITED = {"columns": 20_000_000, "records": 1_000_000}
"""Rows a second that nobody reaches."""
PROBE_S = {"columns": 2, "records": 2}
RESULTS = Path(__file__).resolve().parent / "results"
PATHS = {
    "columns_map": "columns, map without state",
    "columns": "columns, aggregate by key",
    "records_map": "functions of one record, map without state",
    "records": "functions of one record, reduce by key",
}
SHARES = (50, 95, 99, 99.9)
FLINK = {"map": "columns_map", "reduce": "columns"}
"""Kinds of Flink's job, and the path behind which it is measured."""
BUFFER_TIMEOUTS_MS = (100, 5)
"""Flink's default, and what is usual for low latency."""
WARM_UP = 0.1
"""So much of the rows, the first, does not count."""

Latencies = npt.NDArray[np.float64]


def maximum_rate(cluster: BenchCluster, path: str) -> float:
    rows = UNLIMITED[path] * PROBE_S[path]
    output = cluster.directory / f"maximum-{path}"
    job_id = cluster.run(JOB, str(UNLIMITED[path]), str(PROBE_S[path]), str(PARALLELISM), str(output), path)
    times = cluster.wait(job_id).state_timestamps_ms
    return rows / (times["FINISHED"] - times["RUNNING"]) * 1000


def latencies_ms(cluster: BenchCluster, path: str, rate: int, seconds: int, keys: int = KEYS) -> Latencies:
    output = cluster.directory / f"{path}-{rate}"
    cluster.wait(cluster.run(JOB, str(rate), str(seconds), str(PARALLELISM), str(output), path, str(keys)))
    return warm([np.load(file) / 1000 for file in sorted(output.glob("*.npy"))])


def warm(of_subtasks: Sequence[npt.NDArray[np.float64]]) -> Latencies:
    return np.concatenate([one[int(len(one) * WARM_UP) :] for one in of_subtasks])


def report(console: Console, results: Path, *, seconds: int) -> None:
    """Measures, prints a table and draws it."""
    table = Table("path", "maximum rows/s", "load rows/s", "p50 ms", "p95 ms", "p99 ms", "longest ms")
    found: dict[str, Latencies] = {}
    told: dict[str, dict[str, float]] = {}
    with BenchCluster(PARALLELISM) as cluster:
        for path in ("columns", "records"):
            maximum = maximum_rate(cluster, path)
            rate = int(maximum / 2)
            found[path] = latencies_ms(cluster, path, rate, seconds)
            p50, p95, p99 = (float(np.percentile(found[path], q)) for q in (50, 95, 99))
            told[path] = {"maximum": maximum, "rate": rate, "p50_ms": p50, "p95_ms": p95, "p99_ms": p99}
            figures = (f"{p50:.1f}", f"{p95:.1f}", f"{p99:.1f}", f"{found[path].max():.0f}")
            table.add_row(path, f"{maximum:,.0f}", f"{rate:,}", *figures)
    console.print(table)
    results.mkdir(exist_ok=True)
    (results / "latency.json").write_text(json.dumps(told, indent=1))
    plots.latency(found, results / "latency.png")
    console.print(f"drawn in {results / 'latency.png'}")


def report_rates(console: Console, results: Path, rates: Sequence[int], *, seconds: int, keys: int = KEYS) -> None:
    """Prints the table of all paths at these loads, and writes ``latency_rates.json``."""
    table = Table("path", "rows/s", *(f"p{share:g} ms" for share in SHARES), "worst ms")
    told: dict[str, dict[int, list[float]]] = {}

    def add(what: str, rate: int, times: Latencies) -> None:
        figures = [*np.percentile(times, SHARES).tolist(), float(times.max())]
        told.setdefault(what, {})[rate] = figures
        table.add_row(what, f"{rate:,}", *(f"{figure:.1f}" for figure in figures))

    flink = is_installed()
    with BenchCluster(PARALLELISM) as cluster, tempfile.TemporaryDirectory() as directory:
        rival = FlinkLatency(Path(directory)) if flink else None
        for path, what in PATHS.items():
            for rate in rates:
                add(what, rate, latencies_ms(cluster, path, rate, seconds, keys))
                kinds = [kind for kind, behind in FLINK.items() if behind == path and rival is not None]
                for kind, timeout in itertools.product(kinds, BUFFER_TIMEOUTS_MS):
                    assert rival is not None
                    found = rival.latencies_ms(
                        kind, rate, seconds, parallelism=PARALLELISM, keys=keys, buffer_timeout_ms=timeout
                    )
                    add(f"Flink, {kind}, buffers of {timeout} ms", rate, warm(found))
    console.print(table)
    if not flink:
        console.print("Flink is not installed by the tests here, and was not measured")
    results.mkdir(exist_ok=True)
    (results / "latency_rates.json").write_text(json.dumps(told, indent=1))


@click.command(help=__doc__)
@click.option("--seconds", default=20, show_default=True)
@click.option("--rates", default="", help="Rows a second, by comma. Default: half of the maximum.")
@click.option("--keys", default=KEYS, show_default=True, help="With --rates.")
def main(seconds: int, rates: str, keys: int) -> None:
    if rates:
        loads = [int(rate) for rate in rates.split(",")]
        report_rates(Console(width=120), RESULTS, loads, seconds=seconds, keys=keys)
    else:
        report(Console(), RESULTS, seconds=seconds)


if __name__ == "__main__":
    main()
