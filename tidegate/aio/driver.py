"""The asyncio driver of pure state machines: takes events from one inbox, one at a time, and executes the commands of the machine in order.

    post(event) ─▶ inbox ─▶ machine.on(event, now_ms) ─▶ commands ─▶ execute(command)

Laws: ``on`` is never re-entered (an event posted while one is handled waits for it). Events that threads post come in
through the loop. ``now_ms`` never goes back, whatever the clock does. Timers are commands: ``start_timer`` posts the
event that it is given; a timer of the same name is replaced. An event has a number from the inbox on, which all lines of the log
carry while it is handled (``tidegate.aio.stimulus``); the journal has each event and each command at DEBUG. A machine or an
executor that raises is our own mistake: it is logged and passed to ``on_fatal``, and nothing more is handled.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from tidegate.aio.logs import with_ids
from tidegate.aio.stimulus import belonging_to, current_stimulus

E = TypeVar("E")
C = TypeVar("C")
E_contra = TypeVar("E_contra", contravariant=True)
C_co = TypeVar("C_co", covariant=True)

_log = logging.getLogger(__name__)


class Machine(Protocol[E_contra, C_co]):
    """A pure state machine that ``Driver`` runs."""

    def on(self, event: E_contra, now_ms: int) -> Sequence[C_co]: ...


def wall_clock_ms() -> int:
    """Returns the milliseconds since the Unix epoch."""
    return time.time_ns() // 1_000_000


class Driver(Generic[E, C]):
    """Feeds events to one machine and executes its commands. Everything but ``post_from_thread`` belongs to the loop's thread."""

    def __init__(
        self,
        machine: Machine[E, C],
        execute: Callable[[C], None],
        on_fatal: Callable[[BaseException], None],
        clock_ms: Callable[[], int] = wall_clock_ms,
        journal: logging.Logger = _log,
    ) -> None:
        self._machine = machine
        self._execute = execute
        self._on_fatal = on_fatal
        self._clock_ms = clock_ms
        self._loop = asyncio.get_running_loop()
        self._journal = journal
        self._inbox: deque[tuple[str, str, E]] = deque()
        """With the number of each, and that of its cause, or ``""``."""
        self._last_number = 0
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._now_ms = 0
        self._is_handling = False
        self._is_stopped = False

    def post(self, event: E) -> None:
        """Posts an event. When this method returns the event has been handled, unless it was called while another one is handled."""
        self._last_number += 1
        self._inbox.append((str(self._last_number), current_stimulus(), event))
        if not self._is_handling:
            self._drain()

    def post_from_thread(self, event: E) -> None:
        """Posts an event from any thread; returns before it is handled. Ignored after the loop was closed."""
        try:
            self._loop.call_soon_threadsafe(self.post, event)
        except RuntimeError:
            _log.debug("the event loop is closed, so an event of the class %s is dropped", type(event).__name__)

    def start_timer(self, name: str, delay_ms: int, event: E) -> None:
        """Starts a timer that posts ``event`` once, after ``delay_ms``; replaces the timer of the same name."""
        self.cancel_timer(name)
        self._timers[name] = self._loop.call_later(max(0, delay_ms) / 1000, self._fire, name, event)

    def cancel_timer(self, name: str) -> None:
        """Cancels a timer; does nothing when it has fired or was never started."""
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    def stop(self) -> None:
        self._is_stopped = True
        self._inbox.clear()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _fire(self, name: str, event: E) -> None:
        self._timers.pop(name, None)
        self.post(event)

    def _drain(self) -> None:
        self._is_handling = True
        try:
            while self._inbox and not self._is_stopped:
                number, cause, event = self._inbox.popleft()
                self._now_ms = max(self._now_ms, self._clock_ms())
                with belonging_to(number):
                    self._handle(event, cause)
        except Exception as error:  # noqa: BLE001  (a driver)
            with belonging_to(number):
                _log.exception(
                    "fatal: the state machine failed while it handled an event of the class %s", type(event).__name__
                )
            self.stop()
            self._on_fatal(error)
        finally:
            self._is_handling = False

    def _handle(self, event: E, cause: str) -> None:
        is_kept = self._journal.isEnabledFor(logging.DEBUG)
        if is_kept:
            self._journal.debug("%s", with_ids(str(event), cause=cause))
        for command in self._machine.on(event, self._now_ms):
            if is_kept:
                self._journal.debug("%s", command)
            self._execute(command)
