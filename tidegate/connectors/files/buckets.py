"""Buckets of file sinks: the directory below the output path for each row, by the time at which a part file is begun (Flink:
``DateTimeBucketAssigner``), or by the row's values."""

from __future__ import annotations

import datetime
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa

from tidegate.model.errors import InvalidJob

_TOKEN = re.compile(r"'(?P<quoted>[^']*)'|(?P<letter>[A-Za-z])(?P=letter)*|[^A-Za-z']")
_FIELDS: dict[str, Callable[[datetime.datetime], int]] = {
    "y": lambda t: t.year,
    "u": lambda t: t.year,
    "M": lambda t: t.month,
    "d": lambda t: t.day,
    "D": lambda t: t.timetuple().tm_yday,
    "H": lambda t: t.hour,
    "m": lambda t: t.minute,
    "s": lambda t: t.second,
}


class Buckets(ABC):
    """Chooses the directory of each row of a sink, and the columns of its files. Part of the pickled job."""

    def stored(self, schema: pa.Schema) -> pa.Schema:
        """Returns the columns of the files, for rows with ``schema``."""
        return schema

    @abstractmethod
    def split(self, data: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yields each directory with its rows, in the columns of the files."""

    def closes(self, bucket: str) -> bool:
        """Returns whether part files of other directories are closed when rows go to this one."""
        return False


@dataclass(frozen=True)
class DateTimeBuckets(Buckets):
    """A directory for each period of time. ``pattern``: of Java's ``DateTimeFormatter``, with the letters y, u, M, d, D, H, m, s in numbers, and text
    between quotes; ``zone``: a name such as ``Europe/Berlin``, or ``None`` for UTC (Flink uses the zone of the machine, which may differ between
    TaskManagers). Raises ``InvalidJob`` for others."""

    pattern: str = "yyyy-MM-dd--HH"
    zone: str | None = None

    def __post_init__(self) -> None:
        self.of(datetime.datetime(2000, 1, 1))
        if ".." in self.pattern or self.pattern.startswith("/"):
            raise InvalidJob(f"bucket pattern {self.pattern!r} leads out of the output path")
        try:
            self._zone()
        except (ZoneInfoNotFoundError, ValueError):
            raise InvalidJob(f"unknown time zone {self.zone!r}; one is Europe/Berlin") from None

    def split(self, data: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        yield self.now(), data

    def closes(self, bucket: str) -> bool:
        return True

    def now(self) -> str:
        """Returns the directory for the current time."""
        return self.of(datetime.datetime.now(self._zone()))

    def of(self, moment: datetime.datetime) -> str:
        """Returns the directory for a moment. Raises ``InvalidJob`` when the pattern cannot be read."""
        parts, end = [], 0
        for token in _TOKEN.finditer(self.pattern):
            parts.append(self._part(token, moment))
            end = token.end()
        if end != len(self.pattern):
            raise InvalidJob(f"bucket pattern {self.pattern!r} has a quote that does not end")
        return "".join(parts)

    def _part(self, token: re.Match[str], moment: datetime.datetime) -> str:
        text, letter, quoted = token.group(), token.group("letter"), token.group("quoted")
        if quoted is not None:
            return quoted or "'"
        if letter is None:
            return text
        if letter not in _FIELDS or (letter == "M" and len(text) > 2):
            raise InvalidJob(
                f"bucket pattern {self.pattern!r}: {text!r} is not supported; use y, M, d, H, m and s in numbers"
            )
        value = _FIELDS[letter](moment)
        return f"{value % 100:02d}" if letter in "yu" and len(text) == 2 else f"{value:0{len(text)}d}"

    def _zone(self) -> datetime.tzinfo:
        return datetime.UTC if self.zone is None else ZoneInfo(self.zone)
