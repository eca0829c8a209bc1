"""Starts the configured reporters of the JobManager's metrics and traces: Prometheus and OpenTelemetry."""

from __future__ import annotations

from tidegate.aio.driver import wall_clock_ms
from tidegate.aio.process import Services
from tidegate.aio.prometheus import serve_metrics
from tidegate.jobmanager.service.core import JobManagerCore
from tidegate.jobmanager.service.reporting.prometheus_samples import job_manager_samples
from tidegate.jobmanager.service.reporting.traces import is_configured, start_tracing
from tidegate.model.configuration import Configuration
from tidegate.model.options import JobManagerOptions, TraceOptions


async def start_reporters(configuration: Configuration, core: JobManagerCore, services: Services) -> None:
    """Starts the configured reporters. Raises ``ConfigurationError`` for an unsupported one."""
    host, name = configuration.get(JobManagerOptions.BIND_HOST), configuration.get(JobManagerOptions.RPC_ADDRESS)
    serving = await serve_metrics(configuration, host, lambda: job_manager_samples(core, name, wall_clock_ms))
    if serving is not None:
        port, stop = serving
        services.started(f"Prometheus: port {port}", stop)
    if is_configured(configuration):
        endpoint = configuration.get(TraceOptions.OTEL_ENDPOINT)
        services.started(f"traces: to {endpoint}", start_tracing(configuration, core))
