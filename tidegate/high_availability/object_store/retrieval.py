"""Finds the leader in the bucket, for TaskManagers, clients and standbys."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta

from tidegate.high_availability.object_store.bucket import Bucket
from tidegate.high_availability.object_store.codec import decode_ledger
from tidegate.high_availability.object_store.election import LEDGER, STANDBYS, BucketSettings
from tidegate.high_availability.object_store.lease import Watch
from tidegate.high_availability.object_store.ledger import LEADER
from tidegate.high_availability.port import decode_contact, decode_leader
from tidegate.model.leadership import Contact, Leader

_MISSED = 3
"""How many updates a standby may miss before it counts as gone."""


class BucketRetrieval:
    """Leader retrieval from a bucket. Reports no leader when the ledger stayed unchanged for the time of its lease; trusts the ledger when it first
    reads it."""

    def __init__(self, settings: BucketSettings, clock: Callable[[], float] = time.monotonic) -> None:
        """Takes the bucket's settings. ``clock``: returns seconds and never goes back."""
        self._settings = settings
        self._clock = clock
        self._bucket: Bucket | None = None
        self._watch = Watch()

    def leader(self) -> Leader | None:
        bucket = self._opened()
        found = bucket.read(LEDGER)
        if found is None:
            return None
        ledger = decode_ledger(found.content, bucket.place(LEDGER))
        content = ledger.entries.get(LEADER)
        if content is None or self._watch.left_ms(ledger, int(self._clock() * 1000)) <= 0:
            return None
        return decode_leader(content, bucket.place(LEDGER))

    def standbys(self) -> list[Contact]:
        """Returns the standbys in no order: the first one to claim leads next. Killed ones are left out, by the clock of the store alone."""
        bucket = self._opened()
        ledger = bucket.read(LEDGER)
        if ledger is None:
            return []
        oldest = ledger.modified - timedelta(milliseconds=_MISSED * self._settings.lease_ms)
        return [
            contact
            for name, modified in sorted(bucket.names(STANDBYS).items())
            for contact in _waiting(bucket, name, modified, oldest)
        ]

    def close(self) -> None:
        self._bucket = None

    def _opened(self) -> Bucket:
        if self._bucket is None:
            self._bucket = self._settings.open()
        return self._bucket


def _waiting(bucket: Bucket, name: str, modified: datetime, oldest: datetime) -> list[Contact]:
    if modified < oldest:
        return []
    found = bucket.read(f"{STANDBYS}/{name}")
    return [] if found is None else [decode_contact(found.content, bucket.place(f"{STANDBYS}/{name}"))]
