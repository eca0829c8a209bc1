"""The cost of an event does not grow with the square of the job: 10,000 subtasks come up and complete a checkpoint."""

from __future__ import annotations

from itertools import pairwise
from time import process_time

import pytest

from tests.unit.jobmanager.machines.cluster_kit import CHECKPOINTED, Cluster, graph, vertex
from tidegate.jobmanager.machines import commands as c
from tidegate.model.graph import Partitioner
from tidegate.model.states import ExecutionState as E

WIDTH, VERTICES, TASK_MANAGERS = 2_000, 5, 100
LIMIT_S = 20.0


@pytest.fixture(scope="module", autouse=True)
def _invariants() -> None:
    """None are checked here, in place of the fixture for the folder: a check looks at the whole job."""


def test_ten_thousand_subtasks() -> None:
    names = [f"v{i}" for i in range(VERTICES)]
    job = graph(
        [vertex(name, WIDTH, source=i == 0) for i, name in enumerate(names)],
        [(a, b, Partitioner.FORWARD) for a, b in pairwise(names[:-1])] + [(names[-2], names[-1], Partitioner.HASH)],
    )
    cluster = Cluster()
    for number in range(TASK_MANAGERS):
        cluster.register(f"tm-{number}", WIDTH // TASK_MANAGERS)
    start_s = process_time()
    cluster.submit(job, CHECKPOINTED)
    attempts = cluster.attempts()
    for attempt in attempts:
        cluster.state(attempt, E.RUNNING)
    cluster.pass_time(1_000)
    assert len(cluster.of(c.TriggerCheckpoint)) == TASK_MANAGERS
    for attempt in attempts:
        cluster.acknowledge(attempt, 1)
    assert len(cluster.of(c.ConfirmCheckpoint)) == TASK_MANAGERS
    assert process_time() - start_s < LIMIT_S
