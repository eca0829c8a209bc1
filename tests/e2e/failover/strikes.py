"""Where a leader is struck, and what a client of it is waiting for just then."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e.cluster import JOBS, REPOSITORY, Proc
from tests.e2e.counts_run import CountsRun
from tests.e2e.failover.cluster import FailoverCluster
from tests.e2e.failover.rounds import JOB_LIMIT_S, Rounds


@contextmanager
def in_background(cluster: FailoverCluster, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A command of the CLI that finds the leader by the configuration, and is waited for in the end."""
    with client(cluster, *arguments) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.communicate(timeout=JOB_LIMIT_S)


def client(cluster: FailoverCluster, *arguments: str) -> subprocess.Popen[str]:
    quorum = [f"-D{key}={text}" for key, text in cluster.settings.items() if key.startswith("high-availability")]
    return subprocess.Popen(
        [sys.executable, "-m", "tidegate.cli.main", arguments[0], *quorum, *arguments[1:]],
        cwd=cluster.directory,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def submission(rounds: Rounds, directory: Path) -> list[str]:
    run = CountsRun(directory, seconds=5, rows=10_000, interval=300)
    rounds.files.append(run)
    places = f"-Dexecution.checkpointing.dir={run.checkpoints}"
    return ["run", "-d", "-p", "2", places, str(JOBS / "counts.py"), *run.arguments]


def savepoint(rounds: Rounds, directory: Path) -> list[str]:
    return ["savepoint", "--timeout", str(JOB_LIMIT_S), rounds.kafka_job, str(directory)]


def stop(rounds: Rounds, directory: Path) -> list[str]:
    return ["stop", "--timeout", str(JOB_LIMIT_S), rounds.kafka_job, "-p", str(directory)]


@dataclass(frozen=True)
class Point:
    """``door`` of ``held_jobmanager``, for what is about ``about``; ``asks`` gives the arguments of a command that leads there."""

    name: str
    door: str
    asks: Callable[[Rounds, Path], list[str]] | None = None
    about: str = ""


DURING_CHECKPOINTS = (
    Point("before the pointer", "before-pointer"),
    Point("after the pointer", "after-pointer"),
    Point("between confirms", "between-confirms"),
)
DURING_REQUESTS = (
    Point("submission, before the job is kept", "before-plan", submission),
    Point("submission, before its answer", "after-plan", submission),
    Point("deployment", "between-deployments", submission),
    Point("savepoint", "before-metadata", savepoint, "savepoint"),
)
STOP = Point("stop", "before-pointer", stop, "savepoint")


@dataclass
class Stopped:
    """Leaders that were stopped, each in the middle of a step, and clients that wait for them."""

    cluster: FailoverCluster
    rounds: Rounds
    directory: Path
    leaders: list[Proc] = field(default_factory=list)
    clients: list[tuple[Point, subprocess.Popen[str]]] = field(default_factory=list)

    def stop_at(self, point: Point) -> None:
        """The next one leads, and the jobs go on, when this returns. The client still waits."""
        if point.asks is not None:
            place = self.directory / point.name.replace(" ", "-")
            self.clients.append((point, client(self.cluster, *point.asks(self.rounds, place))))
        self.cluster.at_door(point.door, lambda: self.leaders.append(self.cluster.stop_leader()), point.about)
        print(f"stopped at: {point.name}; the jobs go on after {self.rounds.next_leader():.1f} s")

    def resume(self) -> list[str]:
        """The leaders go on in their steps, are refused, and stand by. Returns what each client has printed: it was answered by the next leader."""
        for leader in self.leaders:
            self.cluster.resume(leader)
        self.leaders.clear()
        said = []
        for point, process in self.clients:
            text, _ = process.communicate(timeout=JOB_LIMIT_S)
            assert process.returncode == 0, f"{point.name}: {text}"
            said.append(text)
        self.clients.clear()
        return said

    def close(self) -> None:
        for _, process in self.clients:
            process.kill()
            process.communicate()


@contextmanager
def stopping(cluster: FailoverCluster, rounds: Rounds, directory: Path) -> Iterator[Stopped]:
    stopped = Stopped(cluster, rounds, directory)
    try:
        yield stopped
    finally:
        stopped.close()


def path_in(said: str) -> str:
    """The savepoint of a command that has taken one."""
    return said.split("Savepoint completed. Path: ")[1].split()[0]
