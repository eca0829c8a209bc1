"""What both planners are given: a table of the Parquet files of events, the three views of Nexmark over it, and the queries.

The queries are those of ``tests/e2e/jobs/nexmark.py``, which have the plans of the official ones; a test there compares them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from tests.e2e.jobs import nexmark

QUERIES: Mapping[str, str] = nexmark.QUERIES
NOT_IN_FLINK = {"q13": "its table is a file, which Flink cannot look up"}
SETTINGS = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "50000",
    "table.optimizer.distinct-agg.split.enabled": "true",
    "execution.checkpointing.incremental": "true",
}
"""Nexmark's own settings of Flink. Its heap state, which is faster than RocksDB, writes whole snapshots nevertheless."""
_TYPES = {pa.int64(): "BIGINT", pa.string(): "STRING", pa.timestamp("ms"): "TIMESTAMP(3)"}


def _columns(kind: str) -> dict[str, str]:
    """The names of a kind's columns, with those that they have in the files."""
    return {name: "`dateTime`" if name == "dateTime" else f"{kind[0]}_{name}" for name in nexmark.KINDS[kind]}


def tables(directory: Path) -> list[str]:
    """The statements in front of each query over Parquet files."""
    return tables_of(f"'connector' = 'filesystem', 'path' = '{directory}', 'format' = 'parquet'")


def tables_of(options: str) -> list[str]:
    """The statements in front of each query over a table of all events with these options."""
    stored = [
        f"{column} {_TYPES[nexmark.KINDS[kind][name]]}"
        for kind in nexmark.KINDS
        for name, column in _columns(kind).items()
        if name != "dateTime"
    ]
    made = [
        f"CREATE TEMPORARY TABLE events (event_type INT, {', '.join(stored)}, `dateTime` TIMESTAMP(3), WATERMARK FOR `dateTime` AS {nexmark.WATERMARK}) "
        f"WITH ({options})"
    ]
    for number, kind in enumerate(nexmark.KINDS):
        columns = ", ".join(
            column if name == "dateTime" else f"{column} AS {name}" for name, column in _columns(kind).items()
        )
        made.append(f"CREATE TEMPORARY VIEW {kind} AS SELECT {columns} FROM events WHERE event_type = {number}")
    return [*made, "CREATE TEMPORARY VIEW timed AS SELECT *, PROCTIME() AS clock FROM bid"]


def partitions(directory: Path) -> str:
    """The table that q10 fills; other queries are written to ``blackhole``."""
    columns = "auction BIGINT, bidder BIGINT, price BIGINT, `dateTime` TIMESTAMP(3), extra STRING, dt STRING, hm STRING"
    return f"CREATE TEMPORARY TABLE partitions ({columns}) {nexmark.COMMITTED.format(directory)}"
