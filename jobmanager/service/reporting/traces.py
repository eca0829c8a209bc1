"""Reports checkpoints and job starts as traces: Flink's spans ``Checkpoint`` and ``JobInitialization`` (``DefaultCheckpointStatsTracker``),
sent by OpenTelemetry over HTTP.

    a job changed ─▶ what ended since the last look? ─▶ spans ─▶ the exporter's own thread

Sending never blocks the JobManager: what cannot be sent is dropped and logged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate.aio.driver import wall_clock_ms
from tidegate.jobmanager.machines.views import CheckpointView, JobSummary, SubtaskCheckpointView
from tidegate.jobmanager.service.core import JobManagerCore
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ConfigurationError
from tidegate.model.ids import JobId
from tidegate.model.options import SpanDetail, TraceOptions
from tidegate.model.states import ExecutionState, JobState

FACTORY = "org.apache.flink.traces.otel.OpenTelemetryTraceReporterFactory"
NAME = "otel"
SCOPE = "org.apache.flink.runtime.checkpoint.CheckpointStatsTracker"
_NANOS_PER_MS = 1_000_000
"""Nanoseconds in a millisecond: OpenTelemetry's times are in nanoseconds."""


@dataclass(frozen=True, slots=True)
class Span:
    """A span of a trace. Times in Unix ms."""

    name: str
    start_ms: float
    end_ms: float
    attributes: Mapping[str, str | int | float | bool]
    children: tuple[Span, ...] = field(default=())


Send = Callable[[Span], None]


def checkpoint_span(job: JobSummary, checkpoint: CheckpointView, detail: SpanDetail) -> Span:
    """Returns the span of a checkpoint that has ended. Sizes are in bytes."""
    names = {vertex.vertex_id: vertex.name for vertex in job.vertices}
    parts = checkpoint.subtasks if detail is SpanDetail.SUBTASKS else ()
    return Span(
        "Checkpoint",
        checkpoint.trigger_ms,
        checkpoint.trigger_ms if checkpoint.end_ms is None else checkpoint.end_ms,
        {
            "jobId": job.job_id,
            "jobName": job.name,
            "checkpointId": checkpoint.checkpoint_id,
            "checkpointStatus": checkpoint.status,
            "checkpointType": checkpoint.snapshot_type.value,
            "isUnaligned": checkpoint.totals.is_unaligned,
            "fullSize": checkpoint.size_bytes,
            "checkpointedSize": checkpoint.totals.bytes_persisted or checkpoint.size_bytes,
        },
        tuple(_subtask_span(part, names[part.attempt.vertex_id], checkpoint) for part in parts),
    )


def _subtask_span(part: SubtaskCheckpointView, task: str, checkpoint: CheckpointView) -> Span:
    metrics = part.metrics
    return Span(
        "Subtask",
        checkpoint.trigger_ms + metrics.start_delay_ms,
        part.ack_ms,
        {
            "taskName": task,
            "subtaskIndex": part.attempt.subtask,
            "alignmentMs": metrics.alignment_ms,
            "syncMs": metrics.sync_ms,
            "asyncMs": metrics.async_ms,
            "sizeBytes": part.size_bytes,
            "waitedFor": metrics.waited_for,
        },
    )


def start_span(job: JobSummary, now_ms: int) -> Span:
    """Returns the span of a job start: from its submission, or from the failure that it recovers from, until every task runs."""
    times = job.state_timestamps_ms
    since = times.get(JobState.RESTARTING) if job.restarts else times.get(JobState.CREATED)
    attributes: dict[str, str | int | float | bool] = {
        "jobId": job.job_id,
        "jobName": job.name,
        "initializationStatus": "COMPLETED",
        "restarts": job.restarts,
    }
    if job.checkpoints.last_restored is not None:
        attributes["checkpointId"] = job.checkpoints.last_restored.checkpoint_id
        attributes["fullSize"] = job.checkpoints.last_restored.size_bytes
    return Span("JobInitialization", job.start_ms if since is None else since, now_ms, attributes)


class Tracing:
    """Remembers which checkpoints and starts of each job were reported; ``look`` yields the spans of new ones."""

    def __init__(self, detail: SpanDetail, now_ms: Callable[[], int] = wall_clock_ms) -> None:
        self._detail = detail
        self._now_ms = now_ms
        self._checkpoints: dict[JobId, set[int]] = {}
        self._starts: dict[JobId, int] = {}

    def look(self, jobs: list[JobSummary]) -> Iterator[Span]:
        for job in jobs:
            reported = self._checkpoints.get(job.job_id, set())
            over = {one.checkpoint_id: one for one in job.checkpoints.history if one.status != "IN_PROGRESS"}
            yield from (
                checkpoint_span(job, one, self._detail) for id_, one in sorted(over.items()) if id_ not in reported
            )
            self._checkpoints[job.job_id] = set(over)
            if _runs(job) and self._starts.get(job.job_id) != job.restarts:
                self._starts[job.job_id] = job.restarts
                yield start_span(job, self._now_ms())
        known = {job.job_id for job in jobs}
        self._checkpoints = {job_id: ids for job_id, ids in self._checkpoints.items() if job_id in known}
        self._starts = {job_id: count for job_id, count in self._starts.items() if job_id in known}


def is_configured(configuration: Configuration) -> bool:
    """Tells whether spans are to be sent. Raises ``ConfigurationError`` for an unsupported reporter."""
    names = configuration.get(TraceOptions.REPORTERS)
    factory = configuration.get(TraceOptions.OTEL_FACTORY)
    unknown = [name for name in names or () if name != NAME]
    if unknown:
        raise ConfigurationError(
            f"bad configuration: traces.reporters: there is no reporter {', '.join(unknown)} here, only {NAME!r}"
        )
    if factory is not None and factory != FACTORY:
        raise ConfigurationError(f"bad configuration: traces.reporter.otel.factory.class: only {FACTORY} exists here")
    return bool(names) if names is not None else factory is not None


def start_tracing(configuration: Configuration, core: JobManagerCore) -> Callable[[], None]:
    """Starts to send spans; returns a function that stops it and sends what is left.

    Raises ``ConfigurationError`` when OpenTelemetry is not installed.
    """
    send, close = _exporter(configuration)
    tracing = Tracing(configuration.get(TraceOptions.DETAIL))

    async def watch() -> None:
        with core.watchers.watch(None) as changed:
            while True:
                await changed.wait()
                changed.clear()
                for span in tracing.look(core.machine.summaries()):
                    send(span)

    task = asyncio.create_task(watch(), name="traces")

    def stop() -> None:
        task.cancel()
        close()

    return stop


def _runs(job: JobSummary) -> bool:
    return job.state is JobState.RUNNING and all(
        vertex.tasks.get(ExecutionState.RUNNING, 0) + vertex.tasks.get(ExecutionState.FINISHED, 0) == vertex.parallelism
        for vertex in job.vertices
    )


def _exporter(configuration: Configuration) -> tuple[Send, Callable[[], None]]:
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise ConfigurationError(
            f"bad configuration: traces.reporters: OpenTelemetry is not installed ({error}); pip install 'tidegate[telemetry]'"
        ) from None
    endpoint = configuration.get(TraceOptions.OTEL_ENDPOINT)
    timeout_s = configuration.get(TraceOptions.OTEL_TIMEOUT) / 1000
    provider = TracerProvider(resource=Resource.create({"service.name": "tidegate.jobmanager"}), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint, timeout=timeout_s)))
    tracer = provider.get_tracer(SCOPE)

    def send(span: Span, parent: Any = None) -> None:
        made = tracer.start_span(span.name, parent, attributes=dict(span.attributes), start_time=_nanos(span.start_ms))
        for child in span.children:
            send(child, trace.set_span_in_context(made))
        made.end(_nanos(span.end_ms))

    return send, provider.shutdown


def _nanos(at_ms: float) -> int:
    return int(at_ms * _NANOS_PER_MS)
