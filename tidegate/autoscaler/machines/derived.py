"""Derives the autoscaler's VertexMetrics from the metrics of Flink's REST API (Flink: ``ScalingMetrics.java``)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tidegate.autoscaler.machines.autoscaler_settings import AutoscalerSettings
from tidegate.autoscaler.machines.numbers import is_nan, rounded
from tidegate.autoscaler.machines.samples import GlobalMetrics, VertexMetrics

BUSY, BACKPRESSURED, IN_PER_SECOND = "busyTimeMsPerSecond", "backPressuredTimeMsPerSecond", "numRecordsInPerSecond"
SOURCE, PENDING = "Source__", ".pendingRecords"
_OF_SOURCES = (".numRecordsIn", ".numRecordsOut", ".numRecordsInPerSecond", ".numRecordsOutPerSecond")
GC_TIME = "Status.JVM.GarbageCollector.All.TimeMsPerSecond"
HEAP_USED, HEAP_MAX = "Status.JVM.Memory.Heap.Used", "Status.JVM.Memory.Heap.Max"

Aggregates = Mapping[str, float]
"""The ``min``, ``max``, ``avg`` and ``sum`` of a metric over the subtasks of a vertex, or over TaskManagers."""


@dataclass(frozen=True, slots=True)
class Read:
    """The metrics of a vertex from REST. ``records_in``, ``records_out``, ``busy_ms``: since the start of its attempts, summed over them."""

    records_in: float
    records_out: float
    busy_ms: float
    aggregates: Mapping[str, Aggregates]


def wanted_names(names: Sequence[str], *, is_source: bool) -> list[str]:
    """Returns those of a vertex's metrics that the autoscaler needs."""
    wanted = [name for name in names if name in (BUSY, BACKPRESSURED, IN_PER_SECOND)]
    if is_source:
        wanted += [name for name in names if name.endswith(PENDING)]
        wanted += [name for name in names if name.startswith(SOURCE) and name.endswith(_OF_SOURCES)]
    return wanted


def vertex_metrics(
    settings: AutoscalerSettings, read: Read, *, is_source: bool, is_finished: bool, observed: Callable[[], float]
) -> VertexMetrics:
    """Derives the metrics of a vertex. ``observed``: the average of its observed true processing rates; NaN: none."""
    if is_finished:
        return VertexMetrics(read.records_in, read.records_out, load=0.0, accumulated_busy_ms=read.busy_ms, lag=0.0)
    busy = read.aggregates.get(BUSY, {}).get(settings.busy_aggregator.value.lower(), math.nan)
    load = max(0.0, busy) / 1000 if math.isfinite(busy) else math.nan
    if not is_source:
        return VertexMetrics(
            records_in=read.records_in,
            records_out=read.records_out,
            records_in_per_second=rounded(read.aggregates.get(IN_PER_SECOND, {}).get("sum", math.nan)),
            load=rounded(load),
            accumulated_busy_ms=read.busy_ms,
        )
    lag = sum(found.get("sum", 0.0) for name, found in read.aggregates.items() if name.endswith(PENDING))
    rate = _of_source(read, ".numRecordsInPerSecond", ".numRecordsOutPerSecond", math.nan)
    noted = math.nan if is_nan(rate) else _observed_rate(settings, read, rate, lag)
    return VertexMetrics(
        records_in=rounded(_of_source(read, ".numRecordsIn", ".numRecordsOut", read.records_in)),
        records_out=read.records_out,
        load=rounded(load),
        accumulated_busy_ms=read.busy_ms,
        lag=rounded(lag),
        observed_rate=rounded(observed() if is_nan(noted) and not is_nan(rate) else noted),
    )


def global_metrics(aggregates: Mapping[str, Aggregates]) -> GlobalMetrics:
    """Returns the greatest values over all TaskManagers."""
    gc, used, most = (aggregates.get(name, {}).get("max", math.nan) for name in (GC_TIME, HEAP_USED, HEAP_MAX))
    return GlobalMetrics(gc / 1000, used / most if most > 0 else math.nan)


def _of_source(read: Read, entering: str, leaving: str, own: float) -> float:
    """Returns the rate of a source: of the records that it reads, or of those that it emits where it does not count the former."""
    found = own
    for suffix in (entering, leaving):
        if is_nan(found) or found == 0:
            sums = [of["sum"] for name, of in read.aggregates.items() if name.endswith(suffix) and "sum" in of]
            found = sum(sums) if sums else found
    return max(0.0, found) if not is_nan(found) else found


def _observed_rate(settings: AutoscalerSettings, read: Read, rate: float, lag: float) -> float:
    """Returns the rate of a source without the time in which it was backpressured, while its lag is large enough; else NaN."""
    if rate == 0:
        return math.inf
    if lag < settings.observed_lag_ms // 1000 * rate:
        return math.nan
    waits_ms = read.aggregates.get(BACKPRESSURED, {}).get("avg", math.nan)
    return math.nan if is_nan(waits_ms) or waits_ms >= 1000 else rate / (1 - waits_ms / 1000)
