"""What a slot sharing group asks for: each subtask gets it from Spark on a cluster, or the job fails at once with what is not there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster import JOBS, Cluster
from tests.e2e.test_spark_cluster import CORES, SparkCluster, options_of
from tests.e2e.test_stubborn_functions import process_of
from tests.e2e.test_stubborn_functions import submit as submit_stubborn
from tests.e2e.waiting import HANG_LIMIT_S
from tests.e2e.watching import JobWatch, Moment

DISCOVERY = """#!/bin/sh
echo '{"name": "gpu", "addresses": ["0", "1"]}'
"""
"""What a worker of Spark asks for its GPUs: a machine without any says so too."""


START = "-Dtidegate.subtask.start-timeout=3min"
"""An executor starts its first Python while other tests have the processors."""
MACHINE_SIZE = "tidegate.taskmanager.memory.machine-size"


@pytest.fixture(scope="module")
def gpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One worker of Spark with two GPUs, and a TaskManager that has them, and whose executor has little memory."""
    tmp_path = tmp_path_factory.mktemp("gpus")
    script = tmp_path / "gpus.sh"
    script.write_text(DISCOVERY)
    script.chmod(0o755)
    cluster = Cluster(tmp_path / "cluster")
    worker = f"-Dspark.worker.resource.gpu.amount=2 -Dspark.worker.resource.gpu.discoveryScript={script}"
    spark = SparkCluster(cluster.directory, cluster.tmp, workers=1, worker_options=worker)
    try:
        with cluster:
            resources = ["-Dspark.executor.resource.gpu.amount=2", f"-D{MACHINE_SIZE}=900m", START]
            cluster.add_taskmanager(4, *options_of(spark, CORES), *resources)
            cluster.wait_slots(4)
            yield cluster
    finally:
        spark.end()


def submit(cluster: Cluster, directory: Path, *arguments: str) -> JobWatch:
    directory.mkdir()
    return cluster.submit(JOBS / "slot_resources.py", f"--output={directory}", *arguments, parallelism=2)


def failed_of(watch: JobWatch) -> Moment:
    return watch.wait_for(lambda moment: moment.status.state == "FAILED", HANG_LIMIT_S, "the job is FAILED")


def test_each_subtask_has_its_share_and_what_is_not_there_is_refused(gpus: Cluster, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    submit(gpus, seen, "--cpus=2", "--gpus=1").wait_finished(HANG_LIMIT_S)
    found = [json.loads((seen / name).read_text()) for name in ("0", "1")]
    assert [cpus for cpus, _ in found] == [2, 2]
    assert sorted(gpu for _, gpus_of_task in found for gpu in gpus_of_task) == ["0", "1"]

    failed = failed_of(submit(gpus, tmp_path / "more", f"--cpus={CORES + 1}", "--gpus=3"))
    message = failed.status.failure.message
    assert f"slot sharing group 'models' asks for {CORES + 1} CPU cores, and an executor has {CORES}" in message
    assert "3 gpu, and an executor has 2; set spark.executor.resource.gpu.amount" in message


def test_embedded_what_the_machine_lacks_is_refused(tmp_path: Path) -> None:
    with Cluster(tmp_path / "cluster") as cluster:
        cluster.add_taskmanager(4)
        cluster.wait_slots(4)
        failed = failed_of(submit(cluster, tmp_path / "seen", "--cpus=1", "--gpus=1"))
        message = failed.status.failure.message
        assert "asks for 1 gpu, and this machine has 0; declare it in external-resources" in message
        assert failed.status.restarts == 0
        submit(cluster, tmp_path / "again", "--cpus=1").wait_finished(HANG_LIMIT_S)
        assert json.loads((tmp_path / "again" / "0").read_text()) == [1, []]


def test_a_leak_on_an_executor_ends_its_subtask_and_its_neighbour_goes_on(gpus: Cluster, tmp_path: Path) -> None:
    neighbour = submit_stubborn(gpus, tmp_path, "sleeps")
    process = process_of(tmp_path, "sleeps")
    failed = failed_of(submit_stubborn(gpus, tmp_path, "leaks"))
    message = failed.status.failure.message
    assert "(1/1)#0 was ended before its TaskManager ran out of memory: it has " in message
    assert f"the most of 2 subtasks; of 900 MiB ({MACHINE_SIZE}) only " in message
    assert "state.backend.type: rocksdb" in message
    assert process.is_running()
    gpus.cancel(neighbour)
