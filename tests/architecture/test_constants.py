"""A constant that is a time says beside itself where it comes from: a default of Flink or of a library, a measurement, or a choice."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.source import name_of, python_files, tree_of

PRODUCT = ("tidegate/", "jobmanager/", "taskmanager/", "cli/")
_TIME = re.compile(r"[A-Z0-9_]+_(S|MS)")
_CONVERSION = re.compile(r"_?NANOS_PER_M?S")


def test_every_time_says_where_it_comes_from() -> None:
    product = [path for path in python_files() if name_of(path).startswith(PRODUCT)]
    times = [found for path in product for found in _times(path)]
    assert len(times) > 100
    assert [where for where, is_told in times if not is_told] == []


def _times(path: Path) -> Iterator[tuple[str, bool]]:
    """Where each stands, and whether a reason stands below it, on its line, or below the constants that follow it without a gap."""
    body, lines = tree_of(path).body, path.read_text(encoding="utf-8").splitlines()
    for place, node in enumerate(body):
        name = _name_of(node)
        if _TIME.fullmatch(name) and not _CONVERSION.fullmatch(name) and _is_number(node):
            yield f"{name_of(path)}:{node.lineno} {name}", _has_reason(body[place:], lines)


def _has_reason(following: list[ast.stmt], lines: list[str]) -> bool:
    at = following[0].lineno
    for node in following:
        if node.lineno > at + 1:
            return False
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return True
        if not _name_of(node):
            return False
        if "# " in lines[node.lineno - 1]:
            return True
        at = node.end_lineno or node.lineno
    return False


def _name_of(node: ast.stmt) -> str:
    target = (
        node.targets[0] if isinstance(node, ast.Assign) else node.target if isinstance(node, ast.AnnAssign) else None
    )
    return target.id if isinstance(target, ast.Name) else ""


def _is_number(node: ast.stmt) -> bool:
    assert isinstance(node, ast.Assign | ast.AnnAssign)
    parts = list(ast.walk(node.value)) if node.value is not None else []
    return any(isinstance(part, ast.Constant) and isinstance(part.value, int | float) for part in parts) and not any(
        isinstance(part, ast.Call | ast.Name) for part in parts
    )
