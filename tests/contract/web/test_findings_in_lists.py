"""A list of jobs has what the page says of each: what holds it up, by the same sentences."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from tests.contract.rest.asking import endpoint_of
from tests.contract.rest.scene import Counted, Scene
from tests.unit.jobmanager.machines.cluster_kit import running_job, two_stage
from tidegate.jobmanager.machines.events import JobCancelRequested
from tidegate.jobmanager.service.rpc.client_servicer import ClientServicer
from tidegate.jobmanager.web.series import STEP_MS
from tidegate.model.ids import AttemptId, JobId
from tidegate.pb import jobmanager_pb2 as pb
from tidegate.wire.task_metrics import ReadingSpan

HALF_A_MINUTE = 30_000 // STEP_MS


class SlowSink(Counted):
    """The source waits for a sink that works all the time."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self._source = source

    def span_of(self, attempt: AttemptId) -> ReadingSpan | None:
        span = super().span_of(attempt)
        assert span is not None
        span.later.busy_ms = 1_000 if attempt.vertex_id == self._source else 9_500
        span.later.backpressured_ms = 8_000 if attempt.vertex_id == self._source else 0
        return span


class Listing(ClientServicer):
    """The service for clients, over a machine that is driven by hand."""

    def __init__(self, scene: Scene, findings_of: Any) -> None:
        self._core = cast(Any, SimpleNamespace(machine=scene.machine))
        self.history = None
        self.findings_of = findings_of


async def test_a_list_has_findings_when_they_are_asked_for_and_while_the_job_runs() -> None:
    scene = Scene(running_job(two_stage()))
    (job,) = scene.machine.jobs()
    source, sink = job.vertices
    scene.attempts = SlowSink(source.vertex_id)
    plots = endpoint_of(scene).pages.plots
    clients = Listing(scene, plots.findings_of)

    async def listed(**asked: bool) -> pb.JobStatus:
        (found,) = (await clients.ListJobs(pb.ListJobsRequest(include_terminal=True, **asked), None)).jobs
        return found

    assert not (await listed(with_findings=True)).findings
    for step in range(HALF_A_MINUTE):
        plots.look(scene.now_ms() + step * STEP_MS)
    assert not (await listed()).findings
    (found,) = (await listed(with_findings=True)).findings
    assert (found.kind, found.vertex_id, found.HasField("subtask")) == ("slow", sink.vertex_id, False)
    assert found.sentence == (
        "sink holds the job up: it is busy 95 % of the time, and what feeds it waits for it: source 80 % of the time."
    )
    assert plots.findings_of(JobId("f" * 32)) == ()
    scene.post(JobCancelRequested(job.job_id))
    scene.cluster.cancel_tasks()
    assert (await listed(with_findings=True)).state == "CANCELED"
    assert not (await listed(with_findings=True)).findings
