"""Finding the ends of CSV records: line ends that are not between quotes.

    a,"x          A quote opens a cell only at its beginning; in the middle of one it is a character.
    y",b⏎         Inside, a quote closes, unless another follows it: the two are one character.
    c,5" pipe,d⏎

Quotes are found by whole blocks: every second one closes, so a line end is safe behind an even number of them. That is
proven for each block, since every quote that would open must stand where one may; only a block with a quote in the
middle of a bare cell is gone through quote by quote.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

QUOTE = b'"'
_CODE = ord(QUOTE)


@dataclass(frozen=True)
class RecordEnds:
    """Finds the ends of records. ``has_quotes=False``: quotes are plain characters, and every line end ends a record."""

    delimiter: str = ","
    has_quotes: bool = True

    def first(self, raw: bytes, at: int) -> int:
        """Returns the offset after the first line end at or after ``at`` that ends a record; 0 if there is none. ``raw`` begins at a record. A ``\\r``
        at its very end does not count, since ``\\n`` may follow."""
        if not self.has_quotes:
            return _line_end(raw, at, len(raw))
        if raw.find(QUOTE, 0, at) < 0:
            end = _line_end(raw, at, len(raw))
            if raw.find(QUOTE, at, end) < 0:
                return end
        quotes = self._opening_and_closing(raw)
        after = int(np.searchsorted(quotes, at))
        is_outside, begin = after % 2 == 0, at
        for quote in (*quotes[after:].tolist(), len(raw)):
            if is_outside and (end := _line_end(raw, begin, quote)):
                return end
            is_outside, begin = not is_outside, quote + 1
        return 0

    def open_quote(self, raw: bytes) -> int | None:
        """Returns the offset of the quote that ``raw`` does not close; ``None`` if there is none."""
        if not self.has_quotes or QUOTE not in raw:
            return None
        quotes = self._opening_and_closing(raw)
        return int(quotes[-1]) if len(quotes) % 2 else None

    def _opening_and_closing(self, raw: bytes) -> npt.NDArray[np.int64]:
        """Returns the offsets of quotes that open or close cells, in turn; the two of a doubled quote count as closing and opening."""
        data = np.frombuffer(raw, np.uint8)
        quotes = np.flatnonzero(data == _CODE)
        may_open = self._is_before_cell[data[quotes - 1]]
        may_open[:1] |= quotes[:1] == 0
        would_open = may_open[2::2] | (quotes[2::2] == quotes[1:-1:2] + 1)
        if may_open[:1].all() and would_open.all():
            return quotes
        return np.array(_one_by_one(quotes.tolist(), may_open.tolist()), np.int64)

    @cached_property
    def _is_before_cell(self) -> npt.NDArray[np.bool_]:
        found = np.zeros(256, np.bool_)
        found[list(f"{self.delimiter}\r\n".encode())] = True
        return found


def _one_by_one(quotes: list[int], may_open: list[bool]) -> list[int]:
    """Drops the quotes that are plain characters of a bare cell."""
    kept: list[int] = []
    is_inside, closed = False, -2
    for quote, is_first in zip(quotes, may_open, strict=True):
        if is_inside:
            is_inside, closed = False, quote
        elif is_first or quote == closed + 1:
            is_inside = True
        else:
            continue
        kept.append(quote)
    return kept


def _line_end(raw: bytes, begin: int, end: int) -> int:
    """Returns the offset after the first ``\\n``, ``\\r\\n`` or ``\\r`` in a range, or 0."""
    newline = raw.find(b"\n", begin, end)
    alone = raw.find(b"\r", begin, end if newline < 0 else newline)
    if alone < 0 or alone + 1 in (newline, len(raw)):
        return newline + 1
    return alone + 1
