"""Chooses the scheduler of a job by its exchanges."""

from __future__ import annotations

from tidegate.jobmanager.machines.command_buffer import CommandBuffer
from tidegate.jobmanager.machines.resources.task_managers import ResourceManager
from tidegate.jobmanager.machines.scheduling.deployments import Deployments
from tidegate.jobmanager.machines.scheduling.execution_graph import ExecutionGraph
from tidegate.jobmanager.machines.scheduling.port import SubtaskScheduler
from tidegate.jobmanager.machines.scheduling.scheduler import Scheduler
from tidegate.jobmanager.machines.scheduling.staged_scheduler import StagedScheduler
from tidegate.jobmanager.machines.settings import JobSettings


def make_scheduler(
    graph: ExecutionGraph,
    settings: JobSettings,
    deployments: Deployments,
    resources: ResourceManager,
    buffer: CommandBuffer,
) -> SubtaskScheduler:
    """Creates the scheduler of a job: subtasks with blocking exchanges run in stages, all others at the same time."""
    kind = StagedScheduler if graph.graph.has_blocking_exchanges else Scheduler
    return kind(graph, settings, deployments, resources, buffer)
