"""pytest fixtures for jobs: ``pytest_plugins = ["tidegate.testing.plugin"]`` in ``conftest.py``.

    def test_orders(tidegate_cluster): ...                       # one cluster for the session, two slots

    @pytest.mark.tidegate(taskmanagers=2, slots=1, faults=["kill@3"], configuration={...})
    def test_orders_survive(tidegate_cluster): ...               # a cluster of its own, since it is special

While the test runs, ``env.execute()`` submits to its cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tidegate.testing import MiniCluster

_KEYS = {"taskmanagers", "slots", "faults", "configuration"}


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker ``tidegate``."""
    config.addinivalue_line(
        "markers", "tidegate(taskmanagers=1, slots=2, faults=(), configuration={}): a cluster of the test's own"
    )


@pytest.fixture(scope="session")
def tidegate_session_cluster() -> Iterator[MiniCluster]:
    """Provides one cluster for the test session, of one TaskManager with two slots, for tests without special requirements."""
    from tidegate.testing import MiniCluster

    with MiniCluster() as cluster:
        yield cluster


@pytest.fixture
def tidegate_cluster(request: pytest.FixtureRequest) -> Iterator[MiniCluster]:
    """Provides the cluster on which ``env.execute()`` of the test runs: the session's, or one of its own if the test has the marker ``tidegate``."""
    mark = request.node.get_closest_marker("tidegate")
    if mark is None:
        cluster: MiniCluster = request.getfixturevalue("tidegate_session_cluster")
        with cluster.installed():
            yield cluster
        return
    wrong = set(mark.kwargs) - _KEYS
    if wrong or mark.args:
        raise pytest.UsageError(
            f"mark tidegate: only {', '.join(sorted(_KEYS))} by name, not {mark.args or sorted(wrong)}"
        )
    from tidegate.testing import MiniCluster

    with MiniCluster(**mark.kwargs) as own, own.installed():
        yield own
