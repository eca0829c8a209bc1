"""The control plane with 100 to 10,000 subtasks: CPU, time and memory of a checkpoint, and of what else grows with a job.

python -m benchmarks.control_plane [--subtasks 100 --subtasks 10000] [--checkpoints 5]

Each size runs in a process of its own, so that memory is its own. See ``control_plane_cluster`` for what is real.
"""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import click
from rich.console import Console
from rich.table import Table

SIZES = (100, 300, 1_000, 3_000, 10_000)
CHECKPOINTS = 7


@dataclass
class Figures:
    """Of one size. Times in seconds, memory in MiB; one entry of a list for each checkpoint or repetition."""

    subtasks: int
    task_managers: int
    deploy_cpu_s: float = 0.0
    checkpoint_cpu_s: list[float] = field(default_factory=list)
    checkpoint_s: list[float] = field(default_factory=list)
    metadata_bytes: int = 0
    rss_mib: list[float] = field(default_factory=list)
    peak_rss_mib: float = 0.0
    empty_rss_mib: float = 0.0
    task_managers_cpu_s: float = 0.0
    answers_ms: dict[str, float] = field(default_factory=dict)

    @property
    def us_per_subtask(self) -> float:
        return median(self.checkpoint_cpu_s) / self.subtasks * 1e6


def measure(sizes: tuple[int, ...] = SIZES, checkpoints: int = CHECKPOINTS) -> list[Figures]:
    """Smallest first."""
    return [_in_process(size, checkpoints) for size in sorted(sizes)]


def _in_process(subtasks: int, checkpoints: int) -> Figures:
    command = [
        sys.executable,
        "-m",
        "benchmarks.control_plane",
        "--alone",
        str(subtasks),
        f"--checkpoints={checkpoints}",
    ]
    root = Path(__file__).resolve().parent.parent
    done = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, check=True, text=True)
    return Figures(**json.loads(done.stdout))


async def _run(subtasks: int, checkpoints: int) -> Figures:
    from benchmarks.control_plane_cluster import simulated_cluster
    from tidegate.aio.process import collect_seldom

    collect_seldom()  # as the JobManager does
    with tempfile.TemporaryDirectory() as directory:
        empty_mib = _rss_mib()
        async with simulated_cluster(subtasks, Path(directory)) as cluster:
            figures = Figures(subtasks, len(cluster.names), empty_rss_mib=empty_mib)
            start_s = cluster.clock.job_manager_s()
            await cluster.deploy()
            figures.deploy_cpu_s = cluster.clock.job_manager_s() - start_s
            for number in range(1, checkpoints + 1):
                cpu_s, duration_s = await cluster.checkpoint(number)
                figures.checkpoint_cpu_s.append(cpu_s)
                figures.checkpoint_s.append(duration_s)
                figures.rss_mib.append(_rss_mib())
            expected = dict.fromkeys(("TriggerCheckpoint", "ConfirmCheckpoint"), figures.task_managers)
            assert cluster.messages == expected, f"not one message for each TaskManager and phase: {cluster.messages}"
            figures.task_managers_cpu_s = cluster.clock.task_managers_s
            view = cluster.core.machine.checkpoints(cluster.core.machine.jobs()[0].job_id)
            assert view is not None
            assert view.completed == checkpoints, view
            assert view.last_completed is not None
            figures.metadata_bytes = (Path(view.last_completed.location) / "_metadata").stat().st_size
            figures.answers_ms = _answers(cluster)
            figures.peak_rss_mib = _peak_mib()
    return figures


def _peak_mib() -> float:
    """Of this program alone: ``ru_maxrss`` tells what the process held before it became it, too."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:  # not Linux
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM:"))


def _answers(cluster: Any) -> dict[str, float]:
    """CPU that the loop spends on what else is asked of it."""
    from benchmarks.control_plane_cluster import JOB
    from tidegate.jobmanager.rest.responses import checkpoints as checkpoint_answers
    from tidegate.jobmanager.rest.responses import jobs as job_answers
    from tidegate.jobmanager.service.clients import status

    core = cluster.core
    beats = cluster.heartbeats()
    longest = max(_timed_ms(partial(cluster.beat, beat)) for beat in beats[:200])
    job, metrics_of = core.machine.job(JOB), core.attempts.metrics_of
    now_ms = int(time.time() * 1000)
    asked: dict[str, Callable[[], Any]] = {
        "heartbeats of all TaskManagers": lambda: [cluster.beat(beat) for beat in beats],
        "gRPC: list of jobs": lambda: [status.job_summary(j).SerializeToString() for j in core.machine.summaries()],
        "gRPC: status with subtasks": lambda: status.job_status(
            core.machine.job(JOB), metrics_of, core.attempts.late_records(JOB)
        ).SerializeToString(),
        "gRPC: checkpoints": lambda: status.checkpoint_list(core.machine.checkpoints(JOB), 0).SerializeToString(),
        "gRPC: checkpoints, one with subtasks": lambda: status.checkpoint_list(
            core.machine.checkpoints(JOB), 1
        ).SerializeToString(),
        "gRPC: cluster": lambda: status.cluster_status(core.machine.cluster(), 0).SerializeToString(),
        "machine: view of the job": lambda: core.machine.job(JOB),
        "REST: jobs overview": lambda: json.dumps(job_answers.job_item(job, now_ms)),
        "REST: job": lambda: json.dumps(job_answers.job_details(job, core.attempts, now_ms)),
        "REST: checkpoints": lambda: json.dumps(checkpoint_answers.checkpoints_answer(job.checkpoints)),
    }
    return {"longest heartbeat": longest} | {
        name: min(_timed_ms(work) for _ in range(3)) for name, work in asked.items()
    }


def report(console: Console, results: Path) -> None:
    """``make bench``: measure, tell, draw."""
    from benchmarks import plots  # not at the top: it would be in the memory of what is measured

    console.print("control plane: subtasks with 2 KiB of inline state, 10 on a TaskManager, protobuf both ways")
    runs = measure()
    console.print(table(runs))
    (results / "control_plane.json").write_text(json.dumps([asdict(figures) for figures in runs], indent=1))
    plots.control_plane(
        [figures.subtasks for figures in runs],
        [figures.us_per_subtask for figures in runs],
        [figures.peak_rss_mib for figures in runs],
        results / "control_plane.png",
    )
    console.print(f"drawn in {results / 'control_plane.png'}")


def table(runs: list[Figures]) -> Table:
    shown = Table("figure", *(f"{figures.subtasks:,}" for figures in runs))

    def row(name: str, text: Callable[[Figures], str]) -> None:
        shown.add_row(name, *(text(figures) for figures in runs))

    row("checkpoint, request to last confirm: ms of CPU", lambda f: f"{median(f.checkpoint_cpu_s) * 1000:.0f}")
    row("worst of them", lambda f: f"{max(f.checkpoint_cpu_s) * 1000:.0f}")
    row("us of CPU for each subtask", lambda f: f"{f.us_per_subtask:.0f}")
    row("messages for trigger, acknowledge and confirm", lambda f: str(f.task_managers * 3))
    row("MiB of _metadata", lambda f: f"{f.metadata_bytes / (1 << 20):.1f}")
    row("MiB of memory, peak (before the job)", lambda f: f"{f.peak_rss_mib:.0f} ({f.empty_rss_mib:.0f})")
    row("deployment: s of CPU", lambda f: f"{f.deploy_cpu_s:.1f}")
    for name in runs[0].answers_ms:
        row(f"ms of CPU: {name}", partial(_answer, name))
    return shown


def _answer(name: str, figures: Figures) -> str:
    return f"{figures.answers_ms[name]:.1f}"


def _timed_ms(work: Callable[[], Any]) -> float:
    start = time.thread_time()
    work()
    return (time.thread_time() - start) * 1000


def _rss_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / (1 << 20)


@click.command(help=__doc__)
@click.option("--subtasks", multiple=True, type=int, default=SIZES, show_default=True)
@click.option("--checkpoints", default=CHECKPOINTS, show_default=True, help="Of each size.")
@click.option("--alone", type=int, help="Measure this size here, and print its figures as JSON.")
def main(subtasks: tuple[int, ...], checkpoints: int, alone: int | None) -> None:
    if alone is not None:
        click.echo(json.dumps(asdict(asyncio.run(_run(alone, checkpoints)))))
        return
    Console(width=110).print(table(measure(subtasks, checkpoints)))


if __name__ == "__main__":
    main()
