"""The dialect of CSV that Jackson reads and writes (``com.fasterxml.jackson.dataformat.csv``): one for files (``CsvReaderFormat``, ``CsvBulkWriters``)
and messages (``CsvRowDeserializationSchema``, ``CsvRowSerializationSchema``)."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

_LONGEST_UNLOOKED = 24
"""Jackson's `CsvGenerator` quotes longer cells without checking them, so Flink's files have them quoted."""
_LONGEST_CELL = (1 << 31) - 1
"""The largest length of a cell in Flink: Java's int."""
csv.field_size_limit(_LONGEST_CELL)  # of the whole process; Python's own is 128 KiB


@dataclass(frozen=True)
class CsvDialect:
    """The characters of a CSV dialect. ``quote_char`` and ``escape_char`` may be ``None``. A quote inside quotes is doubled. ``null_value``: the text
    of null; ``None``: null is written as an empty cell and never read."""

    column_separator: str = ","
    quote_char: str | None = '"'
    escape_char: str | None = None
    null_value: str | None = None
    allow_comments: bool = False
    line_separator: str = "\n"

    def records(self, lines: Iterable[str]) -> Iterator[list[str]]:
        """Yields the cells of each record; an empty line has one empty cell. Iterating raises ``csv.Error``."""
        options: dict[str, Any] = {"delimiter": self.column_separator, "escapechar": self.escape_char}
        if self.quote_char is None:
            options["quoting"] = csv.QUOTE_NONE
        else:
            options["quotechar"] = self.quote_char
        for cells in csv.reader(lines, **options):
            yield cells or [""]

    def line(self, cells: Sequence[str], are_bare: Sequence[bool]) -> str:
        """Formats a line without its end. ``are_bare``: cells that are never quoted."""
        return self.column_separator.join(
            cell if is_bare else self._quoted(cell) for cell, is_bare in zip(cells, are_bare, strict=True)
        )

    def _quoted(self, cell: str) -> str:
        quote, escape = self.quote_char, self.escape_char
        if quote is None or not (len(cell) > _LONGEST_UNLOOKED or self._needs_quotes(cell)):
            return cell
        doubled = cell.replace(quote, quote + quote)
        return f"{quote}{doubled if escape is None else doubled.replace(escape, escape + escape)}{quote}"

    def _needs_quotes(self, cell: str) -> bool:
        return any(char < self._first_safe or char in ("\\", self.escape_char) for char in cell)

    @cached_property
    def _first_safe(self) -> str:
        """Returns the first character that Jackson's quick check leaves unquoted: it quotes everything up to separator, quote and line end (and a
        backslash)."""
        return chr(1 + max(map(ord, f"{self.column_separator}{self.quote_char or ''}\r\n")))
