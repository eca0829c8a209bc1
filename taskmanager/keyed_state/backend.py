"""What operators see of a keyed backend, and of the tables in it, whichever backend it is.

    set_current(key, group) ─▶ handles read and write the entry (key, namespace) of their table
    freeze() ─▶ FrozenState    restore(...) before anything else    close() at the end of the attempt

A table holds one object for each entry. Lists and maps that a function adds to element by element are reached through
``ListCells`` and ``MapCells``, so that a backend on disk needs not read the whole to change a part.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.model.checkpoint import CheckpointOptions, RestoredOperator
from tidegate.model.keygroups import KeyGroupRange
from tidegate.model.values import Key, MapKey, StateValue
from tidegate.records.record_copy import RecordCopy, record_copy
from tidegate.taskmanager.keyed_state.entry import Entry, Namespace
from tidegate.taskmanager.keyed_state.queryable import QueryableState
from tidegate.taskmanager.keyed_state.timers import TimerSet
from tidegate.taskmanager.keyed_state.ttl import Sweep, Ttl
from tidegate.taskmanager.state.base import FrozenState, SegmentSource


class KeyedTable(Protocol):
    """State of one name. An entry that is not there is ``None``."""

    def read(self, group: int, entry: Entry) -> StateValue:
        """For user code, which may change it in place; what it changes is only kept by ``write``."""

    def peek(self, group: int, entry: Entry) -> StateValue:
        """For callers that never change it."""

    def write(self, group: int, entry: Entry, value: StateValue) -> None: ...

    def direct(self, group: int) -> dict[Entry, StateValue] | None:
        """A key group's entries, to read and write a batch of records with one look-up for each. ``None`` where ``read`` and
        ``write`` do more than that. Good until the next freeze, or until one of them is called for the group."""

    def delete(self, group: int, entry: Entry) -> None: ...

    def entries(self) -> Iterator[tuple[int, Entry, StateValue]]:
        """All of them now, by key group."""


class KeyedEntries(KeyedTable, Protocol):
    """A table whose namespaces are the names of values of a key, which are asked for together too (Flink: ``MapState``). Each is an entry of its own: a
    snapshot that builds upon another one writes those that changed, and not all of their key."""

    @property
    def has_unnamed(self) -> bool:
        """Whether there may be an entry without a namespace."""

    def of_key(self, group: int, key: Key) -> Mapping[Namespace, StateValue]:
        """All of a key by their names, for callers that change neither the mapping nor what is in it. Good until the next write."""


class ListCells(Protocol):
    """Entries that are lists."""

    def read(self, group: int, entry: Entry) -> list[StateValue]: ...

    def extend(self, group: int, entry: Entry, elements: Sequence[StateValue]) -> None: ...

    def replace(self, group: int, entry: Entry, elements: Sequence[StateValue]) -> None:
        """No elements: no entry."""

    def is_empty(self, group: int, entry: Entry) -> bool: ...


class MapCells(Protocol):
    """Entries that are maps. Their keys are canonical forms (``tidegate.records.canonical.forms``)."""

    def get(self, group: int, entry: Entry, key: MapKey) -> StateValue:
        """``None``: not there."""

    def contains(self, group: int, entry: Entry, key: MapKey) -> bool: ...

    def put_all(self, group: int, entry: Entry, items: Mapping[MapKey, StateValue]) -> None: ...

    def remove(self, group: int, entry: Entry, keys: Iterable[MapKey]) -> None: ...

    def read(self, group: int, entry: Entry) -> dict[MapKey, StateValue]:
        """A map that the caller may keep."""

    def is_empty(self, group: int, entry: Entry) -> bool: ...

    def clear(self, group: int, entry: Entry) -> None: ...


class KeyedBackend(ABC):
    """All keyed state of one operator of one subtask. ``key_type`` is ``None`` when keys are to be pickled."""

    def __init__(
        self,
        operator: str,
        owned: KeyGroupRange,
        key_type: TypeInformation | None = None,
        now_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        self.operator = operator
        self.owned = owned
        self.key: Key = None
        self.group = owned.start
        self.namespace: Namespace = None
        """The namespace of the window that is being processed; handles of plain state ignore it."""
        self.now_ms = now_ms
        """Processing time, for state that expires."""
        self.each_record: list[Callable[[], None]] = []
        """Called for every record, after its key was made the current one."""
        self.publish: Callable[[QueryableState], None] = lambda _: None
        """Takes state that clients may ask for."""
        self._key_type = key_type or Types.PICKLED_BYTE_ARRAY()

    @property
    def key_type(self) -> TypeInformation:
        return self._key_type

    def set_current(self, key: Key, group: int) -> None:
        """The key of the record that is worked on. ``key`` is canonical (``tidegate.records.canonical.forms``)."""
        self.key = key
        self.group = group

    @abstractmethod
    def restore(self, restored: RestoredOperator, source: SegmentSource) -> None:
        """Read what lies in the own key groups. Raises ``CorruptData``, ``StorageError``."""

    @abstractmethod
    def table(
        self, state_name: str, kind: str, value_type: TypeInformation | None, ttl: Ttl | None = None
    ) -> KeyedTable:
        """The table of a state, made (and filled with what was restored) when it is first asked for.
        Raises ``InvalidJob`` when the name is in use for another kind or type, ``SchemaMismatch``."""

    def copies_of(self, state_name: str, value_type: TypeInformation | None) -> RecordCopy:
        """How what a function returns is kept apart from its own objects, which it may return again. Not at all where values are
        encoded at once."""
        return record_copy(value_type, self._where(state_name), reuses_objects=True)

    def _where(self, state_name: str) -> str:
        return f"operator '{self.operator}', state '{state_name}'"

    @abstractmethod
    def entries_by_key(self, state_name: str, value_type: TypeInformation, ttl: Ttl | None = None) -> KeyedEntries:
        """Returns a table of ``value`` entries that knows which ones a key has. Raises as ``table``."""

    @abstractmethod
    def list_cells(
        self, state_name: str, value_type: TypeInformation, ttl: Ttl | None = None, kind: str = "list"
    ) -> ListCells:
        """Returns the cells of lists that grow, whose ``value_type`` is that of the whole list. ``kind``: ``process``
        for the records of a window."""

    @abstractmethod
    def map_cells(self, state_name: str, value_type: TypeInformation, ttl: Ttl | None = None) -> MapCells:
        """Returns the cells of a MapState, whose ``value_type`` is that of the whole map."""

    @abstractmethod
    def timers(self, state_name: str) -> TimerSet:
        """Returns the timers of one time domain. Once for each name."""

    @abstractmethod
    def entry_keys(self, state_name: str) -> list[tuple[int, Entry]]:
        """Returns all entries of a requested state, as they are now, with their key groups."""

    @abstractmethod
    def sweep(self, state_name: str) -> Sweep:
        """The cleanup of a state that expires."""

    @abstractmethod
    def freeze(self, checkpoint_id: int = 0, options: CheckpointOptions | None = None) -> FrozenState:
        """References only. ``options``: what the snapshot may refer to; ``None``: nothing."""

    def confirmed(self, checkpoint_id: int) -> None:  # noqa: B027  (optional hook)
        """Later snapshots may build upon this one."""

    def aborted(self, checkpoint_id: int) -> None:  # noqa: B027  (optional hook)
        """Its files will be gone."""

    def merge_some(self) -> None:  # noqa: B027  (optional hook)
        """Called with every batch: a little of the work that a snapshot left behind."""

    @property
    def loads_later(self) -> bool:
        """What was restored may be loaded while records are processed: ``load_some`` is to be called."""
        return False

    @property
    def rows_to_load(self) -> int:
        """Restored rows that are still in their files."""
        return 0

    def load_some(self) -> None:  # noqa: B027  (optional hook)
        """Some milliseconds of loading them."""

    def forget_all(self) -> None:
        """Nothing of any key is left. For backends of BATCH execution mode, which are never frozen."""
        raise AssertionError(f"{type(self).__name__} keeps the state of all keys")

    def close(self) -> None:  # noqa: B027  (optional hook)
        """Give everything back."""
