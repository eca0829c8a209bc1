"""Samples the thread of a subtask every few milliseconds and adds up the time by kind of work.

    innermost frame ─▶ library? look at its caller ─▶ ours: the kind of work of that file · any other: user function

There is no cost per record, and no sampling unless ``tidegate.profile`` is on. The results are milliseconds under ``profile.<kind>``, among the subtask's other
metrics.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from types import CodeType, FrameType

import tidegate
from tidegate.taskmanager.runtime.measuring.subtask_metrics import TaskCounters
from tidegate.wire.task_metrics import PROFILE

INTERVAL_S = 0.005
"""Seconds between two samples: Python's switch interval, below which a sample mostly finds the same frame. Chosen, not measured."""

USER, CONVERSION, SERIALISATION, EXCHANGE, KEYS = (
    "user function",
    "conversion",
    "serialisation",
    "exchange",
    "key hashing",
)
STATE, SNAPSHOT, CONNECTOR, OPERATOR, RUNTIME = "state", "snapshot", "source and sink", "operators", "runtime"
BACKPRESSURED, IDLE, WAITS = "backpressured", "idle", "waits"
KINDS = (
    USER, CONVERSION, SERIALISATION, EXCHANGE, KEYS, STATE, SNAPSHOT, CONNECTOR, OPERATOR, RUNTIME, BACKPRESSURED, IDLE,
)  # fmt: skip

_PLACES = (
    ("tidegate/taskmanager/runtime/mailbox", WAITS),
    ("tidegate/taskmanager/runtime/conversion", CONVERSION),
    ("tidegate/taskmanager/runtime/checkpointing/", SNAPSHOT),
    ("tidegate/taskmanager/runtime/checkpointing/replay", RUNTIME),
    ("tidegate/taskmanager/runtime/", RUNTIME),
    ("tidegate/taskmanager/exchange/", EXCHANGE),
    ("tidegate/taskmanager/state/", STATE),
    ("tidegate/taskmanager/keyed_state/", STATE),
    ("tidegate/taskmanager/windows/", OPERATOR),
    ("tidegate/taskmanager/windows/state/", STATE),
    ("tidegate/taskmanager/operators/rows/selectors", KEYS),
    ("tidegate/taskmanager/operators/sources/", CONNECTOR),
    ("tidegate/taskmanager/operators/sources/watermarks", OPERATOR),
    ("tidegate/taskmanager/operators/sinks/", CONNECTOR),
    ("tidegate/taskmanager/operators/", OPERATOR),
    ("tidegate/columnar/keys/", KEYS),
    ("tidegate/columnar/table/", STATE),
    ("tidegate/columnar/runs/", STATE),
    ("tidegate/records/keys", KEYS),
    ("tidegate/records/", CONVERSION),
    ("tidegate/wire/", SERIALISATION),
    ("tidegate/store/", SNAPSHOT),
    ("tidegate/connectors/", CONNECTOR),
    ("tidegate/", OPERATOR),
    ("tidegate/taskmanager/", RUNTIME),
)
"""Kinds of work by place of the file. The longest prefix that fits counts."""
_HOME = os.path.dirname(os.path.dirname(os.path.abspath(tidegate.__file__))) + os.sep
_LIBRARIES = tuple(
    {os.path.abspath(root) + os.sep for root in (sys.prefix, sys.base_prefix, os.path.dirname(os.__file__))}
)


class Profiler:
    """Samples the thread ``ident``. ``is_congested()``: whether the subtask waits for space in its outputs."""

    def __init__(self, ident: int, counters: TaskCounters, is_congested: Callable[[], bool]) -> None:
        self._ident = ident
        self._user = counters.user
        self._is_congested = is_congested
        self._kinds: dict[CodeType, str | None] = {}
        self._over = threading.Event()
        self._user.update({PROFILE + kind: 0.0 for kind in KINDS})  # all of them: the dictionary does not grow behind
        self._thread = threading.Thread(target=self._run, name="profiler", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def look(self, frame: FrameType | None, passed_ms: float) -> None:
        """Counts the time that passed for the kind of work that ``frame`` belongs to."""
        kind = self._kind_of(frame)
        if kind == WAITS:
            kind = BACKPRESSURED if self._is_congested() else IDLE
        self._user[PROFILE + kind] += passed_ms

    def _run(self) -> None:
        before = time.perf_counter()
        while not self._over.wait(INTERVAL_S):
            now = time.perf_counter()
            self.look(sys._current_frames().get(self._ident), (now - before) * 1000)
            before = now

    def _kind_of(self, frame: FrameType | None) -> str:
        while frame is not None:
            code = frame.f_code
            if code not in self._kinds:
                self._kinds[code] = kind_of_file(code.co_filename)
            kind = self._kinds[code]
            if kind is not None:
                return kind
            frame = frame.f_back
        return RUNTIME


def kind_of_file(name: str) -> str | None:
    """Returns the kind of work of a source file; ``None`` for a library, which works for its caller."""
    if name.startswith(_HOME + "tidegate" + os.sep):
        place = name[len(_HOME) :].replace(os.sep, "/")
        return max((known for known in _PLACES if place.startswith(known[0])), key=lambda known: len(known[0]))[1]
    return None if name.startswith(("<frozen", *_LIBRARIES)) else USER
