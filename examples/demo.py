"""The whole thing on this machine, in about a minute: `make demo`, or `python examples/demo.py`.

1 JobManager and 2 TaskManagers (2 slots each) run `flights.py`, slowed down to take a while. In the middle one TaskManager is
killed with `kill -9`, and another one is started. The job goes on from its last checkpoint on what is left, and in the end
the Parquet result is compared with the same query over the input by pyarrow, to the row. Exit code 0 only if it is exact.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from tidegate.aio.settings import load_settings
from tidegate.cli.client import JobManagerClient, failure_of
from tidegate.cli.embedded.children import Child, end_processes
from tidegate.cli.embedded.own_files import EmbeddedFiles
from tidegate.cli.options import client_at
from tidegate.model.errors import ExternalError, TidegateError

JOB = Path(__file__).with_name("flights.py")
SLOTS = 2
PARALLELISM = 2
START_LIMIT_S = 180
KILL_AT = 0.4
"""Share of the event time that has passed when the TaskManager is killed."""
INTERVAL_MS = 500
YEAR_BEGINS_MS, YEAR_ENDS_MS = 1_356_998_400_000, 1_388_534_400_000
"""2013, of which the flights are."""

Row = tuple[Any, ...]


@dataclass
class Story:
    """What happened, in order. Times are seconds since the job was submitted."""

    console: Console
    began: float = field(default_factory=time.monotonic)
    events: list[tuple[float, str]] = field(default_factory=list)

    def tell(self, what: str, at: float | None = None) -> None:
        seconds = (time.monotonic() if at is None else at) - self.began
        self.events.append((seconds, what))
        self.console.print(f"[dim]{seconds:7.2f} s[/dim]  {what}")

    def table(self) -> Table:
        table = Table(title="What happened", title_justify="left")
        table.add_column("seconds", justify="right")
        table.add_column("")
        for seconds, what in self.events:
            table.add_row(f"{seconds:.2f}", what)
        return table


class Cluster:
    """The processes. Their logs and the checkpoints are in a directory of the demo's own, which goes with it."""

    def __init__(self, own: EmbeddedFiles) -> None:
        self._own = own
        self._children: list[Child] = []
        self._started = 0
        job_manager = self._start("jobmanager", "--rpc-port", "0", "--rest-port", "0")
        ports = job_manager.wait_ready(START_LIMIT_S)
        self.address = f"127.0.0.1:{ports['rpc_port']}"

    def start_task_manager(self) -> Child:
        return self._start("taskmanager", "--slots", str(SLOTS), "--jobmanager", self.address)

    def _start(self, kind: str, *options: str) -> Child:
        self._started += 1
        name = f"{kind}-{self._started}"
        files = self._own.files
        log = files.logs / f"{name}.log"
        common = ["--exit-with-parent", "--log-file", str(log)]
        if kind == "jobmanager":
            common += ["--host", "127.0.0.1", "-D", "taskmanager.load-balance.mode=SLOTS"]
            common += ["-D", f"execution.checkpointing.dir={files.checkpoints}"]
        child = Child(name, [kind, *options, *common], files.logs / f"{name}.out", log, [self._own.owned.descriptor])
        self._children.append(child)
        return child

    def end(self) -> None:
        end_processes(child.pid for child in reversed(self._children) if child.is_alive())


def main() -> int:
    parser = argparse.ArgumentParser(
        description="kill a TaskManager in the middle of a job, and see that nothing is lost"
    )
    parser.add_argument("--seconds", type=float, default=20, help="how long the job takes without a kill")
    arguments = parser.parse_args()
    console = Console(highlight=False)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt_once)
    own = EmbeddedFiles(load_settings(), "demo")
    try:
        try:
            return demonstrate(console, own, arguments.seconds)
        except TidegateError as error:
            console.print(f"[red]error:[/red] {error.message}")
            return 1
        finally:
            own.end()
    except KeyboardInterrupt:
        console.print("interrupted")
        own.end()  # it may have been interrupted itself
        return 130


def interrupt_once(number: int, frame: FrameType | None) -> None:
    """Ends the demo by ``KeyboardInterrupt``. Further signals do nothing: what has been started is being ended."""
    for other in (signal.SIGINT, signal.SIGTERM):
        signal.signal(other, signal.SIG_IGN)
    raise KeyboardInterrupt


def demonstrate(console: Console, own: EmbeddedFiles, seconds: float) -> int:
    directory = own.files.directory
    with ExitStack() as resources:
        console.print(f"Starting a JobManager and 2 TaskManagers with {SLOTS} slots each ...")
        cluster = Cluster(own)
        resources.callback(cluster.end)
        for task_manager in [cluster.start_task_manager(), cluster.start_task_manager()]:
            task_manager.wait_ready(START_LIMIT_S)
        client = resources.enter_context(client_at(load_settings(), cluster.address))
        wait_registered(client, 2)
        story = Story(console)
        data, output = directory / "flights.parquet", directory / "hourly"
        job_id = submit(cluster.address, data, output, seconds)
        story.began = time.monotonic()
        story.tell(
            f"job {job_id} is submitted: {pq.read_metadata(data).num_rows:,} flights, a checkpoint every {INTERVAL_MS} ms"
        )
        run_with_a_kill(console, story, cluster, client, job_id)
    return judge(console, story, data, output)


def submit(address: str, data: Path, output: Path, seconds: float) -> str:
    """Through the command that a user types. Returns the job's id."""
    rate = 336_776 / PARALLELISM / seconds
    command = ["run", "--detached", "--jobmanager", address, "-p", str(PARALLELISM), str(JOB)]
    command += ["--input", str(data), "--output", str(output), "--rows-per-second", f"{rate:.0f}"]
    command += ["--checkpoint-interval", str(INTERVAL_MS)]
    done = subprocess.run(
        [sys.executable, "-m", "tidegate.cli.main", *command], capture_output=True, text=True, check=False
    )
    found = re.findall(r"\b[0-9a-f]{32}\b", done.stdout)
    if done.returncode != 0 or not found:
        raise ExternalError(f"flights.py was not submitted: {(done.stderr or done.stdout).strip()}")
    return str(found[-1])


def wait_registered(client: JobManagerClient, count: int) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    while len(client.cluster().task_managers) < count:
        if time.monotonic() > deadline:
            raise ExternalError(f"{count} TaskManagers did not register within {START_LIMIT_S} s")
        time.sleep(0.05)


def run_with_a_kill(console: Console, story: Story, cluster: Cluster, client: JobManagerClient, job_id: str) -> None:
    """Until the job is FINISHED. Raises ``ExternalError`` when it is not."""
    killed_at = detected_at = again_at = 0.0
    was_running, is_replaced = False, False
    with progress_bar(console) as (progress, task):
        for status in client.watch(job_id):
            now = time.monotonic()
            running = all(subtask.state == "RUNNING" for vertex in status.vertices for subtask in vertex.subtasks)
            passed = event_time_share(status)
            describe(progress, task, status, passed)
            if running and not was_running and not killed_at:
                story.tell(f"all {sum(len(v.subtasks) for v in status.vertices)} subtasks run", now)
            was_running = was_running or running
            if not killed_at and running and passed > KILL_AT and status.checkpoints_completed > 0:
                killed_at = kill_one(story, client, status)
                cluster.start_task_manager()
            elif killed_at and not detected_at and not running:
                detected_at = now
                story.tell(f"[yellow]the loss is detected after {now - killed_at:.2f} s[/yellow]", now)
            elif detected_at and not again_at and running and status.restarts:
                again_at = now
                restored = [c.checkpoint_id for c in client.checkpoints(job_id).checkpoints if c.restored]
                source = f"from checkpoint {max(restored)}" if restored else "from the start"
                story.tell(f"[green]running again after {now - killed_at:.2f} s[/green], {source}", now)
            if again_at and not is_replaced and len(client.cluster().task_managers) == 2:
                is_replaced = True
                story.tell("another TaskManager, started by hand, is registered")
            if status.state in ("FINISHED", "FAILED", "CANCELED"):
                break
    if status.state != "FINISHED":
        failure = failure_of(status)
        raise ExternalError(f"the job is {status.state}: {failure.message if failure else 'no cause was told'}")
    story.tell(
        f"FINISHED: {status.checkpoints_completed} checkpoints completed, {status.checkpoints_failed} failed, "
        f"{status.restarts} restart{'s' if status.restarts != 1 else ''}"
    )
    if not again_at:
        raise ExternalError("the job was over before a TaskManager could be killed; give more --seconds")


def kill_one(story: Story, client: JobManagerClient, status: Any) -> float:
    """SIGKILL to the TaskManager of the first subtask. Returns the moment."""
    owner = status.vertices[0].subtasks[0].task_manager_id
    victim = next(known for known in client.cluster().task_managers if known.task_manager_id == owner)
    mine = sum(subtask.task_manager_id == owner for vertex in status.vertices for subtask in vertex.subtasks)
    newest = status.last_completed.checkpoint_id
    moment = time.monotonic()
    os.kill(victim.pid, signal.SIGKILL)
    story.tell(
        f"[red]kill -9 {victim.pid}[/red]: TaskManager {owner} with {mine} subtasks, {newest} was the last checkpoint",
        moment,
    )
    return moment


def event_time_share(status: Any) -> float:
    """How far event time has come at the windows in the year 2013, from 0 to 1."""
    metrics = [subtask.metrics for subtask in status.vertices[-1].subtasks]
    if not all(metric.HasField("watermark_ms") for metric in metrics):
        return 0.0
    first, last = YEAR_BEGINS_MS, YEAR_ENDS_MS
    slowest = min(min(metric.watermark_ms for metric in metrics), last)
    return max(0.0, float(slowest - first) / float(last - first))


@contextmanager
def progress_bar(console: Console) -> Iterator[tuple[Progress, TaskID]]:
    """A bar over the year."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        yield progress, progress.add_task("submitted", total=1.0)


def describe(progress: Progress, task: TaskID, status: Any, passed: float) -> None:
    newest = (
        f"checkpoint {status.last_completed.checkpoint_id}" if status.HasField("last_completed") else "no checkpoint"
    )
    waits = f", waiting for {status.waiting_for}" if status.waiting_for else ""
    progress.update(task, description=f"{status.state}{waits}, {newest}, restarts: {status.restarts}")
    if passed:
        progress.update(task, completed=passed)


def judge(console: Console, story: Story, data: Path, output: Path) -> int:
    """Compares result and query; tells the story. Returns the exit code."""
    found, right = Counter(rows_of(pq.read_table(output))), Counter(rows_of(hourly(pq.read_table(data))))
    duplicates, lost = (found - right).total(), (right - found).total()
    console.print(story.table())
    verdict = Table(show_header=False)
    verdict.add_row("rows in the result", f"{found.total():,}")
    verdict.add_row("rows of the same query by pyarrow", f"{right.total():,}")
    verdict.add_row("flights counted", f"{sum(row[3] * times for row, times in found.items()):,}")
    verdict.add_row("too many or different", f"{duplicates:,}")
    verdict.add_row("missing", f"{lost:,}")
    console.print(verdict)
    exact = not duplicates and not lost
    console.print("exact: [bold green]yes[/bold green]" if exact else "exact: [bold red]NO[/bold red]")
    return 0 if exact else 1


def hourly(flights: pa.Table) -> pa.Table:
    """The query of flights.py, at once and in memory."""
    departed = flights.filter(pc.is_valid(flights["dep_delay"]))
    hour = pc.floor_temporal(departed["scheduled_departure"], unit="hour")
    grouped = departed.append_column("hour", hour).group_by(["hour", "carrier", "origin"])
    result = grouped.aggregate([("dep_delay", "count"), ("dep_delay", "mean")])
    return result.rename_columns({"dep_delay_count": "departures", "dep_delay_mean": "mean_delay"})


def rows_of(table: pa.Table) -> Iterator[Row]:
    columns = table.select(["hour", "carrier", "origin", "departures", "mean_delay"]).to_pydict()
    yield from zip(*columns.values(), strict=True)


if __name__ == "__main__":
    sys.exit(main())
