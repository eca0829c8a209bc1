"""A time of the server says which zone it is in: the page, and whoever reads a table, may be elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tidegate.cli.tables import moment
from tidegate.jobmanager.rest.responses.cluster import dashboard_config
from tidegate.model.configuration import Configuration

NOON_MS = 1_784_116_800_000


@pytest.fixture(params=["UTC", "Europe/Berlin", "Asia/Kolkata"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


def test_rest_tells_the_zone_of_the_server_as_flink_does(zone: str) -> None:
    told = dashboard_config(Configuration.from_strings({}), NOON_MS)
    assert (told["timezone-name"], told["timezone-offset"]) == {
        "UTC": ("Coordinated Universal Time", 0),
        "Europe/Berlin": ("CEST", 7_200_000),
        "Asia/Kolkata": ("IST", 19_800_000),
    }[zone]


def test_a_time_in_a_table_names_its_zone(zone: str) -> None:
    assert (
        moment(NOON_MS)
        == {
            "UTC": "15.07.2026 12:00:00 UTC",
            "Europe/Berlin": "15.07.2026 14:00:00 CEST",
            "Asia/Kolkata": "15.07.2026 17:30:00 IST",
        }[zone]
    )
