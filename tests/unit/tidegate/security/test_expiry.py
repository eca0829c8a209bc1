"""A certificate that expires is seen in time: by a metric, and by a warning a day, also of a process that reads its keystore once."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tidegate.security.expiry import REMAINING, Expiries

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
INTERNAL, REST = Path("/keys/internal"), Path("/keys/rest")


def warned(log: pytest.LogCaptureFixture) -> list[str]:
    found = [record.getMessage() for record in log.records if record.levelno == logging.WARNING]
    log.clear()
    return found


def test_a_process_without_certificates_has_no_such_metric() -> None:
    assert Expiries().metrics(NOW) == {}


def test_the_metric_is_of_the_one_that_expires_first_and_goes_below_zero() -> None:
    expiries = Expiries()
    expiries.note(INTERNAL, NOW + 400 * DAY, NOW)
    expiries.note(REST, NOW + 90 * DAY, NOW)
    assert expiries.metrics(NOW + DAY) == {REMAINING: 89 * 86_400}
    assert expiries.metrics(NOW + 91 * DAY) == {REMAINING: -86_400}
    expiries.note(REST, NOW + 800 * DAY, NOW + 91 * DAY)  # renewed
    assert expiries.metrics(NOW + 91 * DAY) == {REMAINING: 309 * 86_400}


def test_a_warning_comes_from_a_month_before_once_a_day(caplog: pytest.LogCaptureFixture) -> None:
    expiries = Expiries()
    expiries.note(INTERNAL, NOW + 31 * DAY, NOW)
    expiries.metrics(NOW)
    assert warned(caplog) == []
    for hours in (24, 25, 26):
        expiries.metrics(NOW + DAY + hours * HOUR)
    assert warned(caplog) == ["the certificate in /keys/internal expires at 2026-06-01 12:00 UTC"]
    expiries.metrics(NOW + 32 * DAY)
    assert warned(caplog) == ["the certificate in /keys/internal has expired at 2026-06-01 12:00 UTC: peers refuse it"]


def test_one_that_is_read_again_is_warned_of_again(caplog: pytest.LogCaptureFixture) -> None:
    expiries = Expiries()
    for _ in range(2):
        expiries.note(INTERNAL, NOW + 2 * DAY, NOW)
        expiries.metrics(NOW)
    assert len(warned(caplog)) == 2
