"""What many questions by REST cost the checkpoints of a large job: 200 requests a second beside 1,000 subtasks.

python -m benchmarks.rest_load [--subtasks 1000] [--rate 200] [--pairs 60] [--phase-s 2]

    JobManager (`tidegate jobmanager`), checkpoint after checkpoint ◀─gRPC─ TaskManagers that only acknowledge, all of them in
        ▲                                                                  a process of their own
        ╰─ /jobs/:id and /checkpoints ─ a process that asks

Short phases without and with questions take turns, in changing order, so that what else the machine does is spread over both. How
sure the ratio of the two p99 is says a bootstrap over the pairs of phases. Processor times stand beside: they do not depend on
what else runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from statistics import median, quantiles
from typing import Any

import click
import psutil

from benchmarks.control_plane_cluster import JOB, SLOTS, STAGES, make_graph
from tests.aio.jobmanager.cluster import KEY, PROGRAM, FakeTaskManager
from tidegate.aio.rpc import open_blocking_channel
from tidegate.aio.settings import load_settings
from tidegate.aio.signing import signing_of
from tidegate.aio.transports import transport_of
from tidegate.cli.embedded.children import Child, end_processes
from tidegate.jobmanager.service.app import Listening
from tidegate.jobmanager.service.high_availability.election import Term
from tidegate.pb import common_pb2
from tidegate.pb import jobmanager_pb2 as pb
from tidegate.pb.jobmanager_pb2_grpc import JobManagerClientServiceStub
from tidegate.wire.convert import graph_to_pb
from tidegate.wire.versions import JOB_FORMAT, PYTHON_VERSION, VERSION

LIMIT_S = 120
CONNECTIONS = 4
SETTINGS = (
    "heartbeat.timeout=1 h",
    "execution.checkpointing.interval=10 ms",
    "web.checkpoints.history=30",
    "jobmanager.rpc.port=0",
    "rest.port=0",
)
WITHOUT_SUBTASKS = pb.ListCheckpointsRequest(job_id=JOB, subtasks_of=0)
_PATHS = (f"/jobs/{JOB}", f"/jobs/{JOB}/checkpoints")


@click.group(invoke_without_command=True)
@click.option("--subtasks", default=1_000, show_default=True)
@click.option("--rate", default=200, show_default=True, help="Requests a second.")
@click.option("--pairs", default=60, show_default=True, help="Of phases, one without questions and one with them.")
@click.option("--phase-s", default=2.0, show_default=True, help="How long a phase lasts.")
@click.pass_context
def main(context: click.Context, subtasks: int, rate: int, pairs: int, phase_s: float) -> None:
    if context.invoked_subcommand is not None:
        return
    with tempfile.TemporaryDirectory(prefix="tidegate-rest-load-") as folder, cluster(Path(folder), subtasks) as site:
        at, job_manager = site
        stub = JobManagerClientServiceStub(
            open_blocking_channel(f"localhost:{at.rpc_port}", transport_of(load_settings()))
        )
        submit(stub, subtasks, Path(folder))
        with asking(at.rest_port, rate) as questions:
            measured = measure(stub, job_manager, questions, pairs, phase_s)
    measured.show(rate)


@dataclass
class Phase:
    """``took_s``: of each checkpoint; ``cpu_s``: of the JobManager."""

    took_s: list[float]
    cpu_s: float


@dataclass
class Measured:
    """``answers_s``: what each request took. ``client_s``: processor time of the process that asked."""

    alone: list[Phase] = field(default_factory=list)
    requests: list[Phase] = field(default_factory=list)
    answers_s: list[float] = field(default_factory=list)
    client_s: float = 0.0

    def show(self, rate: int) -> None:
        alone, asked = pooled(self.alone), pooled(self.requests)
        show("checkpoints alone", alone)
        show(f"checkpoints beside {rate} requests/s", asked)
        show("answers", self.answers_s)
        a_checkpoint_s = sum(phase.cpu_s for phase in self.alone) / len(alone)
        for_answers_s = sum(phase.cpu_s for phase in self.requests) - a_checkpoint_s * len(asked)
        count = len(self.answers_s)
        print(
            f"processor: {a_checkpoint_s * 1000:.1f} ms of the JobManager for a checkpoint, {for_answers_s / count * 1000:.2f} ms "
            f"for a request; {self.client_s / count * 1000:.2f} ms of the client for a request"
        )
        for name, at in (("p50", median), ("p99", at_99)):
            low, high = self.between(at)
            change = (at(asked) / at(alone) - 1) * 100
            print(f"{name} of checkpoints: {change:+.1f} %    nine in ten resamples: {low:+.1f} to {high:+.1f} %")
        print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")

    def between(self, at: Callable[[list[float]], float], resamples: int = 1_000) -> tuple[float, float]:
        """The change in percent, resampled over the pairs of phases: its 5th and 95th percentile."""
        random = Random(7)
        pairs = list(zip(self.alone, self.requests, strict=True))
        found = []
        for _ in range(resamples):
            chosen = random.choices(pairs, k=len(pairs))
            found.append((at(pooled([b for _, b in chosen])) / at(pooled([a for a, _ in chosen])) - 1) * 100)
        ranks = quantiles(found, n=20)
        return ranks[0], ranks[-1]


def measure(stub: Any, job_manager: psutil.Process, questions: Questions, pairs: int, phase_s: float) -> Measured:
    take(stub, phase_s * 5)  # warm
    measured, before_asking_s = Measured(), cpu_s(questions.process)
    for number in range(pairs):
        for is_asked in (False, True) if number % 2 else (True, False):
            if is_asked:
                questions.begin()
            before_s = cpu_s(job_manager)
            phase = Phase(take(stub, phase_s), 0.0)
            phase.cpu_s = cpu_s(job_manager) - before_s
            (measured.requests if is_asked else measured.alone).append(phase)
            if is_asked:
                measured.answers_s += questions.end()
    measured.client_s = cpu_s(questions.process) - before_asking_s
    return measured


def pooled(phases: Sequence[Phase]) -> list[float]:
    return [took_s for phase in phases for took_s in phase.took_s]


@main.command()
@click.argument("rpc_port", type=int)
@click.argument("count", type=int)
def taskmanagers(rpc_port: int, count: int) -> None:
    """So many TaskManagers that come up at once and acknowledge everything."""

    async def run() -> None:
        for number in range(count):
            await FakeTaskManager(f"tm-{number}", SLOTS).start(Listening(rpc_port, 0, Term(0)))
        print("up", flush=True)
        await asyncio.Event().wait()

    asyncio.run(run())


@main.command()
@click.argument("rest_port", type=int)
@click.argument("rate", type=int)
def ask(rest_port: int, rate: int) -> None:
    """Ask from one line of standard input to the next, at fixed times, whatever the answers take; after it, until all have come.
    Then prints what each took, in seconds, and begins anew."""
    asyncio.run(_ask(rest_port, rate))


class Connection(asyncio.Protocol):
    """One that is kept open. As little work as there can be, so that what is measured is the JobManager's."""

    def __init__(self) -> None:
        self.took_s: list[float] = []
        self._asked_s: deque[float] = deque()
        self._received = b""
        self._transport: Any = None
        self.settled = asyncio.Event()
        self.settled.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def get(self, path: str) -> None:
        self._asked_s.append(time.perf_counter())
        self.settled.clear()
        self._transport.write(b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path.encode())

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            head = self._received[:end]
            assert head.startswith(b"HTTP/1.1 200 "), head
            length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            if len(self._received) < end + 4 + length:
                return
            self._received = self._received[end + 4 + length :]
            self.took_s.append(time.perf_counter() - self._asked_s.popleft())
        if not self._asked_s:
            self.settled.set()


async def _ask(rest_port: int, rate: int) -> None:
    loop = asyncio.get_running_loop()
    made = [await loop.create_connection(Connection, "127.0.0.1", rest_port) for _ in range(CONNECTIONS)]
    connections = [connection for _, connection in made]
    print("up", flush=True)
    while await loop.run_in_executor(None, sys.stdin.readline):
        ended = loop.run_in_executor(None, sys.stdin.readline)
        started, number = loop.time(), 0
        while not ended.done():
            connections[number % CONNECTIONS].get(_PATHS[number % 2])
            number += 1
            await asyncio.sleep(max(0.0, started + number / rate - loop.time()))
        for connection in connections:
            await connection.settled.wait()
        print(json.dumps([took_s for connection in connections for took_s in connection.took_s]), flush=True)
        for connection in connections:
            connection.took_s.clear()


@contextlib.contextmanager
def cluster(folder: Path, subtasks: int) -> Iterator[tuple[Listening, psutil.Process]]:
    log = folder / "jobmanager.log"
    arguments = ["jobmanager", "--exit-with-parent", "--log-file", str(log), *(f"-D{setting}" for setting in SETTINGS)]
    job_manager = Child("JobManager", arguments, log=log)
    with contextlib.ExitStack() as resources:
        resources.callback(end_processes, [job_manager.pid])
        ports = job_manager.wait_ready(LIMIT_S)
        at = Listening(ports["rpc_port"], ports["rest_port"], Term(0))
        count = -(-subtasks // (SLOTS * len(STAGES)))
        own = [sys.executable, "-m", "benchmarks.rest_load", "taskmanagers", str(at.rpc_port), str(count)]
        with process(own, stdout=subprocess.PIPE) as task_managers:
            assert task_managers.stdout is not None
            assert task_managers.stdout.readline() == b"up\n"
            yield at, psutil.Process(job_manager.pid)


def cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def submit(stub: Any, subtasks: int, folder: Path) -> None:
    stub.PutBlob(iter([common_pb2.BlobChunk(data=PROGRAM)]))
    graph = make_graph(subtasks)
    vertices = tuple(replace(vertex, program=KEY) for vertex in graph.vertices)
    texts = {"execution.checkpointing.dir": str(folder / "checkpoints")}
    graph = replace(graph, vertices=vertices, python_version=PYTHON_VERSION, configuration=texts)
    signing = signing_of(load_settings())
    graph = graph if signing is None else signing().signed(graph)
    answer = stub.SubmitJob(
        pb.SubmitJobRequest(graph=graph_to_pb(graph), client_version=VERSION, job_format=JOB_FORMAT), timeout=LIMIT_S
    )
    assert not answer.HasField("error"), answer.error
    for status in stub.WatchJob(pb.JobRequest(job_id=JOB), timeout=LIMIT_S):
        if all(task.state == "RUNNING" for vertex in status.vertices for task in vertex.subtasks):
            return


def take(stub: Any, for_s: float) -> list[float]:
    """What each checkpoint that began and was completed within so long took, in seconds; of very many the last."""
    before = newest(stub)
    time.sleep(for_s)
    listed = stub.ListCheckpoints(WITHOUT_SUBTASKS, timeout=LIMIT_S).checkpoints
    done = [found for found in listed if found.checkpoint_id > before and found.status == "COMPLETED"]
    return [(found.completed_ms - found.trigger_ms) / 1000 for found in done]


def newest(stub: Any) -> int:
    listed = stub.ListCheckpoints(WITHOUT_SUBTASKS, timeout=LIMIT_S).checkpoints
    return max((found.checkpoint_id for found in listed), default=0)


class Questions:
    """The process that asks, which begins and ends when it is told to."""

    def __init__(self, asking: subprocess.Popen[bytes]) -> None:
        assert asking.stdin is not None
        assert asking.stdout is not None
        self.process = psutil.Process(asking.pid)
        self._in, self._out = asking.stdin, asking.stdout
        assert self._out.readline() == b"up\n"

    def begin(self) -> None:
        self._in.write(b"\n")
        self._in.flush()

    def end(self) -> list[float]:
        """What each answer took since then, in seconds."""
        self.begin()
        found: list[float] = json.loads(self._out.readline())
        return found


@contextlib.contextmanager
def asking(rest_port: int, rate: int) -> Iterator[Questions]:
    command = [sys.executable, "-m", "benchmarks.rest_load", "ask", str(rest_port), str(rate)]
    with process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
        yield Questions(started)


@contextlib.contextmanager
def process(command: list[str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(command, **options) as started:
        try:
            yield started
        finally:
            started.kill()


def at_99(seconds: list[float]) -> float:
    return quantiles(seconds, n=100, method="inclusive")[98]


def show(name: str, seconds: list[float]) -> None:
    middle, high = median(seconds) * 1000, at_99(seconds) * 1000
    print(
        f"{name:<40} {len(seconds):>6}   p50 {middle:8.1f} ms   p99 {high:8.1f} ms   max {max(seconds) * 1000:8.1f} ms"
    )


if __name__ == "__main__":
    main()
