"""The window benchmark in Flink SQL, run by PyFlink's Table API on a Flink cluster (no Python at run time).

Arguments: rows, parallelism, output directory, checkpoint interval in ms. The rows are those of ``benchmarks.rows`` but for the order
of their event time, which follows the number: Flink's generator deals numbers in turn, not in ranges.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

KEYS, WINDOW_S, ROWS_PER_MS = 10_000, 5, 500

SOURCE = """
CREATE TABLE numbers (
    number BIGINT,
    key AS MOD(number * 7919, {keys}),
    `value` AS MOD(number, 1024),
    ts AS TO_TIMESTAMP_LTZ(number / {rows_per_ms}, 3),
    WATERMARK FOR ts AS ts
) WITH ('connector' = 'datagen', 'fields.number.kind' = 'sequence', 'fields.number.start' = '0', 'fields.number.end' = '{last}',
        'rows-per-second' = '1000000000')
"""
SINK = """
CREATE TABLE totals (began TIMESTAMP_LTZ(3), key BIGINT, `rows` BIGINT, total BIGINT)
WITH ('connector' = 'filesystem', 'path' = '{output}', 'format' = 'csv')
"""
QUERY = """
INSERT INTO totals
SELECT window_start_ltz, key, `rows`, total FROM (
    SELECT window_time AS window_start_ltz, key, COUNT(*) AS `rows`, SUM(`value`) AS total
    FROM TABLE(TUMBLE(TABLE numbers, DESCRIPTOR(ts), INTERVAL '{window_s}' SECOND))
    GROUP BY window_start, window_end, window_time, key
)
"""


def main(rows: int, parallelism: int, output: str, interval_ms: int) -> None:
    table: Any = importlib.import_module("pyflink.table")
    environment = table.TableEnvironment.create(table.EnvironmentSettings.in_streaming_mode())
    configuration = environment.get_config()
    configuration.set("parallelism.default", str(parallelism))
    configuration.set("execution.checkpointing.interval", f"{interval_ms} ms")
    configuration.set("pipeline.object-reuse", "true")
    names = {
        "keys": KEYS,
        "last": rows - 1,
        "output": output,
        "window_s": WINDOW_S,
        "rows_per_ms": ROWS_PER_MS * parallelism,
    }
    environment.execute_sql(SOURCE.format(**names))
    environment.execute_sql(SINK.format(**names))
    environment.execute_sql(QUERY.format(**names))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
