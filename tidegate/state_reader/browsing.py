"""Reads state for the web UI, with one process for each request: ``python -m tidegate.state_reader.browsing <request as JSON>``.

    {"path": ...}                                          ─▶ {"operators": [{"id", "title", "name", "parallelism", "states": [...]}]}
    {"path", "operator", "state", "key", "first": ...}     ─▶ {"kind", "columns", "rows": [[text, ...]], "from", "has_more", "total"}

Bounds of windows, and when timers fire, are times in UTC.

What cannot be shown is {"error": ...}. Laws: nothing that is pickled runs (``pickles``); an answer has ``ROWS`` rows with texts of
``CELL_CHARACTERS``, and the process that reads has ``MEMORY_BYTES``, whatever the size of the state. Who starts it limits its time.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from tidegate.model.errors import Misuse, TidegateError
from tidegate.model.values import JsonObject
from tidegate.state_reader.checkpoint import Checkpoint, Operator, State, open_checkpoint
from tidegate.state_reader.rows import of_key, readable_rows, shown_times, to_text

ROWS = 50
"""The most rows of an answer. Chosen, not measured."""
CELL_CHARACTERS = 300
"""The most characters of a cell: some lines. Chosen, not measured. ``tidegate state show --format json`` prints whole values."""
STATES = 200
"""The most states that are listed; the smallest file of each is opened, to get the kind of the state. Chosen, not measured."""
FILE_BYTES = 256 << 20
"""The most bytes of a file that is read, since it is read as a whole; larger ones are for a program. Chosen, not measured."""
MEMORY_BYTES = 3 << 30
"""The most memory of the process, with the address space that Arrow's allocator reserves and a file with its rows."""
NICE = 5
"""The niceness of the process, below the JobManager's own work; on a busy machine the page still gets its answer. Chosen, not measured."""


@dataclass(frozen=True, slots=True)
class BrowseRequest:
    """A request of the web UI. ``key``: only its rows; empty: all of them, from number ``first`` on."""

    path: str
    operator: str = ""
    state: str = ""
    key: str = ""
    first: int = 0

    @staticmethod
    def of(text: str) -> BrowseRequest:
        """Parses a request from JSON, by the names of the fields."""
        return BrowseRequest(**json.loads(text))


def answer(request: BrowseRequest) -> JsonObject:
    """Answers a request. Raises what ``open_checkpoint`` and ``Checkpoint.table`` raise, and ``Misuse`` for a file that is too large."""
    checkpoint = open_checkpoint(request.path)
    if not request.operator:
        return {"operators": list(_operators(checkpoint))}
    found = checkpoint.operator(request.operator).state(request.state)
    return _rows(checkpoint, found, request)


def _operators(checkpoint: Checkpoint) -> Iterator[JsonObject]:
    left = STATES
    for operator in checkpoint.operators:
        about, states = operator.described, operator.states[:left]
        left -= len(states)
        yield {
            "id": about.operator_id,
            "title": operator.title,
            "name": about.name,
            "parallelism": about.parallelism,
            "states": [_state(checkpoint, operator, found) for found in states],
            "left_out": len(operator.states) - len(states),
        }


def _state(checkpoint: Checkpoint, operator: Operator, found: State) -> JsonObject:
    return {
        "name": found.name,
        "kind": checkpoint.kind_of(found) if _largest(found) <= FILE_BYTES else "?",
        "redistribution": found.redistribution,
        "is_keyed": found.is_keyed,
        "rows": None if found.channels or found.has_levels else found.stored_rows,
        "size_bytes": found.size_bytes,
    }


def _rows(checkpoint: Checkpoint, found: State, request: BrowseRequest) -> JsonObject:
    largest = _largest(found)
    if largest > FILE_BYTES:
        raise Misuse(
            f"a file of state '{found.name}' has {largest >> 20} MiB, and the page reads up to {FILE_BYTES >> 20} MiB; "
            f"use `tidegate state show {checkpoint.location} --operator {request.operator} --name {found.name}`"
        )
    if request.key and not found.is_keyed:
        raise Misuse(f"state '{found.name}' is not keyed, so there is no key to look for")
    taken = _taken(checkpoint, found, request)
    rows = [shown_times(found.name, row) for table in taken for row in readable_rows(table)]
    shown = rows[:ROWS]
    columns = list(dict.fromkeys(name for row in shown for name in row))
    return {
        "kind": checkpoint.kind_of(found),
        "columns": columns,
        "rows": [[_cut(to_text(row[name])) if name in row else "" for name in columns] for row in shown],
        "from": request.first,
        "has_more": len(rows) > ROWS,
        "total": None if request.key or found.channels or found.has_levels else found.stored_rows,
    }


def _taken(checkpoint: Checkpoint, found: State, request: BrowseRequest) -> Iterator[pa.Table]:
    """Yields the rows of the answer, and one more when there are more."""
    skip, left = request.first, ROWS + 1
    for table in checkpoint.tables_of(found, type_names=False):
        wanted = of_key(table, request.key) if request.key else table
        skipped = min(skip, wanted.num_rows)
        part = wanted.slice(skipped, left)
        skip, left = skip - skipped, left - part.num_rows
        yield part
        if not left:
            return


def _largest(found: State) -> int:
    """Returns the bytes of a state's largest file, or of the files to be merged when it has levels."""
    sizes = [segment.handle.size_bytes for segment in found.segments]
    sizes += [handle.handle.size_bytes for _, handle in found.elements]
    sizes += [channel.handle.size_bytes for channel in found.channels]
    return sum(sizes) if found.has_levels else max(sizes, default=0)


def _cut(text: str) -> str:
    return text if len(text) <= CELL_CHARACTERS else text[: CELL_CHARACTERS - 1] + "…"


def main(request: str) -> None:
    """Prints the answer as one line of JSON."""
    os.nice(NICE)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    soft = MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(MEMORY_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
    try:
        said = answer(BrowseRequest.of(request))
    except TidegateError as error:
        said = {"error": error.message}
    except (MemoryError, pa.ArrowMemoryError):
        said = {"error": "it needs more memory than the page may take; use `tidegate state show`"}
    print(json.dumps(said))  # noqa: T201  (its answer)


if __name__ == "__main__":
    main(sys.argv[1])
