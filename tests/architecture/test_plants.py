"""Bugs on purpose replace a strategy or a function that has a name, never what a class keeps to itself: those may be rewritten at any time."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.architecture.source import name_of, python_files, tree_of

REPLACES = {"patched", "object"}
"""``tests.sim.plant.patched`` and ``mock.patch.object``: owner, name, value."""


def _replaced() -> Iterator[tuple[str, str]]:
    for path in python_files():
        if not name_of(path).startswith("tests/sim/"):
            continue
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Call) and len(node.args) >= 2 and _called(node.func) in REPLACES:
                owner, name = ast.unparse(node.args[0]), node.args[1]
                if isinstance(name, ast.Constant) and isinstance(name.value, str):
                    yield f"{name_of(path)}:{node.lineno}", f"{owner}.{name.value}"


def _called(function: ast.expr) -> str:
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )


def test_a_plant_replaces_what_has_a_public_name() -> None:
    replaced = list(_replaced())
    assert len(replaced) > 90
    assert [place for place, name in replaced if any(part.startswith("_") for part in name.split("."))] == []


def test_enough_is_planted_in_the_runtime_itself() -> None:
    of_runtime = {name for place, name in _replaced() if place.startswith("tests/sim/runtime/")}
    assert len(of_runtime) >= 10
