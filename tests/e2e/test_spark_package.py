"""Executors with a bare interpreter, on a Spark standalone cluster: what `tidegate package` made is all that they have."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster import REPOSITORY, START_LIMIT_S, Cluster
from tests.e2e.test_spark_cluster import CORES, SparkCluster
from tests.e2e.waiting import HANG_LIMIT_S, wait_until
from tidegate.cli.packages import pack
from tidegate.wire.versions import PYTHON_VERSION

BARE = str(Path(sys.base_prefix, "bin", f"python{PYTHON_VERSION}"))
"""The interpreter that the environment of these tests was made from: it has no packages of ours."""
PORTS = "32100-32699"
"""Above those of servers in tests, and below those that the system gives to connections. Whatever of them is in use is passed over."""


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[tuple[Cluster, list[str]]]:
    """A cluster without TaskManagers, and how they find their Spark and its interpreter."""
    cluster = Cluster(tmp_path / "cluster")
    spark = SparkCluster(cluster.directory, cluster.tmp, workers=1)
    options = {
        "spark.master": spark.master_url,
        "spark.cores.max": str(CORES),
        "spark.executor.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.pyspark.python": BARE,
        "taskmanager.data.port": PORTS,
    }
    try:
        with cluster:
            yield cluster, [f"-D{key}={value}" for key, value in options.items()]
    finally:
        spark.end()


def test_a_job_runs_in_executors_that_have_only_the_archive(bare: tuple[Cluster, list[str]], tmp_path: Path) -> None:
    cluster, options = bare
    missing = cluster.add_taskmanager(2, *options, "-Dspark.executorEnv.PYTHONPATH=nothing-there")
    wait_until(lambda: not missing.is_alive(), START_LIMIT_S, "a TaskManager whose executors lack numpy ends")
    assert re.search(  # tidegate itself is found where the TaskManager has it, since both are on this machine
        r"workers do not start: .*No module named 'numpy'.*`tidegate package` and spark.archives", missing.tail()
    )
    cluster.forget(missing)

    archive = tmp_path / "packages.tar.gz"
    pack(archive, ["tidegate", "setproctitle"], [])
    taskmanager = cluster.add_taskmanager(2, *options, f"-Dspark.archives={archive}#tidegate-packages")
    cluster.wait_slots(2)
    assert taskmanager.says("Spark: executors: 1 checked on "), taskmanager.tail()
    words = tmp_path / "words.txt"
    words.write_text("to be or not to be\n" * 100)
    watch = cluster.submit(
        REPOSITORY / "examples" / "word_count.py", "--output", str(tmp_path / "counts"), str(words), parallelism=2
    )
    watch.wait_finished(HANG_LIMIT_S)
    lines = [line for path in (tmp_path / "counts").rglob("*") if path.is_file() for line in path.read_text().split()]
    counts = sorted(line.replace('"', "") for line in lines if "word" not in line)
    assert counts == ["be,200", "not,100", "or,100", "to,200"]
