"""The types that a signature names: a reader who meets ``ctx: KeyedContext`` wants to know what a ``KeyedContext`` can do.

Annotations are text, and some of their names are imported for type checkers alone; so names are looked up, nothing is evaluated.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


def types_named_by(value: Any) -> Iterator[type]:
    """The classes in the signature of a function or a property; of a class, in that of its constructor."""
    part = vars(value).get("__init__") if inspect.isclass(value) else value
    function = getattr(part, "fget", None) or getattr(part, "__func__", part)
    if inspect.isfunction(function):
        for annotation in inspect.get_annotations(function).values():
            yield from _classes(str(annotation), function.__module__)


def _classes(annotation: str, module: str) -> Iterator[type]:
    for name in _NAME.findall(annotation):
        found = _found(name, module)
        if inspect.isclass(found):
            yield found


def _found(name: str, module: str) -> Any:
    first, *attributes = name.split(".")
    value = vars(sys.modules[module]).get(first)
    if value is None and (origin := _imported_for_checkers(module).get(first)) is not None:
        value = getattr(importlib.import_module(origin), first, None)
    for attribute in attributes:
        value = getattr(value, attribute, None)
    return value


@cache
def _imported_for_checkers(module: str) -> dict[str, str]:
    """Name -> module of what stands below ``if TYPE_CHECKING``."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    blocks = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom) and node.module]
    return {alias.name: str(node.module) for node in imports for alias in node.names}
