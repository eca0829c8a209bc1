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
"""The type of the side output of bad lines: the file, the byte at which the line begins (for a compressed file: of its content), the line, and what is
wrong with it."""
SHOWN_CHARACTERS = 200
"""How many characters of a bad line the log shows. Chosen, not measured."""
_COUNTED_BYTES = 1 << 28
"""How many bytes are read to count lines. Chosen, not measured: half a second of reading; a line after them is named by its byte only."""
_PIECE_BYTES = 1 << 20
"""How many bytes are counted at once. Chosen, not measured."""

_LOG = logging.getLogger("tidegate.files")

Parse = Callable[[bytes, int], pa.RecordBatch]
"""Parses lines, given their bytes and the offset of the first, to rows. Raises ``SchemaMismatch``."""
Cut = Callable[[bytes, int], int]
"""Returns the end of the line that contains a place, given bytes and the place."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Whole lines of a file that begin at ``offset``."""

    raw: bytes
    path: str
    offset: int


def checked(parse: Parse, path: str) -> Parse:
    """Wraps ``parse`` so that it raises ``SchemaMismatch`` for whatever lines cause, and for a null in a field that is not nullable."""

    def rows(raw: bytes, offset: int) -> pa.RecordBatch:
        where = f"{path}, in the block at byte {offset}"
        with content_errors(where):
            data = parse(raw, offset)
        check_content(data, where)
        return data

    return rows


def rows_of(lines: Lines, parse: Parse, cut: Cut, file: RandomAccess) -> pa.RecordBatch:
    """Parses lines to rows. Raises ``SchemaMismatch`` that shows the first bad line."""
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
    """Returns the lines except the bad ones."""
    sorted_lines = _Sorted(parse, cut)
    sorted_lines.sort(lines.raw, lines.offset)
    kept, place = [], lines.offset
    for bad in sorted_lines.bad:
        begin = int(bad["offset"])
        kept.append(lines.raw[place - lines.offset : begin - lines.offset])
        place = lines.offset + cut(lines.raw, begin - lines.offset)
    return b"".join(kept) + lines.raw[place - lines.offset :]


def line_number(file: RandomAccess, offset: int) -> int:
    """Returns the number, from 1, of the line that begins at ``offset``; 0 if it is too far into the file to count."""
    if offset > _COUNTED_BYTES:
        return 0
    pieces = (bytes(file.read_at(min(_PIECE_BYTES, offset - at), at)) for at in range(0, offset, _PIECE_BYTES))
    return 1 + sum(piece.count(b"\n") or piece.count(b"\r") for piece in pieces)


@dataclass(frozen=True, slots=True)
class BadLines:
    """What is done with bad lines. ``tag``: of the side output; empty: they are skipped with a warning."""

    tag: str = ""

    def blocks(self, lines: Lines, skip: int, schema: pa.Schema, parse: Parse, cut: Cut) -> Iterator[Block]:
        """Yields the good rows and the bad lines, from row ``skip`` on."""
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
                "%s: skipped %d bad lines after byte %d, the first of which is %r", path, len(bad), offset, shown
            )
        of_rows = max(0, skip - before)
        left_out = 0 if self.tag or skip else len(bad)
        yield Block(found.rows(schema).slice(of_rows), offset, before + of_rows, end, bad=left_out)


def bad_lines_of(choice: str | OutputTag) -> BadLines | None:
    """Parses the user's choice for bad lines; ``None``: the job fails. Raises ``InvalidJob``."""
    if isinstance(choice, OutputTag):
        if choice.type_info != BAD_LINE:
            raise InvalidJob(
                f"the side output {choice.tag_id!r} for bad lines has the wrong type: write OutputTag({choice.tag_id!r}, BAD_LINE)"
            )
        return BadLines(choice.tag_id)
    if choice not in ("fail", "skip"):
        raise InvalidJob(
            f"the choice for bad lines is 'fail' (the job fails), 'skip' (they are left out) or an OutputTag, not {choice!r}"
        )
    return BadLines() if choice == "skip" else None


def line_end(raw: bytes, place: int) -> int:
    """Returns the end of the line that contains ``place``, for formats in which every line end ends a record."""
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
        """Returns all good rows as one batch."""
        return pa.concat_batches(self.good) if self.good else pa.RecordBatch.from_pylist([], schema)


def _first_bad(lines: Lines, parse: Parse, cut: Cut) -> Lines | None:
    """Returns the first line that is bad on its own."""
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
    """Returns a line's end near the middle of ``raw``; its length when it is one line."""
    place = len(raw) // 2
    while (end := cut(raw, place)) == len(raw) and place:
        place //= 2
    return end
