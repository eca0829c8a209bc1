"""The contents of a window of one key: a single value that each record changes (``reduce``, ``aggregate``), or all its records (``process``), to which a
backend on disk can add without reading them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from tidegate.common.typeinfo import ListTypeInfo, TupleTypeInfo, TypeInformation, Types
from tidegate.model.errors import InvalidJob
from tidegate.model.values import Accumulated, Record, UserObject
from tidegate.records.record_copy import RecordCopy
from tidegate.taskmanager.keyed_state.backend import KeyedBackend, KeyedTable
from tidegate.taskmanager.keyed_state.entry import Entry
from tidegate.taskmanager.operators.user_code.boundary import method_of

STATE_NAME = "_window_contents"

Fold = Callable[[Accumulated | None, Record], Accumulated]
"""Combines a value, or ``None``, with a record to a value; or two values to one."""


class WindowContents(ABC):
    """The contents of windows by key: their records, or an accumulator."""

    @abstractmethod
    def add(self, group: int, entry: Entry, record: Record) -> bool:
        """Adds a record. Returns whether the window surely had contents before."""

    @abstractmethod
    def results(self, group: int, entry: Entry) -> tuple[Accumulated, ...]:
        """Returns the value that the window's function gets, as a tuple of one; an empty tuple if the window is empty."""

    @abstractmethod
    def replace(self, group: int, entry: Entry, records: Sequence[Record]) -> None:
        """Replaces the records of a window; only for windows that keep their records."""

    @abstractmethod
    def merge(self, group: int, target: Entry, sources: Sequence[Entry]) -> None:
        """Moves the contents of the sources into the target, in this order."""

    @abstractmethod
    def clear(self, group: int, entry: Entry) -> None: ...


def contents_type(
    kind: str, input_type: TypeInformation, accumulator_type: TypeInformation | None, *, is_timed: bool = False
) -> tuple[str, TypeInformation]:
    """Returns kind and type of the state of window contents. ``is_timed``: records with their timestamps, for an evictor. Raises ``InvalidJob`` for an unknown
    kind.
    """
    if is_timed:
        return "process", ListTypeInfo(TupleTypeInfo([input_type, Types.LONG()]))
    types: dict[str, TypeInformation] = {
        "reduce": input_type,
        "aggregate": accumulator_type or Types.PICKLED_BYTE_ARRAY(),
        "process": ListTypeInfo(input_type),
    }
    if kind not in types:
        raise InvalidJob(f"a window takes reduce, aggregate or process, not {kind!r}")
    return kind, types[kind]


def open_contents(
    kind: str, function: UserObject, backend: KeyedBackend, value_type: TypeInformation
) -> WindowContents:
    """Opens the contents of windows. ``kind`` and type: as ``contents_type`` returns them. Raises ``InvalidJob``, ``SchemaMismatch``."""
    if kind == "process":
        return _Records(backend, value_type)
    table, fold = backend.table(STATE_NAME, kind, value_type), fold_of(kind, function)
    copies = backend.copies_of(STATE_NAME, value_type)
    if kind == "reduce":
        return _OneValue(table, copies, fold, fold, _as_it_is)
    return _OneValue(table, copies, fold, function.merge, function.get_result)


def fold_of(kind: str, function: UserObject) -> Fold:
    """Returns the function that combines present contents with a record."""
    if kind == "reduce":
        reduce = method_of(function, "reduce")
        return lambda found, record: record if found is None else reduce(found, record)
    return lambda found, record: function.add(record, function.create_accumulator() if found is None else found)


def _as_it_is(found: Accumulated) -> Accumulated:
    return found


class _OneValue(WindowContents):
    def __init__(
        self, table: KeyedTable, copies: RecordCopy, add: Fold, merge: Fold, result: Callable[[Accumulated], Record]
    ) -> None:
        self._table = table
        self._copies = copies
        self._add = add
        self._merge = merge
        self._result = result

    def add(self, group: int, entry: Entry, record: Record) -> bool:
        found = self._table.read(group, entry)
        made = self._add(found, record)
        if made.__class__ not in self._copies.shared and made is not record:
            made = self._copies.unless_same(made, found)
        self._table.write(group, entry, made)
        return found is not None

    def results(self, group: int, entry: Entry) -> tuple[Accumulated, ...]:
        found = self._table.read(group, entry)
        return () if found is None else (self._result(found),)

    def replace(self, group: int, entry: Entry, records: Sequence[Record]) -> None:
        raise InvalidJob(
            "an evictor was to change the records of a window that keeps only the result of its reduce() or aggregate()"
        )

    def merge(self, group: int, target: Entry, sources: Sequence[Entry]) -> None:
        merged = self._table.read(group, target)
        for source in sources:
            found = self._table.read(group, source)
            if found is None:
                continue
            self._table.delete(group, source)
            merged = found if merged is None else self._merge(merged, found)
            if merged is None:
                raise InvalidJob(
                    "the windows merge (as sessions do), but the AggregateFunction's merge returned None: return the "
                    "accumulator of both"
                )
        if merged is not None:
            self._table.write(group, target, merged)

    def clear(self, group: int, entry: Entry) -> None:
        self._table.delete(group, entry)


class _Records(WindowContents):
    def __init__(self, backend: KeyedBackend, value_type: TypeInformation) -> None:
        self._cells = backend.list_cells(STATE_NAME, value_type, kind="process")

    def add(self, group: int, entry: Entry, record: Record) -> bool:
        self._cells.extend(group, entry, (record,))
        return False

    def results(self, group: int, entry: Entry) -> tuple[Accumulated, ...]:
        found = self._cells.read(group, entry)
        return (found,) if found else ()

    def replace(self, group: int, entry: Entry, records: Sequence[Record]) -> None:
        self._cells.replace(group, entry, records)

    def merge(self, group: int, target: Entry, sources: Sequence[Entry]) -> None:
        for source in sources:
            moved = list(self._cells.read(group, source))
            if moved:
                self._cells.replace(group, source, ())
                self._cells.extend(group, target, moved)

    def clear(self, group: int, entry: Entry) -> None:
        self._cells.replace(group, entry, ())
