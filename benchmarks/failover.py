"""A leader is killed again and again, then a TaskManager; beside Flink 2.3, elected by the same ZooKeeper in the same run.

    python -m benchmarks.failover [--leaders 20] [--task-managers 5] [--system tidegate --system flink]

Three ZooKeeper servers, two JobManagers, TaskManagers of one slot each and one to spare. The job has two subtasks that
note the time of each record, a hundred a second, with an exactly-once checkpoint every second. Both have a ZooKeeper
session of 5 s, which is what a new leader has to wait for, and REST answers that are not cached for seconds; everything else is default.

Measured from ``kill -9``: until the next leader answers for the job over REST; until a checkpoint is completed that was
not before; how many subtasks were opened again; and the longest time in which a subtask put out nothing.
"""

from __future__ import annotations

import json
import signal
import statistics
import struct
import sys
import time
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import plots
from benchmarks.failover_clusters import PARALLELISM, Flink, HighlyAvailable, Tidegate
from tests.servers.zookeeper_servers import ZooKeeperServers

RESULTS = Path(__file__).resolve().parent / "results"
INTERVAL_MS = 1_000
OPTIONS = {
    "high-availability.zookeeper.client.session-timeout": "5 s",
    "execution.checkpointing.interval": str(INTERVAL_MS),
    "rest.cache.checkpoint-statistics.timeout": "20 ms",
}
SYSTEMS = {"tidegate": Tidegate, "flink": Flink}
SETTLE_S = 2.0
"""After the checkpoint that ends a round: a gap that ends with it is seen as a whole."""
CHECKPOINTS_BEFORE = 3
"""In a row, before each strike."""


@dataclass(frozen=True)
class Strike:
    """Times in seconds from the kill. ``led_s`` is 0 where no leader was killed."""

    led_s: float
    checkpoint_s: float
    restarted: int
    gap_s: float


Strikes = dict[str, dict[str, list[Strike]]]
"""By what was killed, then by system."""


def newest_checkpoint(cluster: HighlyAvailable, job_id: str) -> int:
    """0 where none is known yet, or nobody leads."""
    told = cluster.rest(cluster.leader, f"/jobs/{job_id}/checkpoints")
    newest = told["latest"]["completed"] if told else None
    return int(newest["id"]) if newest else 0


def wait_for_checkpoints(cluster: HighlyAvailable, job_id: str, count: int) -> None:
    first = newest_checkpoint(cluster, job_id)
    cluster.wait(lambda: newest_checkpoint(cluster, job_id) >= first + count, f"{count} checkpoints")


def longest_gap(beats: Path, since: float) -> float:
    """Of any subtask, its predecessors and successors included."""
    longest = 0.0
    for index in range(PARALLELISM):
        content = b"".join(file.read_bytes() for file in beats.glob(f"{index}-*"))
        times = sorted(at for (at,) in struct.iter_unpack("<d", content) if at >= since)
        longest = max([longest, *(after - before for before, after in pairwise(times))])
    return longest


def strike(cluster: HighlyAvailable, job_id: str, kind: str) -> Strike:
    wait_for_checkpoints(cluster, job_id, CHECKPOINTS_BEFORE)
    before, opened = newest_checkpoint(cluster, job_id), len(list(cluster.beats.iterdir()))
    killed_at = time.time()
    led_at = killed_at
    if kind == "leader":
        cluster.kill_leader()
        led_at = cluster.wait(lambda: cluster.rest(cluster.leader, f"/jobs/{job_id}") is not None, "another one leads")
    else:
        cluster.kill_task_manager(job_id)
    done_at = cluster.wait(lambda: newest_checkpoint(cluster, job_id) > before, "the next checkpoint")
    time.sleep(SETTLE_S)
    restarted = len(list(cluster.beats.iterdir())) - opened
    return Strike(led_at - killed_at, done_at - killed_at, restarted, longest_gap(cluster.beats, killed_at - 1))


def measure(cluster: HighlyAvailable, leaders: int, task_managers: int, console: Console) -> dict[str, list[Strike]]:
    job_id = cluster.submit()
    cluster.add_task_manager()
    found: dict[str, list[Strike]] = {"leader": [], "TaskManager": []}
    for kind, count in (("leader", leaders), ("TaskManager", task_managers)):
        for _ in range(count):
            found[kind].append(strike(cluster, job_id, kind))
            console.print(f"{cluster.name}, {kind}: {found[kind][-1]}")
            if kind == "leader":
                cluster.add_standby()
            else:
                cluster.add_task_manager()
    return found


def table_of(strikes: Strikes) -> Table:
    table = Table(
        "killed", "system", "next leader s", "next checkpoint s", "subtasks restarted", "longest gap in output s", "of"
    )
    for kind, systems in strikes.items():
        for system, found in systems.items():
            columns = ([one.led_s for one in found], [one.checkpoint_s for one in found], [one.gap_s for one in found])
            led, checkpoint, gap = (_spread(column) for column in columns)
            restarted = str(sum(one.restarted for one in found))
            table.add_row(kind, system, led if kind == "leader" else "", checkpoint, restarted, gap, str(len(found)))
    return table


def _spread(found: list[float]) -> str:
    return f"{statistics.median(found):.2f} ({min(found):.2f} to {max(found):.2f})" if found else ""


def report(console: Console, results: Path, *, leaders: int, task_managers: int, systems: tuple[str, ...]) -> None:
    """Measures, prints a table and draws it."""
    strikes: Strikes = {"leader": {}, "TaskManager": {}}
    with ZooKeeperServers() as zookeeper:
        for system in systems:
            with SYSTEMS[system](zookeeper.quorum, OPTIONS) as cluster:
                for kind, found in measure(cluster, leaders, task_managers, console).items():
                    strikes[kind][cluster.name] = found
    console.print(table_of(strikes))
    results.mkdir(exist_ok=True)
    told = {kind: {name: [asdict(one) for one in found] for name, found in of.items()} for kind, of in strikes.items()}
    (results / "failover.json").write_text(json.dumps(told, indent=1))
    plots.failover(told, results / "failover.png")
    console.print(f"drawn in {results / 'failover.png'}")


@click.command(help=__doc__)
@click.option("--leaders", default=20, show_default=True, help="How often a leader is killed.")
@click.option("--task-managers", default=5, show_default=True, help="How often a TaskManager is killed.")
@click.option("--system", "systems", multiple=True, type=click.Choice(list(SYSTEMS)), default=list(SYSTEMS))
def main(leaders: int, task_managers: int, systems: tuple[str, ...]) -> None:
    signal.signal(
        signal.SIGTERM, lambda number, frame: sys.exit(128 + number)
    )  # so that servers and clusters end with it
    report(Console(), RESULTS, leaders=leaders, task_managers=task_managers, systems=systems)


if __name__ == "__main__":
    main()
