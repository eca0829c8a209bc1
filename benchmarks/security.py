"""What security costs: jobs, checkpoints and starts with it beside the same ones without, in turns.

python -m benchmarks.security [--rounds 3] [--rows 100000000] [--wide-rows 20000000] [--add]

    TaskManager, one slot ──TCP, or Unix sockets──▶ TaskManager, one slot: the keyed window job, half of whose rows cross
    python job.py ─▶ first committed file, with a cluster of its own
    one process ──one TCP connection──▶ another one, plain and by TLS, by Python's sockets

A set-up has a cluster of its own, and the clusters of a round run one after the other, so that none runs beside another one. The order turns with the round.
Ratios are those of one round, so that what else the machine does is in both parts; of the ratios the least, the median and the most are printed.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from benchmarks.cluster import ROOT, BenchCluster
from benchmarks.keyed_window import completed_checkpoints
from benchmarks.rows import KEYS
from tests.certificates import make_authority, write_stores
from tidegate.aio.settings import variable_of
from tidegate.security.sockets import IDENTITY, TRUSTED, TlsFiles

RESULTS = Path(__file__).resolve().parent / "results"
JOB = "benchmarks/keyed_window_job.py"
TASK_MANAGERS = 2
"""With a slot each: parallelism 2."""
WIDE_KEYS = 1_000_000
"""With so many keys almost every row crosses, and with the other number of them only what senders have added up."""
INTERVAL_MS, TIMED_INTERVAL_MS = 1_000, 200
TIMED_ROWS, TIMED_ROWS_PER_SECOND = 5_000_000, 500_000
"""Of the job whose checkpoints are timed."""
FIRST_ROWS = 200_000
FIRST_INTERVAL_MS = 100
FIRST_LIMIT_S = 180.0
STREAM_BYTES, PIECE_BYTES = 256 << 20, 1 << 20
INSECURE = {"tidegate.security.insecure": "true"}
BY_TCP = {"taskmanager.bind-host": "0.0.0.0", "taskmanager.host": "127.0.0.1"}  # noqa: S104
LEAST_BY_TCP, LEAST_BY_UNIX, MOST_OF_CHECKPOINT, MOST_LATER_S = 0.8, 0.97, 1.15, 1.0
"""Aims: parts of the rate and of the time of a checkpoint without security, and by how much a first result may be later."""


@dataclass(frozen=True)
class Setup:
    """``beside``: the set-up with which it is compared, and the least part of that one's rate that it should have."""

    name: str
    options: Mapping[str, str]
    beside: tuple[str, float] | None = None


@dataclass
class Found:
    """Of one set-up in one round."""

    rate: float
    """Million rows a second."""
    wide_rate: float
    """The same, of a million keys."""
    checkpoint_ms: float
    """p50, from trigger to durable ``_metadata``."""


@dataclass
class Figures:
    jobs: dict[str, list[Found]] = field(default_factory=dict)
    first_result_s: dict[str, list[float]] = field(default_factory=dict)
    stream_gib_s: dict[str, list[float]] = field(default_factory=dict)


def setups_of(stores: tuple[Path, Path]) -> list[Setup]:
    tls = {
        "security.ssl.internal.enabled": "true",
        "security.ssl.internal.keystore": str(stores[0]),
        "security.ssl.internal.truststore": str(stores[1]),
    }
    return [
        Setup("TCP, plain", {**INSECURE, **BY_TCP}),
        Setup("TCP, TLS", {**tls, **BY_TCP}, ("TCP, plain", LEAST_BY_TCP)),
        Setup("Unix, insecure", INSECURE),
        Setup("Unix, key of the user", {}, ("Unix, insecure", LEAST_BY_UNIX)),
        Setup("Unix, TLS on gRPC", tls, ("Unix, insecure", LEAST_BY_UNIX)),
    ]


# --- jobs ------------------------------------------------------------------------------------------------------------------------------


def run_jobs(setup: Setup, rows: int, wide_rows: int) -> Found:
    """In a cluster of its own. Raises ``RuntimeError`` where a job does not finish."""
    options = {**setup.options, "web.checkpoints.history": "1000"}
    with BenchCluster(1, options, task_managers=TASK_MANAGERS) as cluster:
        stream = partial(_stream, cluster)
        stream("warm-up", rows // 10)
        rate = stream("rate", rows).rate
        wide_rate = stream("wide", wide_rows, keys=WIDE_KEYS).rate
        timed = stream("timed", TIMED_ROWS, TIMED_INTERVAL_MS, TIMED_ROWS_PER_SECOND)
        return Found(rate, wide_rate, statistics.median(timed.checkpoints_ms))


@dataclass(frozen=True)
class _Run:
    rate: float
    checkpoints_ms: Sequence[float]


def _stream(
    cluster: BenchCluster,
    name: str,
    rows: int,
    interval_ms: int = INTERVAL_MS,
    rows_per_second: int = 0,
    keys: int = KEYS,
) -> _Run:
    output = cluster.directory / name
    job_id = cluster.run(JOB, *map(str, (rows, TASK_MANAGERS, output, interval_ms, rows_per_second, keys)))
    times = cluster.wait(job_id).state_timestamps_ms
    checkpoints = [float(one.completed_ms - one.trigger_ms) for one in completed_checkpoints(cluster, job_id)]
    shutil.rmtree(output)
    return _Run(rows / (times["FINISHED"] - times["RUNNING"]) / 1e3, checkpoints)


# --- first result ----------------------------------------------------------------------------------------------------------------------


def first_result_s(options: Mapping[str, str]) -> float:
    """From starting ``python job.py``, which has a cluster of its own, to the first committed file."""
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as directory:
        output = Path(directory) / "output"
        variables = {variable_of(key): text for key, text in options.items()}
        command = [sys.executable, str(ROOT / JOB), str(FIRST_ROWS), "1", str(output), str(FIRST_INTERVAL_MS)]
        with open(Path(directory) / "log", "wb") as log:
            began = time.perf_counter()
            process = subprocess.Popen(
                command, env={**os.environ, "PYTHONPATH": str(ROOT), **variables}, stdout=log, stderr=log, cwd=directory
            )
        try:
            while not (output.is_dir() and any(not path.name.startswith(".") for path in output.iterdir())):
                if process.poll() or time.perf_counter() - began > FIRST_LIMIT_S:
                    raise RuntimeError(f"there is no result: {Path(directory, 'log').read_text()[-2000:]}")
                time.sleep(0.005)
            seconds = time.perf_counter() - began
            process.wait(FIRST_LIMIT_S)
        finally:
            process.kill()
            process.wait()
    return seconds


# --- one stream ------------------------------------------------------------------------------------------------------------------------


def stream_gib_s(tls: TlsFiles | None) -> float:
    """Of one connection on loopback, by blocking sockets of Python in two processes."""
    plain = socket.create_server(("127.0.0.1", 0))
    port = plain.getsockname()[1]
    with plain if tls is None else tls.listener(plain) as server:
        sender = multiprocessing.Process(target=_send, args=(port, tls))
        sender.start()
        connection, _ = server.accept()
        with connection:
            piece = memoryview(bytearray(PIECE_BYTES))
            left = STREAM_BYTES - connection.recv_into(piece)  # the handshake is done, too
            began = time.perf_counter()
            while left:
                received = connection.recv_into(piece)
                if not received:
                    raise RuntimeError("the sender has ended")
                left -= received
            seconds = time.perf_counter() - began
            connection.sendall(b"!")
        sender.join()
    return STREAM_BYTES / seconds / 2**30


def _send(port: int, tls: TlsFiles | None) -> None:
    plain = socket.socket()
    with plain if tls is None else tls.client(plain) as connection:
        connection.connect(("127.0.0.1", port))
        piece = bytes(PIECE_BYTES)
        for _ in range(STREAM_BYTES // PIECE_BYTES):
            connection.sendall(piece)
        connection.recv(1)  # who closes before the other one has read everything takes the rest away


def tls_files_of(stores: tuple[Path, Path], directory: Path) -> TlsFiles:
    """The stores, where a subtask would look for them."""
    directory.mkdir()
    for store, name in zip(stores, (IDENTITY, TRUSTED), strict=True):
        shutil.copy(store, directory / name)
    return TlsFiles(directory)


# --- all of it -------------------------------------------------------------------------------------------------------------------------


def measure(figures: Figures, rounds: int, rows: int, wide_rows: int, directory: Path) -> None:
    """Adds so many rounds."""
    now, validity = datetime.now(UTC), timedelta(days=1)
    authority = make_authority(now, validity)
    stores = write_stores(directory / "stores", authority, authority, now, validity)
    setups, files = setups_of(stores), tls_files_of(stores, directory / "files")
    before = len(figures.stream_gib_s.get("plain", []))
    for number in range(before, before + rounds):
        for tls in (None, files) if number % 2 == 0 else (files, None):
            name = "plain" if tls is None else "TLS"
            figures.stream_gib_s.setdefault(name, []).append(stream_gib_s(tls))
        for setup in turned(setups, number):
            figures.jobs.setdefault(setup.name, []).append(run_jobs(setup, rows, wide_rows))
            print(f"round {number + 1}, {setup.name}: {figures.jobs[setup.name][-1]}", file=sys.stderr)
        by_unix = [setup for setup in setups if setup.name.startswith("Unix")]
        for setup in turned(by_unix, number):
            figures.first_result_s.setdefault(setup.name, []).append(first_result_s(setup.options))
            print(f"round {number + 1}, {setup.name}: {figures.first_result_s[setup.name][-1]:.2f} s", file=sys.stderr)


def turned(setups: Sequence[Setup], number: int) -> Sequence[Setup]:
    first = number % len(setups)
    return (*setups[first:], *setups[:first])


def kept_figures(file: Path) -> Figures:
    kept = json.loads(file.read_text())
    return Figures(**{**kept, "jobs": {name: [Found(**one) for one in found] for name, found in kept["jobs"].items()}})


def spread(values: Iterable[float], form: str = ".2f") -> str:
    """Median, and least and most in brackets."""
    found = list(values)
    return f"{statistics.median(found):{form}} ({min(found):{form}}-{max(found):{form}})"


def report(console: Console, setups: Sequence[Setup], figures: Figures) -> None:
    table = Table(
        "set-up",
        "M rows/s",
        "of it",
        "a million keys",
        "of it",
        "checkpoint p50, ms",
        "of it",
        "first result, s",
        "later by",
    )
    for setup in setups:
        own = figures.jobs[setup.name]
        cells = [setup.name]
        beside = figures.jobs[setup.beside[0]] if setup.beside else None
        for kind, form in (("rate", ".1f"), ("wide_rate", ".1f"), ("checkpoint_ms", ".0f")):
            cells.append(spread((getattr(one, kind) for one in own), form))
            ratios = [getattr(a, kind) / getattr(b, kind) for a, b in zip(own, beside, strict=True)] if beside else []
            cells.append(spread(ratios) if ratios else "")
        firsts = figures.first_result_s.get(setup.name, [])
        cells.append(spread(firsts) if firsts else "")
        others = figures.first_result_s.get(setup.beside[0], []) if setup.beside else []
        cells.append(spread(a - b for a, b in zip(firsts, others, strict=True)) if firsts and others else "")
        table.add_row(*cells)
    console.print(table)
    plain, tls = figures.stream_gib_s["plain"], figures.stream_gib_s["TLS"]
    ratios = [a / b for a, b in zip(tls, plain, strict=True)]
    console.print(f"one stream, GiB/s: plain {spread(plain)}, TLS {spread(tls)}, of it {spread(ratios)}")
    console.print(
        f"aims: {LEAST_BY_TCP:g} of the rate by TCP, {LEAST_BY_UNIX:g} by Unix sockets, {MOST_OF_CHECKPOINT:g} of a checkpoint, "
        f"a first result at most {MOST_LATER_S:g} s later"
    )


@click.command(help=__doc__)
@click.option("--rounds", default=3, show_default=True)
@click.option("--rows", default=100_000_000, show_default=True, help=f"Of a job with {KEYS:,} keys.")
@click.option("--wide-rows", default=20_000_000, show_default=True, help=f"Of a job with {WIDE_KEYS:,} keys.")
@click.option("--add", "adds", is_flag=True, help="The rounds are added to those of the run before.")
def main(rounds: int, rows: int, wide_rows: int, adds: bool) -> None:
    file = RESULTS / "security.json"
    figures = kept_figures(file) if adds and file.exists() else Figures()
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as directory:
        measure(figures, rounds, rows, wide_rows, Path(directory))
    RESULTS.mkdir(exist_ok=True)
    file.write_text(json.dumps(asdict(figures), indent=1))
    report(Console(width=200), setups_of((Path(), Path())), figures)


if __name__ == "__main__":
    main()
