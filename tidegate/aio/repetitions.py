"""Limits repeated warnings: the first ones of a period are logged, the others are counted.

    2026-11-21 06:14:29,123 WARN  tidegate.aio.rpc - a call failed: ...
    2026-11-21 06:14:40,001 WARN  tidegate.aio.rpc - 4312 more like this in 10 s: a call failed: ...

Two records are alike when they come from one logger and differ in numbers and ids only. What is logged below WARNING is left alone.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass

WINDOW_S = 10
MOST_IN_A_WINDOW = 100
"""The most alike warnings of a period that are logged. Chosen, not measured: a minute of a flood leaves 600 lines, some hundred kilobytes; a job's
subtasks that fail together are fewer in nearly all jobs."""
MOST_KINDS = 512
"""The most kinds of warnings that are counted at once; beyond it, counting starts again. Chosen."""
_KIND_CHARACTERS = 160
"""The characters at the beginning of a message that identify its kind. Chosen: the program wrote them; data comes later in a message."""
_VARYING = re.compile(r"[0-9a-fA-F]{8,}|\d+")


@dataclass(slots=True)
class _Kind:
    since: float
    count: int
    last: logging.LogRecord


class Repetitions(logging.Filter):
    """A log filter that drops repeated warnings of one handler, and passes ``emit`` the records that summarize them."""

    def __init__(self, emit: Callable[[logging.LogRecord], object]) -> None:
        super().__init__()
        self._emit = emit
        self._kinds: dict[tuple[str, int, str], _Kind] = {}
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        key = (record.name, record.levelno, _VARYING.sub("#", record.getMessage()[:_KIND_CHARACTERS]))
        with self._lock:
            sums = self._end_windows(record.created)
            kind = self._kinds.get(key)
            if kind is None:
                if len(self._kinds) >= MOST_KINDS:
                    self._kinds.clear()
                kind = self._kinds[key] = _Kind(record.created, 0, record)
            kind.count += 1
            kind.last = record
            is_logged = kind.count <= MOST_IN_A_WINDOW
        for one in sums:
            self._emit(one)
        return is_logged

    def _end_windows(self, now: float) -> list[logging.LogRecord]:
        """Ends the periods that are over. Returns a record for each kind of which warnings were left out."""
        ended = [key for key, kind in self._kinds.items() if not 0 <= now - kind.since < WINDOW_S]
        return [_sum(kind) for key in ended if (kind := self._kinds.pop(key)).count > MOST_IN_A_WINDOW]


def _sum(kind: _Kind) -> logging.LogRecord:
    last, left_out = kind.last, kind.count - MOST_IN_A_WINDOW
    text = f"{left_out} more messages like this in {WINDOW_S} s, the last: {last.getMessage()}"
    return logging.LogRecord(last.name, last.levelno, last.pathname, last.lineno, "%s", (text,), None)
