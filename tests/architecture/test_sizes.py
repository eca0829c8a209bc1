"""Files and functions stay small. A ratchet: an exception is named with its size, may only shrink, and leaves when it fits."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePosixPath

from tests.architecture.source import name_of, python_files, tree_of

PRODUCT = ("tidegate", "jobmanager", "taskmanager", "cli")
FILE_LINES = 400
FUNCTION_LINES = 50
ROOM_FILES = 20
CONSTRUCTOR_PARAMETERS = 7

FILE_EXCEPTIONS: dict[str, int] = {}
"""File -> its lines today."""
FUNCTION_EXCEPTIONS: dict[str, int] = {}
"""`file:function` -> its lines today."""


def test_no_file_outgrows_one_sitting() -> None:
    sizes = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in python_files()}
    assert _beyond(sizes, FILE_LINES, FILE_EXCEPTIONS) == {}
    assert _stale(sizes, FILE_LINES, FILE_EXCEPTIONS) == []


def test_no_room_of_the_product_is_crowded() -> None:
    files = Counter(str(PurePosixPath(name_of(path)).parent) for path in python_files())
    assert {room: n for room, n in files.items() if room.startswith(PRODUCT) and n > ROOM_FILES} == {}


def test_no_function_outgrows_one_screen() -> None:
    sizes = dict(_functions())
    assert _beyond(sizes, FUNCTION_LINES, FUNCTION_EXCEPTIONS) == {}
    assert _stale(sizes, FUNCTION_LINES, FUNCTION_EXCEPTIONS) == []


def test_no_constructor_takes_a_crowd() -> None:
    """More than that is an object of its own: a dataclass, whose fields a caller names."""
    found = {
        f"{name_of(path)}:{kind.name}": count
        for path in python_files()
        if name_of(path).startswith(PRODUCT)
        for kind in ast.walk(tree_of(path))
        if isinstance(kind, ast.ClassDef)
        for node in kind.body
        if isinstance(node, ast.FunctionDef) and node.name == "__init__"
        if (count := _parameters(node.args) - 1) > CONSTRUCTOR_PARAMETERS
    }
    assert found == {}


def _parameters(arguments: ast.arguments) -> int:
    return len(arguments.posonlyargs) + len(arguments.args) + len(arguments.kwonlyargs)


def _functions() -> Iterator[tuple[str, int]]:
    for path in python_files():
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{name_of(path)}:{node.name}", (node.end_lineno or node.lineno) - node.lineno + 1


def _beyond(sizes: dict[str, int], limit: int, exceptions: dict[str, int]) -> dict[str, int]:
    return {name: size for name, size in sizes.items() if size > exceptions.get(name, limit)}


def _stale(sizes: dict[str, int], limit: int, exceptions: dict[str, int]) -> list[str]:
    """Exceptions that are no longer needed, or are larger than what they excuse."""
    return [name for name, size in exceptions.items() if sizes.get(name, 0) <= limit or sizes[name] < size]
