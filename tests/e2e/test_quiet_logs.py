"""Ends that are expected, or that a line says, leave no stack trace in a log: a cancel, a stop, another parallelism, kills, and the end of the processes."""

from __future__ import annotations

from pathlib import Path

import psutil

from tests.e2e.cluster import Cluster, Proc
from tests.e2e.waiting import HANG_LIMIT_S
from tests.e2e.watching import JobWatch

JOB = Path(__file__).with_name("jobs") / "pipelines.py"


def traces_in(process: Proc) -> list[str]:
    """Lines of stack traces in the log and the output of a process, and in the log of its JVM."""
    lines = [line for log in (process.log, *process.tmp.rglob("spark.log")) for line in log.read_text().splitlines()]
    return [line for line in lines if "Traceback (most recent" in line or line.lstrip().startswith(("at ", "File "))]


def test_no_log_has_a_stack_trace_of_an_end_that_is_expected(tmp_path: Path) -> None:
    settings = {
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "20",
        "restart-strategy.fixed-delay.delay": "100ms",
    }

    def submitted(name: str) -> JobWatch:
        watch = cluster.submit(JOB, "--output", str(tmp_path / name), "--rows", "2000000", "--seconds", "600")
        watch.wait_for(lambda m: m.is_running and m.status.checkpoints_completed > 0, HANG_LIMIT_S, f"{name} runs")
        return watch

    def said(*command: str) -> str:
        done = cluster.cli(*command, "--jobmanager", cluster.address)
        assert done.returncode == 0, done.stderr
        return done.stdout

    with Cluster(tmp_path / "cluster", settings) as cluster:
        processes = [cluster.add_taskmanager(slots=2), cluster.add_taskmanager(slots=2)]
        assert cluster.job_manager is not None
        processes.append(cluster.job_manager)
        cluster.wait_slots(4)
        said("cancel", submitted("cancelled").job_id)
        said("stop", submitted("stopped").job_id, "-p", str(tmp_path / "savepoints"))
        watch = submitted("killed")
        said("rescale", "-p", "1", watch.job_id)
        said("rescale", "-p", "2", watch.job_id)
        at = watch.wait_for(lambda m: m.is_running, HANG_LIMIT_S, "it runs with two subtasks again").at
        subtask: psutil.Process = cluster.subtask_of(watch, "numbers", 0)
        subtask.kill()
        at = watch.wait_for(lambda m: m.is_running and m.status.restarts > 0, HANG_LIMIT_S, "it runs again", at).at
        killed = cluster.task_manager_of(watch, "numbers", 0)
        cluster.kill9(killed)
        watch.wait_for(lambda m: m.is_running and m.status.restarts > 1, HANG_LIMIT_S, "it runs on the other one", at)
        said("cancel", watch.job_id)
        assert sum(len([*process.tmp.rglob("spark.log")]) for process in processes) == 2
        found = {process.name: traces_in(process) for process in processes}
        assert not any(found.values()), found
    assert not any(traces_in(process) for process in processes)
