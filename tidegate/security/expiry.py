"""Monitors the expiry of this process's certificates: a metric, and a daily warning from a month before."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from pathlib import Path

SOON = timedelta(days=30)
"""How long before a certificate's expiry the warnings begin. Chosen."""
REMAINING = "Status.Security.Certificate.RemainingSeconds"
"""The metric with the seconds until the first certificate expires; negative after its expiry. Flink has none."""
_log = logging.getLogger(__name__)


class Expiries:
    """The expiry of the certificates in the keystores that a process has read. One for each process: `EXPIRIES`. Thread-safe."""

    def __init__(self) -> None:
        self._expire: dict[Path, datetime] = {}
        self._warned: dict[Path, date] = {}

    def note(self, keystore: Path, expires: datetime, now: datetime) -> None:
        """Records the expiry of a keystore's certificate when the keystore is read. Times are UTC."""
        self._expire[keystore] = expires
        self._warned.pop(keystore, None)
        self._warn(keystore, expires, now)

    def metrics(self, now: datetime) -> Mapping[str, float]:
        """Returns ``REMAINING``, where there are certificates. Logs a warning for those that expire soon, once a day."""
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
