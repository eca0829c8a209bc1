"""Clusters that tests share, one for each configuration: a worker of a test run starts each at most once.

The fixtures ``cluster``, ``surviving_cluster`` and ``spread_cluster`` (``tests/e2e/conftest.py``) give them. Files that use the second one run
on the same worker, and so do those that use the third (``tests/lanes.py``), so that each is started once in a run.
"""

from __future__ import annotations

from pathlib import Path

from tests.e2e.cluster import Cluster

SLOTS = 2
USUAL: dict[str, str] = {}
SURVIVING = {"high-availability.type": "filesystem", "tidegate.jobmanager.adoption-timeout": "60 s"}
"""Jobs outlive their JobManager. The next one waits longer for TaskManagers than any of a test needs to register."""
SPREAD = {**SURVIVING, "taskmanager.load-balance.mode": "SLOTS"}
"""And a job of two subtasks runs on two TaskManagers."""


def pooled(directory: Path, configuration: dict[str, str]) -> Cluster:
    """A cluster of this configuration, to be entered."""
    settings = dict(configuration)
    if settings.get("high-availability.type") == "filesystem":
        settings["high-availability.storageDir"] = str(directory / "ha")
    return Cluster(directory / "cluster", settings)


def made_ready(cluster: Cluster, count: int) -> Cluster:
    """With a JobManager and at least so many TaskManagers, whatever the test before did to them. Tests that kill some begin with as many
    spares, since starting a JVM meanwhile would take the processor from what is measured."""
    if cluster.job_manager is not None and not cluster.job_manager.is_alive():
        cluster.kill9(cluster.job_manager)
    if cluster.job_manager is None:
        cluster.start_job_manager()
    for process in list(cluster.task_managers):
        if not process.is_alive():
            cluster.kill9(process)
    for _ in range(count - len(cluster.task_managers)):
        cluster.add_taskmanager(SLOTS)
    cluster.wait_slots(count * SLOTS)
    return cluster
