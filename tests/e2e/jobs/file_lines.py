"""Lines of files, each written once by a file sink. The splits are handed out by the coordinator of the source, a file at a time.

The job is one vertex, so each subtask is a region of its own: one that is lost takes no other with it.
"""

from __future__ import annotations

import argparse

from tidegate.common import WatermarkStrategy
from tidegate.connectors.file_sink import FileSink
from tidegate.connectors.file_source import FileSource
from tidegate.connectors.throttle import ThrottledSource
from tidegate.datastream import StreamExecutionEnvironment


def parser() -> argparse.ArgumentParser:
    """``--rate``: lines a second of each subtask."""
    made = argparse.ArgumentParser()
    made.add_argument("--input", required=True)
    made.add_argument("--output", required=True)
    made.add_argument("--rate", type=float, default=1_000)
    return made


def main() -> None:
    arguments = parser().parse_args()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(300)
    lines = ThrottledSource(FileSource.for_text(arguments.input), arguments.rate)
    stream = env.from_source(lines, WatermarkStrategy.no_watermarks(), "lines").uid("lines")
    stream.sink_to(FileSink.for_text(arguments.output)).uid("sink")
    env.execute("file-lines")


if __name__ == "__main__":
    main()
