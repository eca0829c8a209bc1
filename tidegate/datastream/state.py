"""Keyed state, and its descriptors (PyFlink: ``pyflink.datastream.state``)."""

from __future__ import annotations

from tidegate.common.names.finding import elsewhere, finding
from tidegate.functions.state import (
    AggregatingState,
    AggregatingStateDescriptor,
    AppendingState,
    BroadcastState,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    MergingState,
    OperatorStateStore,
    ReadOnlyBroadcastState,
    ReducingState,
    ReducingStateDescriptor,
    State,
    StateDescriptor,
    StateTtlConfig,
    ValueState,
    ValueStateDescriptor,
)

__all__ = [
    "AggregatingState",
    "AggregatingStateDescriptor",
    "AppendingState",
    "BroadcastState",
    "ListState",
    "ListStateDescriptor",
    "MapState",
    "MapStateDescriptor",
    "MergingState",
    "OperatorStateStore",
    "ReadOnlyBroadcastState",
    "ReducingState",
    "ReducingStateDescriptor",
    "State",
    "StateDescriptor",
    "StateTtlConfig",
    "ValueState",
    "ValueStateDescriptor",
]

__getattr__ = finding(
    __name__,
    elsewhere("tidegate.common.time", "Duration Time"),
    elsewhere("tidegate.common.typeinfo", "TypeInformation Types"),
    elsewhere("tidegate.common.names.type_variables", "IN K OUT T V"),
)
