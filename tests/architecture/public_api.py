"""The public API: every class, function, method and property that a program may name.

Public is what lives below these packages under names without an underscore, at every level, wherever it is defined: a class
of a private module counts when a public module hands it out. Names that come from other packages do not count.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from types import ModuleType
from typing import Any

PACKAGES = (
    "tidegate.cep", "tidegate.common", "tidegate.datastream", "tidegate.connectors", "tidegate.functions", "tidegate.metrics",
    "tidegate.queryablestate", "tidegate.state_processor", "tidegate.state_reader", "tidegate.table", "tidegate.testing", "tidegate.util",
)  # fmt: skip


def public_api() -> dict[str, Any]:
    """Qualified name -> object, each once. A property stands for itself, a static or class method for its function."""
    found: dict[str, Any] = {}
    for module in _modules():
        for name in getattr(module, "__all__", None) or vars(module):
            value = getattr(module, name, None)
            if not name.startswith("_") and _is_ours(value):
                _add(found, value)
    return found


def _modules() -> Iterator[ModuleType]:
    for package in map(importlib.import_module, PACKAGES):
        yield package
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not any(part.startswith("_") for part in info.name.split(".")):
                yield importlib.import_module(info.name)


def _is_ours(value: object) -> bool:
    is_definition = inspect.isclass(value) or inspect.isfunction(value)
    return is_definition and str(getattr(value, "__module__", "")).startswith("tidegate.")


def _add(found: dict[str, Any], value: Any) -> None:
    name = f"{value.__module__}.{value.__qualname__}"
    if name in found:
        return
    found[name] = value
    if not inspect.isclass(value):
        return
    for attribute, part in vars(value).items():
        if attribute.startswith("_"):
            continue
        if isinstance(part, (staticmethod, classmethod)):
            part = part.__func__
        if inspect.isfunction(part) or isinstance(part, property):
            found[f"{name}.{attribute}"] = inspect.getattr_static(value, attribute)
        elif _is_ours(part):
            _add(found, part)
