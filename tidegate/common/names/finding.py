"""The ``__getattr__`` of a module, for names that it does not define itself but PyFlink's module of the same name has.

    __getattr__ = finding(
        __name__,
        elsewhere("tidegate.common.time", "Duration Time"),
        removed("TimeCharacteristic", "streams have event time whenever ..."),
    )

A name is looked for when it is asked for, so that modules that name each other can be imported in any order, and a job pays
for no module that it does not use.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NoReturn, TypeAlias

__all__ = ["Names", "elsewhere", "finding", "removed"]

ModuleMember: TypeAlias = Any
"""What a module has under a name: a class, a function, a constant."""

Names = Mapping[str, Callable[[], ModuleMember]]
"""What makes or finds the object of each name."""


def finding(module: str, *tables: Names) -> Callable[[str], ModuleMember]:
    """Returns the ``__getattr__`` of ``module``. It raises ``AttributeError`` for a name in none of the tables."""
    known = {name: find for table in tables for name, find in table.items()}

    def find(name: str) -> ModuleMember:
        if name in known:
            return known[name]()
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return find


def elsewhere(home: str, names: str) -> Names:
    """Names, between blanks, that the module ``home`` has."""
    return {name: partial(_found, home, name) for name in names.split()}


def removed(names: str, instead: str) -> Names:
    """Names, between blanks, that Flink 2 has removed. Importing one raises ``ImportError`` with what to use ``instead``: an
    ``AttributeError`` would lose its text on the way out of an import."""
    return {name: partial(_refuse, name, instead) for name in names.split()}


def _found(home: str, name: str) -> ModuleMember:
    return getattr(importlib.import_module(home), name)


def _refuse(name: str, instead: str) -> NoReturn:
    raise ImportError(f"Flink 2 has removed {name}: {instead}")
