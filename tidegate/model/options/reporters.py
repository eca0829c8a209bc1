"""Options of reporters: Prometheus metrics on a port of each process, and OpenTelemetry traces of checkpoints and recoveries.

Flink's keys for a reporter hold a name of the user's choice, ``metrics.reporter.<name>.*``; here each kind has its usual name:
``prom`` for metrics and ``otel`` for traces.
"""

from __future__ import annotations

from enum import Enum

from tidegate.model.options.option import DURATION, LIST, STRING, choice, option, optional


class SpanDetail(Enum):
    """The detail in which checkpoints become spans (Flink: ``CheckpointSpanDetailLevel``)."""

    CHECKPOINT = "SPAN_PER_CHECKPOINT"
    SUBTASKS = "CHILDREN_SPANS_PER_SUBTASK"


class MetricOptions:
    """Options of Prometheus (Flink: ``MetricOptions``, ``PrometheusReporterFactory``)."""

    REPORTERS = optional("metrics.reporters", LIST, "Which reporters run: `prom`. Not set: those with a factory class.")
    PROM_FACTORY = optional(
        "metrics.reporter.prom.factory.class",
        STRING,
        "`org.apache.flink.metrics.prometheus.PrometheusReporterFactory`: serve `/metrics` for Prometheus.",
    )
    PROM_PORT = option(
        "metrics.reporter.prom.port",
        STRING,
        "9249",
        "Port of `/metrics`, or a range such as `9250-9260` of which each process takes the first that is free.",
    )


class TraceOptions:
    """Options of OpenTelemetry (Flink: ``TraceOptions``, ``OpenTelemetryTraceReporterFactory``). Needs the extra `telemetry`."""

    REPORTERS = optional("traces.reporters", LIST, "Which reporters run: `otel`. Not set: those with a factory class.")
    OTEL_FACTORY = optional(
        "traces.reporter.otel.factory.class",
        STRING,
        "`org.apache.flink.traces.otel.OpenTelemetryTraceReporterFactory`: send spans of checkpoints and recoveries.",
    )
    OTEL_ENDPOINT = option(
        "traces.reporter.otel.exporter.endpoint",
        STRING,
        "http://localhost:4318/v1/traces",
        "Where spans go, by OTLP over HTTP.",
    )
    OTEL_TIMEOUT = option(
        "traces.reporter.otel.exporter.timeout",
        DURATION,
        "10 s",
        "Longest time that sending spans may take.",
        minimum=1,
    )
    DETAIL = option(
        "traces.checkpoint.span-detail-level",
        choice(SpanDetail),
        "SPAN_PER_CHECKPOINT",
        "Whether each subtask's part of a checkpoint is a span of its own, too.",
    )
