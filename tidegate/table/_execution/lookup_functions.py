"""What users write to be asked by lookup joins (Flink: ``LookupFunction.java``, ``AsyncLookupFunction.java``)."""

from __future__ import annotations

import importlib
import inspect
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from tidegate.common.row import Row
from tidegate.model.errors import InvalidJob
from tidegate.table._execution.user_functions import UserDefinedFunction

FoundRow: TypeAlias = "Row | Sequence[Any] | Mapping[str, Any]"
"""A row of the table: the values of all of its columns, in their order, or by their names."""


class LookupFunction(UserDefinedFunction):
    """A table that is asked by a lookup join, for the rows of a key."""

    @abstractmethod
    def lookup(self, key_row: Row) -> Iterable[FoundRow]:
        """Returns the rows of a key. ``key_row``: the values of the columns that are compared, with their names; none of them is null."""

    def lookup_many(self, key_rows: Sequence[Row]) -> Sequence[Iterable[FoundRow]]:
        """Returns the rows of each of some keys, which are different: those of a batch. Overwrite it where one question can be for many."""
        return [self.lookup(key_row) for key_row in key_rows]


class AsyncLookupFunction(UserDefinedFunction):
    """A table that is asked by a lookup join, for the rows of many keys at the same time."""

    @abstractmethod
    async def async_lookup(self, key_row: Row) -> Iterable[FoundRow]:
        """Returns the rows of a key. Runs in an event loop of the subtask, at the same time as for other keys. ``key_row``: as in
        ``LookupFunction.lookup``."""


def made_of(place: str, arguments: Mapping[str, str]) -> LookupFunction | AsyncLookupFunction:
    """An object of the class that ``module.Name`` is. Raises ``InvalidJob`` where there is no such class, and for what it raises."""
    module, _, name = place.rpartition(".")
    if not module:
        raise InvalidJob(f"'class' = '{place}': say module.Name")
    try:
        found = vars(importlib.import_module(module)).get(name)
    except ModuleNotFoundError as error:
        raise InvalidJob(
            f"'class' = '{place}': there is no module '{error.name}': give its file with -pyfs, or add_python_file()"
        ) from error
    if found is None:
        raise InvalidJob(f"'class' = '{place}': the module {module} has no '{name}'")
    if not (inspect.isclass(found) and issubclass(found, (LookupFunction, AsyncLookupFunction))):
        raise InvalidJob(f"'class' = '{place}': it is no LookupFunction and no AsyncLookupFunction")
    try:
        return found(**arguments)
    except TypeError as error:
        raise InvalidJob(f"'class' = '{place}': {error}: its arguments are the options 'arguments.NAME'") from error


__all__ = ["AsyncLookupFunction", "FoundRow", "LookupFunction", "made_of"]
