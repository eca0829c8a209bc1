"""A million keys beside Flink SQL: windows, running aggregates without windows, and sessions, in turns, with checkpoints every second.

    python -m benchmarks.wide_kinds [--rows 30000000] [--repeats 2] [--only windows,sessions]

Both drop their results, so that writing is not what is measured. tidegate reads the rows from a mapped file, Flink computes them from their numbers,
and is given a quarter as many, since it is slower. pyarrow's ``group_by`` of the same file, in memory, is the yardstick of windows and aggregates.

    windows       10 rows of a key in a window         rare          one row of a key in a window
    aggregate     a running count and sum by key       sessions      8 rows of a key, one after the other; the gap is longer than half of the keys take
"""

from __future__ import annotations

import shutil
import statistics
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import click
import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import wide_rows
from benchmarks.cluster import BenchCluster
from benchmarks.flink_cluster import FlinkCluster, FlinkSession, has_flink
from benchmarks.keyed_window import HISTORY, completed_checkpoints, end_to_end_ms
from benchmarks.percentiles import percentiles
from benchmarks.wide_rows import KEYS, PARALLELISM

INTERVAL_MS = 1_000
FLINKS_SHARE = 4
TIDEGATE, PYARROW, FLINK = "tidegate", "pyarrow in memory", "Flink SQL"
BURST_ROWS = 8
"""Of a key in a session, one after the other."""


@dataclass(frozen=True)
class Kind:
    """``length_ms``: of a window, or the gap. ``query``: Flink's, over the view ``made`` of ``k``, ``v`` and ``dateTime``."""

    job: str
    length_ms: int
    query: str
    burst_rows: int = 1
    key_columns: tuple[str, ...] = ("w", "k")


def _windows(length_ms: int) -> Kind:
    tumble = f"TUMBLE(TABLE made, DESCRIPTOR(`dateTime`), INTERVAL '{length_ms // 1000}' SECOND(6))"
    query = f"SELECT window_time, k, COUNT(*), SUM(v) FROM TABLE({tumble}) GROUP BY window_start, window_end, window_time, k"
    return Kind("windows", length_ms, query)


def _sessions(gap_ms: int) -> Kind:
    session = f"SESSION(TABLE made PARTITION BY k, DESCRIPTOR(`dateTime`), INTERVAL '{gap_ms // 1000}' SECOND(6))"
    query = f"SELECT window_time, k, COUNT(*), SUM(v) FROM TABLE({session}) GROUP BY window_start, window_end, window_time, k"
    return Kind("sessions", gap_ms, query, BURST_ROWS)


KINDS = {
    "windows": _windows(KEYS * 10 // PARALLELISM),
    "rare": _windows(KEYS // PARALLELISM),
    "aggregate": Kind("aggregate", 0, "SELECT k, COUNT(*), SUM(v) FROM made GROUP BY k", key_columns=("k",)),
    "sessions": _sessions(KEYS * BURST_ROWS // PARALLELISM // 2),
}


@dataclass
class Found:
    """By contender: million rows a second, and durations of checkpoints, end to end."""

    rates: dict[str, list[float]] = field(default_factory=dict)
    checkpoints_ms: dict[str, list[float]] = field(default_factory=dict)


def _write(kind: Kind, rows: int, path: Path) -> None:
    def keys(numbers: wide_rows.Numbers, count: int) -> wide_rows.Numbers:
        return wide_rows.even(numbers // kind.burst_rows, count)

    wide_rows.write_rows(wide_rows.Shape(("k",), lambda found: [pa.array(found)], keys), rows, KEYS, path)


def _tidegate(cluster: BenchCluster, found: Found, kind: Kind, path: Path, rows: int) -> None:
    arguments = (kind.job, path, rows, kind.length_ms, INTERVAL_MS, PARALLELISM)
    job_id = cluster.run("benchmarks/wide_kinds_job.py", *map(str, arguments))
    times = cluster.wait(job_id).state_timestamps_ms
    found.rates.setdefault(TIDEGATE, []).append(rows / (times["FINISHED"] - times["RUNNING"]) / 1e3)
    taken = [end_to_end_ms(checkpoint) for checkpoint in completed_checkpoints(cluster, job_id)]
    found.checkpoints_ms.setdefault(TIDEGATE, []).extend(taken)


def _pyarrow(found: Found, kind: Kind, path: Path, rows: int) -> None:
    table = wide_rows.mapped(path)
    if "w" in kind.key_columns:
        windows = np.concatenate([chunk.to_numpy() for chunk in table["ts"].chunks]) // kind.length_ms
        table = table.append_column("w", pa.array(windows))
    begun = time.monotonic()
    table.group_by(list(kind.key_columns)).aggregate([("v", "count"), ("v", "sum")])
    found.rates.setdefault(PYARROW, []).append(rows / (time.monotonic() - begun) / 1e6)


def _flink(cluster: FlinkCluster, session: FlinkSession, found: Found, kind: Kind, rows: int) -> None:
    numbers = ["numbers", "f0", f"MOD(f0, {rows // PARALLELISM})", rows]
    key = f"MOD(n / {kind.burst_rows} * 2654435761 / 128, {KEYS})"
    view = f"CREATE TEMPORARY VIEW made AS SELECT {key} AS k, MOD(n, 1024) AS v, `dateTime` FROM numbers"
    job_id = session.order(numbers=[numbers], statements=[view], query=kind.query)["job"]
    times = cluster.wait(job_id)
    found.rates.setdefault(FLINK, []).append(rows / (times["FINISHED"] - times["RUNNING"]) / 1e3)
    found.checkpoints_ms.setdefault(FLINK, []).extend(cluster.checkpoints_ms(job_id))


def measure(kind: Kind, rows: int, repeats: int) -> Found:
    found = Found()
    directory = wide_rows.directory()
    try:
        _write(kind, rows, directory / "rows.arrow")
        with ExitStack() as stack:
            tidegate = stack.enter_context(BenchCluster(PARALLELISM, HISTORY))
            flink = stack.enter_context(FlinkCluster(PARALLELISM, HISTORY)) if has_flink() else None
            session = None if flink is None else flink.session(PARALLELISM, INTERVAL_MS)
            for _ in range(repeats):
                _tidegate(tidegate, found, kind, directory / "rows.arrow", rows)
                if kind.job != "sessions":
                    _pyarrow(found, kind, directory / "rows.arrow", rows)
                if flink is not None and session is not None:
                    _flink(flink, session, found, kind, rows // FLINKS_SHARE)
    finally:
        shutil.rmtree(directory)
    return found


@click.command(help=__doc__)
@click.option("--rows", default=30_000_000, show_default=True)
@click.option("--repeats", default=2, show_default=True)
@click.option("--only", default=",".join(KINDS), show_default=True)
def main(rows: int, repeats: int, only: str) -> None:
    table = Table(
        "kind", "system", "M rows/s, median (min to max)", "tidegate's", "checkpoints p50, p95, worst ms", "of"
    )
    for name in only.split(","):
        found = measure(KINDS[name], rows, repeats)
        ours = statistics.median(found.rates[TIDEGATE])
        for system, rates in found.rates.items():
            median = statistics.median(rates)
            times = found.checkpoints_ms.get(system, [])
            shares = ", ".join(percentiles(times, (50, 95, 100))) if times else ""
            spread = f"{median:.2f} ({min(rates):.2f} to {max(rates):.2f})"
            table.add_row(name, system, spread, f"{ours / median:.2f}", shares, str(len(times) or ""))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
