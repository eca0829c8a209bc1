"""No result depends on the zone of a process: a program prints the same under every ``TZ``, and in the zone that is configured what
DuckDB gives there."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from tests.unit.tidegate.datastream.sql.zone_program import OF_DUCKDB, QUERIES, ROWS, result, rows, stream
from tidegate.functions.sql.duckdb_values import DuckDbColumns
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ConfigurationError, InvalidJob

MACHINES = ("America/New_York", "Asia/Kathmandu")
"""West and east of UTC, in which DuckDB computes what is expected; one has daylight saving, and one no whole hours."""
NAMED = "Europe/Berlin"


def printed(machine: str, directory: Path, *arguments: str) -> list[str]:
    """By ``zone_program`` in a process whose zone is ``machine``."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.unit.tidegate.datastream.sql.zone_program", *arguments],
        env={**os.environ, "TZ": machine, "TMPDIR": str(directory)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def reference(zone: str) -> list[str]:
    """The rows that DuckDB gives in that zone for the first queries, which the stream is asked first too."""
    found: list[str] = []
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = ?", [zone])
        connection.register("input", pa.Table.from_batches([rows(0, ROWS)]))
        for query in QUERIES[:OF_DUCKDB]:
            found += sorted(repr(tuple(row.values())) for row in connection.sql(query).to_arrow_table().to_pylist())
    return found


@pytest.mark.parametrize("zone", ["", NAMED])
def test_queries_give_the_same_in_processes_of_every_zone_and_what_duckdb_gives(zone: str, tmp_path: Path) -> None:
    expected = reference(zone or "UTC")
    assert len(expected) == ROWS * OF_DUCKDB
    first, *others = [printed(machine, tmp_path, "sql", zone) for machine in MACHINES]
    assert [other == first for other in others] == [True]
    assert [line for line in first if line.startswith("(")][: len(expected)] == expected


def test_connectors_and_type_information_do_not_look_at_the_zone_of_the_process(tmp_path: Path) -> None:
    first, *others = [printed(machine, tmp_path, "connectors") for machine in MACHINES]
    assert first[0] == "True"
    assert others == [first]


def test_a_worker_in_another_zone_than_the_client_computes_the_same(tmp_path: Path) -> None:
    batch = rows(0, 5)
    schema = pa.schema([*batch.schema, ("d", pa.date32()), ("s", pa.string())])
    columns = DuckDbColumns(["moment::DATE", "moment::VARCHAR"], schema, "UTC")
    expected = repr(columns(batch).to_pylist())
    pickled = pickle.dumps(columns).hex()
    assert [printed(machine, tmp_path, "columns", pickled) for machine in MACHINES] == [[expected]] * len(MACHINES)


@pytest.mark.parametrize("zone", ["GMT+05:45", "Asia/Kolkata", "UTC", "GMT-03:30"])
def test_windows_of_a_day_over_instants_begin_at_midnight_of_the_zone(zone: str, tmp_path: Path) -> None:
    made = stream(zone).sql(
        "SELECT TUMBLE_START(moment, INTERVAL '1' DAY) AS began, min(moment) AS first, count(*) AS n FROM input "
        "GROUP BY TUMBLE(moment, INTERVAL '1' DAY)"
    )
    behind = made.sql(
        "SELECT began::TIMESTAMP::TIME AS t, first::DATE = began::DATE AS same, began AS began FROM input"
    )
    assert behind.get_type().arrow_schema().field("began").type.tz == "America/Chicago"
    found = result(behind, tmp_path)
    assert len(found) > 10
    assert all(line.startswith("(datetime.time(0, 0), True, ") for line in found), found[:3]


def test_windows_of_a_day_over_instants_are_refused_where_days_differ_in_length() -> None:
    query = "SELECT count(*) AS n FROM input GROUP BY TUMBLE({}, INTERVAL '1' DAY)"
    with pytest.raises(InvalidJob, match="no fixed beginning in Europe/Berlin"):
        stream(NAMED).sql(query.format("moment"))


@pytest.mark.parametrize("text", ["default", "Mars/Olympus", "UTC+3", "GMT+19:00", "", "+05:45"])
def test_what_is_no_zone_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"table\.local-time-zone"):
        Configuration.from_strings({"table.local-time-zone": text})
    with pytest.raises(ConfigurationError, match=r"table\.local-time-zone"):
        stream(text or " ").sql(QUERIES[0])
