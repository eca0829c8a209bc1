"""A job that leaks fails with a message that helps, by a bound that is set or by what the machine has, and nothing else does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster import JOBS, Cluster
from tests.e2e.test_stubborn_functions import NO_RESTART, process_of, submit
from tests.e2e.watching import exceptions_of


@pytest.fixture(scope="module")
def job_manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("memory")) as cluster:
        yield cluster


def leak(cluster: Cluster, directory: Path) -> tuple[str, str]:
    """What the client prints of a job that leaks, and what REST knows of its failure."""
    settings = [f"-D{key}={value}" for key, value in NO_RESTART.items()]
    arguments = ["-p", "1", *settings, str(JOBS / "stubborn.py"), "leaks", str(directory / "leaks")]
    done = cluster.cli("run", "--jobmanager", cluster.address, *arguments)
    assert done.returncode != 0, done.stdout
    said = done.stdout + done.stderr
    (job_id,) = set(re.findall(r"\b[0-9a-f]{32}\b", said))
    (entry,) = exceptions_of(cluster.rest_port, job_id)
    return said, entry["stacktrace"]


@pytest.mark.parametrize(
    ("bound", "why", "remedy"),
    [
        (
            "tidegate.taskmanager.memory.machine-size=700m",
            r"was ended before its TaskManager ran out of memory: it has \d+ MiB, the most of 2 subtasks; of 700 MiB "
            r"\(tidegate.taskmanager.memory.machine-size\) only \d+ MiB are left, and 128 MiB have to stay free",
            "raise tidegate.taskmanager.memory.machine-size",
        ),
        (
            "taskmanager.memory.process.size=800m",
            r"needed more than its slot's 400 MiB \(taskmanager.memory.process.size / slots\): it has \d+ MiB",
            "give the TaskManager more memory or fewer slots",
        ),
    ],
)
def test_a_leak_ends_its_subtask_and_its_neighbour_goes_on(
    job_manager: Cluster, tmp_path: Path, bound: str, why: str, remedy: str
) -> None:
    manager = job_manager.add_taskmanager(2, f"-D{bound}")
    job_manager.wait_slots(2)
    neighbour = submit(job_manager, tmp_path, "sleeps")
    process = process_of(tmp_path, "sleeps")

    for told in leak(job_manager, tmp_path):
        assert re.search(r"Source: Collection Source -> Map -> \S.* \(1/1\)#0 " + why, told), told
        assert remedy in told
        assert "state.backend.type: rocksdb" in told

    assert process.is_running()
    assert neighbour.last is not None
    assert (neighbour.last.status.state, neighbour.last.status.restarts) == ("RUNNING", 0)
    job_manager.cancel(neighbour)
    job_manager.end(manager)
