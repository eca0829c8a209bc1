"""Decides when a job is scaled, and to which parallelism.

    sample ─▶ window ──full?──▶ evaluate ─▶ decide_change for each vertex ─▶ any outside its bounds? ─▶ parallelism of all that change
              began anew when the job did                                                                 remembered, and expected to show

Law: what is decided stays decided (``Cycle.parallelism``) until it is decided anew, so carrying it out may fail, and try again.

Follows Flink's ``JobAutoScalerImpl.java``, ``ScalingMetricCollector.java`` and ``ScalingExecutor.java``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidegate.autoscaler.machines.autoscaler_settings import AutoscalerSettings
from tidegate.autoscaler.machines.evaluation import Evaluated, Pressure, evaluate, pressure
from tidegate.autoscaler.machines.history import DelayedScaleDowns, RestartTimes, Scaling, ScalingHistory
from tidegate.autoscaler.machines.samples import Collected, MetricWindow, Topology
from tidegate.autoscaler.machines.vertex_scaler import Change, decide_change

LEAST_SAMPLES = 2
"""The fewest samples of a window: a rate is a difference."""


@dataclass(frozen=True, slots=True)
class JobSample:
    """The metrics of a running job at one time. ``running_ms``: since when it runs with its current parallelism."""

    running_ms: int
    topology: Topology
    collected: Collected


@dataclass(frozen=True, slots=True)
class Cycle:
    """The result of one sample. ``said``: events for people, each once in ``job.autoscaler.scaling.event.interval``."""

    parallelism: Mapping[str, int] = field(default_factory=dict)
    """The last decision, by vertex."""
    scaled: Mapping[str, Scaling] = field(default_factory=dict)
    """The scalings that were decided by this sample, by vertex."""
    evaluated: Mapping[str, Evaluated] = field(default_factory=dict)
    said: Sequence[str] = ()


class JobAutoscaler:
    """The autoscaler of one job. ``on_sample`` is its only input; its time must not go back."""

    def __init__(self) -> None:
        self.window = MetricWindow()
        self.history = ScalingHistory()
        self.restarts = RestartTimes()
        self._delayed = DelayedScaleDowns()
        self._parallelism: dict[str, int] = {}
        self._said: dict[str, int] = {}

    def on_sample(self, settings: AutoscalerSettings, sample: JobSample, now_ms: int) -> Cycle:
        if self.window and sample.running_ms > self.window.first_ms:
            self.window.clear()  # it has begun anew, perhaps in another shape
        is_full, waits = self._add(settings, sample, now_ms)
        vertices = sample.topology.by_id
        self.restarts.trim(settings, now_ms)
        self.history.trim(settings, vertices, now_ms)
        self.restarts.on_running(
            sample.running_ms, self.history, {v.vertex_id: v.parallelism for v in vertices.values()}
        )
        if len(self.window) < LEAST_SAMPLES:
            return self._cycle(settings, now_ms, [waits])
        restart_ms = self.restarts.longest_ms(settings)
        try:
            evaluated = evaluate(settings, sample.topology, self.window, restart_ms)
        except ValueError as error:
            return self._cycle(settings, now_ms, [str(error)])
        if not is_full:
            return self._cycle(settings, now_ms, [waits], evaluated)
        return self._decide(settings, sample.topology, evaluated, restart_ms, now_ms)

    # ---- decisions ---------------------------------------------------------------------------------------------------

    def _add(self, settings: AutoscalerSettings, sample: JobSample, now_ms: int) -> tuple[bool, str]:
        """Adds a sample to the window. Returns whether the window is full; else also the reason for waiting."""
        stable_ms = sample.running_ms + settings.stabilization_ms
        first_ms = self.window.first_since(stable_ms)
        full_ms = (now_ms if first_ms is None else first_ms) + settings.window_ms
        self.window.add(now_ms, sample.collected)
        if now_ms >= full_ms:
            self.window.trim(now_ms - settings.window_ms)
            return True, ""
        if now_ms < stable_ms:
            return (
                False,
                "the job has just started, and its metrics are not stable yet (job.autoscaler.stabilization.interval)",
            )
        return False, "the metric window of the job is not full yet (job.autoscaler.metrics.window)"

    def _decide(
        self,
        settings: AutoscalerSettings,
        topology: Topology,
        evaluated: Mapping[str, Evaluated],
        restart_ms: int,
        now_ms: int,
    ) -> Cycle:
        under_pressure = _why_not_now(settings, pressure(self.window))
        if under_pressure:
            return self._cycle(settings, now_ms, [under_pressure], evaluated)
        said, changes = [], dict[str, Change]()
        for vertex in topology.vertices:
            if vertex.vertex_id in settings.excluded or vertex.is_finished:
                continue
            of = evaluated[vertex.vertex_id]
            past = self.history.of(vertex.vertex_id)
            change = decide_change(settings, vertex, of, past, self._delayed, restart_ms, now_ms)
            if change.remark:
                said.append(f"{vertex.name or vertex.vertex_id}: {change.remark}")
            if change.new != vertex.parallelism:
                changes[vertex.vertex_id] = change
        if not any(change.is_outside_bounds for change in changes.values()):
            return self._cycle(settings, now_ms, said, evaluated)
        scaled = {
            vertex_id: Scaling(now_ms, evaluated[vertex_id].parallelism, change.new, change.evaluated)
            for vertex_id, change in changes.items()
        }
        if all(self._parallelism.get(vertex_id) == scaling.new for vertex_id, scaling in scaled.items()):
            return self._cycle(settings, now_ms, said, evaluated)  # that was decided before, and is on its way
        if not settings.scales:
            shown = ", ".join(f"{topology.by_id[v].name or v} {s.current} -> {s.new}" for v, s in scaled.items())
            said.append(f"would change, and job.autoscaler.scaling.enabled is false: {shown}")
            return self._cycle(settings, now_ms, said, evaluated)
        return self._scale(settings, topology, evaluated, scaled, said, now_ms)

    def _scale(
        self,
        settings: AutoscalerSettings,
        topology: Topology,
        evaluated: Mapping[str, Evaluated],
        scaled: Mapping[str, Scaling],
        said: list[str],
        now_ms: int,
    ) -> Cycle:
        for vertex_id, scaling in scaled.items():
            self.history.add(vertex_id, scaling)
        self.restarts.on_scaled(now_ms)
        self._delayed.clear_all()
        self._parallelism = {
            v.vertex_id: scaled[v.vertex_id].new if v.vertex_id in scaled else v.parallelism for v in topology.vertices
        }
        cycle = self._cycle(settings, now_ms, said, evaluated)
        return Cycle(cycle.parallelism, scaled, evaluated, cycle.said)

    def _cycle(
        self, settings: AutoscalerSettings, now_ms: int, said: Sequence[str], evaluated: Mapping[str, Evaluated] = {}
    ) -> Cycle:
        new = []
        for text in said:
            if now_ms - self._said.get(text, -settings.event_interval_ms) >= settings.event_interval_ms:
                self._said[text] = now_ms
                new.append(text)
        return Cycle(dict(self._parallelism), {}, evaluated, tuple(new))


def _why_not_now(settings: AutoscalerSettings, on: Pressure) -> str:
    if on.gc > settings.gc_pressure_threshold:
        return f"nothing is changed: a TaskManager collects garbage for {on.gc:.0%} of the time (job.autoscaler.memory.gc-pressure.threshold)"
    if on.heap > settings.heap_usage_threshold:
        return f"nothing is changed: a TaskManager uses {on.heap:.0%} of its heap (job.autoscaler.memory.heap-usage.threshold)"
    return ""
