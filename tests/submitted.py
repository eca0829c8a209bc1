"""A deployment as the machine of a TaskManager gets it, for tests that have no wire."""

from __future__ import annotations

import pickle

from tidegate.model.deployment import TaskDeployment
from tidegate.taskmanager.machines.task_events import SubmittedTask


def submitted(deployment: TaskDeployment) -> SubmittedTask:
    """Its mail is the pickled deployment."""
    return SubmittedTask(
        deployment.attempt,
        deployment.generation,
        deployment.allocation_id,
        deployment.job_name,
        deployment.task_name,
        deployment.parallelism,
        pickle.dumps(deployment),
        deployment.restore.checkpoint_id if deployment.restore else None,
        deployment.spark_query,
        deployment.configuration,
    )
