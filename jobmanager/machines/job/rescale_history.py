"""Remembers when and why a job took another parallelism, and in which states it was meanwhile.

    begin ─▶ under way ──enter(state)──▶ ... ──end(reason)──▶ history, newest first ──more than ``size``──▶ forgotten, and still counted

Laws: one is under way at a time; what begins another one ends it first. Ids depend on the job, the time and a number alone, so that a run can
be repeated. Follows Flink's ``DefaultRescaleTimeline.java``.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from tidegate.jobmanager.machines.scheduling.execution_graph import ExecutionGraph
from tidegate.model.errors import ErrorInfo
from tidegate.model.ids import hex_id
from tidegate.model.rescaling.bounds import Bounds, parallelism_of
from tidegate.model.rescaling.history import (
    Rescale,
    Rescales,
    SchedulerState,
    SchedulerStateSpan,
    TerminalState,
    TerminatedReason,
    TriggerCause,
    VertexRescale,
)
from tidegate.model.stats_summary import Samples


class RescaleHistory:
    """``size``: how many are remembered; 0: none is."""

    def __init__(self, size: int, graph: ExecutionGraph, now_ms: int) -> None:
        self._size = size
        self._graph = graph
        self._created_ms = now_ms
        self._begun = 0
        self._requirements = 0
        self._attempt = 0
        self._current: Rescale | None = None
        self._span = SchedulerStateSpan(SchedulerState.CREATED, now_ms)
        self._over: deque[Rescale] = deque(maxlen=size)
        self._latest: dict[TerminalState, Rescale] = {}
        self._counts = dict.fromkeys(TerminalState, 0)
        self._durations = {state: Samples() for state in TerminalState}
        self._all_durations = Samples()

    @property
    def is_under_way(self) -> bool:
        return self._current is not None

    @property
    def has_restarted(self) -> bool:
        """Since it is under way, the job has begun to run."""
        spans = () if self._current is None else self._current.spans
        return len(spans) > 1 and spans[-1].state is SchedulerState.EXECUTING

    def begin(self, trigger: TriggerCause, bounds: Bounds, now_ms: int) -> None:
        """None may be under way. Requirements are new when the job is started, and when others are asked for."""
        assert self._current is None, f"{self._current} is under way"
        if self._size == 0:
            return
        if trigger in (TriggerCause.INITIAL_SCHEDULE, TriggerCause.UPDATE_REQUIREMENT):
            self._requirements, self._attempt = self._requirements + 1, 0
        self._begun, self._attempt = self._begun + 1, self._attempt + 1
        is_first = trigger is TriggerCause.INITIAL_SCHEDULE
        vertices = tuple(
            VertexRescale(
                vertex.vertex_id,
                vertex.name,
                vertex.slot_sharing_group,
                bounds[vertex.vertex_id],
                None if is_first else vertex.parallelism,
            )
            for vertex in self._graph.graph.vertices
        )
        rescale_id, requirements_id = self._id("rescale", self._begun), self._id("requirements", self._requirements)
        self._current = Rescale(
            rescale_id, requirements_id, self._attempt, trigger, now_ms, vertices, spans=(self._span,)
        )

    def enter(self, state: SchedulerState, now_ms: int, error: ErrorInfo | None = None) -> None:
        """The job is in this state now. ``error``: why, where there is one. No-op when it was in it before."""
        if state is self._span.state:
            return
        left, self._span = replace(self._span, left_ms=now_ms), SchedulerStateSpan(state, now_ms, error=error)
        if self._current is not None:
            self._current = replace(self._current, spans=(*self._current.spans[:-1], left, self._span))

    def end(self, reason: TerminatedReason, now_ms: int) -> None:
        """No-op when none is under way."""
        if self._current is None:
            return
        now = parallelism_of(self._graph.graph) if reason is TerminatedReason.SUCCEEDED else {}
        vertices = tuple(replace(one, after=now.get(one.vertex_id)) for one in self._current.vertices)
        last = replace(self._current.spans[-1], left_ms=now_ms)
        spans = (*self._current.spans[:-1], last)
        over = replace(self._current, vertices=vertices, spans=spans, ended_ms=now_ms, reason=reason)
        self._current = None
        self._over.appendleft(over)
        state, duration_ms = reason.terminal_state, now_ms - over.started_ms
        self._latest[state] = over
        self._counts[state] += 1
        self._durations[state].add(duration_ms)
        self._all_durations.add(duration_ms)

    def view(self) -> Rescales | None:
        """``None``: there never was one."""
        if self._begun == 0:
            return None
        current = () if self._current is None else (self._current,)
        return Rescales(
            history=(*current, *self._over)[: self._size],
            latest=dict(self._latest),
            counts=dict(self._counts),
            in_progress=len(current),
            durations={state: samples.summary() for state, samples in self._durations.items()},
            all_durations=self._all_durations.summary(),
        )

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when one that is under way has an end, or states overlap."""
        for one in (*self._over, *([self._current] if self._current else [])):
            assert (one.ended_ms is None) == (one is self._current), f"{one.rescale_id} ended at {one.ended_ms}"
            times = [span.entered_ms for span in one.spans]
            assert times == sorted(times), f"{one.rescale_id} was in states at {times}"

    def _id(self, kind: str, number: int) -> str:
        return hex_id(self._graph.graph.job_id, str(self._created_ms), kind, str(number))
