"""What the programs of ``examples/gallery`` have to write, computed from their input by another way: SQL of DuckDB, or a loop over sorted rows."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

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
    rows_per_second: float = 1e9
    """How fast it runs: one whose result is made step by step has several checkpoints."""

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


def strange(directory: Path) -> list[Row]:
    """Readings whiten by the Cholesky factor of their covariance, which DuckDB computes: the distance is a length then."""
    names = ("celsius", "bar", "rpm", "watts")
    moments = ", ".join([*(f"avg({n})" for n in names), *(f"covar_samp({a}, {b})" for a in names for b in names)])
    ((*fitted,),) = query(f"SELECT {moments} FROM '{{d}}/readings.parquet' WHERE reading < 50_000", directory)
    factor = np.linalg.cholesky(np.reshape(fitted[4:], (4, 4)))
    readings: np.ndarray[Any, Any] = np.array(
        query(f"SELECT reading, machine, {', '.join(names)} FROM '{{d}}/readings.parquet'", directory)
    )
    scores = -np.linalg.norm(np.linalg.solve(factor, (readings[:, 2:] - fitted[:4]).T), axis=0)
    lowest = np.quantile(scores[:50_000], 0.001)
    return [
        (int(reading), int(machine), round(score * 1e6))
        for (reading, machine), score in zip(readings[:, :2], scores.tolist(), strict=True)
        if score < lowest
    ]


def customers(directory: Path) -> list[Row]:
    """A dictionary that takes the messages one by one."""
    there: dict[int, dict[str, Any]] = {}
    for line in (directory / "changes.json").read_text(encoding="utf-8").splitlines():
        message = json.loads(line)
        if message["op"] == "d":
            del there[message["before"]["id"]]
        else:
            there[message["after"]["id"]] = message["after"]
    return sorted((row["id"], row["name"], row["city"], row["cents"]) for row in there.values())


PAID = """
    SELECT o."order", o.cents, p.cents, epoch_ms(p."at") - epoch_ms(o."at"), o.cents = p.cents
    FROM '{d}/orders.parquet' o JOIN '{d}/payments.parquet' p ON o."order" = p."order"
    AND p."at" BETWEEN o."at" AND o."at" + INTERVAL 1 HOUR"""

SILENT = """
    WITH heard AS (
        SELECT sensor, epoch_ms("at") AS ms, lead(ms) OVER (PARTITION BY sensor ORDER BY ms) AS next_ms FROM '{d}/readings.parquet'
    ), alarms AS (SELECT * FROM heard WHERE next_ms IS NULL OR next_ms - ms > 300_000)
    SELECT 'alarm', sensor, ms, 0 FROM alarms
    UNION ALL SELECT 'outage', sensor, ms, next_ms FROM alarms WHERE next_ms IS NOT NULL"""

TOP = """
    SELECT strftime(date_trunc('hour', "at"), '%Y-%m-%d %H:%M:%S.000') AS begins,
        row_number() OVER (PARTITION BY begins ORDER BY sum(cents * pieces) DESC, product) AS rank_number,
        product, sum(cents * pieces)::BIGINT, sum(pieces)::BIGINT
    FROM '{d}/sales.parquet' GROUP BY begins, product QUALIFY rank_number <= 3"""

CLICKS = """
    SELECT DISTINCT strftime("at", '%Y-%m-%d') AS dt, strftime("at", '%H') AS hh, id, page, at_ms FROM '{d}/clicks.parquet'
    UNION ALL SELECT DISTINCT strftime("at", '%Y-%m-%d'), strftime("at", '%H'), -1, '_SUCCESS', 0 FROM '{d}/clicks.parquet'"""

ANSWERS = {
    "anomaly_scores": Answer(
        "SELECT reading, machine, round(score * 1e6)::BIGINT FROM '{d}/anomalies/*.parquet'",
        strange,
        least=300,
    ),
    "cdc_table": Answer(
        """SET VARIABLE current = (SELECT content FROM read_text('{d}/customers/CURRENT'));
        SELECT id, name, city, cents FROM read_parquet(getvariable('current') || '/*.parquet')""",
        customers,
        least=5_000,
        rows_per_second=15_000,
    ),
    "click_partitions": Answer(
        """SELECT dt, hh, id, page, at_ms FROM read_parquet('{d}/partitions/*/*/part-*', hive_partitioning = true, hive_types_autocast = false)
        UNION ALL SELECT regexp_extract(file, 'dt=([^/]*)', 1), regexp_extract(file, 'hh=([^/]*)', 1), -1, '_SUCCESS', 0
        FROM glob('{d}/partitions/*/*/_SUCCESS')""",
        by_sql(CLICKS),
        least=50_012,
    ),
    "paid_orders": Answer(
        """SELECT "order", cents, paid, after_ms, is_in_full FROM '{d}/paid/*.csv'""",
        by_sql(PAID),
        least=20_000,
    ),
    "sensors_down": Answer(
        """SELECT 'alarm', sensor, since_ms, 0 FROM read_json('{d}/alarms/*')
        UNION ALL SELECT 'outage', sensor, from_ms, to_ms FROM '{d}/outages/*.parquet'""",
        by_sql(SILENT),
        least=700,
    ),
    "top_products": Answer(
        "SELECT begins, rank_number, product, earned, sold FROM read_csv('{d}/top/*.csv', types = {'begins': 'VARCHAR'})",
        by_sql(TOP),
        least=72,
    ),
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
