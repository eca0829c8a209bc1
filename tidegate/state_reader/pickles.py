"""Reads pickled values without the job's classes: their types, and the values of plain ones.

Laws: no name that a pickle holds is ever imported or called, so nothing of the job runs here: each name becomes an inert
class that only knows what it is called. ``plain_value`` gives numbers, texts, bytes, ``None``, and tuples, lists, dicts and
sets of them; everything else stays ``Pickled``: its bytes and the name of its type.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tidegate.model.values import FieldValue

UNKNOWN = "?"

_ENUM_MAKER = "_make_skeleton_enum"
_BY_VALUE = ("_make_skeleton_class", _ENUM_MAKER)
"""The functions by which cloudpickle recreates a class that is part of the pickle: its name is the second argument."""
_BUILDERS = ("_reconstructor", "__newobj__", "__newobj_ex__", "getattr")
"""The functions that return an object of the class in their first argument."""
_FUNCTION = "_make_function"


@dataclass(frozen=True, slots=True)
class Pickled:
    """A pickled value of a class, which is not opened because that would run code; printed as ``<app.Session, 123 bytes>``."""

    type_name: str
    content: bytes

    def __str__(self) -> str:
        return f"<{self.type_name}, {len(self.content)} bytes>"


def plain_value(content: bytes) -> FieldValue:
    """Returns the value of a pickle when it only consists of Python's own types, else a ``Pickled``; invalid pickles have type ``?``."""
    unpickler = _InertUnpickler(io.BytesIO(content))
    try:
        value = unpickler.load()
    except Exception:  # noqa: BLE001  (bytes of any origin: a broken pickle raises what it likes)
        return Pickled(UNKNOWN, content)
    return Pickled(_name_of(value), content) if unpickler.is_inert else value


def type_name(content: bytes) -> str:
    """Returns the type of a pickled value, such as ``int``, ``tuple`` or ``app.Session``; ``?`` for an invalid pickle."""
    value = plain_value(content)
    return value.type_name if isinstance(value, Pickled) else _name_of(value)


class _Inert:
    """Stands for an object of any class in a pickle: it ignores its content."""

    def __new__(cls, *arguments: object, **named: object) -> Any:
        name, first = cls.__name__, arguments[0] if arguments else None
        if name in _BY_VALUE and len(arguments) > 1:
            return _inert_class(_module_of(name, arguments), str(arguments[1]))
        if name in _BUILDERS and isinstance(first, type) and issubclass(first, _Inert):
            return object.__new__(first)
        return object.__new__(cls)

    def __init__(self, *arguments: object, **named: object) -> None:
        pass

    def __call__(self, *arguments: object, **named: object) -> _Inert:
        return _Inert()

    def __setstate__(self, state: object) -> None:
        pass

    def __setitem__(self, key: object, value: object) -> None:
        pass

    def append(self, value: object) -> None:
        pass

    def extend(self, values: Iterable[object]) -> None:
        pass

    def add(self, value: object) -> None:
        pass


class _InertUnpickler(pickle.Unpickler):
    is_inert = False
    """Whether the pickle named a class or function, so that the value is not the original."""

    def find_class(self, module_name: str, global_name: str, /) -> type[_Inert]:
        self.is_inert = True
        return _inert_class(module_name, global_name)

    def persistent_load(self, pid: object) -> _Inert:
        self.is_inert = True
        return _Inert()


@lru_cache(maxsize=1024)
def _inert_class(module_name: str, name: str) -> type[_Inert]:
    return type(name, (_Inert,), {"__module__": module_name})


def _module_of(maker: str, arguments: tuple[object, ...]) -> str:
    """Returns the module of a class that is part of a pickle: an argument of an enum's maker, or an attribute of another class."""
    if maker == _ENUM_MAKER:
        return str(arguments[4]) if len(arguments) > 4 else ""
    attributes = arguments[3] if len(arguments) > 3 and isinstance(arguments[3], dict) else {}
    return str(attributes.get("__module__", ""))


def _name_of(value: object) -> str:
    kind = type(value)
    if (
        isinstance(value, type) and kind is type and issubclass(value, _Inert)
    ):  # a class or function itself, pickled by its name
        kind = value
    module_name = kind.__module__ if issubclass(kind, _Inert) else "builtins"
    if kind.__name__ == _FUNCTION:
        return "function"
    return kind.__name__ if module_name in ("builtins", "") else f"{module_name}.{kind.__name__}"
