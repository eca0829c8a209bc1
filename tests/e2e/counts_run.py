"""One run of ``jobs/counts.py``: its directories, its arguments, and what is asked of it afterwards."""

from __future__ import annotations

import argparse
import contextlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq

from tests.e2e.cluster import JOBS, Cluster
from tests.e2e.jobs import counts
from tests.e2e.watching import JobWatch

QUICK_RESTART = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": "100"} | {
    "restart-strategy.fixed-delay.delay": "100 ms"
}
"""The tests' own, so that a recovery's time is that of the runtime and not of a backoff."""


class CountsRun:
    def __init__(self, directory: Path, *, held: bool = False, **options: Any) -> None:
        """``held``: the sources wait in the middle until ``release``, so that the job does not end before the test has seen what it waits for."""
        self.directory = directory
        self.output = directory / "output"
        self.trace = directory / "trace"
        self.checkpoints = directory / "checkpoints"
        self.data = directory / "data"
        self.trace.mkdir(parents=True)
        named = {"output": self.output, "trace": self.trace, "data": self.data, **options}
        if held:
            named["hold"] = directory / "hold"
            named["hold"].touch()
        self.arguments = [f"--{name.replace('_', '-')}={value}" for name, value in named.items()]
        self.parsed: argparse.Namespace = counts.parser().parse_args(self.arguments)
        if self.parsed.input != "numbers":
            for name, rows in zip(("fast", "slow"), counts.sources(self.parsed), strict=True):
                counts.write_input(self.data / name, rows)

    def submit(
        self,
        cluster: Cluster,
        parallelism: int = 2,
        restore: str | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> JobWatch:
        all_settings = {"execution.checkpointing.dir": str(self.checkpoints), **QUICK_RESTART, **(settings or {})}
        return cluster.submit(
            JOBS / "counts.py", *self.arguments, parallelism=parallelism, restore=restore, settings=all_settings
        )

    def release(self) -> None:
        Path(self.parsed.hold).unlink()

    # --- the result ----------------------------------------------------------------------------------

    def result(self) -> list[tuple[int, ...]]:
        """What readers of the output directory see: hidden files are not the result."""
        files = sorted(path for path in self.output.rglob("*.parquet") if not path.name.startswith("."))
        rows: list[tuple[int, ...]] = []
        for file in files:
            columns = pq.read_table(file).select(counts.RESULT).to_pydict()
            rows.extend(zip(*(columns[name] for name in counts.RESULT), strict=True))
        return sorted(rows)

    def differences(self) -> list[str]:
        """Empty when the result is exact, to the row."""
        right, found = Counter(counts.expected(*counts.sources(self.parsed))), Counter(self.result())
        extra, missing = found - right, right - found
        return [f"too much: {row}" for row in sorted(extra.elements())] + [
            f"missing: {row}" for row in sorted(missing.elements())
        ]

    def assert_exact(self) -> None:
        differences = self.differences()
        assert not differences, f"{len(differences)} rows differ: {differences[:10]}"
        hidden = [path.name for path in self.output.rglob(".*")]
        assert hidden == [], f"unfinished files are left in the output: {hidden}"

    def subtasks(self) -> list[psutil.Process]:
        """The living processes that see records of this job, by their own word."""
        found = []
        for seen in self.seen():
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(seen.pid)
                if process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return sorted(found, key=lambda process: process.pid)

    # --- what happened -------------------------------------------------------------------------------

    def kills_done(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in sorted(self.trace.glob("killed-*"))]

    def seen(self) -> list[counts.Seen]:
        return counts.read_trace(self.trace)

    def rereads(self, role: str = "fast") -> list[int]:
        """Rows that each process of a source read again, of those that its predecessor on the same split had seen."""
        rows = counts.sources(self.parsed)[("fast", "slow").index(role)]
        per_split = rows.rows // rows.splits
        found = []
        for split in range(rows.splits):
            first = rows.first_row + split * per_split
            lives = [s for s in self.seen() if s.role == role and first <= s.first_row < first + per_split]
            for before, after in pairwise(lives):
                found.append(max(0, before.last_row + 1 - after.first_row))
                assert after.first_row > first, f"{after} began again from the start"
                assert after.first_row <= before.last_row + 1, f"{after} left out rows behind {before}"
        return found

    def assert_rereads_little(self, watch: JobWatch) -> None:
        """Less than two intervals' worth of rows, at each recovery; or of the longest time between two checkpoints, on a
        machine that could not take them as often as they were due."""
        rate = self.parsed.rows / self.parsed.splits / self.parsed.seconds
        limit = rate * 2 * max(self.parsed.interval / 1000, watch.longest_pause())
        found = self.rereads()
        assert all(rows < limit for rows in found), f"read again: {found}, each should be under {limit:.0f}"


def assert_restored(cluster: Cluster, watch: JobWatch, recoveries: int) -> None:
    """Every recovery took a completed checkpoint."""
    told = cluster.checkpoints(watch.job_id)
    assert told.restored >= recoveries, f"{told.restored} restores for {recoveries} recoveries"
    ids = [c.checkpoint_id for c in told.checkpoints if c.restored]
    assert all(checkpoint_id > 0 for checkpoint_id in ids)


def kill_plan(steps: Sequence[tuple[str, str, str]]) -> str:
    """``(point, role, victim)`` in order, as the job takes it."""
    return json.dumps([dict(zip(("point", "role", "victim"), step, strict=True)) for step in steps])
