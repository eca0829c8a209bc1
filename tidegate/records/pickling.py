"""Pickles and unpickles programs and values.

`dumps`: cloudpickle, with the file of each function that travels by value, which the lines of tracebacks are found by. cloudpickle 3.1.3 writes
``<dynamic-code>`` in the place of that file. `loads`: pickle, which finds modules of tidegate under the paths that earlier versions had them at.

Reading a pickle runs what its writer wants. Within `foreign_pickles`, values of Python's own types are read and all else is refused.
"""

from __future__ import annotations

import io
import pickle
from collections import ChainMap
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import CodeType
from typing import Any, ClassVar

import cloudpickle

from tidegate.model.errors import Misuse

__all__ = ["dumps", "foreign_pickles", "loads"]

_PROTOCOL = 5
"""The pickle protocol, that of Python 3.8 and later."""
_MOVED = {
    "tidegate.common.records": "tidegate.records",
    "tidegate.common.canonical": "tidegate.records.canonical",
    "tidegate.connectors.operator_options": "tidegate.operator_options",
}
"""The current paths of modules and packages that were renamed, by the paths in stored programs and checkpoints."""

_HARMLESS = {
    "builtins": ("bytearray", "complex", "frozenset", "range", "set", "slice"),
    "datetime": ("date", "datetime", "time", "timedelta", "timezone"),
    "decimal": ("Decimal",),
    "uuid": ("UUID",),
}
"""Classes of values whose constructors have no side effects."""
_refusal: ContextVar[str] = ContextVar("refusal", default="")
"""The advice on how to trust the pickles that are read; empty where they are trusted."""


@contextmanager
def foreign_pickles(how_to_trust: str, *, trusted: bool) -> Iterator[None]:
    """Makes `loads` treat pickles as written by others within the block. Unless ``trusted``, a pickle that names a class or function raises ``Misuse``,
    with the advice ``how_to_trust``, and nothing of it is imported or called."""
    token = _refusal.set("" if trusted else how_to_trust)
    try:
        yield
    finally:
        _refusal.reset(token)


def dumps(value: object) -> bytes:
    """Pickles any object: functions and classes of the job's script, and lambdas, are part of the pickle. Raises the pickler's error for an object that
    cannot be pickled."""
    with io.BytesIO() as file:
        _Pickler(file, _PROTOCOL).dump(value)
        return file.getvalue()


def loads(content: bytes) -> Any:
    """Unpickles an object that this version or an earlier one wrote. Raises the unpickler's errors: ``ModuleNotFoundError`` naming a module that cannot
    be imported, ``pickle.UnpicklingError``; within `foreign_pickles` ``Misuse``."""
    if _refusal.get():
        return _HarmlessUnpickler(io.BytesIO(content)).load()
    try:
        return pickle.loads(content)
    except ModuleNotFoundError as error:
        if _place_now(error.name or "") == error.name:
            raise
        return _Unpickler(io.BytesIO(content)).load()


def _place_now(module: str) -> str:
    for before, now in _MOVED.items():
        if module == before or module.startswith(f"{before}."):
            return now + module[len(before) :]
    return module


class _HarmlessUnpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        if global_name in _HARMLESS.get(module_name, ()):
            return super().find_class(module_name, global_name)
        raise Misuse(
            f"a pickled value of {module_name}.{global_name} is refused, since reading it could run any code: {_refusal.get()}"
        )

    def persistent_load(self, pid: object) -> Any:
        raise Misuse(f"a pickled value with a persistent reference is refused: {_refusal.get()}")


class _Unpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        return super().find_class(_place_now(module_name), global_name)


def _code(code: CodeType) -> tuple[type[CodeType], tuple[object, ...]]:
    """Reduces a code object to the arguments of its constructor in Python 3.11 and later."""
    arguments = (
        code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_nlocals, code.co_stacksize, code.co_flags,
        code.co_code, code.co_consts, code.co_names, code.co_varnames, code.co_filename, code.co_name, code.co_qualname,
        code.co_firstlineno, code.co_linetable, code.co_exceptiontable, code.co_freevars, code.co_cellvars,
    )  # fmt: skip
    return CodeType, arguments


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # the library has no types
    dispatch_table: ClassVar[ChainMap[type, Any]] = ChainMap({CodeType: _code}, cloudpickle.Pickler.dispatch_table)
