"""A reader that is fast, or whose splits are small, takes more of them: a real job in this process, with the real coordinator."""

from __future__ import annotations

import threading
from pathlib import Path

from tests.unit.taskmanager.runtime.collecting import CollectingSink, committed
from tests.unit.taskmanager.runtime.in_process import InProcessJob
from tidegate.common import Types, WatermarkStrategy
from tidegate.connectors.file_source import FileSource
from tidegate.datastream import StreamExecutionEnvironment

SMALL_FILES = 11
LONG = "x" * (5 << 20)
"""Larger than what is handed out together with another split."""
LIMIT_S = 60
_SEEN: dict[str, set[str]] = {}
_OTHERS_ARE_READ = threading.Event()


def _hold_the_long_one(line: str) -> str:
    """Lets the long line pass when every other one was seen: dealt in advance, half of them would be behind it."""
    if len(line) > len("small 00"):
        assert _OTHERS_ARE_READ.wait(LIMIT_S), "the reader of the long file was given others"
        return "long"
    seen = _SEEN.setdefault("lines", set())
    seen.add(line)
    if len(seen) == SMALL_FILES:
        _OTHERS_ARE_READ.set()
    return line


def test_the_reader_of_a_long_file_leaves_the_others_to_its_sibling(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    directory.mkdir()
    (directory / "00-long.txt").write_text(LONG + "\n")
    for number in range(SMALL_FILES):
        (directory / f"small-{number:02}.txt").write_text(f"small {number:02}\n")
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    lines = env.from_source(FileSource.for_text(str(directory)), WatermarkStrategy.no_watermarks(), "lines")
    lines.map(_hold_the_long_one, Types.STRING()).sink_to(CollectingSink(str(tmp_path)))
    job = InProcessJob(env.build(), tmp_path)
    job.start()
    job.finish()
    assert sorted(committed(str(tmp_path))) == [["long"], *([f"small {number:02}"] for number in range(SMALL_FILES))]
