"""Evaluates the metric window: the true processing rate of a vertex and its target rate (Flink: ``ScalingMetricEvaluator.java``).

true processing rate = rate of its input / busy part of the time, or the rate that was seen while it read as fast as it could
target data rate     = of a source: what it reads, and what its lag grows by; of another: that of its inputs times what goes out of them for each
                       record in
catch-up data rate   = lag / job.autoscaler.catch-up.duration
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tidegate.autoscaler.machines.autoscaler_settings import AutoscalerSettings
from tidegate.autoscaler.machines.numbers import divide, is_nan, rounded, whole
from tidegate.autoscaler.machines.samples import MetricWindow, Topology, Vertex, average
from tidegate.model.options import MetricAggregator


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The evaluated metrics of one vertex, rates in records per second."""

    parallelism: int
    max_parallelism: int
    partitions: int
    target_data_rate: float
    catch_up_data_rate: float
    true_processing_rate: float
    load: float
    lag: float
    scale_up_threshold: float = math.nan
    """The true processing rate below which the vertex is scaled up."""
    scale_down_threshold: float = math.nan
    """The true processing rate above which the vertex is scaled down."""
    expected_processing_rate: float = math.nan
    """The true processing rate that was expected of the vertex's last scaling."""


@dataclass(frozen=True, slots=True)
class Pressure:
    """The memory pressure on the TaskManagers."""

    gc: float
    heap: float


def evaluate(
    settings: AutoscalerSettings, topology: Topology, window: MetricWindow, restart_ms: int
) -> Mapping[str, Evaluated]:
    """Evaluates all vertices; returns the results by vertex. Raises ``ValueError`` when the rate of a source is unknown."""
    has_backlog = is_processing_backlog(settings, topology, window)
    found: dict[str, Evaluated] = {}
    for vertex in topology.vertices:
        found[vertex.vertex_id] = _evaluated(settings, topology, window, vertex, found, has_backlog, restart_ms)
    return found


def pressure(window: MetricWindow) -> Pressure:
    """Returns the garbage collection of the last sample, and the average heap usage of the window."""
    return Pressure(
        rounded(window.last.cluster.gc_pressure),
        rounded(average(sample.cluster.heap_usage for sample in window.samples())),
    )


def is_processing_backlog(settings: AutoscalerSettings, topology: Topology, window: MetricWindow) -> bool:
    """Tells whether the lag of a source exceeds ``job.autoscaler.backlog-processing.lag-threshold``."""
    for vertex in topology.vertices:
        if vertex.is_source:
            lag = window.last.vertices[vertex.vertex_id].lag
            seconds = divide(0.0 if is_nan(lag) else lag, window.rate(vertex.vertex_id, "records_in"))
            if seconds > settings.backlog_lag_ms // 1000:
                return True
    return False


def target_capacity(
    settings: AutoscalerSettings, of: Evaluated, utilization: float, restart_ms: int, *, with_restart: bool
) -> float:
    """Returns the processing rate that is needed at a utilization for the input, the lag, and the input during a restart (Flink:
    ``AutoScalerUtils.getTargetProcessingCapacity``)."""
    if is_nan(of.catch_up_data_rate) or is_nan(of.target_data_rate):
        return math.nan
    utilization = min(1.0, max(0.0, utilization))
    if utilization == 0:
        return math.inf
    catch_up_s = settings.catch_up_ms // 1000
    restart_rate = of.target_data_rate * (restart_ms // 1000) / catch_up_s if with_restart and catch_up_s else 0.0
    return whole(of.catch_up_data_rate + restart_rate + of.target_data_rate / utilization)


def edge_output_ratio(topology: Topology, window: MetricWindow, source: str, target: str) -> float:
    """Returns how many records an edge carries for each record that its producer reads."""
    input_rate = window.rate(source, "records_in")
    if not input_rate > 0:
        return 0.0
    output_rate = edge_data_rate(topology, window, source, target)
    return output_rate / input_rate if output_rate > 0 else 0.0


def edge_data_rate(topology: Topology, window: MetricWindow, source: str, target: str) -> float:
    """Returns the records per second of one edge. Edges have no counter, so it is the consumer's input without that of its other inputs, as far as that
    is known."""
    inputs = topology.by_id[target].inputs
    if len(inputs) == 1:
        return window.rate(target, "records_in")
    others = 0.0
    for other in inputs:
        if other != source:
            if len(topology.outputs[other]) != 1:
                return window.rate(source, "records_out")
            others += window.rate(other, "records_out")
    if is_nan(others):
        return window.rate(source, "records_out")
    return window.rate(target, "records_in") - others


def true_processing_rate(
    settings: AutoscalerSettings, window: MetricWindow, vertex_id: str, busy_ms: float, input_rate: float
) -> float:
    """Returns the true processing rate by busy time, or the observed one where that is too high by comparison."""
    by_busy_time = math.inf if input_rate == 0 else divide(input_rate, busy_ms / 1000)
    observed = window.average(vertex_id, "observed_rate", settings.observed_min_observations)
    if is_nan(observed):
        return by_busy_time
    if not math.isfinite(by_busy_time) or by_busy_time > observed * (1 + settings.observed_switch_threshold):
        return observed
    return by_busy_time


def _evaluated(
    settings: AutoscalerSettings,
    topology: Topology,
    window: MetricWindow,
    vertex: Vertex,
    before: Mapping[str, Evaluated],
    has_backlog: bool,
    restart_ms: int,
) -> Evaluated:
    name, latest = vertex.vertex_id, window.last.vertices[vertex.vertex_id]
    target, catch_up = _data_rates(settings, topology, window, vertex, before)
    if settings.busy_aggregator is MetricAggregator.AVG:
        busy_ms = window.rate(name, "accumulated_busy_ms") / vertex.parallelism
        input_rate = window.rate(name, "records_in")
    else:
        busy_ms = window.average(name, "load") * 1000
        input_rate = window.average(name, "records_in_per_second")
        if not math.isfinite(input_rate):
            input_rate = window.rate(name, "records_in")
    found = Evaluated(
        parallelism=vertex.parallelism,
        max_parallelism=vertex.max_parallelism,
        partitions=vertex.partitions,
        target_data_rate=rounded(target),
        catch_up_data_rate=rounded(catch_up),
        true_processing_rate=rounded(true_processing_rate(settings, window, name, busy_ms, input_rate)),
        load=rounded(busy_ms / 1000),
        lag=latest.lag,
    )
    upper, lower = (1.0, 0.0) if has_backlog else (settings.utilization_max, settings.utilization_min)
    return _with_thresholds(settings, found, upper, lower, restart_ms)


def _with_thresholds(
    settings: AutoscalerSettings, of: Evaluated, upper: float, lower: float, restart_ms: int
) -> Evaluated:
    """Adds the thresholds of scaling. While a backlog is processed, all subtasks may be busy all the time, and none counts as too idle."""
    return replace(
        of,
        scale_up_threshold=rounded(target_capacity(settings, of, upper, restart_ms, with_restart=False)),
        scale_down_threshold=rounded(target_capacity(settings, of, lower, restart_ms, with_restart=True)),
    )


def _data_rates(
    settings: AutoscalerSettings,
    topology: Topology,
    window: MetricWindow,
    vertex: Vertex,
    before: Mapping[str, Evaluated],
) -> tuple[float, float]:
    """Returns the rate of a vertex's input, and the additional rate that it needs to catch up with the lag of its sources."""
    name = vertex.vertex_id
    if vertex.is_source:
        grows = window.rate(name, "records_in") + window.rate(name, "lag")
        if is_nan(grows):
            raise ValueError(
                f"source {vertex.name or name} does not report the rate at which it reads, so its job cannot be scaled"
            )
        lag, catch_up_s = window.last.vertices[name].lag, settings.catch_up_ms // 1000
        return max(0.0, grows), 0.0 if catch_up_s == 0 or is_nan(lag) else lag / catch_up_s
    target = catch_up = 0.0
    for source in vertex.inputs:
        ratio = edge_output_ratio(topology, window, source, name)
        target += before[source].target_data_rate * ratio
        catch_up += before[source].catch_up_data_rate * ratio
    return target, catch_up
