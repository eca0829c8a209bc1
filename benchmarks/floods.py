"""What a flood costs a running job: idle connections to every open port, and messages that are too long, while it checkpoints.

[TIDEGATE_TESTS_SECURED=1] python -m benchmarks.floods [--connections 2000] [--messages 10] [--message-mib 250] [--seconds 60]

    a process that attacks ── idle connections ──▶ REST, gRPC of the JobManager, gRPC of a TaskManager
                           ── long messages ─────▶ both gRPC ports
    `tidegate list`, and the same call by a connection of its own, again and again, and WatchJob beside them

The aims stand beside what was measured, and what lists took before the attack: on a machine that does other things `tidegate list` waits for a processor, to
start Python. The exit code is 1 when an aim is missed. With the variable the cluster has TLS everywhere, and users (tests/e2e/all_on.py).
"""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import click
import grpc
import psutil

from tests.e2e.cluster import Cluster, Proc
from tests.e2e.counts_run import CountsRun
from tests.e2e.pool import made_ready
from tidegate.aio.settings import load_settings
from tidegate.aio.transports import transport_of
from tidegate.cli.client import JobManagerClient
from tidegate.model.configuration import Configuration

MIB = 1 << 20
LIST_S, MEMORY_MIB, LOG_MIB = 2.0, 512, 1
"""Aims of the issue about security: seconds of `tidegate list`, growth of memory of all services together, and of all logs."""
CHECKPOINT_MS = 500
"""Chosen: two in a second are begun, so that one that does not complete is seen."""
SETTLED_CHECKPOINTS = 20
"""Chosen: a job that has completed so many has the memory that it needs."""
LISTS_BEFORE = 10
"""Chosen: so many are timed before the attack."""
SPARE_S = 120
"""Chosen: by how much the job is longer than the attack; it is cancelled behind that."""
SUFFICES_S = 30
"""Chosen: what a message of 250 MiB may take to be refused, on a machine that does other things too."""
REST_OF_ATTACK_S = 5
"""Chosen: how long the last answers are waited for."""
OF_JOB_MANAGER, OF_TASK_MANAGER = 1, 2
"""Places of their gRPC ports among those that are attacked."""
CALLS = (
    (OF_JOB_MANAGER, "/tidegate.pb.JobManagerClientService/CancelJob"),
    (OF_JOB_MANAGER, "/tidegate.pb.JobManagerClientService/PutBlob"),
    (OF_TASK_MANAGER, "/tidegate.pb.TaskManager/CancelTask"),
)


@dataclass(slots=True)
class Lists:
    """How long answers took, to the command and to its call alone, and how often the command failed."""

    commands_s: list[float] = field(default_factory=list)
    calls_s: list[float] = field(default_factory=list)
    failed: int = 0

    def ask(self, cluster: Cluster) -> None:
        since = time.monotonic()
        asked = cluster.cli("list", "-m", cluster.address)
        self.commands_s.append(time.monotonic() - since)
        self.failed += asked.returncode != 0
        transport = transport_of(Configuration.from_strings(cluster.settings))
        since = time.monotonic()
        with JobManagerClient(cluster.address, transport=transport) as client:
            client.list_jobs(include_terminal=True)
        self.calls_s.append(time.monotonic() - since)

    def told(self) -> str:
        return f"{spread(self.commands_s)}; the call alone {spread(self.calls_s)}"


@dataclass(slots=True)
class Measured:
    before: Lists
    meanwhile: Lists
    memory_mib: float
    log_mib: float
    restarts: int
    checkpoints: int
    failed_checkpoints: int

    def rows(self) -> list[tuple[str, str, str, bool]]:
        """Figure, value, aim, whether it is met."""
        return [
            ("checkpoints meanwhile", str(self.checkpoints), "> 0", self.checkpoints > 0),
            ("failed checkpoints", str(self.failed_checkpoints), "0", self.failed_checkpoints == 0),
            ("restarts", str(self.restarts), "0", self.restarts == 0),
            ("slowest `tidegate list`, s", f"{max(self.meanwhile.commands_s):.2f}", f"{LIST_S:g}", max(self.meanwhile.commands_s) <= LIST_S),
            ("slowest call of it, s", f"{max(self.meanwhile.calls_s):.2f}", f"{LIST_S:g}", max(self.meanwhile.calls_s) <= LIST_S),
            ("lists that failed", str(self.meanwhile.failed), "0", self.meanwhile.failed == 0),
            ("memory, MiB more", f"{self.memory_mib:.0f}", str(MEMORY_MIB), self.memory_mib <= MEMORY_MIB),
            ("log, MiB more", f"{self.log_mib:.2f}", str(LOG_MIB), self.log_mib <= LOG_MIB),
        ]  # fmt: skip


@click.command()
@click.option("--connections", default=2000, show_default=True)
@click.option("--messages", default=10, show_default=True)
@click.option("--message-mib", default=250, show_default=True)
@click.option("--seconds", default=60.0, show_default=True)
@click.option("--attack", "ports", hidden=True, help="The ports to attack: this process does that alone.")
def main(connections: int, messages: int, message_mib: int, seconds: float, ports: str | None) -> None:
    """Flood a cluster of one JobManager and two TaskManagers."""
    if ports is not None:
        attack([int(port) for port in ports.split(",")], connections, messages, message_mib * MIB, seconds)
        return
    with tempfile.TemporaryDirectory(prefix="tg-floods-") as directory, Cluster(Path(directory) / "cluster") as cluster:
        made_ready(cluster, 2)
        sizes = ["--connections", str(connections), "--messages", str(messages), "--message-mib", str(message_mib)]
        found = measured(cluster, Path(directory), sizes, seconds)
    print(f"lists before, s: {found.before.told()}")
    print(f"lists meanwhile, s: {found.meanwhile.told()}")
    for figure, value, aim, is_met in found.rows():
        print(f"{figure:<28} {value:>8}   aim {aim:>4}   {'met' if is_met else 'MISSED'}")
    sys.exit(0 if all(is_met for *_, is_met in found.rows()) else 1)


def measured(cluster: Cluster, directory: Path, sizes: Sequence[str], seconds: float) -> Measured:
    run = CountsRun(directory / "job", seconds=2 * seconds + SPARE_S)
    watch = run.submit(cluster, settings={"execution.checkpointing.interval": f"{CHECKPOINT_MS} ms"})
    watch.wait_checkpoints(SETTLED_CHECKPOINTS)
    assert watch.last is not None
    lists_before, meanwhile = Lists(), Lists()
    for _ in range(LISTS_BEFORE):
        lists_before.ask(cluster)
    before, memory_before, log_before = watch.last.status, memory_of(cluster), log_of(cluster)
    address = cluster.cluster_status().task_managers[0].address
    ports = [cluster.rest_port, cluster.port, int(address.rpartition(":")[2])]
    command = [
        sys.executable,
        "-m",
        "benchmarks.floods",
        *sizes,
        "--seconds",
        str(seconds),
        "--attack",
        ",".join(map(str, ports)),
    ]
    most = memory_before
    attacker = subprocess.Popen(command, env={**os.environ, **cluster.of_clients})
    try:
        while attacker.poll() is None or not meanwhile.calls_s:
            meanwhile.ask(cluster)
            most = max(most, memory_of(cluster))
    finally:
        attacker.kill()
        attacker.wait()
    after = watch.last.status
    found = Measured(
        lists_before,
        meanwhile,
        (most - memory_before) / MIB,
        (log_of(cluster) - log_before) / MIB,
        after.restarts - before.restarts,
        after.checkpoints_completed - before.checkpoints_completed,
        after.checkpoints_failed - before.checkpoints_failed,
    )
    cluster.cancel(watch)
    return found


def attack(ports: Sequence[int], connections: int, messages: int, size_bytes: int, seconds: float) -> None:
    """Idle connections to all ports in turns, and long messages to the gRPC ports, all at once."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    until = time.monotonic() + seconds
    idle = []
    for number in range(connections):
        with contextlib.suppress(OSError):  # refused, or the machine has no more of them
            idle.append(socket.create_connection(("127.0.0.1", ports[number % len(ports)]), timeout=1))
    content = bytes(size_bytes)
    with ThreadPoolExecutor(max(1, messages)) as together:
        calls = [CALLS[number % len(CALLS)] for number in range(messages)]
        for (_, method), answer in zip(
            calls, together.map(lambda call: send(ports[call[0]], call[1], content), calls), strict=True
        ):
            print(f"a message to {method}: {answer}", file=sys.stderr)
    time.sleep(max(REST_OF_ATTACK_S, until - time.monotonic()))  # the attack lasts as long as was asked for
    for one in idle:
        one.close()


def send(port: int, method: str, content: bytes) -> str:
    """What a server says to these bytes as a message."""
    options = [("grpc.max_send_message_length", -1)]
    with transport_of(load_settings()).open_blocking_channel(f"127.0.0.1:{port}", options) as channel:
        call = channel.unary_unary(method, request_serializer=bytes, response_deserializer=bytes)
        try:
            call(content, timeout=SUFFICES_S)
        except grpc.RpcError as error:
            return str(error.code().name)
    return "taken"


def spread(seconds: Sequence[float]) -> str:
    return f"median {statistics.median(seconds):.2f}, slowest {max(seconds):.2f}"


def services(cluster: Cluster) -> Iterator[Proc]:
    assert cluster.job_manager is not None
    yield cluster.job_manager
    yield from cluster.task_managers


def memory_of(cluster: Cluster) -> int:
    """Resident memory of the services' own processes, without their JVMs and subtasks."""
    return sum(psutil.Process(process.pid).memory_info().rss for process in services(cluster))


def log_of(cluster: Cluster) -> int:
    return sum(process.log.stat().st_size for process in services(cluster))


if __name__ == "__main__":
    main()
