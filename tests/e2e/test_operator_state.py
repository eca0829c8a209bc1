"""Operator state of functions, savepoint check and local recovery, end to end."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from tests.e2e.cluster import JOBS, Cluster
from tests.e2e.counts_run import QUICK_RESTART
from tests.e2e.jobs.bundles import GROUP
from tests.e2e.test_savepoints import finished, taken_by
from tests.e2e.watching import JobWatch

ROWS = 300 * GROUP
JOB = JOBS / "bundles.py"
NEVER_MS = 3_600_000


class BundlesRun:
    """``rate``: so low that the end of the rows is far away, however long a command takes; but the last run has none."""

    def __init__(self, directory: Path, rate: float, interval_ms: int) -> None:
        self.output = directory / "output"
        self.checkpoints = directory / "checkpoints"
        self.arguments = ["--rows", str(ROWS), "--output", str(self.output), "--interval", str(interval_ms)]
        self.rate = ["--rate", str(rate)]

    def submit(self, cluster: Cluster, parallelism: int, restore: str | None = None, **settings: str) -> JobWatch:
        all_settings = {"execution.checkpointing.dir": str(self.checkpoints), **QUICK_RESTART, **settings}
        rate = self.rate if parallelism > 1 or restore is None else []
        return cluster.submit(
            JOB, *self.arguments, *rate, parallelism=parallelism, restore=restore, settings=all_settings
        )

    def result(self) -> list[int]:
        files = [path for path in self.output.rglob("*") if path.is_file() and not path.name.startswith(".")]
        return sorted(int(line) for path in files for line in path.read_text().splitlines())


def state(cluster: Cluster, path: Path, name: str) -> list[Any]:
    done = cluster.cli("state", "show", str(path), "--operator", "bundle", "--name", name, "--format", "json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line)["element"] for line in done.stdout.splitlines()]


def test_list_union_and_broadcast_state_are_exact_over_2_3_and_1_subtasks(
    cluster: Cluster, run_directory: Path
) -> None:
    run = BundlesRun(run_directory, rate=300, interval_ms=300)
    first = run.submit(cluster, 2)
    first.wait_checkpoints(2)
    savepoint = taken_by(cluster, "stop", first.job_id, "-p", str(run_directory / "savepoints"))
    finished(first)
    passed = sum(state(cluster, savepoint, "passed"))
    checked = cluster.cli("savepoint", "check", "-p", "3", "--open", str(JOB), str(savepoint), *run.arguments)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "All state restores." in checked.stdout

    second = run.submit(cluster, 3, str(savepoint))
    second.wait_checkpoints(5)
    stopped = taken_by(cluster, "stop", second.job_id, "-p", str(run_directory / "savepoints"))
    finished(second)
    result, held = run.result(), state(cluster, stopped, "buffer")
    assert len({*result, *held}) == len(result) + len(held) == sum(state(cluster, stopped, "passed"))
    assert len(result) + len(held) > passed
    assert state(cluster, stopped, "rules") == [{"key": "group", "value": GROUP}] * 3

    finished(run.submit(cluster, 1, str(stopped)))
    assert run.result() == list(range(ROWS))


def test_a_restart_in_the_same_slots_reads_local_copies(cluster: Cluster, run_directory: Path) -> None:
    run = BundlesRun(run_directory, rate=100, interval_ms=NEVER_MS)
    local = {"execution.checkpointing.local-backup.enabled": "true", "execution.state-recovery.from-local": "true"}
    watch = run.submit(cluster, 1, None, **local, **{"execution.checkpointing.data-inline-threshold": "0 b"})
    watch.wait_running()
    done = cluster.cli("checkpoint", watch.job_id, "--jobmanager", cluster.address)
    assert done.returncode == 0, done.stderr
    (chk,) = run.checkpoints.glob("*/chk-1")
    removed = [path for path in chk.iterdir() if path.name != "_metadata"]
    assert removed, "state is in files"
    copies = {p.name for t in cluster.task_managers for p in t.tmp.glob("*/localState/aid_*/jid_*/vtx_*/chk_1/*")}
    assert {path.name for path in removed} <= copies
    for path in removed:
        path.unlink()
    since = time.monotonic()
    cluster.subtask_of(watch, "FlatMap", 0).kill()
    watch.wait_running_again(0, since)
    stopped = taken_by(cluster, "stop", watch.job_id, "-p", str(run_directory / "savepoints"))
    finished(watch)
    read = sum(state(cluster, stopped, "passed"))
    assert sorted([*run.result(), *state(cluster, stopped, "buffer")]) == list(range(read))
    (status,) = [c for c in cluster.checkpoints(watch.job_id).checkpoints if c.checkpoint_id == 1]
    assert status.restored
