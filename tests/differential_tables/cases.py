"""Random statements over small random tables, each from a seed alone.

seed ─▶ Case ─▶ Flink 2.3 (``flink_side.py``): the plan and its changelog ─┐
            └─▶ the plan in one process (``replay``) ──────────────────────┴─▶ the same changes, or the seed is printed
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from tests.differential_tables import queries, time_queries
from tests.differential_tables.tables import Table, changes_of, table, types

ZONES = ("UTC", "UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata")


@dataclass(frozen=True)
class Case:
    """``is_exact``: the changelog is the same in every run of Flink; otherwise the rows that it leaves are."""

    seed: int
    kind: str
    tables: tuple[Table, ...]
    query: str
    is_streaming: bool
    is_exact: bool
    options: Mapping[str, str] = field(default_factory=dict)


def case_of(seed: int) -> Case:
    """Returns the case of a seed."""
    r = random.Random(seed)
    kind = r.choice(list(_KINDS))
    key, wide, computed = types(r)
    is_keyed = kind == "temporal join"
    if is_keyed:
        computed = []
    tables: tuple[Table, ...] = (
        table(r, "t", key, wide, computed),
        table(r, "u", key, wide, computed, is_keyed=is_keyed),
    )
    if kind in _THREE:
        tables = (*tables, table(r, "v", key, wide, computed))
    is_streaming = kind in _STREAMING or (kind not in _BATCH and r.random() < 0.65)
    options = {"table.local-time-zone": r.choice(ZONES)}
    if is_streaming and kind in _CHANGING and r.random() < _CHANGING[kind]:
        tables = tuple(changes_of(r, one) if r.random() < 0.7 else one for one in tables)
    if kind in _UPDATED and r.random() < 0.3:
        kind = f"updated {kind}"
        views = tuple(_of_groups(one) for one in tables)
        query, is_exact = _KINDS[kind.removeprefix("updated ")](r, *views[:2])
        groups = ", ".join(f"{one.name * 2} AS ({_groups(r, one)})" for one in views)
        query = f"WITH {groups} " + re.sub(r"\b(FROM|JOIN) ([tuv])\b(?! AS| p)", r"\1 \2\2 AS \2", query)
    else:
        query, is_exact = _KINDS[kind](r, *tables[:2])
    if not is_streaming:  # rows are sorted by key there, and which one comes first is not said
        query = query.replace("FIRST_VALUE", "MIN").replace("LAST_VALUE", "MAX")
        query = re.sub(r"\b(LISTAGG|ARRAY_AGG|JSON_ARRAYAGG)\(((?:DISTINCT )?[\w.`]+)[^)]*\)", r"COUNT(\2)", query)
    if is_streaming and kind in _MINI_BATCHES and r.random() < 0.25:
        options |= _MINI_BATCH
        is_exact = False
        query = query.replace("FIRST_VALUE", "MIN").replace(
            "LAST_VALUE", "MAX"
        )  # which row of a bundle comes first is not said
        if r.random() < 0.5:
            options["table.optimizer.distinct-agg.split.enabled"] = "true"
    return Case(seed, kind, tables, query, is_streaming, is_exact and is_streaming, options)


def _of_groups(t: Table) -> Table:
    """With the columns that ``LAST_VALUE`` takes."""
    taken = ("id", "k", *t.named("TINY", "SMALL", "INT", "BIG", "DOUBLE", "FLOAT", "DECIMAL", "STRING", "BOOL", "DATE"))
    columns = tuple((name, type.removesuffix(" NOT NULL")) for name, type in t.columns if name in taken)
    return replace(t, columns=columns, computed={})


def _groups(r: random.Random, t: Table) -> str:
    """A table whose rows change."""
    group = f"MOD(id, {r.choice([3, 5, 8])})"
    function = "LAST_VALUE" if r.random() < 0.7 else "MAX"
    values = ", ".join(f"{function}({name}) AS {name}" for name, _ in t.columns if name != "id")
    return f"SELECT {group} AS id, {values} FROM {t.name} GROUP BY {group}"


_MINI_BATCH = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "1 s",
    "table.exec.mini-batch.size": "5",
    "table.optimizer.agg-phase-strategy": "TWO_PHASE",
}


_KINDS: Mapping[str, Callable[[random.Random, Table, Table], tuple[str, bool]]] = {
    "projection": queries.projection,
    "projections": queries.projection,
    "values": queries.projection,
    "aggregate": queries.aggregate,
    "aggregates": queries.aggregate,
    "distinct": queries.distinct,
    "join": queries.join,
    "joins of joins": queries.joins_of_joins,
    "sets": queries.sets,
    "sets of sets": queries.sets_of_sets,
    "top": queries.top,
    "deduplicate": queries.deduplicate,
    "windows": time_queries.windows,
    "windows of windows": time_queries.windows_again,
    "window ranks": time_queries.window_ranks,
    "window joins": time_queries.window_joins,
    "sessions": time_queries.sessions,
    "legacy windows": time_queries.legacy_windows,
    "over": time_queries.over,
    "over values": queries.over_values,
    "interval join": time_queries.interval_join,
    "temporal join": time_queries.temporal_join,
    "nested": queries.nested,
    "unnest": queries.unnest,
    "subqueries": queries.subqueries,
    "ranks": queries.ranks,
    "sorts": queries.sorts,
}
_THREE = ("joins of joins", "sets of sets")
_CHANGING = {
    "join": 0.4,
    "joins of joins": 0.6,
    "sets": 0.4,
    "sets of sets": 0.6,
    "subqueries": 0.4,
    "nested": 0.2,
    "aggregate": 0.2,
    "distinct": 0.2,
    "top": 0.3,
    "unnest": 0.2,
}
"""How many of these streams are over tables whose rows change and go."""
_STREAMING = ("top", "deduplicate", "sessions", "legacy windows", "over", "interval join", "temporal join")
_BATCH = ("ranks", "sorts")
_UPDATED = (
    "aggregate",
    "aggregates",
    "distinct",
    "join",
    "joins of joins",
    "sets",
    "sets of sets",
    "top",
    "unnest",
    "subqueries",
    "projection",
)
_MINI_BATCHES = (
    "aggregate",
    "updated aggregate",
    "updated aggregates",
    "nested",
    "windows",
    "updated join",
    "joins of joins",
    "updated joins of joins",
    "distinct",
)

__all__ = ["Case", "Table", "case_of"]
