"""The rescale history of a job: when and why its parallelism changed, and the states of the job meanwhile.

    begin ─▶ under way ──enter(state)──▶ ... ──end(reason)──▶ history, newest first ──more than ``size``──▶ forgotten, and still counted

Laws: one is in progress at a time; the start of another one ends it first. Ids depend on the job, the time and a number alone, so that a run can
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
    """The rescales of one job. ``size``: how many are kept; 0: none."""

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
        """Tells whether the job has started to run again since the rescale began."""
        spans = () if self._current is None else self._current.spans
        return len(spans) > 1 and spans[-1].state is SchedulerState.EXECUTING

    def begin(self, trigger: TriggerCause, bounds: Bounds, now_ms: int) -> None:
        """Begins a rescale; none may be in progress. Requirements get a new id at the start of the job and when a user changes them."""
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
        """Notes that the job entered a state; ``error``: the cause, if any. No-op when it is in that state."""
        if state is self._span.state:
            return
        left, self._span = replace(self._span, left_ms=now_ms), SchedulerStateSpan(state, now_ms, error=error)
        if self._current is not None:
            self._current = replace(self._current, spans=(*self._current.spans[:-1], left, self._span))

    def end(self, reason: TerminatedReason, now_ms: int) -> None:
        """Ends the rescale in progress; no-op when there is none."""
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
        """Returns the history for display; ``None`` when there never was a rescale."""
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
        """Raises ``AssertionError`` when a rescale in progress has an end, or states overlap."""
        for one in (*self._over, *([self._current] if self._current else [])):
            assert (one.ended_ms is None) == (one is self._current), f"{one.rescale_id} ended at {one.ended_ms}"
            times = [span.entered_ms for span in one.spans]
            assert times == sorted(times), f"{one.rescale_id} was in states at {times}"

    def _id(self, kind: str, number: int) -> str:
        return hex_id(self._graph.graph.job_id, str(self._created_ms), kind, str(number))
