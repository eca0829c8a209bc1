"""When the certificates expire by which this process proves what it is: a metric, and from a month before a warning each day."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from pathlib import Path

SOON = timedelta(days=30)
"""Chosen: a warning comes so long before a certificate expires."""
REMAINING = "Status.Security.Certificate.RemainingSeconds"
"""The metric of the certificate that expires first; negative when it has expired. Flink has none."""
_log = logging.getLogger(__name__)


class Expiries:
    """The keystores that a process has read. One for each process: `EXPIRIES`. Threads may share it."""

    def __init__(self) -> None:
        self._expire: dict[Path, datetime] = {}
        self._warned: dict[Path, date] = {}

    def note(self, keystore: Path, expires: datetime, now: datetime) -> None:
        """A keystore was read (again), whose certificate expires then. Times are UTC."""
        self._expire[keystore] = expires
        self._warned.pop(keystore, None)
        self._warn(keystore, expires, now)

    def figures(self, now: datetime) -> Mapping[str, float]:
        """Returns ``REMAINING``, where there are certificates. Warns of those that expire soon, once a day."""
        known = dict(self._expire)
        for keystore, expires in known.items():
            self._warn(keystore, expires, now)
        return {REMAINING: (min(known.values()) - now).total_seconds()} if known else {}

    def _warn(self, keystore: Path, expires: datetime, now: datetime) -> None:
        if expires >= now + SOON or self._warned.get(keystore) == now.date():
            return
        self._warned[keystore] = now.date()
        moment = f"{expires:%Y-%m-%d %H:%M} UTC"
        if expires < now:
            _log.warning("the certificate in %s has expired at %s: peers refuse it", keystore, moment)
        else:
            _log.warning("the certificate in %s expires at %s", keystore, moment)


EXPIRIES = Expiries()
