"""Kills under a job of two subtasks on a cluster that spreads them (``spread_cluster``): behind completed checkpoints, until it runs again from one."""

from __future__ import annotations

from tests.e2e.cluster import Cluster
from tests.e2e.counts_run import assert_restored
from tests.e2e.watching import JobWatch

KILLED_AFTER = 2
"""Completed checkpoints."""


def lose_a_task_manager(cluster: Cluster, watch: JobWatch) -> None:
    """``kill -9`` for one of the two TaskManagers that run a job which has not been restarted yet. Every subtask runs again afterwards, with state."""
    watch.wait_running()
    watch.wait_checkpoints(KILLED_AFTER)
    assert watch.last is not None
    subtasks = [subtask for vertex in watch.last.status.vertices for subtask in vertex.subtasks]
    owners = {subtask.task_manager_id for subtask in subtasks if subtask.state == "RUNNING"}
    assert len(owners) == 2, f"the job is to run on two TaskManagers, and runs on {owners}: {watch.summary()}"
    killed_at = cluster.kill9(cluster.task_manager_of(watch, watch.last.status.vertices[0].name, 1))
    again = watch.wait_running_again(0, killed_at)
    assert_restored(cluster, watch, 1)
    print(f"every subtask runs again {again.at - killed_at:.1f} s after the kill")
