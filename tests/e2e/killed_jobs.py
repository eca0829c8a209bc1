"""Kills under a job of two subtasks on a cluster that spreads them (``spread_cluster``): behind completed checkpoints, until it runs again from one."""

from __future__ import annotations

from tests.e2e.cluster import Cluster
from tests.e2e.counts_run import assert_restored
from tests.e2e.waiting import wait_until
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


def lose_the_job_manager(cluster: Cluster, watch: JobWatch) -> JobWatch:
    """``kill -9`` for the leader of a job, and a standby leads. The subtasks go on, and their checkpoints as well. Returns the watch of the new one."""
    watch.wait_running()
    watch.wait_checkpoints(KILLED_AFTER)
    leader = cluster.job_manager
    assert leader is not None
    standby = cluster.start_standby()
    wait_until(lambda: standby.says(f"standby: the JobManager with pid {leader.pid} leads"), 60, "it stands by")
    killed_at = cluster.kill9(leader)
    cluster.wait_led()
    watch = cluster.watch(watch.job_id)
    assert watch.wait_running().status.restarts == 0
    told = watch.wait_checkpoints(1)
    print(f"the next checkpoint is completed {told.at - killed_at:.1f} s after the kill of the JobManager")
    return watch
