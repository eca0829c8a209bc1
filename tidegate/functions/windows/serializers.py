"""Windows as bytes, as in PyFlink. State does not need them: there a window is columns (``docs/state-format.md``)."""

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
    """Start and end, 8 bytes each, the highest first."""

    def serialize(self, element: TimeWindow, stream: BytesIO) -> None:
        stream.write(_TWO_LONGS.pack(element.start, element.end))

    def deserialize(self, stream: BytesIO) -> TimeWindow:
        return TimeWindow(*_TWO_LONGS.unpack(stream.read(16)))


class CountWindowSerializer(TypeSerializer[CountWindow]):
    """The id, 8 bytes."""

    def serialize(self, element: CountWindow, stream: BytesIO) -> None:
        stream.write(_LONG.pack(element.id))

    def deserialize(self, stream: BytesIO) -> CountWindow:
        return CountWindow(_LONG.unpack(stream.read(8))[0])


class GlobalWindowSerializer(TypeSerializer[GlobalWindow]):
    """8 bytes of 0."""

    def serialize(self, element: GlobalWindow, stream: BytesIO) -> None:
        stream.write(bytes(8))

    def deserialize(self, stream: BytesIO) -> GlobalWindow:
        stream.read(8)
        return GlobalWindow.get()


class PickledWindowSerializer(TypeSerializer[AssignedWindow]):
    """Windows of an assigner that says nothing of its own."""

    def serialize(self, element: Record, stream: BytesIO) -> None:
        pickle.dump(element, stream, protocol=5)

    def deserialize(self, stream: BytesIO) -> AssignedWindow:
        return pickle.load(stream)
