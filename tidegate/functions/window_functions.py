"""Window functions (PyFlink: ``pyflink.datastream.functions``), for keyed windows and for ``window_all``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic, TypeAlias, TypeVar

from tidegate.functions.base import Function, KeyedStateStore

IN = TypeVar("IN")
OUT = TypeVar("OUT")
KEY = TypeVar("KEY")
W = TypeVar("W")


class WindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Processes all records of a window of one key (PyFlink: ``WindowFunction``)."""

    @abstractmethod
    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Iterable[OUT]:
        """Yields or returns what is emitted for a key and window."""


class AllWindowFunction(Function, Generic[IN, OUT, W]):
    """Processes all records of a window of ``window_all`` (PyFlink: ``AllWindowFunction``)."""

    @abstractmethod
    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[OUT]:
        """Yields or returns what is emitted for a window."""


class AllWindowContext(ABC, Generic[W]):
    """The context of a window that fires."""

    @abstractmethod
    def window(self) -> W:
        """Returns the window that fires."""

    @abstractmethod
    def window_state(self) -> KeyedStateStore:
        """Returns the state of this key and window. Not available for merging windows."""

    @abstractmethod
    def global_state(self) -> KeyedStateStore:
        """Returns the state of this key, shared by all windows."""


class WindowContext(AllWindowContext[W]):
    """The context of a window that fires on a KeyedStream: the window, time and state."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """Returns the clock's time in milliseconds since the epoch."""

    @abstractmethod
    def current_watermark(self) -> int:
        """Returns the operator's watermark in milliseconds since the epoch."""


class ProcessWindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Processes all records of a window of one key, with a context (PyFlink: ``ProcessWindowFunction``)."""

    Context: TypeAlias = WindowContext

    @abstractmethod
    def process(self, key: KEY, context: WindowContext[W], elements: Iterable[IN]) -> Iterable[OUT]:
        """Yields or returns what is emitted for a key and window. After ``reduce`` or ``aggregate``, ``elements`` has only their result."""

    def clear(self, context: WindowContext[W]) -> None:
        """Clears ``window_state`` when the window is purged."""


class ProcessAllWindowFunction(Function, Generic[IN, OUT, W]):
    """Processes all records of a window of ``window_all``, with a context (PyFlink: ``ProcessAllWindowFunction``)."""

    Context: TypeAlias = AllWindowContext

    @abstractmethod
    def process(self, context: AllWindowContext[W], elements: Iterable[IN]) -> Iterable[OUT]:
        """Yields or returns what is emitted for a window."""

    def clear(self, context: AllWindowContext[W]) -> None:
        """Clears ``window_state`` when the window is purged."""
