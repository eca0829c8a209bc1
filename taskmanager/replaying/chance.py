"""Finds calls of user code whose results a recording does not contain: those of the system clock and of random generators."""

from __future__ import annotations

import gc
import os
import random
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import tidegate

_OURS = os.path.dirname(os.path.abspath(str(tidegate.__file__))) + os.sep
_LIBRARY = sysconfig.get_paths()["stdlib"] + os.sep
_PASSED_ON_BY = tuple(_LIBRARY + name for name in ("random.py", "uuid.py", "secrets.py", "tempfile.py"))
"""Modules of Python's library whose functions read the clock or random numbers for their callers."""
_CLOCKS = {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"}
_DATES = {"now", "today", "utcnow"}
_CHANCE = {"random", "getrandbits", "gauss"}
_GLOBAL = getattr(random.random, "__self__", None)
"""The generator that the functions of ``random`` use, which is randomly seeded."""


class AskedForChance:
    """Collects the places where user code called the clock or random generators, each once, as texts."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self._seen: set[tuple[str, int, str]] = set()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watches the thread's calls within the context; does nothing while a debugger or a profiler is active."""
        if sys.getprofile() is not None or sys.gettrace() is not None:
            yield
            return
        sys.setprofile(self._look)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _look(self, frame: FrameType, event: str, called: Any) -> None:
        if event != "c_call":
            return
        name = _name_of(called)
        caller = _caller(frame) if name else None
        if caller is None:
            return
        code = caller.f_code
        if any(code is getattr(callback, "__code__", None) for callback in gc.callbacks):
            return  # a library's, which runs wherever memory is collected
        where = (code.co_filename, caller.f_lineno, name)
        if where not in self._seen:
            self._seen.add(where)
            self.found.append(f"{code.co_filename}:{caller.f_lineno}, in {code.co_qualname}, calls {name}")


def _name_of(called: Any) -> str:
    """Returns the name of a called function of the clock or of random numbers; empty for any other function."""
    name, owner = getattr(called, "__name__", ""), getattr(called, "__self__", None)
    if name in _CLOCKS and getattr(owner, "__name__", "") == "time":
        return f"time.{name}()"
    if name in _DATES and isinstance(owner, type) and owner.__module__ == "datetime":
        return f"{owner.__name__}.{name}()"
    if name == "urandom":
        return "os.urandom()"
    if name in _CHANCE and owner is _GLOBAL:
        return "random"
    return ""


def _caller(frame: FrameType | None) -> FrameType | None:
    """Returns the frame of user code that made a call; ``None`` if other code made it."""
    while frame is not None and frame.f_code.co_filename in _PASSED_ON_BY:
        frame = frame.f_back
    if frame is None:
        return None
    return frame if is_of_user(frame) else None


def is_of_user(frame: FrameType) -> bool:
    """Tells whether a frame's code is user code, neither ours nor of Python's library."""
    return not frame.f_code.co_filename.startswith((_OURS, _LIBRARY, "<frozen", "<string>"))
