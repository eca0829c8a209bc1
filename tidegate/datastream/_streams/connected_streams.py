"""`ConnectedStreams`: two streams for one operator (PyFlink: ``pyflink.datastream.data_stream``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from tidegate.common.typeinfo import TypeInformation
from tidegate.datastream._streams.stream_types import TypeHint, type_of
from tidegate.functions import adapters
from tidegate.functions.interfaces import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
    KeySelector,
)
from tidegate.model.errors import InvalidJob
from tidegate.model.values import Key, Record, UserObject

if TYPE_CHECKING:
    from tidegate.datastream.data_stream import DataStream

__all__ = ["ConnectedStreams"]

Selector = Callable[[Record], Key] | KeySelector | str


class ConnectedStreams:
    """Two streams that one operator reads (PyFlink: ``ConnectedStreams``). It is keyed when both streams are, or after
    ``key_by``; then its functions share keyed state between the two inputs."""

    def __init__(self, stream1: DataStream, stream2: DataStream) -> None:
        if stream1.get_execution_environment() is not stream2.get_execution_environment():
            raise InvalidJob("the two streams belong to different environments")
        self.stream1 = stream1
        self.stream2 = stream2

    def key_by(
        self, key_selector1: Selector, key_selector2: Selector, key_type: TypeInformation | None = None
    ) -> ConnectedStreams:
        """Keys both streams, each by its own selector; the two keys must be of one type."""
        first = self.stream1.key_by(key_selector1, key_type=key_type)
        return ConnectedStreams(first, self.stream2.key_by(key_selector2, key_type=key_type))

    def map(self, func: CoMapFunction, output_type: TypeHint = None) -> DataStream:
        """Applies ``map1`` or ``map2`` of the function to each record, and emits what it returns. Raises ``InvalidJob``
        unless the function is a ``CoMapFunction``."""
        if not isinstance(func, CoMapFunction):
            raise InvalidJob(f"map on connected streams needs a CoMapFunction, not {func!r}")
        keyed = self._is_keyed()
        return self._connected("CoMap", adapters.KeyedCoMap(func) if keyed else adapters.CoMap(func), output_type)

    def flat_map(self, func: CoFlatMapFunction, output_type: TypeHint = None) -> DataStream:
        """Applies ``flat_map1`` or ``flat_map2`` of the function to each record, and emits every element of what it
        returns. Raises ``InvalidJob`` unless the function is a ``CoFlatMapFunction``."""
        if not isinstance(func, CoFlatMapFunction):
            raise InvalidJob(f"flat_map on connected streams needs a CoFlatMapFunction, not {func!r}")
        keyed = self._is_keyed()
        adapted = adapters.KeyedCoFlatMap(func) if keyed else adapters.CoFlatMap(func)
        return self._connected("CoFlatMap", adapted, output_type)

    def process(self, func: CoProcessFunction | KeyedCoProcessFunction, output_type: TypeHint = None) -> DataStream:
        """A ``KeyedCoProcessFunction`` needs keyed streams; a ``CoProcessFunction`` takes keyed ones too."""
        if isinstance(func, KeyedCoProcessFunction) and not self._is_keyed():
            raise InvalidJob("a KeyedCoProcessFunction needs key_by() on both connected streams")
        if not isinstance(func, (CoProcessFunction, KeyedCoProcessFunction)):
            wanted = "a KeyedCoProcessFunction or CoProcessFunction" if self._is_keyed() else "a CoProcessFunction"
            raise InvalidJob(f"process on these connected streams needs {wanted}, not {func!r}")
        return self._connected("Keyed Co-Process" if self._is_keyed() else "Co-Process", func, output_type)

    def _is_keyed(self) -> bool:
        return self.stream1._key() is not None and self.stream2._key() is not None

    def _connected(self, name: str, func: UserObject, output_type: TypeHint) -> DataStream:
        env = self.stream1.get_execution_environment()
        kind = type_of(output_type)
        keys = (self.stream1._key(), self.stream2._key())
        if self._is_keyed():
            inputs = (self.stream1._transformation, self.stream2._transformation)
            made = env.add_operator("keyed_co_process", name, {"func": func}, kind, inputs, *keys)
        else:
            inputs = (self.stream1._values_transformation(), self.stream2._values_transformation())
            made = env.add_operator("co_process", name, {"func": func}, kind, inputs)
        return self.stream1._behind(made)

    def __getattr__(self, name: str) -> NoReturn:
        """Only reached for names that are not there."""
        raise AttributeError(name if name.startswith("_") else f"ConnectedStreams.{name} is not available in tidegate")
