"""Functions of windows (PyFlink: ``pyflink.datastream.functions``), with a key and, behind ``window_all``, without."""

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
    """Sees all that a window holds for one key."""

    @abstractmethod
    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Iterable[OUT]: ...


class AllWindowFunction(Function, Generic[IN, OUT, W]):
    """Sees all that a window holds."""

    @abstractmethod
    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[OUT]: ...


class AllWindowContext(ABC, Generic[W]):
    """The context of a window that fires."""

    @abstractmethod
    def window(self) -> W: ...

    @abstractmethod
    def window_state(self) -> KeyedStateStore:
        """State of this key and window. Not for windows that merge."""

    @abstractmethod
    def global_state(self) -> KeyedStateStore:
        """State of this key, in all windows."""


class WindowContext(AllWindowContext[W]):
    @abstractmethod
    def current_processing_time(self) -> int: ...

    @abstractmethod
    def current_watermark(self) -> int: ...


class ProcessWindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Like WindowFunction, with a context."""

    Context: TypeAlias = WindowContext

    @abstractmethod
    def process(self, key: KEY, context: WindowContext[W], elements: Iterable[IN]) -> Iterable[OUT]: ...

    def clear(self, context: WindowContext[W]) -> None:
        """The window is purged: clear what was kept in ``window_state``."""


class ProcessAllWindowFunction(Function, Generic[IN, OUT, W]):
    """Like AllWindowFunction, with a context."""

    Context: TypeAlias = AllWindowContext

    @abstractmethod
    def process(self, context: AllWindowContext[W], elements: Iterable[IN]) -> Iterable[OUT]: ...

    def clear(self, context: AllWindowContext[W]) -> None:
        """The window is purged: clear what was kept in ``window_state``."""
