"""Lines of a file that are no rows of its schema: they fail the job, are counted and left out, or go to a side output.

    block of lines ─ parse ─▶ fits: rows
                        └──▶ does not: halves, until what does not fit is one line ─▶ rows of the rest, and the bad ones

Law: what is bad in a block depends on its bytes alone, and is bad whatever exception it causes. The bad lines come
before the rows of their block, and are counted with them in positions, so that each goes out exactly once after a restart too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from tidegate.common.typeinfo import Types
from tidegate.connectors.content import check_content, content_errors
from tidegate.connectors.files.block import Block
from tidegate.connectors.files.compression import RandomAccess
from tidegate.functions.output_tag import OutputTag
from tidegate.model.errors import InvalidJob, SchemaMismatch

BAD_LINE = Types.ROW_NAMED(
    ["path", "offset", "line", "error"], [Types.STRING(), Types.LONG(), Types.STRING(), Types.STRING()]
)
"""The type of the side output: the file, the byte at which the line begins (of a compressed file: of what is in it), the line, and what
is wrong with it."""
SHOWN_CHARACTERS = 200
"""Chosen, not measured: of a bad line in the log."""
_COUNTED_BYTES = 1 << 28
"""Chosen, not measured: half a second of reading to count lines; of one behind them the byte alone is named."""
_PIECE_BYTES = 1 << 20
"""Chosen, not measured: what is counted at once."""

_LOG = logging.getLogger("tidegate.files")

Parse = Callable[[bytes, int], pa.RecordBatch]
"""``(lines, offset of the first)``: their rows. Raises ``SchemaMismatch``."""
Cut = Callable[[bytes, int], int]
"""``(lines, place)``: where the line ends that the place is in."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Whole lines of a file, from ``offset`` on."""

    raw: bytes
    path: str
    offset: int


def checked(parse: Parse, path: str) -> Parse:
    """``parse``, with a ``SchemaMismatch`` for whatever the lines cause, and for a null where the schema has none."""

    def rows(raw: bytes, offset: int) -> pa.RecordBatch:
        where = f"{path}, in the block at byte {offset}"
        with content_errors(where):
            data = parse(raw, offset)
        check_content(data, where)
        return data

    return rows


def rows_of(lines: Lines, parse: Parse, cut: Cut, file: RandomAccess) -> pa.RecordBatch:
    """Returns their rows. Raises ``SchemaMismatch`` that shows the first bad line."""
    try:
        return parse(lines.raw, lines.offset)
    except SchemaMismatch as error:
        first = _first_bad(lines, parse, cut)
        if first is None:
            raise
        number = line_number(file, first.offset)
        place = f"line {number}, at byte {first.offset}" if number else f"at byte {first.offset}"
        text = first.raw.rstrip(b"\r\n").decode(errors="replace")[:SHOWN_CHARACTERS]
        raise SchemaMismatch(f"{error.message}; the first bad line is {place}: {text!r}") from error


def good_lines(lines: Lines, parse: Parse, cut: Cut) -> bytes:
    """Returns the lines without the bad ones."""
    sorted_lines = _Sorted(parse, cut)
    sorted_lines.sort(lines.raw, lines.offset)
    kept, place = [], lines.offset
    for bad in sorted_lines.bad:
        begin = int(bad["offset"])
        kept.append(lines.raw[place - lines.offset : begin - lines.offset])
        place = lines.offset + cut(lines.raw, begin - lines.offset)
    return b"".join(kept) + lines.raw[place - lines.offset :]


def line_number(file: RandomAccess, offset: int) -> int:
    """Returns the number of the line that begins at ``offset``, counted from 1; 0 when that is too far behind."""
    if offset > _COUNTED_BYTES:
        return 0
    pieces = (bytes(file.read_at(min(_PIECE_BYTES, offset - at), at)) for at in range(0, offset, _PIECE_BYTES))
    return 1 + sum(piece.count(b"\n") or piece.count(b"\r") for piece in pieces)


@dataclass(frozen=True, slots=True)
class BadLines:
    """``tag``: of the side output; empty: they are left out, with a warning."""

    tag: str = ""

    def blocks(self, lines: Lines, skip: int, schema: pa.Schema, parse: Parse, cut: Cut) -> Iterator[Block]:
        """Yields what they are, from row ``skip`` on."""
        raw, path, offset = lines.raw, lines.path, lines.offset
        found = _Sorted(parse, cut)
        found.sort(raw, offset)
        bad, before, end = found.bad, 0, offset + len(raw)
        if self.tag and bad:
            before, first = len(bad), min(skip, len(bad))
            letters = pa.RecordBatch.from_pylist([{"path": path, **one} for one in bad], BAD_LINE.arrow_schema())
            yield Block(
                letters.slice(first), offset, first, offset, next_skip=before, side=self.tag, bad=before - first
            )
        elif bad and not skip:
            shown = bad[0]["line"][:SHOWN_CHARACTERS] if isinstance(bad[0]["line"], str) else ""
            _LOG.warning(
                "%s: left out %d bad lines behind byte %d, the first of which is %r", path, len(bad), offset, shown
            )
        of_rows = max(0, skip - before)
        left_out = 0 if self.tag or skip else len(bad)
        yield Block(found.rows(schema).slice(of_rows), offset, before + of_rows, end, bad=left_out)


def bad_lines_of(choice: str | OutputTag) -> BadLines | None:
    """Returns what a user's choice means; ``None``: the job fails. Raises ``InvalidJob``."""
    if isinstance(choice, OutputTag):
        if choice.type_info != BAD_LINE:
            raise InvalidJob(
                f"the side output {choice.tag_id!r} takes bad lines: OutputTag({choice.tag_id!r}, BAD_LINE)"
            )
        return BadLines(choice.tag_id)
    if choice not in ("fail", "skip"):
        raise InvalidJob(f"bad lines can 'fail' the job, be left out ('skip') or go to an OutputTag, not {choice!r}")
    return BadLines() if choice == "skip" else None


def line_end(raw: bytes, place: int) -> int:
    """``Cut`` where a line end always ends the line."""
    found = raw.find(b"\n", place)
    return len(raw) if found < 0 else found + 1


@dataclass(slots=True)
class _Sorted:
    parse: Parse
    cut: Cut
    good: list[pa.RecordBatch] = field(default_factory=list)
    bad: list[dict[str, int | str]] = field(default_factory=list)

    def sort(self, raw: bytes, offset: int) -> None:
        try:
            self.good.append(self.parse(raw, offset))
        except SchemaMismatch as error:
            end = _middle(raw, self.cut)
            if end == len(raw):
                line = raw.rstrip(b"\r\n").decode(errors="replace")
                self.bad.append({"offset": offset, "line": line, "error": error.message})
            else:
                self.sort(raw[:end], offset)
                self.sort(raw[end:], offset + end)

    def rows(self, schema: pa.Schema) -> pa.RecordBatch:
        """All good rows as one batch."""
        return pa.concat_batches(self.good) if self.good else pa.RecordBatch.from_pylist([], schema)


def _first_bad(lines: Lines, parse: Parse, cut: Cut) -> Lines | None:
    """The first line that is none alone."""
    raw, offset = lines.raw, lines.offset
    while raw:
        end = _middle(raw, cut)
        try:
            parse(raw[:end], offset)
        except SchemaMismatch:
            if end == len(raw):
                return Lines(raw, lines.path, offset)
            raw = raw[:end]
        else:
            raw, offset = raw[end:], offset + end
    return None


def _middle(raw: bytes, cut: Cut) -> int:
    """Where a line ends, near the middle if that is possible; the end of ``raw`` when it is one line."""
    place = len(raw) // 2
    while (end := cut(raw, place)) == len(raw) and place:
        place //= 2
    return end
