"""Kafka to Kafka and to PostgreSQL, exactly once, with real servers and random kills.

Small runs are for every run of the tests. The full one is marked slow (``make soak``): ``SOAK_ROWS`` (5,000,000),
``SOAK_KILLS`` (20), ``SOAK_SEED`` change it; its report is ``out/soak.md``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.cluster import REPOSITORY, Cluster
from tests.e2e.soak_run import VICTIMS, Outcome, Plan, SoakRun, check, random_victims
from tests.servers.kafka_broker import KafkaBroker
from tests.servers.kafka_reading import read_topic
from tests.servers.postgres_server import PostgresServer
from tests.servers.tcp_proxy import TcpProxy
from tests.sim.seeds import BASE_SEED
from tidegate.connectors.kafka.transactions import KafkaTransactions

TABLE = "id bigserial PRIMARY KEY, key text, topic text, n bigint, twice bigint"
COLUMNS = ("kills", "rows", "seconds", "restarts", "checkpoints", "looks at the group's offsets", "seed")


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, TcpProxy]]:
    """A cluster whose TaskManagers reach the JobManager through a proxy."""
    with Cluster(tmp_path_factory.mktemp("soak")) as cluster, TcpProxy(cluster.address) as proxy:
        for _ in range(2):  # one to spare: starting a JVM takes long
            cluster.add_taskmanager(2, "--jobmanager", proxy.address)
        cluster.wait_slots(4)
        yield cluster, proxy
        cluster.wait_slots(2 * len(cluster.task_managers))  # those that replace killed ones are still starting


def to_kafka(plan: Plan, door: tuple[Cluster, TcpProxy], broker: KafkaBroker, directory: Path) -> Outcome:
    broker.create_topic(plan.output, 3)
    outcome = SoakRun(plan, *door, broker, directory).run()
    messages = read_topic(broker.servers, plan.output)
    found = [(row["key"], row["from"], row["n"], row["twice"]) for row in (json.loads(m.value) for m in messages)]
    outcome.rows = len(found)
    check(plan, found, [message.partition for message in messages])
    return outcome


def to_postgres(
    plan: Plan, door: tuple[Cluster, TcpProxy], broker: KafkaBroker, server: PostgresServer, directory: Path
) -> Outcome:
    server.query(f"CREATE TABLE {plan.output} ({TABLE})")
    outcome = SoakRun(plan, *door, broker, directory).run()
    rows = server.query(f"SELECT key, topic, n, twice FROM {plan.output} ORDER BY id")
    outcome.rows = len(rows)
    check(plan, [(key, topic, n, twice) for key, topic, n, twice in rows], [0] * len(rows))
    assert server.query("SELECT gid FROM pg_prepared_xacts") == []
    return outcome


@pytest.mark.timeout(1800, method="signal")
def test_every_record_arrives_in_kafka_once_although_everything_is_killed(
    door: tuple[Cluster, TcpProxy], broker: KafkaBroker, tmp_path: Path
) -> None:
    to_kafka(Plan("kills", 10_000, BASE_SEED, VICTIMS), door, broker, tmp_path)


@pytest.mark.timeout(1800, method="signal")
@pytest.mark.parametrize("strategy", ["POOLING", pytest.param("INCREMENTING", marks=pytest.mark.slow)])
def test_every_record_arrives_once_through_open_transactions_although_everything_is_killed(
    strategy: str, door: tuple[Cluster, TcpProxy], broker: KafkaBroker, tmp_path: Path
) -> None:
    """And nothing stays open that readers would wait for."""
    victims = VICTIMS if strategy == "POOLING" else ("subtask", "broker")
    plan = Plan(f"open-{strategy.lower()}", 6_000, BASE_SEED + 3, victims, strategy=strategy)
    to_kafka(plan, door, broker, tmp_path)
    assert KafkaTransactions(broker.servers, {}, plan.output).unlisted(frozenset(), {}) == []


@pytest.mark.timeout(1800, method="signal")
def test_every_record_arrives_in_postgres_once_although_subtasks_and_the_broker_are_killed(
    door: tuple[Cluster, TcpProxy], broker: KafkaBroker, server: PostgresServer, tmp_path: Path
) -> None:
    plan = Plan("rows", 6_000, BASE_SEED + 1, ("subtask", "broker"), postgres=server.conninfo)
    to_postgres(plan, door, broker, server, tmp_path)


@pytest.mark.timeout(1800, method="signal")
def test_a_permission_that_is_taken_away_while_it_runs_is_named_and_nothing_is_lost(
    door: tuple[Cluster, TcpProxy], broker: KafkaBroker, tmp_path: Path
) -> None:
    """Attempts fail, and the restart strategy tries again, until somebody gives it back."""
    plan = Plan("revoked", 3_000, BASE_SEED + 2, ("write permission", "read permission"))
    to_kafka(plan, door, broker, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize("system", ["kafka", "postgres"])
def test_soak(
    system: str, door: tuple[Cluster, TcpProxy], broker: KafkaBroker, server: PostgresServer, tmp_path: Path
) -> None:
    seed = int(os.environ.get("SOAK_SEED", BASE_SEED))
    rows = int(os.environ.get("SOAK_ROWS", "5000000"))
    victims = random_victims(seed, int(os.environ.get("SOAK_KILLS", "20")))
    plan = Plan(f"soak-{system}", rows, seed, victims, limit_s=1800)
    if system == "kafka":
        report(to_kafka(plan, door, broker, tmp_path))
    else:
        report(to_postgres(replace(plan, postgres=server.conninfo), door, broker, server, tmp_path))


def report(outcome: Outcome) -> None:
    """Adds a line to the table. What it says of order and of once is what ``check`` proved before."""
    path = REPOSITORY / "out" / "soak.md"
    path.parent.mkdir(exist_ok=True)
    if not path.exists():
        path.write_text(f"| sink | {' | '.join(COLUMNS)} |\n|{'---|' * (len(COLUMNS) + 1)}\n")
    kills = ", ".join(f"{count} {victim}" for victim, count in sorted(outcome.kills.items()))
    values = [kills, f"{outcome.rows:,}", f"{outcome.seconds:.0f}", outcome.restarts, outcome.checkpoints]
    values += [outcome.looks, outcome.plan.seed]
    sink = "PostgreSQL" if outcome.plan.postgres else "Kafka"
    with path.open("a") as file:
        file.write(f"| {sink} | {' | '.join(map(str, values))} |\n")
