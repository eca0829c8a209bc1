"""Lookup joins give exactly their rows although a TaskManager is killed: with a table of a real PostgreSQL, asked and kept, and with classes."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.e2e.cluster import JOBS, Cluster
from tests.e2e.counts_run import QUICK_RESTART
from tests.e2e.jobs import lookups
from tests.e2e.killed_jobs import lose_a_task_manager
from tests.servers.postgres_server import PostgresServer

pytestmark = pytest.mark.timeout(900, method="signal")
ROWS, RATE = 20_000, 2_000
_LIMIT_S = 480
"""A limit against hanging: other tests may have the processors meanwhile."""


@pytest.fixture
def names(server: PostgresServer) -> Iterator[dict[int, str]]:
    """The rows of the table: two keys of three."""
    rows = {key: f"name {key}" for key in range(lookups.KEYS) if key % 3}
    with psycopg.connect(server.conninfo, autocommit=True) as connection:
        connection.execute(lookups.TABLE)
        connection.cursor().executemany("INSERT INTO names VALUES (%s, %s)", list(rows.items()))
        yield rows
        connection.execute("DROP TABLE names")


def expected(names: dict[int, str]) -> dict[str, Counter[tuple[str, str]]]:
    keys = [(str(number), number % lookups.KEYS) for number in range(ROWS)]
    return {
        "asked": Counter((number, names.get(key, "")) for number, key in keys),
        "kept": Counter((number, names[key]) for number, key in keys if key in names),
        "squares": Counter((number, str(key * key) if key % lookups.STEP else "") for number, key in keys),
        "pairs": Counter((number, str(key * 2 + more)) for number, key in keys for more in (0, 1)),
    }


def test_lookup_joins_are_exact_although_a_taskmanager_is_killed(
    spread_cluster: Cluster, server: PostgresServer, names: dict[int, str], tmp_path: Path
) -> None:
    arguments = ["--rows", str(ROWS), "--rate", str(RATE), "--port", str(server.port), "--out", str(tmp_path / "out")]
    settings = {"execution.checkpointing.dir": str(tmp_path / "checkpoints"), **QUICK_RESTART}
    watch = spread_cluster.submit(JOBS / "lookups.py", *arguments, parallelism=2, settings=settings)
    lose_a_task_manager(spread_cluster, watch)
    assert watch.wait_finished(_LIMIT_S).status.restarts == 1
    for name, rows in expected(names).items():
        parts = [part.read_text().splitlines() for part in (tmp_path / "out" / name).glob("part-*")]
        found = Counter((number, text) for lines in parts for number, text in csv.reader(lines))
        assert found == rows, (name, list((found - rows).items())[:5], list((rows - found).items())[:5])
