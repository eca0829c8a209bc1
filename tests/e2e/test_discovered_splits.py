"""Files and partitions that appear while a job runs: one reader finds them, and each line is read once, whichever process dies."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil
from confluent_kafka.cimpl import NewPartitions

from tests.e2e.cluster import JOBS, Cluster
from tests.e2e.counts_run import QUICK_RESTART
from tests.e2e.test_enumerated_source import replace_task_manager, runs_again
from tests.e2e.test_high_availability import _attempts_of, _next_job_manager
from tests.e2e.test_kafka_source import send
from tests.e2e.test_savepoints import finished, taken_by
from tests.e2e.test_split_assignment import lines_in
from tests.e2e.waiting import wait_until
from tests.e2e.watching import JobWatch
from tests.servers.kafka_broker import KafkaBroker

_LIMIT_S = 120
FILES, LINES = 12, 200
Grow = Callable[[], Counter[str]]
"""Makes new splits, and returns what is in them."""


def files_in(directory: Path) -> Grow:
    """Each call brings some more, each whole when it is seen."""
    directory.mkdir()
    brought: list[Path] = []

    def grow() -> Counter[str]:
        expected: Counter[str] = Counter()
        for _ in range(FILES):
            name = f"{len(brought):03}"
            lines = [f"{name}-{place}" for place in range(LINES)]
            hidden = directory / f".{name}"
            hidden.write_text("".join(f"{line}\n" for line in lines))
            brought.append(hidden.rename(directory / f"{name}.txt"))
            expected.update(lines)
        return expected

    return grow


def partitions_of(broker: KafkaBroker, topic: str) -> Grow:
    numbers: list[int] = []

    def grow() -> Counter[str]:
        more = range(len(numbers), len(numbers) + 3)
        if numbers:
            client = broker.admin()  # kept until it has answered
            client.create_partitions([NewPartitions(topic, more.stop)])[topic].result(30)
        else:
            broker.create_topic(topic, more.stop)
        numbers.extend(more)
        lines = {p: [f"{p}-{place}" for place in range(LINES)] for p in more}
        send(broker, topic, lines)
        return Counter(line for found in lines.values() for line in found)

    return grow


def reader(cluster: Cluster, index: int) -> psutil.Process:
    """The process of a subtask; all run. That of subtask 0 is the one that looks for new splits."""
    for process in cluster.subtask_processes():
        with contextlib.suppress(psutil.Error):  # an earlier attempt's, which is about to be gone
            if f"({index + 1}/" in " ".join(process.cmdline()):
                return process
    raise AssertionError(f"subtask {index} does not run")


def read_although_everything_is_killed(cluster: Cluster, source: list[str], grow: Grow, tmp_path: Path) -> None:
    """A JobManager twice, the reader that looks, another one, and a TaskManager, each while new splits have just appeared."""
    output = tmp_path / "output"
    settings = {"execution.checkpointing.dir": str(tmp_path / "checkpoints"), **QUICK_RESTART}
    expected = grow()
    arguments = [*source, f"--output={output}", "--rate=2000"]
    watch = cluster.submit(JOBS / "discovered_lines.py", *arguments, parallelism=3, settings=settings)
    watch.wait_running()
    watch.wait_checkpoints(1)
    first = _attempts_of(watch)
    for _ in range(2):
        expected += grow()
        watch = _next_job_manager(cluster, watch.job_id)
        watch.wait_running()
        assert _attempts_of(watch) == first, "adopted, not restarted"
        watch.wait_checkpoints(1)
    kills: tuple[Callable[[], None], ...] = (
        lambda: reader(cluster, 0).kill(),
        lambda: reader(cluster, 1).kill(),
        lambda: replace_task_manager(cluster),
    )
    for kill in kills:
        expected += grow()
        runs_again(watch, kill)
        wait_for_a_checkpoint(watch)
    wait_until(lambda: lines_in(output).total() >= expected.total(), _LIMIT_S, "everything is committed")
    wait_for_a_checkpoint(watch)
    cluster.cancel(watch)
    assert lines_in(output) == expected


def wait_for_a_checkpoint(watch: JobWatch) -> None:
    assert watch.last is not None
    watch.wait_checkpoints(watch.last.status.checkpoints_completed + 1)


def test_new_files_are_read_once_although_readers_taskmanager_and_jobmanager_are_killed(
    surviving_cluster: Cluster, tmp_path: Path
) -> None:
    directory = tmp_path / "input"
    read_although_everything_is_killed(surviving_cluster, [f"--input={directory}"], files_in(directory), tmp_path)


def test_new_partitions_are_read_once_although_readers_taskmanager_and_jobmanager_are_killed(
    surviving_cluster: Cluster, broker: KafkaBroker, tmp_path: Path
) -> None:
    source = [f"--servers={broker.servers}", "--topic=discovered-kills"]
    read_although_everything_is_killed(surviving_cluster, source, partitions_of(broker, "discovered-kills"), tmp_path)


def goes_on_at_another_parallelism(cluster: Cluster, source: list[str], grow: Grow, tmp_path: Path) -> None:
    output = tmp_path / "output"
    expected = grow()
    arguments = [*source, f"--output={output}"]
    watch = cluster.submit(JOBS / "discovered_lines.py", *arguments, "--rate=1000", parallelism=2)
    watch.wait_running()
    watch.wait_checkpoints(1)
    expected += grow()
    wait_for_a_checkpoint(watch)
    path = taken_by(cluster, "stop", watch.job_id, "-p", str(tmp_path / "savepoints"))
    finished(watch)
    expected += grow()
    watch = cluster.submit(JOBS / "discovered_lines.py", *arguments, "--rate=20000", parallelism=3, restore=str(path))
    watch.wait_running()
    expected += grow()
    wait_until(lambda: lines_in(output).total() >= expected.total(), _LIMIT_S, "everything is committed")
    wait_for_a_checkpoint(watch)
    cluster.cancel(watch)
    assert lines_in(output) == expected


def test_a_watched_directory_goes_on_at_another_parallelism(cluster: Cluster, tmp_path: Path) -> None:
    directory = tmp_path / "input"
    goes_on_at_another_parallelism(cluster, [f"--input={directory}"], files_in(directory), tmp_path)


def test_a_topic_that_grows_goes_on_at_another_parallelism(
    cluster: Cluster, broker: KafkaBroker, tmp_path: Path
) -> None:
    source = [f"--servers={broker.servers}", "--topic=discovered-stop"]
    goes_on_at_another_parallelism(cluster, source, partitions_of(broker, "discovered-stop"), tmp_path)
