"""Numbers into SQLite by the example's sink function, whose process dies at planned points of the two-phase commit.

Each point is taken once: whoever makes its file in ``--trace`` dies there, as ``kill -9`` kills.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tidegate.common import Types, WatermarkStrategy
from tidegate.connectors.number_sequence import DataGeneratorSource
from tidegate.datastream import StreamExecutionEnvironment

EXAMPLES = Path(__file__).parents[3] / "examples"
if TYPE_CHECKING:
    from examples.sqlite_sink import SqliteSink, Transaction
else:  # by the name under which add_python_file gives it to the subtasks
    sys.path.insert(0, str(EXAMPLES))
    from sqlite_sink import SqliteSink, Transaction

POINTS = ("behind the pre-commit", "in front of the commit", "behind the commit")
QUIET_COMMITS = 3
"""So many pass before the first point, so that there is a checkpoint to come back to."""


class Dying(SqliteSink):
    def __init__(self, database: str, trace: str) -> None:
        super().__init__(database)
        self.trace = trace
        self.commits = 0

    def pre_commit(self, transaction: Transaction) -> None:
        super().pre_commit(transaction)
        self.die_once(POINTS[0])

    def commit(self, transaction: Transaction) -> None:
        self.die_once(POINTS[1])
        super().commit(transaction)
        self.commits += 1
        self.die_once(POINTS[2])

    def die_once(self, point: str) -> None:
        taken = [(Path(self.trace) / before).exists() for before in POINTS]
        if self.commits < QUIET_COMMITS or not all(taken[: POINTS.index(point)]):
            return
        try:
            (Path(self.trace) / point).touch(exist_ok=False)
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)


def rows(first: int, number: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(np.arange(first, first + number))], names=["value"])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--database", required=True)
    parser.add_argument("--trace", required=True)
    arguments = parser.parse_args()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(200)
    env.add_python_file(str(EXAMPLES / "sqlite_sink.py"))
    source = DataGeneratorSource(rows, arguments.rows, rows_per_second=arguments.rate)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "rows").uid("rows")
    texts = numbers.map(lambda row: str(row[0]), Types.STRING()).uid("text")
    texts.add_sink(Dying(arguments.database, arguments.trace)).uid("sqlite")
    env.execute("rows into SQLite")


if __name__ == "__main__":
    main()
