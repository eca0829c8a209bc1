"""Guides whose commands need servers or a cluster. Those whose commands other tests give, too, are slow ones (`make soak`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.cluster import REPOSITORY
from tests.e2e.pages.runner import Reader
from tests.ports import free_port
from tests.servers.kafka_broker import jars

GUIDES = REPOSITORY / "docs" / "guide"


SLOW = pytest.mark.slow


@pytest.mark.timeout(900, method="signal")
@pytest.mark.parametrize(
    "page",
    [
        "notebooks.md",
        "on_your_spark.md",
        pytest.param("finding_problems.md", marks=SLOW),
        pytest.param("restarts_in_ci.md", marks=SLOW),
    ],
)
def test_a_guide_that_needs_a_cluster(reader: Reader, page: str) -> None:
    reader.read(GUIDES / page)


@pytest.mark.timeout(900, method="signal")
def test_kafka_and_postgres(reader: Reader, tmp_path: Path) -> None:
    """With the broker that the other tests have fetched."""
    fetched = jars()
    (tmp_path / "cache" / "tidegate").mkdir(parents=True)
    (tmp_path / "cache" / "tidegate" / fetched.name).symlink_to(fetched)
    reader.export("XDG_CACHE_HOME", f"{tmp_path}/cache")
    reader.places |= {"9092": str(free_port()), "5432": str(free_port())}
    reader.read(GUIDES / "kafka_and_postgres.md")


@SLOW
@pytest.mark.timeout(900, method="signal")
def test_a_spark_cluster(reader: Reader) -> None:
    reader.places |= {"7077": str(free_port())}
    reader.read(GUIDES / "spark_cluster.md")
