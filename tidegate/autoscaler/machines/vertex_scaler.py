"""Computes the parallelism of a vertex (Flink: ``JobVertexScaler.java``).

factor          = capacity that is needed at the target utilization / true processing rate, within the greatest factors
new parallelism = ⌈factor * parallelism⌉, within the bounds, aligned to key groups or partitions
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal

from tidegate.autoscaler.machines.alignment import aligned
from tidegate.autoscaler.machines.autoscaler_settings import AutoscalerSettings
from tidegate.autoscaler.machines.evaluation import Evaluated, target_capacity
from tidegate.autoscaler.machines.history import DelayedScaleDowns, Recommendation, Scaling
from tidegate.autoscaler.machines.numbers import divide, is_nan, rounded
from tidegate.autoscaler.machines.samples import Vertex

INT_MAX = 2**31 - 1
"""Java's greatest int."""
_TWO_DIGITS = Decimal("0.01")


@dataclass(frozen=True, slots=True)
class Change:
    """The decision about one vertex. ``evaluated``: with the expected processing rate. ``remark``: for people, why the vertex is not scaled further."""

    new: int
    is_outside_bounds: bool
    evaluated: Evaluated
    remark: str = ""


def decide_change(
    settings: AutoscalerSettings,
    vertex: Vertex,
    evaluated: Evaluated,
    history: Sequence[Scaling],
    delayed: DelayedScaleDowns,
    restart_ms: int,
    now_ms: int,
) -> Change:
    """Decides the parallelism of a vertex; the current one for no scaling, or not yet."""
    current = evaluated.parallelism
    same = Change(current, False, evaluated)
    capacity = target_capacity(settings, evaluated, settings.utilization_target, restart_ms, with_restart=True)
    if is_nan(evaluated.true_processing_rate) or is_nan(capacity):
        return replace(same, remark="its rate is not known")
    new = new_parallelism(settings, vertex, _factor(settings, evaluated, capacity, history))
    if new == current:
        delayed.clear(vertex.vertex_id)
        return same
    expected = rounded(divide(evaluated.true_processing_rate, current) * new)
    change = Change(new, is_outside_bounds(evaluated), replace(evaluated, expected_processing_rate=expected))
    if new < current:
        return _after_interval(settings, vertex, change, delayed, now_ms)
    delayed.clear(vertex.vertex_id)
    remark = _why_ineffective(settings, evaluated, history)
    if remark and settings.detects_ineffective:
        return replace(same, remark=f"{remark}: it gets no more subtasks")
    return replace(change, remark=remark)


def new_parallelism(settings: AutoscalerSettings, vertex: Vertex, factor: float) -> int:
    """Returns the parallelism for a scale factor, within the configured bounds, which are extended to the current parallelism, and those of the key
    groups."""
    current = vertex.parallelism
    lower, upper = min(current, settings.min_parallelism), max(current, settings.max_parallelism)
    raw = factor * current
    wanted = INT_MAX if raw >= INT_MAX else math.ceil(raw)
    new = min(max(lower, wanted), min(vertex.max_parallelism, upper))
    return new if new == current else aligned(settings, vertex, new, upper)


def is_outside_bounds(of: Evaluated) -> bool:
    """Tells whether the true processing rate is outside of the thresholds."""
    return of.true_processing_rate < of.scale_up_threshold or of.true_processing_rate > of.scale_down_threshold


def observed_scalability(settings: AutoscalerSettings, history: Sequence[Scaling]) -> float:
    """Estimates which share of the expected rate additional subtasks have brought, at most 1: by least squares over the scaling history."""
    if len(history) < settings.scalability_observations or not history:
        return 1.0
    rates = [scaling.evaluated.true_processing_rate for scaling in history]
    smallest = min(reversed(history), key=lambda scaling: scaling.current)
    baseline = smallest.evaluated.true_processing_rate / smallest.current
    if not math.isfinite(baseline) or baseline == 0 or not all(math.isfinite(rate) for rate in rates):
        return 1.0  # Flink's ends in an exception where nothing was read meanwhile
    weighted = sum(scaling.current * rate for scaling, rate in zip(history, rates, strict=True))
    squares = sum(scaling.current**2 for scaling in history)
    found = max(settings.scalability_least, min(1.0, divide(weighted, squares * baseline)))
    return float(Decimal(repr(found)).quantize(_TWO_DIGITS, ROUND_CEILING))


def _factor(settings: AutoscalerSettings, of: Evaluated, capacity: float, history: Sequence[Scaling]) -> float:
    factor = divide(capacity, of.true_processing_rate)
    if settings.observes_scalability:
        factor /= observed_scalability(settings, history)
    if is_nan(factor):
        return factor
    return min(max(factor, 1 - settings.max_scale_down), 1 + settings.max_scale_up)


def _after_interval(
    settings: AutoscalerSettings, vertex: Vertex, change: Change, delayed: DelayedScaleDowns, now_ms: int
) -> Change:
    if settings.scale_down_interval_ms <= 0:
        return change
    from_ms = now_ms - settings.scale_down_interval_ms
    first_ms = delayed.recommend(vertex.vertex_id, Recommendation(now_ms, change.new, change.is_outside_bounds))
    if from_ms < first_ms:
        seconds = settings.scale_down_interval_ms // 1000
        return replace(
            change, new=vertex.parallelism, remark=f"{change.new} subtasks would do; that has to hold for {seconds} s"
        )
    greatest = delayed.greatest_since(vertex.vertex_id, from_ms)
    return replace(change, new=greatest.parallelism, is_outside_bounds=greatest.is_outside_bounds)


def _why_ineffective(settings: AutoscalerSettings, evaluated: Evaluated, history: Sequence[Scaling]) -> str:
    """Returns why the last scale-up was ineffective; empty when it was effective, or no scale-up."""
    if not history or not history[-1].is_up or history[-1].new != evaluated.parallelism:
        return ""
    before = history[-1].evaluated
    expected = before.expected_processing_rate - before.true_processing_rate
    actual = evaluated.true_processing_rate - before.true_processing_rate
    if divide(actual, expected) >= settings.effectiveness_threshold:
        return ""
    return f"its last change of parallelism had no effect (expected {expected:g} records per second more, and got {actual:g})"
