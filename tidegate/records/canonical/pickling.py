"""Pickles keys so that the bytes depend on their values alone: without memo, with the elements of sets in order and one NaN.

Classes and functions that no import finds are written by their names: those of the script, whose module is ``__main__`` somewhere else, and local ones.
They are known again in the process in which a key of theirs was encoded.
"""

from __future__ import annotations

import importlib
import io
import pickle
from types import FunctionType
from typing import Any

from tidegate.model.errors import NotSerializable, TidegateError
from tidegate.model.values import Key, UserObject

_SCRIPT = "__main__"
_NAN, _SET, _FROZENSET, _NAMED = "NaN", "set", "frozenset", "named"

_named: dict[str, UserObject] = {}
"""The classes and functions of this process by ``module:qualname``."""
_names: dict[UserObject, tuple[str, bool]] = {}
"""The name of each class or function, and whether it can be imported by it."""


def name_of(named: UserObject) -> str:
    """Returns the name ``module:qualname`` of a class or function, by which ``named_by`` finds it."""
    return _name_of(named)[0]


def named_by(name: str) -> UserObject:
    """Returns the class or function of a name: the one that this process has registered, or an imported one."""
    if name not in _named:
        module, _, qualname = name.partition(":")
        _named[name] = _found(importlib.import_module(module), qualname)
    return _named[name]


def pickled_key(key: Key) -> bytes:
    """Pickles a key; the bytes are equal for keys of one class with equal parts. ``unpickled_key`` of this process reads them. Raises ``NotSerializable``."""
    return _pickled(key, _FormPickler)


def unpickled_key(content: bytes) -> Key:
    """Returns the key that ``pickled_key`` has pickled."""
    return _Unpickler(io.BytesIO(content)).load()


def hashed_bytes(key: Key) -> bytes:
    """Returns the bytes from which a key is hashed, the same in every process; they are not read again. Raises ``NotSerializable``."""
    return _pickled(key, _HashPickler)


class _ByValue(pickle.Pickler):
    def persistent_id(self, obj: UserObject) -> UserObject:
        kind = obj.__class__
        if kind is float:
            return (_NAN,) if obj != obj else None
        if kind is set or kind is frozenset:
            return (_SET if kind is set else _FROZENSET, sorted(obj, key=hashed_bytes))
        return None


class _HashPickler(_ByValue):
    def reducer_override(self, obj: UserObject) -> Any:
        if not _has_name(obj):
            return NotImplemented
        if obj.__module__ == _SCRIPT:
            return str, (obj.__qualname__,)
        return NotImplemented if _name_of(obj)[1] else (str, (name_of(obj),))


class _FormPickler(_ByValue):
    def persistent_id(self, obj: UserObject) -> UserObject:
        if _has_name(obj) and not _name_of(obj)[1]:
            return (_NAMED, name_of(obj))
        return super().persistent_id(obj)


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, pid: UserObject) -> UserObject:
        what, *parts = pid
        if what == _NAN:
            return float("nan")
        if what == _NAMED:
            return named_by(parts[0])
        return set(parts[0]) if what == _SET else frozenset(parts[0])


def _pickled(key: Key, make: type[_ByValue]) -> bytes:
    out = io.BytesIO()
    pickler = make(out, protocol=5)
    pickler.fast = True  # no memo: bytes depend on values, not on which objects are shared
    try:
        pickler.dump(key)
    except TidegateError:
        raise
    except Exception as error:
        raise NotSerializable(
            f"a key of type {type(key).__qualname__} cannot be written by its value ({error}); use a plain value, a tuple or "
            "a dataclass as key"
        ) from error
    return out.getvalue()


def _has_name(obj: UserObject) -> bool:
    return isinstance(obj, (type, FunctionType)) and "<lambda>" not in obj.__qualname__


def _name_of(named: UserObject) -> tuple[str, bool]:
    known = _names.get(named)
    if known is None:
        name = f"{named.__module__}:{named.__qualname__}"
        known = _names[named] = (name, _is_found(named))
        _named[name] = named
    return known


def _is_found(named: UserObject) -> bool:
    if named.__module__ == _SCRIPT or "<locals>" in named.__qualname__:
        return False
    try:
        return _found(importlib.import_module(named.__module__), named.__qualname__) is named
    except (ImportError, AttributeError, ValueError, TypeError):
        return False


def _found(module: UserObject, qualname: str) -> UserObject:
    found = module
    for part in qualname.split("."):
        found = getattr(found, part)
    return found
