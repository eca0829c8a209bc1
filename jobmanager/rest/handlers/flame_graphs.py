"""Flame graphs of vertices: stacks of their subtasks, sampled on request, and cached for a while.

    asked for the first time, or again after the refresh interval ─▶ one look at all subtasks, in the background
    until it is there: "wait for the first sample" (-3), or the graph before it

However many clients ask, a vertex is sampled at most once in the refresh interval. Follows Flink's ``VertexFlameGraphHandler.java``: its
JSON, and its numbers for vertices without a graph.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tidegate.jobmanager.machines.views import VertexView
from tidegate.jobmanager.rest.backend import Backend
from tidegate.jobmanager.rest.http.errors import RestError
from tidegate.jobmanager.rest.http.request import RestRequest, bad_query
from tidegate.jobmanager.rest.routes import Route, reads
from tidegate.model.errors import TidegateError
from tidegate.model.ids import AttemptId, TaskManagerId, VertexId
from tidegate.model.options import RestOptions
from tidegate.model.states import ExecutionState
from tidegate.model.values import JsonObject
from tidegate.pb.common_pb2 import SampledStack, SampleStacksOptions

ENDED, SAMPLING_IS_OFF, WAITING = -1, -2, -3
"""``endTimestamp`` where there is no graph, as in Flink."""
MAX_KEPT = 32
"""How many graphs are cached. Chosen, not measured: a graph takes some 100 kB, and few vertices are looked at in a minute."""
_KINDS: dict[str, Callable[[SampledStack], bool]] = {
    "full": lambda stack: True,
    "on_cpu": lambda stack: stack.on_cpu,
    "off_cpu": lambda stack: not stack.on_cpu,
}

_log = logging.getLogger(__name__)


class StackSampler(Protocol):
    """Samples the stacks of subtasks on their TaskManagers."""

    async def sample(
        self, address: str, attempts: Sequence[AttemptId], options: SampleStacksOptions
    ) -> dict[AttemptId, Sequence[SampledStack]]: ...


@dataclass(frozen=True, slots=True)
class _Sample:
    end_ms: int
    by_subtask: dict[int, Sequence[SampledStack]]


class FlameGraphs:
    """Answers ``/jobs/:jobid/vertices/:vertexid/flamegraph`` from samples that are taken when they are requested, and kept for a while."""

    def __init__(self, backend: Backend, sampler: StackSampler) -> None:
        self._backend = backend
        self._sampler = sampler
        self._kept: dict[VertexId, _Sample] = {}
        self._running: dict[VertexId, asyncio.Task[None]] = {}

    def routes(self) -> list[Route]:
        return [reads("/jobs/:jobid/vertices/:vertexid/flamegraph", self._answer)]

    async def _answer(self, request: RestRequest) -> JsonObject:
        request.job_id()
        request.vertex_id()
        index = request.query_number("subtaskindex", -1)
        kind = request.query.get("type", "full")
        if kind.lower() not in _KINDS:
            raise bad_query("type", kind, f"one of {', '.join(_KINDS)}")
        try:
            job, vertex = self._backend.vertex(request)
        except RestError:
            return {"endTimestamp": SAMPLING_IS_OFF}
        if not self._backend.configuration.get(RestOptions.FLAMEGRAPH_ENABLED):
            return {"endTimestamp": SAMPLING_IS_OFF}
        if job.state.is_terminal or not _running(vertex):
            return {"endTimestamp": ENDED}
        kept = self._latest_sample(vertex)
        if kept is None:
            return {"endTimestamp": WAITING}
        stacks = [stack for number, found in kept.by_subtask.items() if index in (-1, number) for stack in found]
        return {"endTimestamp": kept.end_ms, "data": tree_of(filter(_KINDS[kind.lower()], stacks))}

    def _latest_sample(self, vertex: VertexView) -> _Sample | None:
        """Returns the cached sample, if any; starts to take a new one when it is due."""
        kept = self._kept.get(vertex.vertex_id)
        age_ms = None if kept is None else self._backend.now_ms() - kept.end_ms
        is_due = age_ms is None or age_ms >= self._backend.configuration.get(RestOptions.FLAMEGRAPH_REFRESH)
        if is_due and vertex.vertex_id not in self._running:
            task = asyncio.create_task(self._sample(vertex), name=f"flame graph of {vertex.name}")
            self._running[vertex.vertex_id] = task
            task.add_done_callback(lambda _: self._running.pop(vertex.vertex_id, None))
        return kept

    async def _sample(self, vertex: VertexView) -> None:
        addresses, option = self._backend.endpoints(), self._backend.configuration.get
        by_address: dict[str, list[AttemptId]] = {}
        for attempt, task_manager_id in _running(vertex):
            if task_manager_id in addresses:
                by_address.setdefault(addresses[task_manager_id], []).append(attempt)
        options = SampleStacksOptions(
            samples=option(RestOptions.FLAMEGRAPH_SAMPLES),
            delay_ms=option(RestOptions.FLAMEGRAPH_DELAY),
            depth=option(RestOptions.FLAMEGRAPH_DEPTH),
        )
        samplings = [self._sampler.sample(address, attempts, options) for address, attempts in by_address.items()]
        found: dict[int, Sequence[SampledStack]] = {}
        for answer in await asyncio.gather(*samplings, return_exceptions=True):
            if isinstance(answer, TidegateError):
                _log.warning("stacks of %s could not be sampled: %s", vertex.name, answer.message)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found |= {attempt.subtask: stacks for attempt, stacks in answer.items()}
        if found:
            self._kept.pop(vertex.vertex_id, None)
            self._kept[vertex.vertex_id] = _Sample(self._backend.now_ms(), found)
            while len(self._kept) > MAX_KEPT:
                self._kept.pop(next(iter(self._kept)))


def tree_of(stacks: Iterable[SampledStack]) -> JsonObject:
    """Builds Flink's tree: a node for each frame with the same callers, ``value``: the samples in it and below it."""
    root: JsonObject = {"name": "root", "value": 0, "children": []}
    by_path: dict[tuple[str, ...], JsonObject] = {}
    for stack in stacks:
        root["value"] += stack.count
        above: JsonObject = root
        path: tuple[str, ...] = ()
        for frame in stack.frames:
            path = (*path, frame)
            node = by_path.get(path)
            if node is None:
                node = by_path[path] = {"name": frame, "value": 0, "children": []}
                above["children"].append(node)
            node["value"] += stack.count
            above = node
    return root


def _running(vertex: VertexView) -> list[tuple[AttemptId, TaskManagerId]]:
    current = (subtask.current for subtask in vertex.subtasks)
    return [
        (view.attempt, view.task_manager_id)
        for view in current
        if view.state is ExecutionState.RUNNING and view.task_manager_id is not None
    ]
