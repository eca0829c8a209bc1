"""Servers that several folders of tests use: each is started once in a run, by the first test that asks for it."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from tests.servers.flink_environment import FlinkEnvironment, flink_environment
from tests.servers.kafka_broker import KafkaBroker
from tests.servers.postgres_server import PostgresServer
from tests.servers.versitygw import BUCKET, VersityGateway
from tests.servers.zookeeper_servers import ZooKeeperServers


@pytest.fixture(scope="session")
def broker() -> Iterator[KafkaBroker]:
    """A test that kills it starts it again. Everybody may do everything that no ACL denies."""
    settings = {
        "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow_everyone_if_no_acl_found": "true",
        "transaction_abort_timed_out_transaction_cleanup_interval_ms": "500",
    }
    with KafkaBroker(**settings) as broker:
        yield broker


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="session")
def flink() -> FlinkEnvironment:
    """A whole Flink, to compare with."""
    return flink_environment()


@pytest.fixture(scope="session")
def zookeeper() -> Iterator[ZooKeeperServers]:
    """Three members. A test that kills one starts it again."""
    with ZooKeeperServers() as servers:
        yield servers


@pytest.fixture(scope="session")
def gateway() -> Iterator[VersityGateway]:
    """A bucket. A test that stops it starts it again."""
    with VersityGateway() as server:
        yield server


@pytest.fixture
def bucket(gateway: VersityGateway, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a folder of its own, which this process and its children reach."""
    for name, value in gateway.environment.items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{secrets.token_hex(4)}"
