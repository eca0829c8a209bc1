"""Totals of SQL by key, of which one makes a Python function fail: for replaying the failure. ``--mended``: it does not."""

from __future__ import annotations

import argparse

from tidegate.table import DataTypes, EnvironmentSettings, TableEnvironment
from tidegate.table.udf import udf


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--total", type=int, default=135_450)
    parser.add_argument("--mended", action="store_true")
    args = parser.parse_args()

    @udf(result_type=DataTypes.BIGINT())
    def checked(total: int) -> int:
        if total == args.total and not args.mended:
            raise ValueError(f"the total is {total}")
        return total

    t_env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    t_env.create_temporary_function("checked", checked)
    t_env.execute_sql(
        "CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '300', "
        "'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '1000000')"
    )
    t_env.execute_sql("CREATE TABLE screen (k BIGINT, total BIGINT) WITH ('connector' = 'print')")
    totals = "SELECT MOD(n, 3) AS k, SUM(n) AS total FROM numbers GROUP BY MOD(n, 3)"
    t_env.execute_sql(f"INSERT INTO screen SELECT k, checked(total) FROM ({totals})")


if __name__ == "__main__":
    main()
