"""Keeps the files in which sources note their progress: restores them before a source is made, and collects those that it writes."""

from __future__ import annotations

import zlib
from pathlib import Path

from tidegate.connectors.spark.stream_link import Written
from tidegate.model.errors import ON_DAMAGE, CorruptData


class WrittenFiles:
    """The progress files of a query's sources, below ``directory``. Sources write a file once, as a whole, under its final name."""

    def __init__(self, directory: Path, written: Written) -> None:
        self._directory = directory
        self._known = set(written)
        directory.mkdir(parents=True)
        for name, content in written.items():
            place = directory / name
            if not place.resolve().is_relative_to(directory.resolve()):
                raise CorruptData(
                    f"the state of a Spark stream names the file {name!r}, which is not below its directory; {ON_DAMAGE}"
                )
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(zlib.decompress(content))

    def new(self) -> Written:
        """Returns the files that were written since the last call: relative path -> compressed content."""
        found = {}
        for path in sorted(self._directory.rglob("*")):
            name = path.relative_to(self._directory).as_posix()
            if name in self._known or path.name.startswith(".") or path.suffix == ".tmp" or not path.is_file():
                continue
            self._known.add(name)
            found[name] = zlib.compress(path.read_bytes())
        return found
