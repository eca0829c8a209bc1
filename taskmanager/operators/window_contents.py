"""What a window of one key holds: one value that each record changes (``reduce``, ``aggregate``), or all its records
(``process``), which only grow: so a backend on disk need not read them to add one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from taskmanager.operators.user_code import method_of
from taskmanager.state.backend import Entry, KeyedBackend
from tidegate.common.typeinfo import TypeInformation
from tidegate.model.errors import InvalidJob

STATE_NAME = "_window_contents"

Add = Callable[[Any, Any], Any]
"""(value or ``None``, record) -> value"""


class WindowContents(ABC):
    @abstractmethod
    def add(self, group: int, entry: Entry, record: Any) -> None: ...

    @abstractmethod
    def results(self, group: int, entry: Entry) -> tuple[Any, ...]:
        """One: what the window's function sees; none when nothing is there."""

    @abstractmethod
    def is_empty(self, group: int, entry: Entry) -> bool: ...

    @abstractmethod
    def clear(self, group: int, entry: Entry) -> None: ...


def open_contents(kind: str, function: Any, backend: KeyedBackend, value_type: TypeInformation) -> WindowContents:
    """``kind``: ``reduce``, ``aggregate`` or ``process``. Raises ``InvalidJob``, ``SchemaMismatch``."""
    match kind:
        case "reduce":
            reduce = method_of(function, "reduce")
            return _OneValue(
                backend, kind, value_type, lambda found, record: record if found is None else reduce(found, record)
            )
        case "aggregate":
            return _OneValue(
                backend,
                kind,
                value_type,
                lambda found, record: function.add(record, function.create_accumulator() if found is None else found),
                function.get_result,
            )
        case "process":
            return _Records(backend, value_type)
    raise InvalidJob(f"a window knows reduce, aggregate and process, not {kind!r}")


class _OneValue(WindowContents):
    def __init__(
        self,
        backend: KeyedBackend,
        kind: str,
        value_type: TypeInformation,
        add: Add,
        result: Callable[[Any], Any] = lambda found: found,
    ) -> None:
        self._table = backend.table(STATE_NAME, kind, value_type)
        self._add = add
        self._result = result

    def add(self, group: int, entry: Entry, record: Any) -> None:
        self._table.write(group, entry, self._add(self._table.read(group, entry), record))

    def results(self, group: int, entry: Entry) -> tuple[Any, ...]:
        found = self._table.read(group, entry)
        return () if found is None else (self._result(found),)

    def is_empty(self, group: int, entry: Entry) -> bool:
        return self._table.peek(group, entry) is None

    def clear(self, group: int, entry: Entry) -> None:
        self._table.delete(group, entry)


class _Records(WindowContents):
    def __init__(self, backend: KeyedBackend, value_type: TypeInformation) -> None:
        self._cells = backend.list_cells(STATE_NAME, value_type, kind="process")

    def add(self, group: int, entry: Entry, record: Any) -> None:
        self._cells.extend(group, entry, (record,))

    def results(self, group: int, entry: Entry) -> tuple[Any, ...]:
        found = self._cells.read(group, entry)
        return (found,) if found else ()

    def is_empty(self, group: int, entry: Entry) -> bool:
        return self._cells.is_empty(group, entry)

    def clear(self, group: int, entry: Entry) -> None:
        self._cells.replace(group, entry, ())
