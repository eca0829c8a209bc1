"""Operators that have the parallelism of their input, so that they are chained to it and rows keep their order (Flink: ``ExecNode.translateToPlan``)."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from tidegate.datastream._streams.operator_handle import OperatorHandle
from tidegate.datastream.data_stream import DataStream


def mapped(stream: DataStream, function: Callable[[pa.RecordBatch], pa.RecordBatch], schema: pa.Schema) -> DataStream:
    """Applies ``function`` to the batches of a stream, with the parallelism of the stream."""
    made = stream.map_batches(function, schema)
    follow_input(made)
    return made


def follow_input(handle: OperatorHandle) -> None:
    """Gives an operator the parallelism of its input, unless it gets one of its own."""
    handle._operator("").follows_input = True
