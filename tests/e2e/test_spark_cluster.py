"""On a Spark standalone cluster with two workers, started from the installed pyspark: the same job, and one worker dies.

TaskManager (Spark driver) ──▶ Master ──▶ Worker 1: executor ──▶ Python daemon ──▶ subtasks
                                     └──▶ Worker 2: executor ──▶ Python daemon ──▶ subtasks
"""

from __future__ import annotations

import re
import secrets
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyspark
import pytest

from tests.e2e.all_on import IS_ASKED
from tests.e2e.cluster import JOBS, REPOSITORY, START_LIMIT_S, Cluster, Proc
from tests.e2e.counts_run import QUICK_RESTART, CountsRun
from tests.e2e.four_sources import FourSources, kafka_jars
from tests.e2e.jobs import stages
from tests.e2e.test_batch_stages import NUMBERS, result
from tests.e2e.test_spark_streams import LIMIT_S, kill_source, kill_task_manager, killed
from tests.e2e.waiting import HANG_LIMIT_S, wait_until
from tests.e2e.watching import Moment, exceptions_of
from tests.ports import free_port
from tests.servers.kafka_broker import KafkaBroker

SPARK = Path(pyspark.__file__).parent
ENCRYPTED = (
    {
        "spark.authenticate": "true",
        "spark.authenticate.secret": secrets.token_hex(16),
        "spark.network.crypto.enabled": "true",
    }
    if IS_ASKED
    else {}
)
"""Of master and workers, and of TaskManagers on them, where everything of security is on."""
CORES = 8
"""Of each worker: a subtask holds one for life, and after the loss of a worker all have to fit on the other one."""


class SparkCluster:
    """Master and workers on loopback."""

    def __init__(self, directory: Path, tmp: Path, workers: int, worker_options: str = "") -> None:
        """``worker_options``: of the JVMs of workers."""
        self._worker_options = worker_options
        self._directory = directory
        self._tmp = tmp
        self.master_url = f"spark://127.0.0.1:{free_port()}"
        host, port = self.master_url.removeprefix("spark://").split(":")
        self.master = self._start("master.Master", "--host", host, "--port", port, "--webui-port", "0")
        wait_until(partial(self.master.says, "ALIVE"), START_LIMIT_S, "the Spark master is up")
        self.workers = [self._start_worker(number) for number in range(1, workers + 1)]
        for worker in self.workers:
            wait_until(partial(worker.says, "registered with master"), START_LIMIT_S, f"{worker.name} is registered")

    def end(self) -> None:
        for process in [*self.workers, self.master]:
            for member in process.family():
                member.kill()
            process.popen.wait(10)

    def _start_worker(self, number: int) -> Proc:
        work = str(self._directory / f"work-{number}")
        limits = ["--cores", str(CORES), "--memory", "2g", "--host", "127.0.0.1"]
        return self._start("worker.Worker", self.master_url, *limits, "--work-dir", work, "--webui-port", "0")

    def _start(self, kind: str, *arguments: str) -> Proc:
        name = f"spark-{kind.split('.')[1].lower()}-{free_port()}"
        tmp = self._tmp / name
        tmp.mkdir()
        defaults = tmp / "conf" / "spark-defaults.conf"
        defaults.parent.mkdir()
        defaults.write_text("".join(f"{key} {value}\n" for key, value in ENCRYPTED.items()))
        environment = {
            "SPARK_HOME": str(SPARK),
            "SPARK_CONF_DIR": str(defaults.parent),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_NO_DAEMONIZE": "1",
            "SPARK_WORKER_OPTS": f"-Dspark.decommission.enabled=true {self._worker_options}",  # by SIGPWR
        }
        command = [str(SPARK / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", *arguments]
        return Proc(name, command, self._directory, tmp, environment)


def options_of(spark: SparkCluster, cores: int) -> list[str]:
    """A TaskManager with these takes so many cores of the cluster."""
    options = {
        "spark.master": spark.master_url,
        "spark.executor.cores": str(CORES),
        "spark.executor.memory": "512m",
        # nothing runs before all executors are there: the first one alone would take all
        "spark.cores.max": str(cores),
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executorEnv.PYTHONPATH": str(REPOSITORY),
        "spark.jars": kafka_jars(),
        **ENCRYPTED,
    }
    return [f"-D{key}={value}" for key, value in options.items()]


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[tuple[Cluster, SparkCluster]]:
    """Two workers of Spark, and a cluster without TaskManagers yet."""
    cluster = Cluster(tmp_path / "cluster", {"tidegate.testing.allow-faults": "true"})
    spark = SparkCluster(cluster.directory, cluster.tmp, workers=2)
    try:
        with cluster:
            yield cluster, spark
    finally:
        spark.end()


@pytest.fixture
def spark(workers: tuple[Cluster, SparkCluster]) -> tuple[Cluster, SparkCluster]:
    """With one TaskManager, whose executors are on both workers."""
    cluster, spark = workers
    cluster.add_taskmanager(4, *options_of(spark, 2 * CORES))
    cluster.wait_slots(4)
    return workers


def test_the_result_is_exact_although_a_spark_worker_dies(spark: tuple[Cluster, SparkCluster], tmp_path: Path) -> None:
    cluster, workers = spark[0], spark[1].workers
    run = CountsRun(tmp_path / "run", seconds=12, rows=60_000)
    watch = run.submit(cluster)
    watch.wait_running()
    watch.wait_checkpoints(3)
    wait_until(
        lambda: sum(_subtasks_on(run, worker) for worker in workers) == 6, HANG_LIMIT_S, "all subtasks run in executors"
    )
    on_workers = {worker.name: _subtasks_on(run, worker) for worker in workers}
    assert watch.last is not None
    victim = max(
        workers, key=lambda worker: on_workers[worker.name]
    )  # Spark draws an executor for each: one may have all
    restarts, since = watch.last.status.restarts, watch.last.at
    victim.kill9()
    watch.wait_running_again(restarts, since, limit_s=HANG_LIMIT_S)
    wait_until(lambda: not victim.family(), HANG_LIMIT_S, f"the executor of {victim.name} and its subtasks are gone")
    watch.wait_finished(HANG_LIMIT_S)
    run.assert_exact()
    assert len(run.seen()) >= 6 + 6
    log = cluster.task_managers[0].log.read_text()
    assert re.search(r"spark://", log)


def test_an_executor_that_is_killed_on_purpose_is_replaced_and_listed_with_what_followed(
    spark: tuple[Cluster, SparkCluster], tmp_path: Path
) -> None:
    """All that ran in it dies, its worker lives, and the job's exceptions have the fault beside the failure."""
    cluster, workers = spark[0], spark[1].workers
    run = CountsRun(tmp_path / "run", held=True, seconds=3, rows=30_000)
    watch = run.submit(cluster, settings=QUICK_RESTART)
    watch.wait_running()
    watch.wait_checkpoints(1)
    moment = watch.last
    assert moment is not None
    before = {worker.name: {member.pid for member in worker.subtasks()} for worker in workers}
    [vertex, *_] = [vertex for vertex in moment.status.vertices if vertex.parallelism == 2]
    done = cluster.cli("fault", "kill-executor", "-m", cluster.address, watch.job_id, vertex.vertex_id, "1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Done on purpose: the executor of "), done.stdout
    watch.wait_running_again(moment.status.restarts, moment.at, limit_s=HANG_LIMIT_S)
    now = {member.pid for worker in workers for member in worker.subtasks()}
    assert any(pids and not pids & now for pids in before.values()), (before, now)
    assert all(worker.is_alive() for worker in workers)
    listed = cluster.cli("fault", "list", "-m", cluster.address).stdout
    assert "on purpose: the executor of " in listed
    assert "running again: " in listed
    entries = exceptions_of(cluster.rest_port, watch.job_id)
    fault, *_ = [entry for entry in entries if entry["exceptionName"] == "tidegate.FaultOnPurpose"]
    assert any("SubtaskLost" in entry["exceptionName"] for entry in entries), entries
    assert "running again: " in fault["stacktrace"]
    run.release()
    watch.wait_finished(HANG_LIMIT_S)
    run.assert_exact()


def test_subtasks_leave_a_worker_that_is_decommissioned_and_nothing_has_failed(
    spark: tuple[Cluster, SparkCluster], tmp_path: Path
) -> None:
    cluster, workers = spark[0], spark[1].workers
    run = CountsRun(tmp_path / "run", held=True, seconds=3, rows=30_000)
    watch = run.submit(cluster)
    watch.wait_running()
    watch.wait_checkpoints(1)
    victim = max(workers, key=lambda worker: len(worker.subtasks()))
    assert victim.subtasks()
    victim.send(signal.SIGPWR)
    watch.wait_for(_runs_in_second_attempts, LIMIT_S, "every subtask runs in its second attempt")
    assert not victim.subtasks()
    victim.kill9()
    run.release()
    over = watch.wait_finished(HANG_LIMIT_S)
    run.assert_exact()
    assert over.status.restarts == 0
    assert not over.status.HasField("failure")


def test_a_bounded_job_runs_again_what_a_lost_executor_had(spark: tuple[Cluster, SparkCluster], tmp_path: Path) -> None:
    """It holds a stage that reads what the stage before has stored: on the other executor, or on the one that goes with it."""
    cluster, workers = spark[0], spark[1].workers
    held = tmp_path / "held"
    arguments = [f"--numbers={NUMBERS}", f"--output={tmp_path / 'output'}", f"--held={held}"]
    watch = cluster.submit(JOBS / "stages.py", *arguments, parallelism=3, settings=QUICK_RESTART)
    wait_until(held.exists, HANG_LIMIT_S, "a subtask of the second stage is held")
    pid = int(held.read_text())
    (victim,) = (worker for worker in workers if pid in [member.pid for member in worker.family()])
    victim.kill9()
    over = watch.wait_finished(LIMIT_S)
    assert result(tmp_path) == stages.expected(NUMBERS)
    sums = next(vertex for vertex in over.status.vertices if "sums" in vertex.name)
    assert sums.subtasks[1].attempt >= 1


def test_each_row_of_four_sources_is_there_once_although_reader_and_executor_die(
    spark: tuple[Cluster, SparkCluster], broker: KafkaBroker, tmp_path: Path
) -> None:
    cluster, workers = spark[0], spark[1].workers
    sources = FourSources(cluster, broker, tmp_path)
    run, watch = sources.run, sources.watch
    killed(run, watch, kill_source)
    sources.go_on()
    assert watch.last is not None
    restarts, since = watch.last.status.restarts, watch.last.at
    reader = run.reader().pid
    (victim,) = (worker for worker in workers if reader in [member.pid for member in worker.family()])
    victim.kill9()
    watch.wait_running_again(restarts, since, limit_s=HANG_LIMIT_S)
    sources.assert_each_row_once()


@pytest.mark.slow
def test_each_row_of_four_sources_is_there_once_although_a_task_manager_on_the_cluster_dies(
    workers: tuple[Cluster, SparkCluster], broker: KafkaBroker, tmp_path: Path
) -> None:
    """Each of two TaskManagers is an application of its own, with one executor: the other one takes over. In every run of the tests an executor dies
    on the cluster, and a TaskManager beside it (`test_spark_kafka`)."""
    cluster, spark = workers
    for _ in range(2):
        cluster.add_taskmanager(2, *options_of(spark, CORES))
    cluster.wait_slots(4)
    sources = FourSources(cluster, broker, tmp_path)
    killed(sources.run, sources.watch, kill_task_manager)
    sources.go_on()
    sources.assert_each_row_once()


def _runs_in_second_attempts(moment: Moment) -> bool:
    subtasks = [subtask for vertex in moment.status.vertices for subtask in vertex.subtasks]
    return all(subtask.state == "RUNNING" and subtask.attempt == 1 for subtask in subtasks)


def _subtasks_on(run: CountsRun, worker: Proc) -> int:
    pids = {process.pid for process in run.subtasks()}
    return sum(member.pid in pids for member in worker.family())
