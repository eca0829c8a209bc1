"""Converts accumulators between model values and protobuf messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidegate.model.accumulators import Told, UserAccumulator, merged
from tidegate.pb import common_pb2 as pb


def accumulators_to_pb(accumulators: Mapping[str, Told]) -> dict[str, pb.Accumulator]:
    return {name: pb.Accumulator(type=told.type, value=told.value) for name, told in accumulators.items()}


def accumulators_from_pb(messages: Mapping[str, pb.Accumulator]) -> dict[str, Told]:
    return {name: Told(message.type, message.value) for name, message in messages.items()}


def merged_of(metrics: Iterable[pb.TaskMetrics | None]) -> dict[str, UserAccumulator]:
    """Merges the accumulators of all subtasks; ``None``: a subtask without a report so far."""
    return merged(accumulators_from_pb(told.accumulators) for told in metrics if told is not None)
