"""Operators with as many subtasks as their input, so that they are chained to it and rows keep their order. In Flink the operators of most nodes
have the parallelism of their input (``ExecNode.translateToPlan``)."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from tidegate.datastream._streams.operator_handle import OperatorHandle
from tidegate.datastream.data_stream import DataStream


def mapped(stream: DataStream, function: Callable[[pa.RecordBatch], pa.RecordBatch], schema: pa.Schema) -> DataStream:
    """The batches of a stream with ``function`` applied, in as many subtasks."""
    made = stream.map_batches(function, schema)
    follow_input(made)
    return made


def follow_input(handle: OperatorHandle) -> None:
    """Gives an operator the parallelism of its input, unless it gets one of its own."""
    handle._operator("").follows_input = True
