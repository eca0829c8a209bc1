"""Aligns parallelisms with key groups and partitions (Flink: ``ParallelismAligner.java``, ``BuiltInAlignmentMode.java``).

Ten key groups on four subtasks are 3, 3, 2 and 2: no faster than on five with 2 each. So a number is looked for, upwards from the one that was
found, with which the busiest subtask has fewer, or all have the same.
"""

from __future__ import annotations

from tidegate.autoscaler.machines.autoscaler_settings import AutoscalerSettings
from tidegate.autoscaler.machines.samples import Vertex
from tidegate.model.options import AlignmentMode

HASH = "HASH"


def aligned(settings: AutoscalerSettings, vertex: Vertex, target: int, upper: int) -> int:
    """Returns ``target`` or a greater parallelism that divides key groups or partitions better: at most ``upper`` when scaling up, at most the current
    one when scaling down."""
    keyed = HASH in (strategy.upper() for strategy in vertex.inputs.values())
    if settings.alignment is AlignmentMode.OFF or not (vertex.partitions > 0 or keyed):
        return target
    parts = vertex.partitions if vertex.partitions > 0 else vertex.max_parallelism
    most = min(parts, vertex.max_parallelism, upper)
    end = most if target > vertex.parallelism else min(vertex.parallelism, most)
    for candidate in range(target, end + 1):
        is_lighter = parts // candidate < parts // target and settings.alignment is AlignmentMode.BALANCED
        if parts % candidate == 0 or is_lighter:
            return candidate
    return target
