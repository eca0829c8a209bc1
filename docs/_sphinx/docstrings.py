"""Docstrings are plain text with backticks, lists and indented examples; Sphinx wants reStructuredText. This makes one of the other.

Plain text may hold what reStructuredText gives a meaning (``*args``, ``name_``, a bar, an indented diagram). Here all of
that stands for itself, so that who writes a docstring need not know: code in backticks, single or double, is code; what is
indented is an example as it stands; lines that begin with a dash or a number are a list.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

_CODE = re.compile(r"(?P<role>:[a-z:]+:)?(?P<ticks>`+)(?P<code>[^`]+)(?P=ticks)")
_ITEM = re.compile(r"(?:[-*] |\d+\. |:[a-z]+[^:`]*: )")
_SPECIAL = re.compile(r"[\\*|]|(?<=\w)_(?!\w)")


def to_rst(lines: Sequence[str]) -> list[str]:
    """The lines of a docstring, without common indent, as reStructuredText that says the same."""
    written: list[str] = []
    for kind, block in _blocks([line.rstrip() for line in lines]):
        if kind == "example":
            example = _dedented(block)
            written += [_marker(example), "", *(f"    {line}" if line else "" for line in example), ""]
        elif kind == "item":
            written += _text(block)
        elif kind == "items end":
            written.append("")
        else:
            written += [*_text(block), ""]
    return written


def _blocks(lines: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Paragraphs, items of lists, indented examples; blank lines are between them."""
    position, in_list = 0, False
    while position < len(lines):
        line = lines[position]
        if not line:
            position += 1
            continue
        is_item = bool(_ITEM.match(line))
        if in_list and not is_item:
            yield "items end", []
        in_list = is_item
        end = _end_of(lines, position, is_item)
        yield _kind(line, is_item), list(lines[position:end])
        position = end
    if in_list:
        yield "items end", []


def _kind(line: str, is_item: bool) -> str:
    return "item" if is_item else "example" if line.startswith((" ", "|")) else "text"


def _end_of(lines: Sequence[str], start: int, is_item: bool) -> int:
    """Where a block ends: an example at the next line without indent, an item, a table and a paragraph also at a blank line."""
    indented = lines[start].startswith(" ")
    is_table = lines[start].startswith("|")
    for position in range(start + 1, len(lines)):
        line = lines[position]
        if indented:
            if line and not line.startswith(" "):
                return position
        elif not line or _ITEM.match(line) or line.startswith(" ") != is_item or line.startswith("|") != is_table:
            return position
    return len(lines)


def _marker(example: Sequence[str]) -> str:
    """Of a block that is Python, or of one that stands as it is."""
    text = "\n".join(example)
    try:
        return ".. code-block:: python" if ast.parse(text).body and not text.startswith("|") else "::"
    except SyntaxError:
        return "::"


def _dedented(block: Sequence[str]) -> list[str]:
    lines = list(block)
    while lines and not lines[-1]:
        lines.pop()
    indent = min(len(line) - len(line.lstrip()) for line in lines if line)
    return [line[indent:] for line in lines]


def _text(block: Sequence[str]) -> list[str]:
    """Words: what has a meaning in reStructuredText is escaped, code is marked as code."""
    text = "\n".join([block[0], *(_continued(block[0], line) for line in block[1:])])
    text = re.sub(r"::\Z", ":", text)  # the example behind it is marked by itself
    marker = _ITEM.match(text)
    written, position = (marker[0], marker.end()) if marker else ("", 0)
    for code in _CODE.finditer(text, position):
        written += _escaped(text[position : code.start()])
        span = " ".join(code["code"].split())
        written += f"{code['role']}`{span}`" if code["role"] else f"``{span}``"
        if code.end() < len(text) and (text[code.end()].isalnum() or text[code.end()] in "(["):
            written += "\\ "  # inline markup ends before a blank or a stop only
        position = code.end()
    return (written + _escaped(text[position:])).split("\n")


def _continued(first: str, line: str) -> str:
    """A further line of an item stands under its text."""
    marker = _ITEM.match(first)
    width = 0 if marker is None else 4 if first.startswith(":") else marker.end()
    return " " * width + line.strip()


def _escaped(words: str) -> str:
    return _SPECIAL.sub(lambda found: "\\" + found[0], words).replace("`", "\\`")
