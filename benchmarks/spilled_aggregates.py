"""Running aggregates whose state is ten times their memory, beside the same with all of it in memory: rates, memory, and the answers.

    python -m benchmarks.spilled_aggregates [--rows 20000000] [--keys 5000000] [--share 10] [--turns 2]

One subtask's operator alone, without its job, with count and sum by an integer key; keys come in a random order, so a
batch needs rows from everywhere. With ``--share 10`` the budget is a tenth of what the rows take. Both ways in turns,
each in a process of its own, each key's last result checked. The rate is that of all rows, the first of each key
included.
"""

from __future__ import annotations

import json
import resource
import shutil
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import click
import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from benchmarks.restored_aggregates import BATCH_ROWS, RESULTS, Subtask, in_a_process
from tidegate.records.batch import ArrowBatch, Batch

KEY_BYTES = 45
"""What a key takes: key, count and sum with which of them are null, epoch, and its part of the index."""
IN_MEMORY, FILED = "in memory", "mostly in a file"


@dataclass
class Measured:
    million_rows_per_second: float = 0.0
    on_disk_mib: float = 0.0
    peak_mib: float = 0.0
    """The largest resident memory, with those pages of the file that were in memory."""


class Checked(Subtask):
    """Keeps each key's last count."""

    def __init__(self, keys: int, budget: int, directory: Path) -> None:
        super().__init__(budget, directory, 0, None)
        self.last = np.zeros(keys, np.int64)

    def emit(self, batch: Batch) -> None:
        """As ``Output``."""
        assert isinstance(batch, ArrowBatch)
        self.last[np.asarray(batch.data.column("key"))] = np.asarray(batch.data.column("n"))


def measure(rows: int, keys: int, budget: int, directory: Path, sender: Connection) -> None:
    """Sends ``Measured``."""
    subtask, rng = Checked(keys, budget, directory), np.random.default_rng(7)
    expected, seconds = np.zeros(keys, np.int64), 0.0
    ones = pa.array(np.ones(BATCH_ROWS))
    for _ in range(rows // BATCH_ROWS):
        chosen = rng.integers(0, keys, BATCH_ROWS)
        batch = pa.RecordBatch.from_arrays([pa.array(chosen), ones], names=["key", "v"])
        begun = time.perf_counter()
        subtask.process(batch)
        seconds += time.perf_counter() - begun
        expected += np.bincount(chosen, minlength=keys)
    if not np.array_equal(subtask.last, expected):
        raise RuntimeError("the last results differ from the counts of the rows")
    on_disk = subtask.operator.state.rows.bytes_on_disk / 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sender.send(Measured(rows // BATCH_ROWS * BATCH_ROWS / seconds / 1e6, on_disk, peak))


@click.command(help=__doc__)
@click.option("--rows", default=20_000_000, show_default=True)
@click.option("--keys", default=5_000_000, show_default=True)
@click.option("--share", default=10, show_default=True, help="The state is so many times the budget.")
@click.option("--turns", default=2, show_default=True)
@click.option("--directory", default=None, help="Where the file is; the system's for temporary files.")
def main(rows: int, keys: int, share: int, turns: int, directory: str | None) -> None:
    budget = keys * KEY_BYTES // share
    found: dict[str, list[Measured]] = {IN_MEMORY: [], FILED: []}
    for _ in range(turns):
        for way, bound in ((IN_MEMORY, 0), (FILED, budget)):
            where = Path(tempfile.mkdtemp(prefix="spilled-aggregates-", dir=directory))
            (where / "shared").mkdir()
            found[way].append(in_a_process(measure, rows, keys, bound, where))
            shutil.rmtree(where)
    console, table = Console(width=140), Table("", "M rows/s", "ratio", "in the file", "largest memory")
    base = statistics.median(one.million_rows_per_second for one in found[IN_MEMORY])
    for way, runs in found.items():
        rates = [one.million_rows_per_second for one in runs]
        table.add_row(
            way,
            f"{statistics.median(rates):.2f} ({min(rates):.2f} to {max(rates):.2f})",
            f"{statistics.median(rates) / base:.2f}",
            f"{max(one.on_disk_mib for one in runs):,.0f} MiB",
            f"{max(one.peak_mib for one in runs):,.0f} MiB",
        )
    console.print(f"{rows:,} rows, {keys:,} keys, a budget of {budget / 2**20:.0f} MiB, {turns} turns")
    console.print(table)
    RESULTS.mkdir(exist_ok=True)
    told = {way: [asdict(one) for one in runs] for way, runs in found.items()}
    (RESULTS / "spilled_aggregates.json").write_text(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
