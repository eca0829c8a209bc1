"""On a real YARN, in executors with a bare interpreter: the driver as a client, and in a container of its own.

                    client mode                                     cluster mode
TaskManager (driver) ──▶ YARN: ApplicationMaster      spark-submit ──▶ YARN: ApplicationMaster with the driver's JVM ──▶ TaskManager
        └──────────────▶ YARN: executors                                    └──▶ YARN: executors

Slow: a YARN of three processes, and a JVM with its context for each container, take minutes of two processors.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.e2e.cluster import START_LIMIT_S, Cluster
from tests.e2e.counts_run import CountsRun
from tests.e2e.test_spark_package import BARE
from tests.e2e.waiting import HANG_LIMIT_S, wait_until
from tests.e2e.watching import JobWatch
from tests.servers.yarn_cluster import EXECUTOR, MASTER, SPARK, YarnCluster
from tidegate.cli.packages import pack

pytestmark = pytest.mark.slow

CORES = 8
"""Each executor has so many: all subtasks fit on one."""


@pytest.fixture(scope="module")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[YarnCluster]:
    yarn = YarnCluster(tmp_path_factory.mktemp("yarn"))
    yield yarn
    yarn.end()


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All that executors have besides an interpreter."""
    archive = tmp_path_factory.mktemp("archive") / "packages.tar.gz"
    pack(archive, ["tidegate", "setproctitle"], [])
    return archive


@pytest.fixture
def cluster(yarn: YarnCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Without TaskManagers."""
    monkeypatch.setenv("HADOOP_CONF_DIR", str(yarn.configuration))
    try:
        with Cluster(tmp_path / "cluster", {"tidegate.security.insecure": "true"}) as cluster:
            yield cluster
    except BaseException as error:
        error.add_note(yarn.logs())
        raise


def properties_of(yarn: YarnCluster) -> dict[str, str]:
    return {
        "spark.master": "yarn",
        "spark.executor.instances": "2",
        "spark.executor.cores": str(CORES),
        "spark.executor.memory": "512m",
        "spark.yarn.am.memory": "256m",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
        "spark.yarn.jars": f"local:{SPARK}/jars/*",
        "spark.yarn.stagingDir": yarn.staging.as_uri(),
        "spark.pyspark.python": BARE,
    }


def addresses() -> dict[str, str]:
    """As on a cluster: by names, and on all interfaces."""
    return {"taskmanager.bind-host": "0.0.0.0", "taskmanager.host": socket.gethostname()}


def test_a_job_is_exact_although_an_executor_is_killed(
    cluster: Cluster, yarn: YarnCluster, archive: Path, tmp_path: Path
) -> None:
    properties = {**properties_of(yarn), **addresses(), "spark.archives": f"{archive}#tidegate-packages"}
    cluster.add_taskmanager(4, *(f"-D{key}={value}" for key, value in properties.items()))
    cluster.wait_slots(4)
    run, watch = held_run(cluster, tmp_path)
    reader = run.subtasks()[0]
    (executor,) = (jvm for jvm in yarn.containers(EXECUTOR) if reader in jvm.children(recursive=True))
    kill_and_recover(watch, executor)
    run.release()
    watch.wait_finished(HANG_LIMIT_S)
    run.assert_exact()


def test_a_job_is_exact_although_the_container_of_its_task_manager_is_killed(
    cluster: Cluster, yarn: YarnCluster, archive: Path, tmp_path: Path
) -> None:
    """YARN starts another one by itself."""
    submit_task_manager(cluster, yarn, archive, tmp_path)
    cluster.wait_slots(4)
    first = task_managers(yarn)
    assert [process.parent() for process in first] == yarn.containers(MASTER), "it runs in its container"
    run, watch = held_run(cluster, tmp_path)
    kill_and_recover(watch, *yarn.containers(MASTER))
    assert not set(first) & set(task_managers(yarn)), "the first one ended with its JVM"
    run.release()
    watch.wait_finished(HANG_LIMIT_S)
    run.assert_exact()
    for process in task_managers(yarn):
        process.send_signal(signal.SIGTERM)
    wait_until(
        lambda: not yarn.containers(MASTER) and not yarn.containers(EXECUTOR), HANG_LIMIT_S, "the application has ended"
    )


def submit_task_manager(cluster: Cluster, yarn: YarnCluster, archive: Path, directory: Path) -> None:
    """By what Spark teams submit programs with."""
    program = directory / "taskmanager.py"
    program.write_text("from tidegate.cli.main import main\n\nmain()\n")
    properties = properties_of(yarn) | {
        "spark.driver.memory": "512m",
        "spark.yarn.appMasterEnv.PYTHONPATH": "tidegate-packages",
        "spark.yarn.submit.waitAppCompletion": "false",
    }
    command = [str(SPARK / "bin" / "spark-submit"), "--deploy-mode", "cluster"]
    command += ["--archives", f"{archive}#tidegate-packages"]
    command += [word for key, value in properties.items() for word in ("--conf", f"{key}={value}")]
    command += [str(program), "taskmanager", "--slots", "4", "--jobmanager", cluster.address]
    command += [f"-D{key}={value}" for key, value in {"spark.master": "yarn", **addresses()}.items()]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=START_LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr[-4000:]


def task_managers(yarn: YarnCluster) -> list[psutil.Process]:
    found = []
    for process in yarn.process.family():
        with contextlib.suppress(psutil.Error):
            if process.name() != "java" and "taskmanager.py" in process.cmdline():
                found.append(process)
    return found


def held_run(cluster: Cluster, directory: Path) -> tuple[CountsRun, JobWatch]:
    """A job that has completed a checkpoint and waits."""
    run = CountsRun(directory / "run", held=True, seconds=3, rows=30_000)
    watch = run.submit(cluster)
    watch.wait_running()
    watch.wait_checkpoints(1)
    return run, watch


def kill_and_recover(watch: JobWatch, victim: psutil.Process) -> None:
    assert watch.last is not None
    restarts, since = watch.last.status.restarts, watch.last.at
    victim.kill()
    watch.wait_running_again(restarts, since, limit_s=HANG_LIMIT_S)
