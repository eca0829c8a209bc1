"""The page without a cluster: a REST endpoint over a real machine that is driven by hand, in a loop of its own thread.

with Stage(pipeline_scene()) as stage:      stage.url, stage.do(lambda: stage.scene.cluster.fail(...))
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from types import TracebackType
from typing import TypeVar

from tests.contract.rest.asking import endpoint_of
from tests.contract.rest.scene import Scene
from tests.unit.jobmanager.machines.cluster_kit import (
    CHECKPOINTED,
    Cluster,
    graph,
    operator_id,
    running_job,
    until_triggered,
    vertex,
)
from tidegate.aio.https import rest_url
from tidegate.jobmanager.machines import events as e
from tidegate.jobmanager.web.series import STEP_MS
from tidegate.model.checkpoint import CheckpointMetrics, SubtaskSnapshot
from tidegate.model.graph import JobGraph, JobVertex, OperatorInfo, Partitioner
from tidegate.model.ids import AttemptId, CheckpointId, JobId
from tidegate.model.states import ExecutionState

T = TypeVar("T")
_LIMIT_S = 30


class Stage:
    """A context manager. Everything that touches the scene runs on its loop: ``do``."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="stage", daemon=True)
        self.url = ""
        self._looks = 0

    def __enter__(self) -> Stage:
        self._thread.start()
        self._endpoint = self.do(lambda: endpoint_of(self.scene))
        started = asyncio.run_coroutine_threadsafe(self._endpoint.start("127.0.0.1", 0), self._loop)
        self.url = f"{rest_url(self.scene.configuration, '127.0.0.1', started.result(_LIMIT_S))}/"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._endpoint.stop(), self._loop).result(_LIMIT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_LIMIT_S)
        self._loop.close()

    def close_streams(self) -> None:
        """As a JobManager that goes away does; pages may come again."""
        self.do(self._endpoint.pages.live.close)

    def look(self) -> None:
        """A step of the plots is recorded, five seconds after the last one."""
        self._looks += 1
        at_ms = self.scene.now_ms() + self._looks * STEP_MS
        self.do(lambda: self._endpoint.pages.plots.look(at_ms))

    def do(self, act: Callable[[], T]) -> T:
        """Run it on the loop, wake every page, and give what it gave."""

        async def run() -> T:
            done = act()
            for job in self.scene.machine.jobs():
                self.scene.watchers.changed(job.job_id)
            return done

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(_LIMIT_S)


def pipeline(parallelism: int = 2) -> JobGraph:
    """Two sources, a join of a kind, and two ends."""
    return graph(
        [
            vertex("Source: clicks -> parse", parallelism, source=True),
            vertex("Source: rates", 1, source=True),
            chained(vertex("enrich -> filter", parallelism), "filter"),
            vertex("window by user, 1 min", parallelism),
            vertex("Sink: files", parallelism),
            vertex("Sink: alerts", 1),
        ],
        [
            ("Source: clicks -> parse", "enrich -> filter", Partitioner.REBALANCE),
            ("Source: rates", "enrich -> filter", Partitioner.BROADCAST),
            ("enrich -> filter", "window by user, 1 min", Partitioner.HASH),
            ("window by user, 1 min", "Sink: files", Partitioner.FORWARD),
            ("enrich -> filter", "Sink: alerts", Partitioner.GLOBAL),
        ],
    )


def long_pipeline(vertices: int, parallelism: int = 8) -> JobGraph:
    """One after the other, and each with a name that has no room in a line of a telephone."""
    names = [f"enrich orders of all warehouses with customer master data, step {n}" for n in range(vertices)]
    stages = [vertex(name, parallelism, source=name == names[0]) for name in names]
    return graph(stages, [(a, b, Partitioner.HASH) for a, b in pairwise(names)])


def wide_pipeline(parallelism: int = 4) -> JobGraph:
    """40 vertices: four sources that are prepared and joined, three branches with a sink each, and two sinks more."""
    stages: list[JobVertex] = []
    edges: list[tuple[str, str, Partitioner]] = []

    def run(*names: str, fed_by: Sequence[str] = ()) -> str:
        stages.extend(vertex(name, parallelism, source=name.startswith("Source: ")) for name in names)
        edges.extend((name, names[0], Partitioner.HASH) for name in fed_by)
        edges.extend((one, other, Partitioner.REBALANCE) for one, other in pairwise(names))
        return names[-1]

    orders, payments, shipments, customers = (
        run(f"Source: {of}", f"parse {of}", f"validate {of} with master data", f"deduplicate {of}", f"enrich {of}")
        for of in ("orders", "payments", "shipments", "customers")
    )
    paid = run("join orders with payments", fed_by=[orders, payments])
    sent = run("join shipments with customers", fed_by=[shipments, customers])
    joined = run("interval join of everything by order id", fed_by=[paid, sent])
    for of in ("revenue", "fraud", "latency"):
        run(f"{of}: filter", f"{of}: window 1 min", f"{of}: rank", f"{of}: format", f"Sink: {of}", fed_by=[joined])
    run("Sink: raw archive in Parquet", fed_by=[joined])
    run("Sink: dead letters", fed_by=[paid])
    return graph(stages, edges)


def chained(head: JobVertex, *names: str) -> JobVertex:
    """The vertex with further operators behind its own."""
    further = (OperatorInfo(operator_id(name), name, uid=name) for name in names)
    return replace(head, operators=(replace(head.operators[0], name=head.name.split(" -> ", maxsplit=1)[0]), *further))


def pipeline_scene(
    parallelism: int = 2,
    checkpoints: int = 8,
    slots: int = 4,
    task_managers: int = 2,
    settings: dict[str, str] | None = None,
    directory: str = "/cp",
    job_settings: dict[str, str] | None = None,
) -> Scene:
    """The pipeline with a history of checkpoints, each slow in its own way. Its machine writes none of them."""
    cluster = running_job(
        pipeline(parallelism),
        {
            **CHECKPOINTED,
            "execution.checkpointing.dir": directory,
            "execution.checkpointing.num-retained": "3",
            **(job_settings or {}),
        },
        slots=slots,
        task_managers=task_managers,
    )
    cluster.checkpoints_at = directory
    cluster.register("tm-idle", 2)
    scene = Scene(cluster, settings)
    scene.savepoint_directory = True
    for checkpoint_id in range(1, checkpoints + 1):
        until_triggered(cluster, checkpoint_id)
        take(cluster, checkpoint_id)
    return scene


def take(cluster: Cluster, checkpoint_id: int) -> None:
    """All subtasks acknowledge, vertex by vertex, later and later."""
    began_ms = next(v.trigger_ms for v in cluster.checkpoints().history if v.checkpoint_id == checkpoint_id)
    job = cluster.job()
    for depth, view in enumerate(job.vertices):
        for subtask in view.subtasks:
            if subtask.current.state is ExecutionState.RUNNING:
                _acknowledge(cluster, job.graph, subtask.current.attempt, checkpoint_id, depth, began_ms)


def _acknowledge(
    cluster: Cluster, graph: JobGraph, attempt: AttemptId, checkpoint_id: int, depth: int, began_ms: int
) -> None:
    inputs = graph.inputs_of(attempt.vertex_id)
    slow = 1 + (checkpoint_id * 7 + attempt.subtask * 3) % 5
    waited_for = ""
    if inputs and depth != 4:
        source = graph.vertex(inputs[0].source)
        waited_for = f"{source.name} ({1 + (attempt.subtask + 1) % source.parallelism}/{source.parallelism})"
    metrics = CheckpointMetrics(
        start_delay_ms=1.4 + 4.0 * depth,
        alignment_ms=3.5 * slow if waited_for else 0.0,
        sync_ms=0.8 * slow,
        async_ms=4.0 * slow,
        waited_for=waited_for,
        unaligned=depth == 3 and slow > 4,
        in_flight_bytes=81_920 if depth == 3 and slow > 4 else 0,
    )
    due_ms = began_ms + round(metrics.start_delay_ms + metrics.alignment_ms + metrics.sync_ms + metrics.async_ms) + 2
    cluster.now_ms = max(cluster.now_ms, due_ms)
    cluster.tell(e.SubtaskAcknowledged(attempt, CheckpointId(checkpoint_id), SubtaskSnapshot(), metrics))
    cluster.settle()


def job_of(scene: Scene) -> JobId:
    return scene.machine.jobs()[0].job_id
