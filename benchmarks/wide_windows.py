"""Windows of a million keys, beside pyarrow in memory and DuckDB: the same mapped Arrow files, alternating runs, answers compared.

    python -m benchmarks.wide_windows [--rows 60000000] [--repeats 3] [--only dense,text] [--parallelism 1]

tidegate takes an exactly-once checkpoint every second and commits Parquet files; its time is from RUNNING to FINISHED. pyarrow
groups by window and keys on as many threads and keeps the result in memory; DuckDB does the same on as many threads into one Parquet file.
"""

from __future__ import annotations

import json
import shutil
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import click
import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from rich.console import Console
from rich.table import Table

from benchmarks import wide_rows
from benchmarks.cluster import BenchCluster
from benchmarks.keyed_window import HISTORY, completed_checkpoints, end_to_end_ms
from benchmarks.percentiles import percentiles
from benchmarks.wide_rows import KEYS, PARALLELISM, SHAPES

INTERVAL_MS = 1_000
RESULTS = Path(__file__).resolve().parent / "results"
TIDEGATE, PYARROW, DUCKDB = "tidegate", "pyarrow in memory", "DuckDB to Parquet"

Answer = tuple[int, int, int]
"""Number of results, sum of their counts, sum of their totals."""


@dataclass
class Runs:
    """Of one shape."""

    rates: dict[str, list[float]] = field(default_factory=dict)
    """Million rows a second, by contender."""
    checkpoints_ms: list[float] = field(default_factory=list)
    """From the trigger to the last acknowledgement, of all runs."""
    checkpoint_mib: list[float] = field(default_factory=list)

    def ratio(self, contender: str) -> float:
        return statistics.median(self.rates[TIDEGATE]) / statistics.median(self.rates[contender])


def measure(shape: str, rows: int, keys: int, repeats: int, parallelism: int = PARALLELISM) -> Runs:
    """Raises ``RuntimeError`` when answers differ."""
    runs = Runs()
    directory = wide_rows.directory()
    try:
        path = directory / "rows.arrow"
        wide_rows.write(shape, rows, keys, path, parallelism)
        length = wide_rows.window_ms(shape, keys, parallelism)
        with BenchCluster(parallelism, HISTORY) as cluster:
            for number in range(repeats):
                answers = {
                    TIDEGATE: _tidegate(cluster, runs, shape, path, rows, length, number, parallelism),
                    PYARROW: _pyarrow(runs, shape, path, rows, length, parallelism),
                    DUCKDB: _duckdb(runs, shape, path, rows, length, parallelism),
                }
                if len(set(answers.values())) > 1:
                    raise RuntimeError(f"{shape}: the answers differ: {answers}")
    finally:
        shutil.rmtree(directory)
    return runs


def _tidegate(
    cluster: BenchCluster, runs: Runs, shape: str, path: Path, rows: int, length: int, number: int, parallelism: int
) -> Answer:
    output = cluster.directory / f"windows-{number}"
    columns = ",".join(SHAPES[shape].columns)
    arguments = (path, rows, columns, length, output, INTERVAL_MS, parallelism)
    job_id = cluster.run("benchmarks/wide_windows_job.py", *map(str, arguments))
    status = cluster.wait(job_id)
    times = status.state_timestamps_ms
    runs.rates.setdefault(TIDEGATE, []).append(rows / (times["FINISHED"] - times["RUNNING"]) / 1e3)
    for checkpoint in completed_checkpoints(cluster, job_id):
        runs.checkpoints_ms.append(end_to_end_ms(checkpoint))
        runs.checkpoint_mib.append(checkpoint.size_bytes / 2**20)
    found = ds.dataset(output, format="parquet")
    answer = (
        found.count_rows(),
        *(
            sum(pc.sum(b.column(0)).as_py() or 0 for b in found.to_batches(columns=[name]))
            for name in ("rows", "total")
        ),
    )
    shutil.rmtree(output)
    return answer


def _pyarrow(runs: Runs, shape: str, path: Path, rows: int, length: int, threads: int) -> Answer:
    pa.set_cpu_count(threads)
    table = wide_rows.mapped(path)
    begun = time.perf_counter()
    windows = pa.chunked_array([pa.array(np.asarray(chunk) // length) for chunk in table["ts"].chunks])
    table = table.append_column("w", windows).drop_columns(["ts"])
    keys = ["w", *SHAPES[shape].columns]
    found = table.group_by(keys).aggregate([("v", "count"), ("v", "sum")])
    runs.rates.setdefault(PYARROW, []).append(rows / (time.perf_counter() - begun) / 1e6)
    return found.num_rows, pc.sum(found["v_count"]).as_py(), pc.sum(found["v_sum"]).as_py()


def _duckdb(runs: Runs, shape: str, path: Path, rows: int, length: int, threads: int) -> Answer:
    rows_of_file = wide_rows.mapped(path)  # noqa: F841  the query names it
    keys = ", ".join(SHAPES[shape].columns)
    with duckdb.connect(config={"threads": threads}) as connection:
        target = path.with_suffix(".parquet")
        begun = time.perf_counter()
        connection.execute(
            f"copy (select ts // {length} as w, {keys}, count(v) as n, sum(v)::bigint as s from rows_of_file group by all) to '{target}'"
        )
        runs.rates.setdefault(DUCKDB, []).append(rows / (time.perf_counter() - begun) / 1e6)
        found = connection.execute(f"select count(*), sum(n)::bigint, sum(s)::bigint from '{target}'").fetchone()
    target.unlink()
    assert found is not None
    return found[0], found[1], found[2]


def report(
    console: Console,
    results: Path,
    rows: int,
    repeats: int,
    shapes: Sequence[str] = tuple(SHAPES),
    keys: int = KEYS,
    parallelism: int = PARALLELISM,
) -> dict[str, Runs]:
    """Prints the figures and writes ``wide_windows.json``. Gives the runs by shape."""
    console.print(f"{rows:,} rows, {keys:,} keys, parallelism {parallelism}, exactly-once checkpoints every second")
    console = Console(width=max(console.width, 140))
    table = Table("shape", TIDEGATE, PYARROW, "ratio", DUCKDB, "ratio", "checkpoints p50, p99", "MiB p50")
    measured: dict[str, Runs] = {}
    for shape in shapes:
        of_shape = rows if SHAPES[shape].rows_per_key > 1 else rows // 2
        runs = measured[shape] = measure(shape, of_shape, keys, repeats, parallelism)
        rates = {
            name: f"{statistics.median(rate):.1f} ({min(rate):.1f}-{max(rate):.1f})"
            for name, rate in runs.rates.items()
        }
        table.add_row(
            shape,
            rates[TIDEGATE],
            rates[PYARROW],
            f"{runs.ratio(PYARROW):.2f}",
            rates[DUCKDB],
            f"{runs.ratio(DUCKDB):.2f}",
            ", ".join(percentiles(runs.checkpoints_ms, (50, 99))) if runs.checkpoints_ms else "none",
            f"{statistics.median(runs.checkpoint_mib):.0f}" if runs.checkpoint_mib else "",
        )
    console.print(table)
    results.mkdir(exist_ok=True)
    (results / "wide_windows.json").write_text(json.dumps({n: asdict(r) for n, r in measured.items()}, indent=1))
    return measured


@click.command(help=__doc__)
@click.option("--rows", default=60_000_000, show_default=True)
@click.option("--keys", default=KEYS, show_default=True)
@click.option("--repeats", default=3, show_default=True, help="Alternating runs.")
@click.option("--only", default=",".join(SHAPES), show_default=True, help="Shapes, by comma.")
@click.option("--parallelism", default=PARALLELISM, show_default=True, help="And threads of the others.")
def main(rows: int, keys: int, repeats: int, only: str, parallelism: int) -> None:
    report(Console(), RESULTS, rows, repeats, only.split(","), keys, parallelism)


if __name__ == "__main__":
    main()
