"""The ``__getattr__`` of modules, for names that PyFlink's module of the same name has but that are defined elsewhere or removed.

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
import sys
from collections.abc import Callable, Mapping
from functools import partial
from opcode import opmap
from types import FrameType
from typing import Any, NoReturn, TypeAlias

from tidegate.common.names.places import names_of, suggest_name

__all__ = ["Names", "connector", "elsewhere", "finding", "removed"]

ModuleMember: TypeAlias = Any
"""An object of a module: a class, a function, a constant."""

Names = Mapping[str, Callable[[], ModuleMember]]
"""The functions that find the object of each name."""


def finding(module: str, *tables: Names) -> Callable[[str], ModuleMember]:
    """Returns the ``__getattr__`` of ``module``. For a name in none of the tables it raises ``AttributeError``, or ``ImportError`` when the name is
    imported; both suggest a similar name if there is one."""
    known = {name: find for table in tables for name, find in table.items()}

    def find(name: str) -> ModuleMember:
        if name in known:
            return known[name]()
        if name.startswith("_"):  # what copy, inspect and the import system ask of every module
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        there = (
            {other for other in vars(sys.modules[module]) if not other.startswith("_")}
            if module in sys.modules
            else set()
        )
        meant = suggest_name(module, name, sorted({*known, *there}))
        if _is_imported(sys._getframe(1)):
            raise ImportError(f"cannot import name {name!r} from {module!r}{meant}", name=module)
        raise AttributeError(f"module {module!r} has no attribute {name!r}{meant}")

    return find


def connector(module: str) -> Callable[[str], ModuleMember]:
    """Returns the ``__getattr__`` of the connector module ``module``, which imports the names that ``places.CONNECTORS`` lists for this module on access."""
    return finding(module, {name: partial(_found, home, name) for name, home in names_of(module).items()})


def elsewhere(home: str, names: str) -> Names:
    """Returns the table of names (separated by blanks) that the module ``home`` defines."""
    return {name: partial(_found, home, name) for name in names.split()}


def removed(names: str, instead: str) -> Names:
    """Returns the table of names (separated by blanks) that Flink 2 has removed. Importing one raises ``ImportError`` with what to use ``instead``: the
    text of an ``AttributeError`` would be lost in an import."""
    return {name: partial(_refuse, name, instead) for name in names.split()}


def _found(home: str, name: str) -> ModuleMember:
    return getattr(importlib.import_module(home), name)


def _is_imported(caller: FrameType) -> bool:
    """Tells whether ``caller`` executes a ``from ... import``, which discards the text of an ``AttributeError``; other callers, such as ``hasattr``,
    accept no other error."""
    code = caller.f_code.co_code
    return 0 <= caller.f_lasti < len(code) and code[caller.f_lasti] == opmap["IMPORT_FROM"]


def _refuse(name: str, instead: str) -> NoReturn:
    raise ImportError(f"Flink 2 has removed {name}: {instead}")
