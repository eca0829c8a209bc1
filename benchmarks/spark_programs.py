"""Programs of Structured Streaming beside what becomes of them here: the pairs of ``examples/from_spark``, in turns.

python -m benchmarks.spark_programs [--only windows,distinct] [--repeats 1]

Both read the same Parquet files by Spark and write Parquet; Spark runs in this process on two cores, tidegate in a cluster on the same machine, and
the other one is idle. Structured Streaming has a trigger of 100 ms; tidegate asks its source every 100 ms and completes a checkpoint every 100 ms.

    rate      so many taps come at once to a program that runs: until their results can be read
    latency   small files come, one after the other: from the rename of each until the results that it brings can be read
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

from benchmarks.percentiles import percentiles
from tests.e2e.moved_programs import PAIRS, Output, Pair, Tap, taps_of, write_taps
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.testing import MiniCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INTERVAL_MS = 100
LOOK_S = 0.005
"""How exact a latency is."""
LIMIT_S = 120
SMALL = 200
"""Taps of a file that measures latency."""
WARM_FILES = 5
"""Files before anything is measured: the first results of a silent card come with the fifth."""
LARGE_FILES = 4
"""Files of the taps that come at once, which two tasks of Spark share evenly."""


@dataclass
class Measured:
    rates: list[float] = field(default_factory=list)
    latencies_ms: list[float] = field(default_factory=list)


class Side:
    """One program that runs, its input and its output."""

    def __init__(self, pair: Pair, directory: Path) -> None:
        self.source = directory / "in"
        self.source.mkdir(parents=True)
        self.output = Output(pair, directory / "out")

    def wait(self, count: int) -> float:
        """Until so many rows can be read. Returns the moment."""
        deadline = time.monotonic() + LIMIT_S
        while (found := self.output.count()) < count:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.output.directory}: {found} of {count} rows after {LIMIT_S} s")
            time.sleep(LOOK_S)
        return time.monotonic()


@contextlib.contextmanager
def structured_streaming(pair: Pair, spark: SparkSession, directory: Path) -> Iterator[Side]:
    side = Side(pair, directory)
    query = pair.spark.start(spark, str(side.source), str(side.output.directory))
    try:
        yield side
    finally:
        query.stop()


@contextlib.contextmanager
def tidegate(pair: Pair, cluster: MiniCluster, directory: Path) -> Iterator[Side]:
    side = Side(pair, directory)
    with cluster.installed():
        env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        env.enable_checkpointing(INTERVAL_MS)
        pair.tidegate.build(env, str(side.source), str(side.output.directory))
        job = env.execute_async(pair.name)
    try:
        yield side
    finally:
        job.cancel().result()


@dataclass(frozen=True)
class Plan:
    """The files that come, and how many rows there are to be after each of them."""

    files: list[list[Tap]]
    expected: list[int]

    @staticmethod
    def of(pair: Pair, small: int, at_once: int) -> Plan:
        counts = [SMALL] * (WARM_FILES + small) + [at_once // LARGE_FILES] * LARGE_FILES
        files = [taps_of(number, count) for number, count in enumerate(counts)]
        read: list[Tap] = []
        expected = []
        for number, taps in enumerate(files):
            read += taps
            is_asked = number < WARM_FILES + small or number == len(files) - 1
            expected.append(len(pair.expected(read)) if is_asked else -1)
        return Plan(files, expected)


def measure(side: Side, plan: Plan, every_s: float, into: Measured) -> None:
    for number in range(WARM_FILES):
        write_taps(side.source, number, plan.files[number])
    side.wait(plan.expected[WARM_FILES - 1])
    _measure_latency(side, plan, every_s, into)
    began = time.monotonic()
    large = range(len(plan.files) - LARGE_FILES, len(plan.files))
    for number in large:
        write_taps(side.source, number, plan.files[number])
    rows = sum(len(plan.files[number]) for number in large)
    into.rates.append(rows / (side.wait(plan.expected[-1]) - began))


def _measure_latency(side: Side, plan: Plan, every_s: float, into: Measured) -> None:
    """Files come by the clock, however far the program is."""
    waiting: list[tuple[float, int]] = []
    begun = time.monotonic()
    coming = list(range(WARM_FILES, len(plan.files) - LARGE_FILES))
    while coming or waiting:
        if coming and time.monotonic() >= begun + every_s:
            begun += every_s
            number = coming.pop(0)
            write_taps(side.source, number, plan.files[number])
            if plan.expected[number] > plan.expected[number - 1]:
                waiting.append((time.monotonic(), plan.expected[number]))
        found, now = side.output.count(), time.monotonic()
        if now > begun + LIMIT_S:
            raise RuntimeError(f"{side.output.directory}: {found} rows, and {len(waiting)} files wait")
        into.latencies_ms += [1000 * (now - at) for at, count in waiting if count <= found]
        waiting = [(at, count) for at, count in waiting if count > found]
        time.sleep(LOOK_S)


@click.command(help=__doc__)
@click.option("--only", default="", help="Pairs, by comma. Default: all.")
@click.option("--repeats", default=1, show_default=True, help="Turns of each pair.")
@click.option("--files", default=20, show_default=True, help="Small files of each turn.")
@click.option("--every", default=0.5, show_default=True, help="Seconds between them.")
@click.option("--taps", default=400_000, show_default=True, help="Taps that come at once.")
def main(only: str, repeats: int, files: int, every: float, taps: int) -> None:
    from pyspark.sql import SparkSession

    chosen = [pair for pair in PAIRS if not only or pair.name in only.split(",")]
    plans = {pair.name: Plan.of(pair, files, taps) for pair in chosen}
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = (
        builder.config("spark.sql.shuffle.partitions", "2").config("spark.sql.session.timeZone", "UTC").getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    console = Console()
    table = Table("program", "", "rows/s", "p50 ms", "p99 ms", "samples", title="results that can be read")
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as name, MiniCluster(slots=1) as cluster:
        for pair in chosen:
            theirs, ours = Measured(), Measured()
            for turn in range(repeats):
                with structured_streaming(pair, spark, Path(name, f"{pair.name}-{turn}-theirs")) as side:
                    measure(side, plans[pair.name], every, theirs)
                with tidegate(pair, cluster, Path(name, f"{pair.name}-{turn}-ours")) as side:
                    measure(side, plans[pair.name], every, ours)
            for label, found in (("Structured Streaming", theirs), ("tidegate", ours)):
                p50, p99 = percentiles(found.latencies_ms, [50, 99])
                rate = sorted(found.rates)[len(found.rates) // 2]
                table.add_row(pair.name, label, f"{rate:,.0f}", p50, p99, str(len(found.latencies_ms)))
            console.print(f"{pair.name} is done")
    spark.stop()
    console.print(table)


if __name__ == "__main__":
    main()
