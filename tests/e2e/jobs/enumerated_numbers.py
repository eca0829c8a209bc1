"""Numbers of a source with an enumerator of the user's (``tests/enumerated_numbers.py``), each written once by a file sink."""

from __future__ import annotations

import argparse

from tests.enumerated_numbers import NumbersSource
from tidegate.common import WatermarkStrategy
from tidegate.common.typeinfo import Types
from tidegate.connectors.file_sink import FileSink
from tidegate.datastream import StreamExecutionEnvironment


def parser() -> argparse.ArgumentParser:
    """``--pause``: seconds after each number."""
    made = argparse.ArgumentParser()
    made.add_argument("--output", required=True)
    made.add_argument("--count", type=int, required=True)
    made.add_argument("--pause", type=float, default=0.001)
    return made


def main() -> None:
    arguments = parser().parse_args()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(300)
    source = NumbersSource(arguments.count, 100, arguments.pause)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    numbers.map(str, Types.STRING()).uid("text").sink_to(FileSink.for_text(arguments.output)).uid("sink")
    env.execute("enumerated-numbers")


if __name__ == "__main__":
    main()
