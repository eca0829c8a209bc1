"""How many rows a second the PostgreSQL sink writes by the size of the batches that come to it: ``python -m benchmarks.postgres``.

Beside it, in the same run and on the same server, each batch is a ``COPY`` of its own, as it is without gathering.
"""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from tests.servers.postgres_server import PostgresServer
from tidegate.connectors.postgres import sink
from tidegate.connectors.postgres.connections import connect
from tidegate.connectors.postgres.transactions import ensure_commits_table
from tidegate.records.arrow_type import ArrowTypeInfo
from tidegate.records.batch import ArrowBatch

ROWS = {1: 30_000, 10: 100_000, 1_000: 1_000_000}
"""By rows of a batch: enough for half a second where each batch is a ``COPY``."""
ROUNDS = 3
CONTEXT: Any = SimpleNamespace(job_id="bench", operator_id="sink", subtask_index=0, attempt="bench")


def batch_of(rows: int) -> ArrowBatch:
    numbers = pa.array(range(rows), pa.int64())
    columns = [numbers, numbers.cast(pa.float64()), pa.array(["word"] * rows)]
    return ArrowBatch(pa.RecordBatch.from_arrays(columns, names=["number", "half", "word"]))


def rate(server: PostgresServer, batch: ArrowBatch, batches: int, gathered_rows: int) -> float:
    """Rows a second, the vote included."""
    sink.GATHERED_ROWS = gathered_rows
    words = sink.PostgresSink(server.conninfo, "words")
    writer = words.make_writer(CONTEXT, [], ArrowTypeInfo(batch.data.schema))
    began = time.perf_counter()
    for _ in range(batches):
        writer.write(batch)
    (gid,) = writer.prepare_commit(1)
    took = time.perf_counter() - began
    server.query(f"ROLLBACK PREPARED '{gid}'")
    writer.close()
    return float(batch.data.num_rows * batches / took)


def main() -> None:
    gathered = sink.GATHERED_ROWS
    table = Table("rows of a batch", "a COPY each, rows/s", "gathered, rows/s", "ratio")
    with PostgresServer() as server:
        server.query("CREATE TABLE words (number bigint, half double precision, word text)")
        connection = connect(server.conninfo, "bench")
        ensure_commits_table(connection, server.conninfo)
        connection.close()
        for size, rows in ROWS.items():
            batch = batch_of(size)
            turns = [[rate(server, batch, rows // size, limit) for limit in (0, gathered)] for _ in range(ROUNDS)]
            one, many = (sorted(figures)[ROUNDS // 2] for figures in zip(*turns, strict=True))
            table.add_row(f"{size:,}", f"{one:,.0f}", f"{many:,.0f}", f"{many / one:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
