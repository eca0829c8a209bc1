"""`ModuleEntry`: a module of functions, and whether it is in use (PyFlink: ``pyflink.table.module``)."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.common.names.java_only import refusing

_NAMES = "HiveModule Module"

__all__ = ["ModuleEntry", *_NAMES.split()]


@dataclass(frozen=True, order=True)
class ModuleEntry:
    """A loaded module of functions, as ``TableEnvironment.list_full_modules`` returns it."""

    _name: str
    _used: bool

    def name(self) -> str:
        """Returns its name."""
        return self._name

    def used(self) -> bool:
        """Returns whether the module is in use, so that its functions are found."""
        return self._used


__getattr__ = refusing(__name__, _NAMES, "functions of Flink's core module are there")
