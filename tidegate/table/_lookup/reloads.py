"""When a full lookup cache is reloaded: the options ``lookup.full-cache.*`` (Flink: ``LookupOptions.java``, ``PeriodicCacheReloadTrigger.java``,
``TimedCacheReloadTrigger.java``)."""

from __future__ import annotations

import datetime as dt
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from tidegate.model.errors import InvalidJob
from tidegate.model.units import parse_duration_ms

STRATEGY: Final = "lookup.full-cache.reload-strategy"
INTERVAL: Final = "lookup.full-cache.periodic-reload.interval"
SCHEDULE: Final = "lookup.full-cache.periodic-reload.schedule-mode"
ISO_TIME: Final = "lookup.full-cache.timed-reload.iso-time"
DAYS: Final = "lookup.full-cache.timed-reload.interval-in-days"
OPTIONS: Final = frozenset({STRATEGY, INTERVAL, SCHEDULE, ISO_TIME, DAYS})
_TIME = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(\.\d+)?)?(Z|[+-]\d\d(?::\d\d){0,2})?")
_DAY_S: Final = 86_400.0
"""Seconds of a day."""


@dataclass(frozen=True)
class Reloads:
    """The reload schedule of a full cache: every ``interval_s``. ``is_fixed_rate``: measured from start to start, otherwise from the end of one reload
    to the start of the next. ``second_of_day``: in UTC, of the first reload, for a timed schedule."""

    interval_s: float
    is_fixed_rate: bool = False
    second_of_day: float | None = None

    def waits(self, now_s: Callable[[], float] = time.time) -> Callable[[], float]:
        """Returns a function that gives the seconds to wait until the next reload; it is called after each."""
        if self.second_of_day is None and not self.is_fixed_rate:
            return lambda: self.interval_s
        now = now_s()
        first = now + self.interval_s
        if self.second_of_day is not None:
            first = now - now % _DAY_S + self.second_of_day
            first += _DAY_S if first <= now else 0.0
        due = [first - self.interval_s]

        def wait() -> float:
            due[0] += self.interval_s
            return max(due[0] - now_s(), 0.0)

        return wait


def reloads_of(options: Mapping[str, str]) -> Reloads | None:
    """Returns the reload schedule of a table; ``None``: it is read once. Raises ``InvalidJob`` that names the option."""
    strategy = options.get(STRATEGY, "PERIODIC").upper()
    if strategy == "PERIODIC":
        for key in (ISO_TIME, DAYS):
            if key in options:
                raise InvalidJob(f"'{key}' needs '{STRATEGY}' = 'TIMED', which is not set")
        if INTERVAL not in options:
            if SCHEDULE in options or STRATEGY in options:
                raise InvalidJob(f"Missing '{INTERVAL}' option. It must be specified for PERIODIC reload strategy.")
            return None
        mode = options.get(SCHEDULE, "FIXED_DELAY").upper()
        if mode not in ("FIXED_DELAY", "FIXED_RATE"):
            raise InvalidJob(
                f"Invalid value for option '{SCHEDULE}': '{mode}' is not one of FIXED_DELAY and FIXED_RATE"
            )
        return Reloads(_interval_ms(options[INTERVAL]) / 1000, mode == "FIXED_RATE")
    if strategy != "TIMED":
        raise InvalidJob(f"Invalid value for option '{STRATEGY}': '{strategy}' is not one of PERIODIC and TIMED")
    for key in (INTERVAL, SCHEDULE):
        if key in options:
            raise InvalidJob(f"'{key}' needs '{STRATEGY}' = 'PERIODIC', but TIMED is set")
    if ISO_TIME not in options:
        raise InvalidJob(f"Missing '{ISO_TIME}' option. It must be specified for TIMED reload strategy.")
    days = options.get(DAYS, "1")
    if not days.isdecimal() or int(days) < 1:
        raise InvalidJob(f"Invalid value for option '{DAYS}': '{days}' is not a whole number from 1")
    return Reloads(int(days) * _DAY_S, second_of_day=_second_of_day(options[ISO_TIME]))


def _interval_ms(text: str) -> int:
    try:
        found = parse_duration_ms(text)
    except ValueError:
        found = 0
    if found < 1:
        raise InvalidJob(f"Invalid value for option '{INTERVAL}': '{text}' is not a duration from 1 ms")
    return found


def _second_of_day(text: str) -> float:
    """Parses a time of day to seconds in UTC. A time without an offset is in the machine's zone, as in Flink."""
    found = _TIME.fullmatch(text)
    try:
        if found is None:
            raise ValueError(text)
        time_of_day = dt.time.fromisoformat(text)
    except ValueError:
        raise InvalidJob(
            f"Invalid value for option '{ISO_TIME}': '{text}' is not a time such as 10:15 or 10:15:30+01:00"
        ) from None
    today = dt.datetime.combine(dt.datetime.now().date(), time_of_day)  # noqa: DTZ005 - of the machine's zone
    return today.astimezone(dt.UTC).timestamp() % _DAY_S


__all__ = ["OPTIONS", "Reloads", "reloads_of"]
