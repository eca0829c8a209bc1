"""Columnar keyed windows beside Flink SQL and Spark Structured Streaming: the same rows and windows, alternating runs, totals compared.

    python -m benchmarks.flink_sql [--rows 40000000] [--repeats 5] [--without-flink]

Parallelism 2, exactly-once, everything up and warm. tidegate and Flink take a checkpoint every second and are timed from RUNNING to
FINISHED; Spark's micro-batches are its checkpoints, and it is timed from its first to its last (`rivals/spark_windows.py`). tidegate
and Spark write Parquet, Flink, whose package has none, CSV. Each makes the rows of `benchmarks.rows` itself. Asked: 5 times Flink SQL.

Then tidegate and Flink run for their checkpoints, as fast as they go, in a job that is long enough for 20: from trigger to the last acknowledgement.
"""

from __future__ import annotations

import csv
import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType

import click
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import plots
from benchmarks.cluster import BenchCluster
from benchmarks.flink_cluster import FlinkCluster, FlinkSession
from benchmarks.keyed_window import HISTORY, completed_checkpoints, end_to_end_ms
from benchmarks.percentiles import percentiles
from benchmarks.rows import KEYS, ROWS_PER_MS, WINDOW_MS

PARALLELISM, INTERVAL_MS = 2, 1_000
FEWEST_CHECKPOINTS = 20
SPARK_BATCH_ROWS = 2_000_000
"""A micro-batch of about a second."""
TIDEGATE, FLINK, SPARK = "tidegate", "Flink SQL", "Spark Structured Streaming"
RESULTS = Path(__file__).resolve().parent / "results"

Answer = tuple[int, int]
"""Rows, and the sum of their values."""


@dataclass
class Run:
    """One job of one system."""

    rate: float
    """Million rows a second."""
    answer: Answer
    checkpoints_ms: list[float] = field(default_factory=list)
    """End to end durations, as Flink counts them; none of Spark."""


Runner = Callable[[str, int], Run]
"""Of a name and a number of rows."""


@dataclass
class Rates:
    """By system."""

    rates: dict[str, list[float]] = field(default_factory=dict)
    """Million rows a second."""
    checkpoints_ms: dict[str, list[float]] = field(default_factory=dict)

    def ratio(self, system: str) -> float:
        """To Flink SQL, if it is there."""
        base = self.rates.get(FLINK, self.rates[TIDEGATE])
        return statistics.median(self.rates[system]) / statistics.median(base)


class SparkRuns:
    """A Spark that is up, in a process of its own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        script = Path(__file__).resolve().parent / "rivals" / "spark_windows.py"
        with (directory / "spark.log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(script), str(PARALLELISM), str(SPARK_BATCH_ROWS)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "PYSPARK_PYTHON": sys.executable, "TZ": "UTC"},
                text=True,
            )

    def __enter__(self) -> SparkRuns:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=60)  # it ends with its input

    def run(self, rows: int, name: str) -> Run:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        directory = self._directory / f"spark-{name}"
        self._process.stdin.write(f"{rows} {directory}\n")
        self._process.stdin.flush()
        told = next((line for line in self._process.stdout if line.startswith("ANSWER ")), None)
        if told is None:
            raise RuntimeError(f"Spark ended: {(self._directory / 'spark.log').read_text()[-2000:]}")
        table = ds.dataset(sorted((directory / "out").glob("*.parquet")), format="parquet").to_table()
        table = table.filter(pc.greater_equal(table["key"], 0))
        return Run(rows / json.loads(told[7:])["seconds"] / 1e6, _totals(table["rows"], table["total"]))


def run_tidegate(cluster: BenchCluster, rows: int, name: str) -> Run:
    output = cluster.directory / name
    arguments = (str(rows), str(PARALLELISM), str(output), str(INTERVAL_MS), "0")
    job_id = cluster.run("benchmarks/keyed_window_job.py", *arguments)
    times = cluster.wait(job_id).state_timestamps_ms
    table = ds.dataset(output, format="parquet").to_table()
    rate = rows / (times["FINISHED"] - times["RUNNING"]) / 1e3
    return Run(
        rate,
        _totals(table["rows"], table["total"]),
        [end_to_end_ms(checkpoint) for checkpoint in completed_checkpoints(cluster, job_id)],
    )


def run_flink(cluster: FlinkCluster, session: FlinkSession, rows: int, name: str) -> Run:
    output = cluster.directory / name
    made = f"""CREATE TABLE totals (began TIMESTAMP(3), key BIGINT, `rows` BIGINT, total BIGINT)
               WITH ('connector' = 'filesystem', 'path' = '{output}', 'format' = 'csv')"""
    query = f"""INSERT INTO totals
                SELECT window_time, key, COUNT(*) AS `rows`, SUM(`value`) AS total
                FROM TABLE(TUMBLE(TABLE made, DESCRIPTOR(`dateTime`), INTERVAL '{WINDOW_MS // 1000}' SECOND))
                GROUP BY window_start, window_end, window_time, key"""
    numbers = ["numbers", "f0", f"MOD(f0, {rows // PARALLELISM}) / {ROWS_PER_MS}", rows]
    view = f"CREATE TEMPORARY VIEW made AS SELECT MOD(n * 7919, {KEYS}) AS key, MOD(n, 1024) AS `value`, `dateTime` FROM numbers"
    job_id = session.order(numbers=[numbers], statements=[view, made], query=query)["job"]
    times = cluster.wait(job_id)
    counted = total = 0
    for path in output.iterdir():
        with path.open(newline="") as file:
            for _, _, number, value in csv.reader(file):
                counted, total = counted + int(number), total + int(value)
    return Run(rows / (times["FINISHED"] - times["RUNNING"]) / 1e3, (counted, total), cluster.checkpoints_ms(job_id))


def measure(console: Console, rows: int, repeats: int, *, without_flink: bool) -> Rates:
    """Raises ``RuntimeError`` when the totals differ."""
    rows = rows // SPARK_BATCH_ROWS * SPARK_BATCH_ROWS
    with ExitStack() as stack:
        tidegate = stack.enter_context(BenchCluster(PARALLELISM, HISTORY))
        spark = stack.enter_context(SparkRuns(tidegate.directory))
        runs: dict[str, Runner] = {TIDEGATE: lambda name, number: run_tidegate(tidegate, number, name)}
        if not without_flink:
            flink = stack.enter_context(FlinkCluster(PARALLELISM, HISTORY))
            session = flink.session(PARALLELISM, INTERVAL_MS)
            runs[FLINK] = lambda name, number: run_flink(flink, session, number, name)
            console.print(f"Flink: {flink.options}, pipeline.object-reuse: true")
        runs[SPARK] = lambda name, number: spark.run(number, name)
        console.print(f"Spark: local[{PARALLELISM}], 3 GB, {SPARK_BATCH_ROWS:,} rows a micro-batch; tidegate: defaults")
        for run in runs.values():
            run("warm-up", max(SPARK_BATCH_ROWS, rows // 5 // SPARK_BATCH_ROWS * SPARK_BATCH_ROWS))
        rates = Rates()
        for repeat in range(repeats):
            answers = {}
            for system, run in runs.items():
                found = run(f"run-{repeat}", rows)
                answers[system] = found.answer
                rates.rates.setdefault(system, []).append(found.rate)
            if len(set(answers.values())) > 1:
                raise RuntimeError(f"the totals differ: {answers}")
        for system, run in runs.items():
            if system != SPARK:
                rates.checkpoints_ms[system] = _many_checkpoints(run, rows)
    return rates


def _many_checkpoints(run: Runner, rows: int) -> list[float]:
    """Of one job that had enough of them."""
    found = run("long-0", rows).checkpoints_ms
    while len(found) < FEWEST_CHECKPOINTS:
        rows *= math.ceil(1.5 * FEWEST_CHECKPOINTS / max(1, len(found)))
        found = run(f"long-{rows}", rows).checkpoints_ms
    return found


def checkpoints_of(found: Rates) -> Table:
    table = Table("checkpoint at full load, end to end, ms", "p50", "p95", "worst", "of")
    for system, times in found.checkpoints_ms.items():
        table.add_row(system, *percentiles(times, (50, 95, 100)), str(len(times)))
    return table


def table_of(found: Rates) -> Table:
    table = Table("keyed windows", "median M rows/s", "min", "max", "to Flink SQL")
    for system, rates in found.rates.items():
        ratio = f"{found.ratio(system):.2f}" if FLINK in found.rates else ""
        table.add_row(system, *(f"{f(rates):.2f}" for f in (statistics.median, min, max)), ratio)
    return table


def report(console: Console, results: Path, *, rows: int, repeats: int, without_flink: bool = False) -> None:
    """Measures, prints a table and draws it."""
    found = measure(console, rows, repeats, without_flink=without_flink)
    console.print(table_of(found))
    console.print(checkpoints_of(found))
    results.mkdir(exist_ok=True)
    (results / "flink_sql.json").write_text(json.dumps(asdict(found), indent=1))
    drawn = {name: [rate * 1e6 for rate in rates] for name, rates in found.rates.items()}
    plots.records({"keyed windows": drawn}, results / "flink_sql.png")


def _totals(rows: pa.ChunkedArray, total: pa.ChunkedArray) -> Answer:
    return pc.sum(rows).as_py(), pc.sum(total).as_py()


@click.command(help=__doc__)
@click.option("--rows", default=40_000_000, show_default=True)
@click.option("--repeats", default=5, show_default=True)
@click.option("--without-flink", is_flag=True)
def main(rows: int, repeats: int, without_flink: bool) -> None:
    report(Console(), RESULTS, rows=rows, repeats=repeats, without_flink=without_flink)


if __name__ == "__main__":
    main()
