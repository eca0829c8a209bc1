"""What the programs of ``examples/gallery`` have to write, computed from their input by another way: SQL of DuckDB, or a loop over sorted rows."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

PAGE = Path(__file__).parents[2] / "docs" / "gallery" / "README.md"
Row = tuple[Any, ...]
MINUTE_MS = 60_000


@dataclass(frozen=True)
class Answer:
    """How the result of a program is read, and what it has to be. ``{d}`` is the folder of its input and output."""

    found: str
    right: Callable[[Path], list[Row]]
    least: int
    """It has at least so many rows: an answer of few rows would show little."""

    def rows(self, directory: Path) -> list[Row]:
        return query(self.found, directory)


def shown(name: str) -> list[tuple[str, ...]]:
    """The rows of a program that the page of the gallery shows, as texts."""
    block = re.search(
        rf"^```text rows of {name}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert block is not None, f"{PAGE} shows no rows of {name}"
    return [tuple(line.split(" | ")) for line in block[1].splitlines()[1:]]


def query(sql: str, directory: Path) -> list[Row]:
    """The rows of a query, sorted."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return sorted(connection.execute(sql.replace("{d}", str(directory))).fetchall())


def by_sql(sql: str) -> Callable[[Path], list[Row]]:
    return lambda directory: query(sql, directory)


FRAUD = """
    WITH timed AS (SELECT card, epoch_ms("at") AS at_ms, cents FROM '{d}/payments.parquet'),
    totals AS (
        SELECT card, at_ms, cents, sum(cents) OVER an_hour AS in_an_hour, sum(cents) OVER a_day AS in_a_day FROM timed
        WINDOW an_hour AS (PARTITION BY card ORDER BY at_ms RANGE BETWEEN 3599999 PRECEDING AND CURRENT ROW),
            a_day AS (PARTITION BY card ORDER BY at_ms RANGE BETWEEN 86399999 PRECEDING AND CURRENT ROW)
    ),
    held AS (
        SELECT card, at_ms, 'one payment' AS rule, cents FROM totals
        UNION ALL SELECT card, at_ms, 'an hour', in_an_hour FROM totals
        UNION ALL SELECT card, at_ms, 'a day', in_a_day FROM totals
    ),
    rules AS (SELECT rule, "limit" AS most, epoch_ms("at") AS since FROM '{d}/rules.parquet')
    SELECT card, held.rule, at_ms, cents::BIGINT FROM held
    ASOF JOIN rules ON held.rule = rules.rule AND held.at_ms >= rules.since
    WHERE cents > most"""

SESSIONS = """
    WITH steps AS (
        SELECT *, epoch_ms("at") AS ms, coalesce(ms - lag(ms) OVER (PARTITION BY "user" ORDER BY ms) > 1_800_000, true) AS begins
        FROM '{d}/views.parquet'
    ), numbered AS (SELECT *, sum(begins::INT) OVER (PARTITION BY "user" ORDER BY ms) AS session FROM steps)
    SELECT "user", min(ms), count(*), sum(cents)::BIGINT, arg_min(page, ms), arg_max(page, ms), max(ms) - min(ms)
    FROM numbered GROUP BY "user", session"""


def fences(directory: Path) -> list[Row]:
    """Areas are convex, and their corners go round against the clock: a point is inside when it lies to the left of every side."""
    areas: dict[tuple[str, str], list[tuple[float, float]]] = {}
    inside: dict[str, set[str]] = defaultdict(set)
    events: list[Row] = []
    drawn = query('SELECT epoch_ms("at"), 0, city, area, xs, ys FROM "{d}/areas.parquet"', directory)
    driven = query('SELECT epoch_ms("at"), 1, city, van, x, y FROM "{d}/positions.parquet"', directory)
    for at, is_position, city, name, x, y in sorted([*drawn, *driven], key=lambda row: row[:4]):
        if not is_position:
            areas[city, name] = [*zip(x, y, strict=True)]
            continue
        now = {area for (where, area), corners in areas.items() if where == city and _is_left_of_all(corners, x, y)}
        events += [(name, area, "left", at) for area in inside[name] - now]
        events += [(name, area, "entered", at) for area in now - inside[name]]
        inside[name] = now
    return sorted(events)


def _is_left_of_all(corners: list[tuple[float, float]], x: float, y: float) -> bool:
    sides = zip(corners, [*corners[1:], corners[0]], strict=True)
    return all((x2 - x1) * (y - y1) - (y2 - y1) * (x - x1) > 0 for (x1, y1), (x2, y2) in sides)


def bursts(directory: Path) -> list[Row]:
    """By service, the errors in their order: five that lie within a minute are an alert, and the next one begins behind them."""
    line = re.compile(r"(\S+) ERROR (service-\d+): (.*)")
    errors = sorted(match.groups() for match in line.finditer((directory / "shop.log").read_text(encoding="utf-8")))
    by_service: dict[str, list[tuple[int, str]]] = defaultdict(list)
    with duckdb.connect() as connection:
        times = connection.execute(
            "SELECT epoch_ms(unnest(?::TIMESTAMPTZ[]))", [[at for at, _, _ in errors]]
        ).fetchall()
    for (at_ms,), (_, service, message) in zip(times, errors, strict=True):
        by_service[service].append((at_ms, message))
    found: list[Row] = []
    for service, logged in by_service.items():
        n = 0
        while n + 5 <= len(logged):
            five = logged[n : n + 5]
            is_burst = five[-1][0] - five[0][0] < MINUTE_MS
            if is_burst:
                found.append((service, five[0][0], five[-1][0], five[0][1], [message for _, message in five]))
            n += 5 if is_burst else 1
    return sorted(found)


ANSWERS = {
    "fraud_rules": Answer(
        "SELECT card, rule, at_ms, cents FROM '{d}/alerts/*.parquet'",
        by_sql(FRAUD),
        least=3_000,
    ),
    "user_sessions": Answer(
        """SELECT "user", window_start, views, cents, landing, "exit", round(minutes * 60000)::BIGINT
        FROM '{d}/sessions/*.parquet'""",
        by_sql(SESSIONS),
        least=40_000,
    ),
    "geofencing": Answer(
        "SELECT van, area, what, at_ms FROM read_json('{d}/events/*')",
        fences,
        least=3_000,
    ),
    "log_alerts": Answer(
        "SELECT service, first_ms, last_ms, messages[1], messages FROM read_json('{d}/alerts/*')",
        bursts,
        least=300,
    ),
}
"""By the name of the program."""
