"""What clients that ask for state cost the job: records a second without them and with them, in turns, in one run.

    python benchmarks/queryable_state.py

A job counts numbers by key as fast as it can, on one subtask for each of its vertices. Clients ask for as many keys as they get, in
requests of 100 and one by one; the TaskManager lets through what ``tidegate.queryable-state.max-rate`` says.
"""

from __future__ import annotations

import statistics
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.cluster import BenchCluster
from tidegate.model.errors import TidegateError
from tidegate.queryablestate import QueryableStateClient

KEYS = 1_000
REQUEST = 100
TURN_S = 6.0
"""Measured: several heartbeats, by which records are counted."""
TURNS = 3
WARM_UP_S = 8.0
"""Before the first turn: the first seconds of a job are slower than its others."""
UNCOUNTED_S = 1.0
"""The begin of a turn, in which clients start to ask."""
OPTIONS = {"queryable-state.enable": "true", "queryable-state.server.ports": "0"}
MODES = {"no clients": 0, f"requests of {REQUEST} keys": REQUEST, "requests of one key": 1}


@dataclass
class Mode:
    """Records and looked-up keys a second, of each turn."""

    records: list[float] = field(default_factory=list)
    keys: list[float] = field(default_factory=list)
    waits_ms: list[float] = field(default_factory=list)
    """Of each request that was answered."""


class Asking:
    """A client in a thread, which asks without a pause. ``keys``: so many in a request."""

    def __init__(self, cluster: BenchCluster, job_id: str, keys: int) -> None:
        self.answered, self.waits_ms = 0, list[float]()
        self._client = QueryableStateClient._over(cluster.client, cluster.client.transport)
        self._job_id, self._keys = job_id, list(range(keys))
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()
        self._client.shutdown_and_wait()

    def _ask(self) -> None:
        while not self._over.is_set():
            began_s = time.perf_counter()
            try:
                found = self._client.get_kv_states(self._job_id, "counts", self._keys, timeout_s=1.0).values()
            except TidegateError:
                continue
            self.answered += len(found)
            self.waits_ms.append((time.perf_counter() - began_s) * 1000)


def measure() -> dict[str, Mode]:
    """Each mode in turn, several times."""
    modes = {name: Mode() for name in MODES}
    with BenchCluster(1, OPTIONS) as cluster:
        job_id = cluster.run("benchmarks/queryable_state_job.py", str(KEYS))
        _wait_for(cluster, job_id)
        time.sleep(WARM_UP_S)
        for _ in range(TURNS):
            for name, keys in MODES.items():
                _turn(cluster, job_id, modes[name], keys)
        cluster.client.cancel(job_id)
        for _ in cluster.client.watch(job_id):
            pass
    return modes


def report(console: Console) -> None:
    modes = measure()
    table = Table("", "records/s, median", "min", "max", "keys/s", "p50 ms", "p99 ms")
    for name, mode in modes.items():
        waits = sorted(mode.waits_ms) or [0.0]
        shown = [f"{f(mode.records):,.0f}" for f in (statistics.median, min, max)]
        at = [f"{waits[int(len(waits) * part)]:.1f}" for part in (0.5, 0.99)]
        table.add_row(name, *shown, f"{statistics.median(mode.keys):,.0f}", *at)
    console.print(table)
    without = statistics.median(modes["no clients"].records)
    for name, mode in list(modes.items())[1:]:
        console.print(f"{name}: {1 - statistics.median(mode.records) / without:.1%} of the records are lost to them")


def _turn(cluster: BenchCluster, job_id: str, mode: Mode, keys: int) -> None:
    asking = Asking(cluster, job_id, keys) if keys else None
    time.sleep(UNCOUNTED_S)
    answered, before, began_s = asking.answered if asking else 0, _records(cluster, job_id), time.monotonic()
    time.sleep(TURN_S)
    after, took_s = _records(cluster, job_id), time.monotonic() - began_s
    mode.records.append((after - before) / took_s)
    if asking is not None:
        mode.keys.append((asking.answered - answered) / took_s)
        asking.stop()
        mode.waits_ms += asking.waits_ms
    else:
        mode.keys.append(0.0)


def _records(cluster: BenchCluster, job_id: str) -> int:
    """That came to the vertex with the state, as its heartbeats told: at most a second old."""
    counted = cluster.client.status(job_id).vertices[-1]
    return int(sum(subtask.metrics.records_in for subtask in counted.subtasks))


def _wait_for(cluster: BenchCluster, job_id: str) -> None:
    for status in cluster.client.watch(job_id):
        states = [subtask.state for vertex in status.vertices for subtask in vertex.subtasks]
        if states and all(state == "RUNNING" for state in states):
            return


if __name__ == "__main__":
    report(Console())
