"""Base classes of users' lookup functions, which lookup joins call (Flink: ``LookupFunction.java``, ``AsyncLookupFunction.java``)."""

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
"""A row that a lookup returns: the values of all columns of the table, in their order or by name."""


class LookupFunction(UserDefinedFunction):
    """A table of the user's own that a lookup join reads, key by key."""

    @abstractmethod
    def lookup(self, key_row: Row) -> Iterable[FoundRow]:
        """Returns the rows of a key. ``key_row``: the values of the lookup keys, with the names of their columns; none is null."""

    def lookup_many(self, key_rows: Sequence[Row]) -> Sequence[Iterable[FoundRow]]:
        """Returns the rows of each of several different keys. Override it where one request can fetch many keys."""
        return [self.lookup(key_row) for key_row in key_rows]


class AsyncLookupFunction(UserDefinedFunction):
    """A table of the user's own that a lookup join reads asynchronously, for many keys at the same time."""

    @abstractmethod
    async def async_lookup(self, key_row: Row) -> Iterable[FoundRow]:
        """Returns the rows of a key. Runs in the subtask's event loop, concurrently for several keys. ``key_row``: as in ``LookupFunction.lookup``."""


def made_of(place: str, arguments: Mapping[str, str]) -> LookupFunction | AsyncLookupFunction:
    """Instantiates the lookup class ``module.Name``. Raises ``InvalidJob`` if there is no such class, or if its constructor raises."""
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
        raise InvalidJob(f"'class' = '{place}': it is neither a LookupFunction nor an AsyncLookupFunction")
    try:
        return found(**arguments)
    except TypeError as error:
        raise InvalidJob(f"'class' = '{place}': {error}: its arguments are the options 'arguments.NAME'") from error


__all__ = ["AsyncLookupFunction", "FoundRow", "LookupFunction", "made_of"]
