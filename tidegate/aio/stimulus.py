"""The number of the event in progress: each line that is logged meanwhile carries it as ``stimulus``.

    post(event) ── number 18 ─▶ machine.on ─▶ commands ─▶ tasks, calls ─▶ their answers: events 19, 20, whose cause is 18

`Driver` gives each event its number at the inbox. What is begun while it is handled (a task, a timer) belongs to it; what waits in
a queue of its own (a call to a TaskManager) takes the number along and enters it again. Outside of any event the number is ``""``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_CURRENT: ContextVar[str] = ContextVar("stimulus", default="")


def current_stimulus() -> str:
    """Returns the number of the event to which the work of this thread or task belongs, or ``""``."""
    return _CURRENT.get()


@contextmanager
def belonging_to(stimulus: str) -> Iterator[None]:
    """Assigns the work in the block, and what it starts, to an event."""
    token = _CURRENT.set(stimulus)
    try:
        yield
    finally:
        _CURRENT.reset(token)
