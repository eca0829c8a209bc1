"""Pipelines that have nothing to do with each other: each subtask reads its numbers and writes them to a file sink, exactly once.

The job is one vertex, so each subtask is a region of its own: one that is lost takes no other with it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tidegate.common import Types, WatermarkStrategy
from tidegate.connectors.file_sink import FileSink
from tidegate.connectors.number_sequence import NumberSequenceSource
from tidegate.connectors.throttle import ThrottledSource
from tidegate.datastream import StreamExecutionEnvironment


def parser() -> argparse.ArgumentParser:
    """``--rows`` in all, in about ``--seconds``."""
    made = argparse.ArgumentParser()
    made.add_argument("--output", type=Path, required=True)
    made.add_argument("--rows", type=int, default=20_000)
    made.add_argument("--seconds", type=float, default=10)
    made.add_argument("--parallelism", type=int, default=2)
    return made


def main() -> None:
    arguments = parser().parse_args()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(arguments.parallelism)
    env.enable_checkpointing(300)
    rate = arguments.rows / arguments.seconds / arguments.parallelism
    numbers = ThrottledSource(NumberSequenceSource(1, arguments.rows), rate)
    stream = env.from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers")
    stream.map(str, output_type=Types.STRING()).sink_to(FileSink.for_text(str(arguments.output)))
    env.execute("pipelines")


if __name__ == "__main__":
    main()
