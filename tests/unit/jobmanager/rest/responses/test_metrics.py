"""Times of a job's deployment, as Flink counts them."""

from __future__ import annotations

from tests.unit.jobmanager.machines.cluster_kit import Cluster, checkpointed, two_stage
from tidegate.jobmanager.rest.responses.metrics import Metrics, job_metrics
from tidegate.model.states import ExecutionState


def times_of(cluster: Cluster) -> tuple[Metrics, object, object]:
    found = job_metrics(cluster.job(), cluster.now_ms)
    return found, found["deployingTime"], found["allSubTasksRunningOrFinishedTime"]


def test_a_job_is_deploying_until_its_last_subtask_runs_and_from_then_on_all_are_running() -> None:
    cluster = Cluster()
    cluster.register("tm-1", 2)
    cluster.submit(two_stage())
    cluster.settle()
    cluster.pass_time(250)
    assert times_of(cluster)[1:] == (250, 0)
    *others, last = cluster.attempts(ExecutionState.DEPLOYING)
    for attempt in others:
        cluster.state(attempt, ExecutionState.INITIALIZING)
        cluster.state(attempt, ExecutionState.RUNNING)
    assert times_of(cluster)[1:] == (250, 0), "one is still being deployed"
    cluster.state(last, ExecutionState.INITIALIZING)
    cluster.state(last, ExecutionState.RUNNING)
    cluster.pass_time(100)
    assert times_of(cluster)[1:] == (0, 100)
    cluster.state(last, ExecutionState.FAILED)
    assert times_of(cluster)[2] == 0


def test_the_size_of_the_metadata_of_the_last_checkpoint() -> None:
    cluster = checkpointed()
    assert job_metrics(cluster.job(), cluster.now_ms)["lastCheckpointMetadataSize"] == -1
    cluster.complete_checkpoint(1)
    assert job_metrics(cluster.job(), cluster.now_ms)["lastCheckpointMetadataSize"] == 100
