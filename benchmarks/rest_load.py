"""What many questions by REST cost the checkpoints of a large job: 200 requests a second beside 1,000 subtasks.

python -m benchmarks.rest_load [--subtasks 1000] [--rate 200] [--checkpoints 60] [--rounds 4]

    this process ─checkpoint after checkpoint─▶ JobManager (`tidegate jobmanager`) ◀─gRPC─ TaskManagers that only acknowledge,
    another ──────/jobs/:id and /checkpoints──▶                                            all of them in a process of their own

Rounds without and with questions take turns, so that what else the machine does is spread over both.
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
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import aiohttp
import click
import grpc
import psutil

from benchmarks.control_plane_cluster import JOB, SLOTS, STAGES, make_graph
from jobmanager.service.app import Listening
from tests.aio.jobmanager.cluster import KEY, PROGRAM, FakeTaskManager
from tidegate.aio.rpc import CHANNEL_OPTIONS
from tidegate.pb import common_pb2
from tidegate.pb import jobmanager_pb2 as pb
from tidegate.pb.jobmanager_pb2_grpc import JobManagerClientServiceStub
from tidegate.wire.convert import graph_to_pb
from tidegate.wire.versions import PYTHON_VERSION, VERSION

LIMIT_S = 120
SETTINGS = ("heartbeat.timeout=1 h", "execution.checkpointing.interval=1 h", "jobmanager.rpc.port=0", "rest.port=0")
_PATHS = (f"/jobs/{JOB}", f"/jobs/{JOB}/checkpoints")


@click.group(invoke_without_command=True)
@click.option("--subtasks", default=1_000, show_default=True)
@click.option("--rate", default=200, show_default=True, help="Requests a second.")
@click.option("--checkpoints", default=60, show_default=True, help="In each round.")
@click.option("--rounds", default=4, show_default=True, help="Without questions, and as many with them.")
@click.pass_context
def main(context: click.Context, subtasks: int, rate: int, checkpoints: int, rounds: int) -> None:
    if context.invoked_subcommand is not None:
        return
    with tempfile.TemporaryDirectory(prefix="tidegate-rest-load-") as folder, cluster(Path(folder), subtasks) as site:
        at, job_manager = site
        stub = JobManagerClientServiceStub(grpc.insecure_channel(f"localhost:{at.rpc_port}", CHANNEL_OPTIONS))
        submit(stub, subtasks, Path(folder))
        take(stub, checkpoints // 2)  # warm
        alone: list[float] = []
        asked: list[float] = []
        answers: list[float] = []
        used = {"alone": 0.0, "asked": 0.0}
        for _ in range(rounds):
            before_s = cpu_s(job_manager)
            alone += take(stub, checkpoints)
            used["alone"] += cpu_s(job_manager) - before_s
            with questions(at.rest_port, rate) as found:
                before_s = cpu_s(job_manager)
                asked += take(stub, checkpoints)
                used["asked"] += cpu_s(job_manager) - before_s
            answers += found
    show("checkpoints alone", alone)
    show(f"checkpoints beside {rate} requests/s", asked)
    show("answers", answers)
    a_checkpoint_ms = used["alone"] / len(alone) * 1000
    a_request_ms = (used["asked"] - used["alone"]) / len(answers) * 1000
    print(f"processor of the JobManager: {a_checkpoint_ms:.1f} ms a checkpoint, {a_request_ms:.2f} ms a request")
    change = (at_99(asked) / at_99(alone) - 1) * 100
    print(
        f"p99 of checkpoints: {change:+.1f} %    load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"
    )


@main.command()
@click.argument("rpc_port", type=int)
@click.argument("count", type=int)
def taskmanagers(rpc_port: int, count: int) -> None:
    """So many TaskManagers that come up at once and acknowledge everything."""

    async def run() -> None:
        for number in range(count):
            await FakeTaskManager(f"tm-{number}", SLOTS).start(Listening(rpc_port, 0))
        print("up", flush=True)
        await asyncio.Event().wait()

    asyncio.run(run())


@main.command()
@click.argument("rest_port", type=int)
@click.argument("rate", type=int)
def ask(rest_port: int, rate: int) -> None:
    """Ask until standard input ends: at fixed times, whatever the answers take. Prints what each took, in seconds."""
    print(json.dumps(asyncio.run(_ask(rest_port, rate))), flush=True)


async def _ask(rest_port: int, rate: int) -> list[float]:
    took: list[float] = []

    async def one(session: aiohttp.ClientSession, path: str) -> None:
        started = time.perf_counter()
        async with session.get(path) as answer:
            await answer.read()
            assert answer.status == 200, path
        took.append(time.perf_counter() - started)

    loop = asyncio.get_running_loop()
    ended = loop.run_in_executor(None, sys.stdin.read)
    async with aiohttp.ClientSession(f"http://localhost:{rest_port}") as session, asyncio.TaskGroup() as group:
        await one(session, _PATHS[0])
        took.clear()
        print("asking", flush=True)
        started, number = loop.time(), 0
        while not ended.done():
            group.create_task(one(session, _PATHS[number % 2]))
            number += 1
            await asyncio.sleep(max(0.0, started + number / rate - loop.time()))
    return took


@contextlib.contextmanager
def cluster(folder: Path, subtasks: int) -> Iterator[tuple[Listening, psutil.Process]]:
    ready = folder / "ready"
    command = [sys.executable, "-m", "cli.main", "jobmanager", "--ready-file", str(ready), "--exit-with-parent"]
    command += ["--log-file", str(folder / "jobmanager.log"), *(f"-D{setting}" for setting in SETTINGS)]
    with process(command) as job_manager:
        deadline = time.monotonic() + LIMIT_S
        while not ready.exists():
            if job_manager.poll() is not None or time.monotonic() > deadline:
                raise click.ClickException((folder / "jobmanager.log").read_text())
            time.sleep(0.05)
        ports = json.loads(ready.read_text())
        at = Listening(ports["rpc_port"], ports["rest_port"])
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
    answer = stub.SubmitJob(pb.SubmitJobRequest(graph=graph_to_pb(graph), client_version=VERSION), timeout=LIMIT_S)
    assert not answer.HasField("error"), answer.error
    for status in stub.WatchJob(pb.JobRequest(job_id=JOB), timeout=LIMIT_S):
        if all(task.state == "RUNNING" for vertex in status.vertices for task in vertex.subtasks):
            return


def take(stub: Any, count: int) -> list[float]:
    """One checkpoint after the other; what each took, in seconds."""
    took = []
    for _ in range(count):
        started = time.perf_counter()
        answer = stub.TriggerCheckpoint(pb.TriggerJobCheckpointRequest(job_id=JOB, wait_ms=LIMIT_S * 1000))
        assert not answer.HasField("error"), answer.error
        took.append(time.perf_counter() - started)
    return took


@contextlib.contextmanager
def questions(rest_port: int, rate: int) -> Iterator[list[float]]:
    """The list is filled when the block ends."""
    took: list[float] = []
    command = [sys.executable, "-m", "benchmarks.rest_load", "ask", str(rest_port), str(rate)]
    with process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as asking:
        assert asking.stdout is not None
        assert asking.stdout.readline() == b"asking\n"
        yield took
        out, _ = asking.communicate(timeout=LIMIT_S)
        took += json.loads(out)


@contextlib.contextmanager
def process(command: list[str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(command, **options) as started:
        try:
            yield started
        finally:
            started.kill()


def at_99(seconds: list[float]) -> float:
    return quantiles(seconds, n=100)[98]


def show(name: str, seconds: list[float]) -> None:
    middle, high = median(seconds) * 1000, at_99(seconds) * 1000
    print(
        f"{name:<40} {len(seconds):>6}   p50 {middle:8.1f} ms   p99 {high:8.1f} ms   max {max(seconds) * 1000:8.1f} ms"
    )


if __name__ == "__main__":
    main()
