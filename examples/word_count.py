"""Word count over any text files: the first program of every stream processor.

    python examples/word_count.py README.md docs                          prints (word, count)
    tidegate run -p 2 examples/word_count.py --output /tmp/counts docs    writes CSV files, exactly once

A word is a run of letters, digits and apostrophes, in lower case. The input is bounded and the mode is BATCH, so every
word is counted once and for all; in STREAMING mode the same program would emit a new count with every word.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

from tidegate.common import Row, Types, WatermarkStrategy
from tidegate.connectors.files import FileSink, FileSource
from tidegate.datastream import RuntimeExecutionMode, StreamExecutionEnvironment

WORD = re.compile(r"[\w']+")


def words(line: str) -> Iterator[str]:
    yield from WORD.findall(line.lower())


def add_counts(left: tuple[str, int], right: tuple[str, int]) -> tuple[str, int]:
    return left[0], left[1] + right[1]


def main() -> None:
    parser = argparse.ArgumentParser(description="count the words of text files")
    parser.add_argument("paths", nargs="+", help="text files, or directories of them")
    parser.add_argument("--output", help="directory for CSV files; without it the counts are printed")
    arguments = parser.parse_args()

    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    env.enable_checkpointing(1000)

    lines = env.from_source(FileSource.for_text(*arguments.paths), WatermarkStrategy.no_watermarks(), "lines")
    counts = (
        lines.flat_map(words, Types.STRING())
        .map(lambda word: (word, 1), Types.TUPLE([Types.STRING(), Types.LONG()]))
        .name("pair")
        .key_by(lambda pair: pair[0], Types.STRING())
        .reduce(add_counts)
        .name("count")
        .uid("count")
    )
    if arguments.output is None:
        counts.print()
    else:
        rows = counts.map(
            lambda pair: Row(word=pair[0], count=pair[1]),
            Types.ROW_NAMED(["word", "count"], [Types.STRING(), Types.LONG()]),
        )
        rows.name("row").sink_to(FileSink.for_csv(arguments.output)).name("counts").uid("counts")
    env.execute("word count")


if __name__ == "__main__":
    main()
