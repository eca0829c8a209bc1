"""`dumps`: cloudpickle, with the file of each function that travels by value, which the lines of tracebacks are found by.

cloudpickle 3.1.3 writes ``<dynamic-code>`` in the place of that file. What is written is read by ``pickle.loads``.
"""

from __future__ import annotations

import io
from collections import ChainMap
from types import CodeType
from typing import Any, ClassVar

import cloudpickle

__all__ = ["dumps"]

_PROTOCOL = 5
"""Pickle's protocol of Python 3.8 and later."""


def dumps(value: object) -> bytes:
    """Returns any object as bytes: functions and classes of the job's script, and lambdas, are part of them. Raises what an object
    that cannot be pickled raises."""
    with io.BytesIO() as file:
        _Pickler(file, _PROTOCOL).dump(value)
        return file.getvalue()


def _code(code: CodeType) -> tuple[type[CodeType], tuple[object, ...]]:
    """The constructor's arguments, as Python 3.11 and later have them."""
    arguments = (
        code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_nlocals, code.co_stacksize, code.co_flags,
        code.co_code, code.co_consts, code.co_names, code.co_varnames, code.co_filename, code.co_name, code.co_qualname,
        code.co_firstlineno, code.co_linetable, code.co_exceptiontable, code.co_freevars, code.co_cellvars,
    )  # fmt: skip
    return CodeType, arguments


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # the library has no types
    dispatch_table: ClassVar[ChainMap[type, Any]] = ChainMap({CodeType: _code}, cloudpickle.Pickler.dispatch_table)
