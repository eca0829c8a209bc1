"""Tracebacks of errors in a notebook: the user's own lines, without those of this package."""

from __future__ import annotations

import builtins
import linecache
import re
from traceback import walk_tb
from types import TracebackType
from typing import Any

_HIDDEN = ("IPython", "ipykernel", "tidegate", "contextlib")
"""Packages whose frames are left out."""
_PLACE = re.compile(r'^(?P<blanks>\s*)File "(?P<file>[^"]+)", line (?P<line>\d+)(?P<rest>.*)$')


def cell_lines(error: BaseException, message: str) -> list[str]:
    """Returns the lines that IPython prints for an error: its kind, the user's lines that led to it, and ``message``, in which places in notebook cells
    have their number and code. After ``%xmode Verbose`` these are the lines of IPython's own traceback, with all frames."""
    shell = _shell()
    if getattr(getattr(shell, "InteractiveTB", None), "mode", "") == "Verbose":
        return list(shell.InteractiveTB.structured_traceback(type(error), error, error.__traceback__))
    lines = [type(error).__name__]
    for file, number, function in _own_frames(error.__traceback__):
        lines.append(f"{_named(shell, file)}, line {number}{'' if function == '<module>' else f', in {function}'}")
        lines += _code(file, number, "----> ")
    return [*lines, "", *_with_code(message, shell)]


def _own_frames(trace: TracebackType | None) -> list[tuple[str, int, str]]:
    """Returns file, line and function of each frame that belongs neither to this package nor to IPython."""
    found = []
    for frame, number in walk_tb(trace):
        file = frame.f_code.co_filename
        if (frame.f_globals.get("__name__") or "").split(".")[0] not in _HIDDEN:
            found.append((file, number, frame.f_code.co_name))
    return found


def _with_code(message: str, shell: Any) -> list[str]:
    """Returns the lines of a message; places in a cell get the cell's name, and its code below."""
    lines = []
    for line in message.splitlines():
        place = _PLACE.match(line)
        if place is None or not _is_cell(place["file"]):
            lines.append(line)
            continue
        lines.append(f"{place['blanks']}{_named(shell, place['file'])}, line {place['line']}{place['rest']}")
        lines += [place["blanks"] + code for code in _code(place["file"], int(place["line"]), "----> ")]
    return lines


def _code(file: str, number: int, mark: str) -> list[str]:
    text = linecache.getline(file, number).strip()
    return [f"{mark}{number} {text}"] if text else []


def _is_cell(file: str) -> bool:
    """Returns whether a file name is that of a cell: IPython caches its lines without a modification time."""
    entry = linecache.cache.get(file)
    return entry is not None and len(entry) == 4 and entry[1] is None


def _named(shell: Any, file: str) -> str:
    """Returns the name of a cell, such as ``Cell In[2]``, or of a file."""
    if shell is not None and _is_cell(file):
        try:
            label, name = shell.compile.format_code_name(file)
            return f"{label} {name}"
        except (AttributeError, TypeError, ValueError):  # another version of IPython, or no cell of it
            pass
    return f"File {file}"


def _shell() -> Any:
    """Returns the IPython shell, whose ``get_ipython`` is a builtin while a cell runs; ``None`` elsewhere."""
    found = getattr(builtins, "get_ipython", None)
    return None if found is None else found()
