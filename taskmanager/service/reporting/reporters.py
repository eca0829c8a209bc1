"""Starts the reporting of this TaskManager's metrics: to the JobManager with every heartbeat, and to Prometheus if configured."""

from __future__ import annotations

from tidegate.aio.pool import Pool
from tidegate.aio.process import Services
from tidegate.aio.prometheus import serve_metrics
from tidegate.model.configuration import Configuration
from tidegate.model.options import TaskManagerOptions
from tidegate.taskmanager.service.reporting.process_metrics import ProcessMetrics
from tidegate.taskmanager.service.reporting.prometheus_samples import task_manager_samples
from tidegate.taskmanager.service.subtasks.slot_memory import SlotMemory
from tidegate.taskmanager.service.task_executor import TaskExecutor
from tidegate.taskmanager.spark.session import Session


async def start_reporters(
    configuration: Configuration, executor: TaskExecutor, session: Session, memory: SlotMemory, services: Services
) -> None:
    """Starts the reporters. Raises ``ConfigurationError`` for an unknown one."""
    slots = configuration.get(TaskManagerOptions.NUM_SLOTS)
    looking = ProcessMetrics(session, executor, memory, slots, Pool(1, "figures"))
    services.started("metrics: counted", looking.start())
    bind_host = configuration.get(TaskManagerOptions.BIND_HOST)
    serving = await serve_metrics(configuration, bind_host, lambda: task_manager_samples(executor))
    if serving is not None:
        port, stop = serving
        services.started(f"Prometheus: port {port}", stop)
