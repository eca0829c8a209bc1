"""Converts accumulators between model values and protobuf messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidegate.model.accumulators import SerializedAccumulator, UserAccumulator, merged
from tidegate.pb import common_pb2 as pb


def accumulators_to_pb(accumulators: Mapping[str, SerializedAccumulator]) -> dict[str, pb.Accumulator]:
    return {name: pb.Accumulator(type=one.type, value=one.value) for name, one in accumulators.items()}


def accumulators_from_pb(messages: Mapping[str, pb.Accumulator]) -> dict[str, SerializedAccumulator]:
    return {name: SerializedAccumulator(message.type, message.value) for name, message in messages.items()}


def merged_of(metrics: Iterable[pb.TaskMetrics | None]) -> dict[str, UserAccumulator]:
    """Merges the accumulators of all subtasks; ``None``: a subtask without a report so far."""
    return merged(accumulators_from_pb(one.accumulators) for one in metrics if one is not None)
