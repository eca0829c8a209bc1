"""The types that signatures of the API name and that are no classes: what users' values are called, and unions."""

from __future__ import annotations

import ast
import importlib.util
from itertools import pairwise
from pathlib import Path

MODULES = ("tidegate.model.values", "tidegate.model.accumulators", "tidegate.functions.expressions")
"""Where such names are defined, as `Name: TypeAlias = ...` with a docstring behind it."""


def named_types() -> dict[str, str]:
    """The words of each name, in the order of the modules."""
    return {name: words for module in MODULES for name, words in _aliases(module).items()}


def _aliases(module: str) -> dict[str, str]:
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    body = ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body
    return {
        node.target.id: " ".join(words.value.value.split())
        for node, words in pairwise(body)
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and isinstance(node.annotation, ast.Name)
        and node.annotation.id == "TypeAlias"
        and isinstance(words, ast.Expr)
        and isinstance(words.value, ast.Constant)
        and isinstance(words.value.value, str)
    }
