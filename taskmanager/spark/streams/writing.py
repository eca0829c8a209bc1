"""Serves a ``to_spark`` in the Spark driver: calls the user's function with the rows of one epoch, or with the DataFrame of a job that Spark runs
as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

from tidegate.connectors.spark.sink import SparkEpoch, SparkSink
from tidegate.connectors.spark.stream_link import Message, OpenOperator, RequestDone, WriteEpoch, WriteFrame
from tidegate.model.errors import InternalError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class WriteRequests:
    """Writes the epochs of a ``to_spark``. ``frame_of`` makes the DataFrame of an epoch's rows."""

    def __init__(self, sink: SparkSink, frame_of: Callable[[pa.Table], DataFrame]) -> None:
        self._sink = sink
        self._frame_of = frame_of

    def answer(self, message: Message, rest: bytearray) -> Message:
        """Answers a request. Raises the errors of Spark and of the user's function."""
        match message:
            case OpenOperator():
                return RequestDone()
            case WriteEpoch():
                with pa.ipc.open_stream(pa.py_buffer(rest)) as stream:
                    frame = self._frame_of(stream.read_all())
                self._sink.write(frame, SparkEpoch(message.application_id, message.epoch))
                return RequestDone()
            case _:
                raise InternalError(
                    f"the Spark driver got a {type(message).__name__} for a to_spark sink, which it does not know"
                )

    def close(self) -> None:
        """Does nothing: no resources are held."""


class FrameRequests:
    """Writes a job that Spark runs as a whole. ``frame`` makes its DataFrame."""

    def __init__(self, sink: SparkSink, frame: Callable[[], DataFrame]) -> None:
        self._sink = sink
        self._frame = frame

    def answer(self, message: Message, rest: bytearray) -> Message:
        """Answers a request. Raises the errors of Spark and of the user's functions."""
        match message:
            case OpenOperator():
                return RequestDone()
            case WriteFrame():
                self._sink.write(self._frame(), SparkEpoch(message.application_id, message.epoch))
                return RequestDone()
            case _:
                raise InternalError(
                    f"the Spark driver got a {type(message).__name__} for a job that runs as one Spark query, which it does not know"
                )

    def close(self) -> None:
        """Does nothing: no resources are held."""
