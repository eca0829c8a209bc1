"""Serializers of windows, as in PyFlink. State does not need them: there a window is columns (``docs/state-format.md``)."""

from __future__ import annotations

import pickle
import struct
from io import BytesIO

from tidegate.common.serializer import TypeSerializer
from tidegate.functions.windows.windows import CountWindow, GlobalWindow, TimeWindow
from tidegate.model.values import AssignedWindow, Record

_LONG = struct.Struct(">q")
_TWO_LONGS = struct.Struct(">qq")


class TimeWindowSerializer(TypeSerializer[TimeWindow]):
    """Serializes start and end, 8 bytes each, big-endian."""

    def serialize(self, element: TimeWindow, stream: BytesIO) -> None:
        stream.write(_TWO_LONGS.pack(element.start, element.end))

    def deserialize(self, stream: BytesIO) -> TimeWindow:
        return TimeWindow(*_TWO_LONGS.unpack(stream.read(16)))


class CountWindowSerializer(TypeSerializer[CountWindow]):
    """Serializes the id, 8 bytes, big-endian."""

    def serialize(self, element: CountWindow, stream: BytesIO) -> None:
        stream.write(_LONG.pack(element.id))

    def deserialize(self, stream: BytesIO) -> CountWindow:
        return CountWindow(_LONG.unpack(stream.read(8))[0])


class GlobalWindowSerializer(TypeSerializer[GlobalWindow]):
    """Serializes a global window as 8 zero bytes."""

    def serialize(self, element: GlobalWindow, stream: BytesIO) -> None:
        stream.write(bytes(8))

    def deserialize(self, stream: BytesIO) -> GlobalWindow:
        stream.read(8)
        return GlobalWindow.get()


class PickledWindowSerializer(TypeSerializer[AssignedWindow]):
    """Pickles windows, for assigners without a serializer of their own."""

    def serialize(self, element: Record, stream: BytesIO) -> None:
        pickle.dump(element, stream, protocol=5)

    def deserialize(self, stream: BytesIO) -> AssignedWindow:
        return pickle.load(stream)
