"""A constant that is a number says beside itself where it comes from: a default of Flink or of a library, a format, a measurement, or what it
balances. The reason is a comment on its line or above it, or a text below it or below the constants that follow without a gap."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.source import name_of, python_files, tree_of

PRODUCT = ("tidegate/", "jobmanager/", "taskmanager/", "cli/")
_CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]*")


def test_every_number_says_where_it_comes_from() -> None:
    product = [path for path in python_files() if name_of(path).startswith(PRODUCT)]
    numbers = [found for path in product for found in _numbers(path)]
    assert len(numbers) > 400
    assert [where for where, is_told in numbers if not is_told] == []


def _numbers(path: Path) -> Iterator[tuple[str, bool]]:
    """Where each stands, and whether it has a reason."""
    body, lines = tree_of(path).body, path.read_text(encoding="utf-8").splitlines()
    for place, node in enumerate(body):
        name = _name_of(node)
        if _CONSTANT.fullmatch(name) and _is_number(node):
            yield f"{name_of(path)}:{node.lineno} {name}", _has_reason(body[place:], lines)


def _has_reason(following: list[ast.stmt], lines: list[str]) -> bool:
    at = following[0].lineno
    if lines[at - 2].startswith("# "):
        return True
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
    """The name that it gives a value, or the first of several."""
    target = (
        node.targets[0] if isinstance(node, ast.Assign) else node.target if isinstance(node, ast.AnnAssign) else None
    )
    first = target.elts[0] if isinstance(target, ast.Tuple) else target
    return first.id if isinstance(first, ast.Name) else ""


def _is_number(node: ast.stmt) -> bool:
    """Whether all that it is made of is numbers: a literal, several, or reckoned from literals and other constants."""
    assert isinstance(node, ast.Assign | ast.AnnAssign)
    parts = list(ast.walk(node.value)) if node.value is not None else []
    literals = [part.value for part in parts if isinstance(part, ast.Constant)]
    is_reckoned = all(isinstance(part, _ARITHMETIC) for part in parts)
    return bool(literals) and is_reckoned and all(type(literal) in (int, float) for literal in literals)


_ARITHMETIC = (ast.Constant, ast.Name, ast.Tuple, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.expr_context)
