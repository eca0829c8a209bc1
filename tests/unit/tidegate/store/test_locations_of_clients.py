"""Locations that clients name are places, and nothing more."""

from __future__ import annotations

import pytest

from tidegate.model.errors import Misuse
from tidegate.store.locations import check_location_of_client


@pytest.mark.parametrize(
    "location", ["/sp", "sp", "a?b#c@d", "s3://bucket/sp", "hdfs://host:9000/sp", "file:///sp", "memory:"]
)
def test_a_place_is_taken(location: str) -> None:
    check_location_of_client(location)


@pytest.mark.parametrize(
    "location",
    [
        "s3://b/x?scheme=http&endpoint_override=127.0.0.1:9",
        "s3://KEY:geheim@bucket/x",
        "s3://geheim@bucket/x",
        "gs://b/x#geheim",
        "hdfs://h/x?geheim",
        "s3://[geheim/x",
    ],
)
def test_what_is_more_is_refused_and_not_repeated(location: str) -> None:
    with pytest.raises(Misuse) as refused:
        check_location_of_client(location)
    assert "geheim" not in str(refused.value)
    assert "127.0.0.1" not in str(refused.value)
