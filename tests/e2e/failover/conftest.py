"""One cluster for all strikes: a leader and a standby, and two TaskManagers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.failover.cluster import FailoverCluster
from tests.servers.zookeeper_servers import ZooKeeperServers

SLOTS = 4


@pytest.fixture(scope="session")
def struck(tmp_path_factory: pytest.TempPathFactory, zookeeper: ZooKeeperServers) -> Iterator[FailoverCluster]:
    with FailoverCluster(tmp_path_factory.mktemp("failover"), zookeeper) as cluster:
        for _ in range(2):
            cluster.add_taskmanager(SLOTS)
        cluster.wait_slots(2 * SLOTS)
        yield cluster
