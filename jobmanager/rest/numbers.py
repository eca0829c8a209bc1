"""Numbers as Flink writes them: infinite and NaN as texts, percentiles as in commons-math.

``Infinity`` and ``NaN`` are no JSON numbers; Flink's mapper quotes them, and its client reads them back.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tidegate.model.stats_summary import PERCENTS, StatsSummary, percentile
from tidegate.model.values import JsonObject

NOT_A_NUMBER = "NaN"
_SUMMARY = dict(zip(("p50", "p90", "p95", "p99", "p999"), PERCENTS, strict=True))
_AGGREGATE = {"median": 50.0, "p25": 25.0, "p75": 75.0, "p95": 95.0}


def number(value: float) -> float | str:
    """Returns a float as a JSON value; infinite and NaN as texts."""
    if math.isnan(value):
        return NOT_A_NUMBER
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return float(value)


def summary(values: Sequence[int], *, percentiles: bool = True) -> JsonObject:
    """Returns Flink's ``StatsSummaryDto``. Percentiles are NaN without samples, or when ``percentiles`` is false."""
    if not values:
        return {"min": 0, "max": 0, "avg": 0, **dict.fromkeys(_SUMMARY, NOT_A_NUMBER)}
    ordered = sorted(values)
    ranks: JsonObject = {
        name: number(percentile(ordered, percent)) if percentiles else NOT_A_NUMBER
        for name, percent in _SUMMARY.items()
    }
    return {"min": ordered[0], "max": ordered[-1], "avg": sum(ordered) // len(ordered), **ranks}


def distribution(found: StatsSummary) -> JsonObject:
    """Returns the JSON of statistics that were collected elsewhere."""
    if not found.count:
        return summary(())
    ranks = {name: number(rank) for name, rank in zip(_SUMMARY, found.ranks, strict=True)}
    return {"min": found.least, "max": found.greatest, "avg": found.total // found.count, **ranks}


def aggregate(values: Sequence[int]) -> JsonObject:
    """Returns Flink's ``MetricStatistics`` of a non-empty sequence: whole numbers."""
    ordered = sorted(values)
    ranks = {name: int(percentile(ordered, percent)) for name, percent in _AGGREGATE.items()}
    total = sum(ordered)
    return {"min": ordered[0], "max": ordered[-1], "avg": total // len(ordered), "sum": total, **ranks}


def skew_percent(values: Sequence[float]) -> float:
    """Returns the mean absolute deviation divided by the mean, in percent, at most 100; 0 for a mean of 0."""
    mean = sum(values) / len(values)
    if mean == 0:
        return 0.0
    return min(100.0, 100 * sum(abs(value - mean) for value in values) / len(values) / abs(mean))
