"""A job that beats, written once for PyFlink and for tidegate: each subtask notes the time of every record, and when it was opened.

Arguments: package (``tidegate`` or ``pyflink``), output directory, parallelism, checkpoint interval in ms.
"""

from __future__ import annotations

import importlib
import os
import struct
import sys
import time
from pathlib import Path
from typing import Any

PERIOD_S = 0.01
"""Between two records of a subtask: a gap of a tenth of a second is plain to see."""
ENDLESS = 10**12

PACKAGE = sys.argv[1] if len(sys.argv) > 1 else "tidegate"
common: Any = importlib.import_module(f"{PACKAGE}.common")
datastream: Any = importlib.import_module(f"{PACKAGE}.datastream")
functions: Any = importlib.import_module(f"{PACKAGE}.datastream.functions")
numbers: Any = importlib.import_module(f"{PACKAGE}.datastream.connectors.number_seq")


class Beat(functions.MapFunction):  # type: ignore[misc]
    def __init__(self, output: str) -> None:
        self.output = output

    def open(self, runtime_context: Any) -> None:
        index = runtime_context.get_index_of_this_subtask()
        self.file = os.open(
            Path(self.output) / f"{index}-{time.time_ns()}", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644
        )

    def map(self, value: Any) -> Any:
        time.sleep(PERIOD_S)
        os.write(self.file, struct.pack("<d", time.time()))
        return value


def main(output: str, parallelism: str, interval_ms: str) -> None:
    env = datastream.StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(int(parallelism)).enable_checkpointing(int(interval_ms))
    source = numbers.NumberSequenceSource(0, ENDLESS)
    none = common.WatermarkStrategy.no_watermarks()
    beats = env.from_source(source, none, "numbers", common.Types.LONG()).map(Beat(output), common.Types.LONG())
    beats.filter(lambda number: number < 0).print()
    env.execute("beats")


if __name__ == "__main__":
    main(*sys.argv[2:])
