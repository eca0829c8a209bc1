"""From files to files: the position in a file, and a file that waits for its commit."""

from __future__ import annotations

from pathlib import Path

from tests.compat.outline import Outline, hold_back
from tidegate.common import Types, WatermarkStrategy
from tidegate.connectors.file_sink import FileSink
from tidegate.connectors.file_source import FileSource
from tidegate.datastream import StreamExecutionEnvironment

FILES, LINES = 3, 400


def prepare(place: Path) -> None:
    (place / "input").mkdir(parents=True)
    for number in range(FILES):
        lines = [f"{number}-{line}" for line in range(LINES)]
        (place / "input" / f"{number}.txt").write_text("\n".join(lines) + "\n")


def slowly(line: str) -> str:
    hold_back(0.005)
    return line


def build(outline: Outline) -> StreamExecutionEnvironment:
    env = outline.environment()
    source = FileSource.for_text(str(outline.place / "input"))
    lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "lines").uid("lines")
    passed = lines.map(slowly, Types.STRING()).uid("pass")
    passed.sink_to(FileSink.for_text(str(outline.place / "output"))).uid("out")
    return env


def is_ready(outline: Outline) -> bool:
    return len(visible(outline)) > FILES * LINES // 10


def visible(outline: Outline) -> list[str]:
    return [line for part in (outline.place / "output").glob("part-*") for line in part.read_text().splitlines()]


def check(outline: Outline) -> None:
    """The directory came with the checkpoint, so everything is there: committed before, pending, and read since."""
    assert sorted(visible(outline)) == sorted(f"{number}-{line}" for number in range(FILES) for line in range(LINES))
    assert [path.name for path in (outline.place / "output").iterdir() if path.name.startswith(".")] == []
