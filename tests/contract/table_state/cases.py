"""Operators of tables with state, and what each of them is given, one after another.

A step is ``["row", input, kind, values]`` with the kind of a change (``+I``, ``-U``, ``+U``, ``-D`` as 0 to 3), ``["clock", ms]`` for timers and times to live,
``["watermark", ms]`` of all inputs, or ``["restore"]`` from a snapshot.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Step = list[Any]
TTL_MS = 100
STEPS = 40
RUNS = {"ttl": 4, "ttl, restored": 3, "restored": 2, "restored, without watermark": 2}
"""Runs of each kind. The watermark that was reached comes again behind a restore, but for the last ones, which operators without event time have not."""
_TYPES = {"k": "STRING", "v": "INT", "w": "INT", "id": "INT", "ts": "TIMESTAMP(3)", "pt": "AS PROCTIME()"}
_JOINS = ("INNER", "LEFT", "RIGHT", "FULL")


@dataclass(frozen=True)
class Input:
    """``columns``: by their names, which say their types. ``changes``: rows are updated and deleted; ``key``: the column that no two of its rows share."""

    columns: str
    changes: bool = False
    key: str = ""

    @property
    def names(self) -> list[str]:
        return self.columns.split()

    def ddl(self, name: str) -> str:
        columns = [f"`{column}` {_TYPES[column]}{' NOT NULL' if column == self.key else ''}" for column in self.names]
        if self.key:
            columns.append(f"PRIMARY KEY (`{self.key}`) NOT ENFORCED")
        if "ts" in self.names:
            columns.append("WATERMARK FOR `ts` AS `ts`")
        form = "debezium-json" if self.changes else "csv"
        return (
            f"CREATE TABLE {name} ({', '.join(columns)}) WITH ('connector' = 'filesystem', 'path' = '/in/{name}', "
            f"'format' = '{form}')"
        )


@dataclass(frozen=True)
class Kind:
    """A statement, and the operator of its plan that is run. ``has_order``: changes of one row come in one order."""

    name: str
    operator: str
    query: str
    inputs: tuple[Input, ...]
    options: tuple[tuple[str, str], ...] = ()
    has_order: bool = True
    tables: tuple[str, ...] = ()
    """More tables than the inputs."""
    backend: str = "hashmap"
    """Flink's. Functions that change rows which they have put into state give other results with its heap, which keeps the objects."""
    drops_before: bool = False
    """Rows before an update do not come to the operator."""
    is_given_counts: bool = False
    """The operator takes counts of ``k`` and ``v``, which only grow, rather than the rows of the table."""

    @property
    def has_event_time(self) -> bool:
        return any("ts" in given.names for given in self.inputs)


def kinds() -> Iterator[Kind]:
    yield from _aggregates()
    yield from _joins()
    yield from _ranks()
    yield from _overs()
    yield from _timed()


def _aggregates() -> Iterator[Kind]:
    rows, changes = (Input("k v"),), (Input("k v", changes=True),)
    whole = "SELECT k, COUNT(*) AS c, SUM(v) AS s, AVG(v) AS a FROM t GROUP BY k"
    yield Kind("sums of rows", "group-aggregate", whole, rows)
    yield Kind("sums of changes", "group-aggregate", whole, changes)
    extremes = "SELECT k, MIN(v) AS lo, MAX(v) AS hi FROM t GROUP BY k"
    yield Kind("extremes of rows", "group-aggregate", extremes, rows)
    yield Kind("extremes of changes", "group-aggregate", extremes, changes)
    distinct = "SELECT k, COUNT(DISTINCT v) AS d, SUM(DISTINCT v) AS s FROM t GROUP BY k"
    yield Kind("distinct values of rows", "group-aggregate", distinct, rows)
    yield Kind("distinct values of changes", "group-aggregate", distinct, changes)
    firsts = "SELECT k, FIRST_VALUE(v) AS f, LAST_VALUE(v) AS l FROM t GROUP BY k"
    yield Kind("first and last of rows", "group-aggregate", firsts, rows)
    yield Kind(
        "one group of changes",
        "group-aggregate",
        "SELECT COUNT(*) AS c, SUM(v) AS s FROM t",
        (Input("v", changes=True),),
    )
    yield Kind("distinct rows", "group-aggregate", "SELECT DISTINCT k, v FROM t", rows)
    yield Kind("distinct rows of changes", "group-aggregate", "SELECT DISTINCT k, v FROM t", changes)


def _joins() -> Iterator[Kind]:
    layouts = {
        "rows": (Input("k v"), Input("k w")),
        "changes": (Input("k v", changes=True), Input("k w", changes=True)),
        "changes with keys of their own": (
            Input("id k v", changes=True, key="id"),
            Input("id k w", changes=True, key="id"),
        ),
        "changes whose key joins": (Input("k v", changes=True, key="k"), Input("k w", changes=True, key="k")),
    }
    for name, inputs in layouts.items():
        for kind in _JOINS:
            yield Kind(
                f"{kind.lower()} join of {name}",
                "join",
                f"SELECT * FROM t {kind} JOIN u ON t.k = u.k",
                inputs,
                has_order=False,
            )
        more = " AND u.id <> t.id" if "id" in inputs[0].names else ""
        exists = f"SELECT * FROM t WHERE {{}}EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.w <> t.v{more})"
        yield Kind(f"semi join of {name}", "join", exists.format(""), inputs, has_order=False)
        yield Kind(f"anti join of {name}", "join", exists.format("NOT "), inputs, has_order=False)
    for kind in ("LEFT", "FULL"):
        query = f"SELECT * FROM t {kind} JOIN u ON t.k = u.k AND t.v < u.w"
        yield Kind(f"{kind.lower()} join by a condition", "join", query, layouts["changes"], has_order=False)


def _ranks() -> Iterator[Kind]:
    ranked = "SELECT {} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY {}) AS r FROM {}) WHERE r <= {}"
    rows, changes = (Input("k v id"),), (Input("k v id", changes=True),)
    for name, inputs in (("rows", rows), ("changes", changes)):
        for columns, what in (("k, v, id", "without ranks"), ("k, v, id, r", "with ranks")):
            yield Kind(f"first two of {name}, {what}", "rank", ranked.format(columns, "v", "t", 2), inputs)
            yield Kind(f"first of {name}, {what}", "rank", ranked.format(columns, "v DESC", "t", 1), inputs)
    counted = "(SELECT k, v, COUNT(*) AS id FROM t GROUP BY k, v)"
    for columns, what in (("k, v, id", "without ranks"), ("k, v, id, r", "with ranks")):
        yield Kind(
            f"first two of counts, {what}",
            "rank",
            ranked.format(columns, "id DESC", counted, 2),
            (Input("k v"),),
            is_given_counts=True,
        )
    yield Kind("three rows", "rank", "SELECT * FROM t LIMIT 3", (Input("k v"),))
    yield Kind("three rows of changes", "rank", "SELECT * FROM t LIMIT 3", (Input("k v", changes=True),))
    yield Kind("three rows in order", "rank", "SELECT * FROM t ORDER BY v LIMIT 3", (Input("k v"),))
    first = "SELECT {} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY {}) AS r FROM t) WHERE r = 1"
    yield Kind("first row by the clock", "deduplicate", first.format("k, v", "pt"), (Input("k v pt"),))
    yield Kind(
        "last row by the clock", "deduplicate", first.format("k, v", "pt DESC"), (Input("k v pt"),), backend="rocksdb"
    )
    yield Kind("first row by event time", "deduplicate", first.format("k, v, ts", "ts"), (Input("k v ts"),))
    yield Kind("last row by event time", "deduplicate", first.format("k, v, ts", "ts DESC"), (Input("k v ts"),))
    duplicates = (("table.exec.source.cdc-events-duplicate", "true"),)
    keyed = (Input("k v", changes=True, key="k"),)
    yield Kind(
        "changes that may come twice",
        "changelog-normalize",
        "SELECT * FROM t",
        keyed,
        options=duplicates,
        drops_before=True,
    )
    for name, inputs in (("rows", (Input("k v"),)), ("changes", (Input("k v", changes=True),))):
        sink = "CREATE TABLE s (k STRING NOT NULL, v INT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'print')"
        forced = (("table.exec.sink.upsert-materialize", "FORCE"), ("table.exec.sink.not-null-enforcer", "DROP"))
        yield Kind(
            f"upserts of {name}",
            "upsert-materialize",
            "INSERT INTO s SELECT k, v FROM t",
            inputs,
            options=forced,
            tables=(sink,),
        )


def _overs() -> Iterator[Kind]:
    over = "SELECT k, v, SUM(v) OVER (PARTITION BY k ORDER BY {} {}) AS s FROM t"
    frames = {
        "all rows": "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
        "two rows": "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
        "all times": "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
        "a span": "RANGE BETWEEN INTERVAL '0.05' SECOND PRECEDING AND CURRENT ROW",
    }
    for name, frame in frames.items():
        yield Kind(f"over {name} by the clock", "over-aggregate", over.format("pt", frame), (Input("k v pt"),))
        yield Kind(f"over {name} by event time", "over-aggregate", over.format("ts", frame), (Input("k v ts"),))
    yield Kind(
        "over all rows in an order",
        "over-aggregate",
        over.format("id", frames["all rows"]),
        (Input("k v id"),),
        backend="rocksdb",
    )


def _timed() -> Iterator[Kind]:
    sides = (Input("k v ts"), Input("k w ts"))
    clocks = (Input("k v pt"), Input("k w pt"))
    bounds = "BETWEEN u.{0} - INTERVAL '0.03' SECOND AND u.{0} + INTERVAL '0.02' SECOND"
    columns = "SELECT t.k, t.v, u.k AS uk, u.w FROM t"
    for kind in _JOINS:
        query = f"{columns} {kind} JOIN u ON t.k = u.k AND t.{{0}} {bounds}"
        yield Kind(
            f"{kind.lower()} join by an interval of event time",
            "interval-join",
            query.format("ts"),
            sides,
            has_order=False,
        )
        yield Kind(
            f"{kind.lower()} join by an interval of the clock",
            "interval-join",
            query.format("pt"),
            clocks,
            has_order=False,
        )
    versions = (Input("k v ts"), Input("k w ts", changes=True, key="k"))
    for kind in ("INNER", "LEFT"):
        query = f"SELECT t.k, t.v, t.ts, u.w FROM t {kind} JOIN u FOR SYSTEM_TIME AS OF t.ts ON t.k = u.k"
        yield Kind(f"{kind.lower()} join with versions", "temporal-join", query, versions, has_order=False)
    one_phase = (("table.optimizer.agg-phase-strategy", "ONE_PHASE"),)
    windows = {
        "tumbling": "TUMBLE(TABLE t, DESCRIPTOR({}), INTERVAL '0.05' SECOND)",
        "hopping": "HOP(TABLE t, DESCRIPTOR({}), INTERVAL '0.02' SECOND, INTERVAL '0.06' SECOND)",
        "growing": "CUMULATE(TABLE t, DESCRIPTOR({}), INTERVAL '0.02' SECOND, INTERVAL '0.06' SECOND)",
        "session": "SESSION(TABLE t PARTITION BY k, DESCRIPTOR({}), INTERVAL '0.02' SECOND)",
    }
    for name, window in windows.items():
        for time, what in (("ts", "event time"), ("pt", "the clock")):
            query = f"SELECT k, window_start, window_end, COUNT(*) AS c, SUM(v) AS s FROM TABLE({window.format(time)}) GROUP BY k, window_start, window_end"
            yield Kind(
                f"{name} windows of {what}",
                "window-aggregate",
                query,
                (Input(f"k v {time}"),),
                options=one_phase,
                has_order=False,
            )
    tumble = "TABLE(TUMBLE(TABLE {}, DESCRIPTOR(ts), INTERVAL '0.05' SECOND))"
    for kind in _JOINS:
        query = (
            f"SELECT a.k, a.v, b.k AS uk, b.w FROM (SELECT * FROM {tumble.format('t')}) a {kind} JOIN (SELECT * FROM {tumble.format('u')}) b "
            "ON a.k = b.k AND a.window_start = b.window_start AND a.window_end = b.window_end"
        )
        yield Kind(f"{kind.lower()} join of windows", "window-join", query, sides, has_order=False)
    pattern = (
        "SELECT k, x, y FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY {} MEASURES FIRST(A.v) AS x, LAST(B.v) AS y ONE ROW PER MATCH "
        "AFTER MATCH SKIP {} PATTERN (A B+ C) WITHIN INTERVAL '0.2' SECOND DEFINE A AS A.v < 3, B AS B.v >= LAST(A.v), C AS C.v < LAST(B.v))"
    )
    yield Kind(
        "matches by event time", "match", pattern.format("ts", "PAST LAST ROW"), (Input("k v ts"),), has_order=False
    )
    yield Kind(
        "overlapping matches by event time",
        "match",
        pattern.format("ts", "TO NEXT ROW"),
        (Input("k v ts"),),
        has_order=False,
    )
    yield Kind(
        "matches by the clock", "match", pattern.format("pt", "PAST LAST ROW"), (Input("k v pt"),), has_order=False
    )
    yield Kind("rows by event time in order", "temporal-sort", "SELECT * FROM t ORDER BY ts, v", (Input("k v ts"),))


def cases() -> list[dict[str, Any]]:
    made = []
    for kind in kinds():
        tables = [given.ddl(name) for name, given in zip("tu", kind.inputs, strict=False)]
        for what, count in RUNS.items():
            if "without" in what and not kind.has_event_time:
                continue
            ttl = {"table.exec.state.ttl": f"{TTL_MS} ms"} if "ttl" in what else {}
            made.append(
                {
                    "name": f"{kind.name}: {what}",
                    "operator": kind.operator,
                    "query": kind.query,
                    "tables": [*tables, *kind.tables],
                    "options": {**dict(kind.options), **ttl},
                    "has_order": kind.has_order,
                    "backend": kind.backend,
                    "runs": [_steps(kind, random.Random(f"{kind.name} {what} {at}"), what) for at in range(count)],
                }
            )
    return made


class _Counts:
    """How often each pair of values was there."""

    def __init__(self, r: random.Random) -> None:
        self._r, self._counts = r, Counter[tuple[str, int]]()

    def changes(self, event_time: int) -> list[tuple[int, list[Any]]]:
        pair = self._r.choice("aaab"), self._r.randint(1, 5)
        self._counts[pair] += 1
        return [(0 if self._counts[pair] == 1 else 2, [*pair, self._counts[pair]])]


class _Rows:
    """Rows of an input, those that are there being changed at times."""

    def __init__(self, given: Input, attached: Sequence[str], r: random.Random) -> None:
        self._given, self._r = given, r
        self._names = [name for name in given.names if not attached or name != "ts"] + list(attached)
        self._there: list[list[Any]] = []
        self._number = 0

    def changes(self, event_time: int) -> list[tuple[int, list[Any]]]:
        """One change, or the two of an update."""
        r, fresh = self._r, self._fresh(event_time)
        if not self._given.changes:
            return [(0, fresh)]
        key = self._given.names.index(self._given.key) if self._given.key else None
        same = [at for at, row in enumerate(self._there) if key is not None and row[key] == fresh[key]]
        chosen = same[0] if same else r.randrange(len(self._there)) if self._there and r.random() < 0.5 else None
        if chosen is None:
            self._there.append(fresh)
            return [(0, fresh)]
        before = self._there[chosen]
        if r.random() < 0.4:
            del self._there[chosen]
            gone = [event_time if name == "ts" else value for name, value in zip(self._names, before, strict=True)]
            return [(3, gone)]
        if key is not None:
            fresh[key] = before[key]
        self._there[chosen] = fresh
        return [(1, before), (2, fresh)]

    def _fresh(self, event_time: int) -> list[Any]:
        self._number += 1
        start = event_time // 50 * 50
        values = {
            "k": self._r.choice("aab" if self._given.key == "k" else ["a", "a", "a", "b", None]),
            "v": self._r.randint(1, 5),
        }
        values |= {"w": self._r.randint(1, 5), "id": self._number, "ts": event_time, "pt": None}
        values |= {"window_start": start, "window_end": start + 50}
        return [values[name] for name in self._names]


def _steps(kind: Kind, r: random.Random, what: str) -> list[Step]:
    attached = ["window_start", "window_end"] if kind.operator == "window-join" else []
    sides = [_Counts(r) if kind.is_given_counts else _Rows(given, attached, r) for given in kind.inputs]
    steps: list[Step] = []
    now, event_time, reached = 0, 1_000, 0
    waiting: list[list[Step]] = [[] for _ in sides]
    while len(steps) < STEPS:
        choice = r.random()
        if choice < 0.65:
            side = r.randrange(len(sides))
            if not waiting[side]:
                at = max(event_time + r.randint(-25, 15), 1)
                waiting[side] = [
                    ["row", side, change, row]
                    for change, row in sides[side].changes(at)
                    if change != 1 or not kind.drops_before
                ]
            steps.append(waiting[side].pop(0))
        elif choice < 0.88 or not kind.has_event_time:
            now += r.choice((1, 20, 49, 50, 51, 99, 100, 101, 150))
            if kind.operator == "window-aggregate" and now % 10 == 9:
                now += 1  # in the last ms of a window that has fired, Flink's loses rows that come after its timer
            steps.append(["clock", now])
        else:
            event_time += r.choice((5, 20, 40))
            reached = event_time - 10
            steps.append(["watermark", reached])
        if "restored" in what and len(steps) in (STEPS // 3, 2 * STEPS // 3):
            steps.append(["restore"])
            if reached and "without" not in what:
                steps.append(["watermark", reached])
    if kind.has_event_time:
        steps.append(["watermark", event_time + 10_000])
    return [*steps, ["clock", now + 1_000]]
