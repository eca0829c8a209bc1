"""Spans of a real JobManager, as an OpenTelemetry collector over HTTP gets them."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.aio.jobmanager.cluster import JOB, cluster, start_job, watch_until
from tidegate.jobmanager.service.reporting.traces import SCOPE, is_configured
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ConfigurationError


class Collector:
    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.scopes: set[str] = set()
        self.has_two = asyncio.Event()

    async def take(self, request: web.Request) -> web.Response:
        body = await request.read()
        if request.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in resource.scope_spans:
                self.scopes.add(scope.scope.name)
                self.spans.extend(scope.spans)
        if len(self.named("Checkpoint")) >= 2:
            self.has_two.set()
        return web.Response()

    def named(self, name: str) -> list[dict[str, Any]]:
        return [_attributes(span) for span in self.spans if span.name == name]


def _attributes(span: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}


@asynccontextmanager
async def collecting() -> AsyncIterator[tuple[Collector, str]]:
    collector = Collector()
    application = web.Application()
    application.router.add_post("/v1/traces", collector.take)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield collector, f"http://127.0.0.1:{runner.addresses[0][1]}/v1/traces"
    finally:
        await runner.cleanup()


async def test_checkpoints_and_the_start_of_a_job(tmp_path: Path) -> None:
    async with collecting() as (collector, endpoint):
        settings = {
            "traces.reporters": "otel",
            "traces.reporter.otel.exporter.endpoint": endpoint,
            "traces.checkpoint.span-detail-level": "CHILDREN_SPANS_PER_SUBTASK",
        }
        dashed = {key.replace("-", "__"): text for key, text in settings.items()}
        async with cluster("tm-1", **dashed) as (client, _, __):
            options = {"execution_checkpointing_interval": "50 ms", "execution_checkpointing_dir": str(tmp_path)}
            await start_job(client, **options)
            await watch_until(client, JOB, lambda status: status.checkpoints_completed >= 2)
            await asyncio.wait_for(collector.has_two.wait(), 30)  # sent every five seconds
    assert collector.scopes == {SCOPE}
    [start] = collector.named("JobInitialization")
    assert (start["jobId"], start["jobName"], start["restarts"]) == (JOB, "trivial", 0)
    checkpoints = [one for one in collector.named("Checkpoint") if one["checkpointStatus"] == "COMPLETED"]
    ids = [one["checkpointId"] for one in checkpoints]
    assert ids == sorted(set(ids)), "each once"
    assert checkpoints[0]["checkpointType"] == "CHECKPOINT"
    parents = {span.span_id: span for span in collector.spans if span.name == "Checkpoint"}
    parts = [span for span in collector.spans if span.name == "Subtask"]
    assert len(parts) >= 4 * len(ids)
    assert all(span.parent_span_id in parents for span in parts)
    assert {(one["taskName"], one["subtaskIndex"]) for one in collector.named("Subtask")} == {
        (name, index) for name in ("numbers", "print") for index in (0, 1)
    }


def test_a_reporter_that_is_not_here() -> None:
    assert not is_configured(Configuration.from_strings({}))
    with pytest.raises(ConfigurationError, match="no reporter jaeger"):
        is_configured(Configuration.from_strings({"traces.reporters": "jaeger"}))
    with pytest.raises(ConfigurationError, match=r"only org\.apache\.flink\.traces"):
        is_configured(Configuration.from_strings({"traces.reporter.otel.factory.class": "com.example.Mine"}))
