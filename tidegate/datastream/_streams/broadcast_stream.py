"""`BroadcastStream` and `BroadcastConnectedStream`: a stream that every subtask of an operator sees, beside one that is dealt
to them (PyFlink: ``pyflink.datastream.data_stream``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidegate.datastream._streams.stream_types import TypeHint, type_of
from tidegate.functions.broadcast_functions import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from tidegate.functions.state import MapStateDescriptor
from tidegate.model.errors import InvalidJob
from tidegate.model.values import Key, Record

if TYPE_CHECKING:
    from tidegate.datastream.data_stream import DataStream

__all__ = ["BroadcastConnectedStream", "BroadcastStream"]


class BroadcastStream:
    """All that it can do is to be connected to another stream."""

    def __init__(self, input_stream: DataStream, broadcast_state_descriptors: Sequence[MapStateDescriptor]) -> None:
        for descriptor in broadcast_state_descriptors:
            if not isinstance(descriptor, MapStateDescriptor):
                raise InvalidJob(f"broadcast state needs a MapStateDescriptor, not {descriptor!r}")
        names = [descriptor.name for descriptor in broadcast_state_descriptors]
        if len(set(names)) != len(names):
            raise InvalidJob(f"two broadcast states have the same name: {names}")
        self.input_stream = input_stream
        self.broadcast_state_descriptors = list(broadcast_state_descriptors)


class BroadcastConnectedStream:
    """``process`` with a BroadcastProcessFunction, or, beside a KeyedStream, a KeyedBroadcastProcessFunction."""

    def __init__(
        self,
        non_broadcast_stream: DataStream,
        broadcast_stream: BroadcastStream,
        broadcast_state_descriptors: Sequence[MapStateDescriptor],
    ) -> None:
        if (
            non_broadcast_stream.get_execution_environment()
            is not broadcast_stream.input_stream.get_execution_environment()
        ):
            raise InvalidJob("the two streams belong to different environments")
        self.non_broadcast_stream = non_broadcast_stream
        self.broadcast_stream = broadcast_stream
        self.broadcast_state_descriptors = list(broadcast_state_descriptors)

    def process(
        self,
        func: BroadcastProcessFunction[Record, Record, Record]
        | KeyedBroadcastProcessFunction[Key, Record, Record, Record],
        output_type: TypeHint = None,
    ) -> DataStream:
        """Applies a function to both streams; its type must fit whether the other stream is keyed. Raises
        ``InvalidJob`` otherwise."""
        stream = self.non_broadcast_stream
        key = stream._key()
        is_keyed = key is not None
        wanted = KeyedBroadcastProcessFunction if is_keyed else BroadcastProcessFunction
        if not isinstance(func, wanted):
            where = "keyed" if is_keyed else "non-keyed"
            raise InvalidJob(f"process beside a {where} stream needs a {wanted.__name__}, not {func!r}")
        env = stream.get_execution_environment()
        options = {"func": func, "states": self.broadcast_state_descriptors}
        inputs = (
            stream._transformation if is_keyed else stream._values_transformation(),
            self.broadcast_stream.input_stream._transformation,
        )
        made = env.add_operator(
            "keyed_broadcast_process" if is_keyed else "broadcast_process",
            "Keyed-Co-Process-Broadcast" if is_keyed else "Co-Process-Broadcast",
            options,
            type_of(output_type),
            inputs,
            key,
        )
        return stream._behind(made)
