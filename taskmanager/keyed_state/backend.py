"""The interface of keyed state backends and their tables, the same for all backends.

    set_current(key, group) ─▶ handles read and write the entry (key, namespace) of their table
    freeze() ─▶ FrozenState    restore(...) before anything else    close() at the end of the attempt

A table holds one object for each entry. Lists and maps that a function changes element by element are accessed through ``ListCells`` and ``MapCells``, so that
a backend on disk can change a part without reading the whole.
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
from tidegate.taskmanager.keyed_state.named_values import NamedValues
from tidegate.taskmanager.keyed_state.queryable import QueryableState
from tidegate.taskmanager.keyed_state.timers import TimerSet
from tidegate.taskmanager.keyed_state.ttl import Sweep, Ttl
from tidegate.taskmanager.state.ports import FrozenState, SegmentSource


class KeyedTable(Protocol):
    """The table of one keyed state. A missing entry is ``None``."""

    def read(self, group: int, entry: Entry) -> StateValue:
        """Returns the value of an entry for user code, which may change it in place. Changes are kept only by ``write``."""

    def peek(self, group: int, entry: Entry) -> StateValue:
        """Returns the value of an entry for callers that never change it."""

    def write(self, group: int, entry: Entry, value: StateValue) -> None: ...

    def peek_all(self, groups: Sequence[int], entries: Sequence[Entry]) -> list[StateValue]:
        """Returns the values of entries as ``peek`` does, ``None`` for each that is missing. ``groups``: the key group of each."""

    def write_all(self, groups: Sequence[int], entries: Sequence[Entry], values: Sequence[StateValue]) -> None:
        """Writes entries as ``write`` does. ``groups``: the key group of each."""

    def direct(self, group: int) -> dict[Entry, StateValue] | None:
        """Returns the entries of a key group as a dictionary, to read and write a batch of records with one look-up for each.

        ``None`` where ``read`` and ``write`` do more than that. Valid until the next freeze, or until ``read`` or ``write`` is called for the group.
        """

    def delete(self, group: int, entry: Entry) -> None: ...

    def delete_all(self, groups: Sequence[int], entries: Sequence[Entry]) -> None:
        """Removes entries as ``delete`` does. ``groups``: the key group of each."""

    def entries(self) -> Iterator[tuple[int, Entry, StateValue]]:
        """Yields all entries, by key group."""


class KeyedEntries(KeyedTable, Protocol):
    """A table whose namespaces are names of values of a key, which can be read together (Flink: ``MapState``).

    Each value is an entry of its own: an incremental snapshot writes those that changed, not all of their key.
    """

    @property
    def has_unnamed(self) -> bool:
        """Whether there may be an entry without a namespace."""

    def of_key(self, group: int, key: Key) -> Mapping[Namespace, StateValue]:
        """Returns all values of a key by name, for callers that change neither the mapping nor the values. Valid until the next write."""

    def named(self, groups: Sequence[int], keys: Sequence[Key], names: Sequence[Namespace]) -> NamedValues:
        """Returns the values of keys that have some names, as ``peek`` does. ``groups``: the key group of each key."""


class ListCells(Protocol):
    """Entries that are lists, to which elements can be added without reading them."""

    def read(self, group: int, entry: Entry) -> list[StateValue]: ...

    def extend(self, group: int, entry: Entry, elements: Sequence[StateValue]) -> None: ...

    def replace(self, group: int, entry: Entry, elements: Sequence[StateValue]) -> None:
        """Replaces a list. Without elements its entry is removed."""

    def is_empty(self, group: int, entry: Entry) -> bool: ...


class MapCells(Protocol):
    """Entries that are maps, of which single entries can be read and written. Their keys are canonical forms (``tidegate.records.canonical.forms``)."""

    def get(self, group: int, entry: Entry, key: MapKey) -> StateValue:
        """Returns the value of a map's key; ``None`` if there is none."""

    def contains(self, group: int, entry: Entry, key: MapKey) -> bool: ...

    def put_all(self, group: int, entry: Entry, items: Mapping[MapKey, StateValue]) -> None: ...

    def remove(self, group: int, entry: Entry, keys: Iterable[MapKey]) -> None: ...

    def read(self, group: int, entry: Entry) -> dict[MapKey, StateValue]:
        """Returns a copy of the map, which the caller may keep."""

    def is_empty(self, group: int, entry: Entry) -> bool: ...

    def clear(self, group: int, entry: Entry) -> None: ...


class KeyedBackend(ABC):
    """All keyed state of one operator in one subtask. ``key_type``: ``None`` when keys are pickled."""

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
        """The namespace of the window that is being processed. Handles of state without windows ignore it."""
        self.now_ms = now_ms
        """Returns the processing time, for state with a time to live."""
        self.each_record: list[Callable[[], None]] = []
        """Functions that are called for every record, after its key was made the current one."""
        self.publish: Callable[[QueryableState], None] = lambda _: None
        """Makes a state queryable by clients."""
        self._key_type = key_type or Types.PICKLED_BYTE_ARRAY()

    @property
    def key_type(self) -> TypeInformation:
        return self._key_type

    def set_current(self, key: Key, group: int) -> None:
        """Sets the key of the record that is processed. ``key``: canonical (``tidegate.records.canonical.forms``)."""
        self.key = key
        self.group = group

    @abstractmethod
    def restore(self, restored: RestoredOperator, source: SegmentSource) -> None:
        """Restores the state of the owned key groups. Raises ``CorruptData``, ``StorageError``."""

    @abstractmethod
    def table(
        self, state_name: str, kind: str, value_type: TypeInformation | None, ttl: Ttl | None = None
    ) -> KeyedTable:
        """Returns the table of a state, which is created (and filled with what was restored) at the first call.

        Raises ``InvalidJob`` when the name is in use for another kind or type, and ``SchemaMismatch``.
        """

    def copies_of(self, state_name: str, value_type: TypeInformation | None) -> RecordCopy:
        """Returns the copier for results that a user's function puts into state, so that the function cannot change them later. It copies nothing where
        values are encoded at once.
        """
        return record_copy(value_type, self._where(state_name), reuses_objects=True)

    def _where(self, state_name: str) -> str:
        return f"operator '{self.operator}', state '{state_name}'"

    @abstractmethod
    def entries_by_key(self, state_name: str, value_type: TypeInformation, ttl: Ttl | None = None) -> KeyedEntries:
        """Returns a table of ``value`` entries that can list those of a key. Raises as ``table`` does."""

    @abstractmethod
    def list_cells(
        self, state_name: str, value_type: TypeInformation, ttl: Ttl | None = None, kind: str = "list"
    ) -> ListCells:
        """Returns the cells of lists that grow. ``value_type``: of the whole list. ``kind``: ``process`` for the records of a window."""

    @abstractmethod
    def map_cells(self, state_name: str, value_type: TypeInformation, ttl: Ttl | None = None) -> MapCells:
        """Returns the cells of a MapState. ``value_type``: of the whole map."""

    @abstractmethod
    def timers(self, state_name: str) -> TimerSet:
        """Returns the timers of one time domain. Must be called only once for each name."""

    @abstractmethod
    def entry_keys(self, state_name: str) -> list[tuple[int, Entry]]:
        """Returns all present entries of a requested state, with their key groups."""

    @abstractmethod
    def sweep(self, state_name: str) -> Sweep:
        """Returns the cleanup of expired entries of a state."""

    @abstractmethod
    def freeze(self, checkpoint_id: int = 0, options: CheckpointOptions | None = None) -> FrozenState:
        """Freezes all state, as references without copies. ``options``: what the snapshot may refer to; ``None``: nothing."""

    def confirmed(self, checkpoint_id: int) -> None:  # noqa: B027  (optional hook)
        """Notes that a checkpoint is complete: later snapshots may build upon it."""

    def aborted(self, checkpoint_id: int) -> None:  # noqa: B027  (optional hook)
        """Notes that a checkpoint was aborted: its files will be removed."""

    def merge_some(self) -> None:  # noqa: B027  (optional hook)
        """Does a little of the cleanup work that snapshots left. Called with every batch."""

    @property
    def loads_later(self) -> bool:
        """Whether restored state is loaded while records are processed, so that ``load_some`` must be called."""
        return False

    @property
    def rows_to_load(self) -> int:
        """Number of restored rows that are still in their files."""
        return 0

    def load_some(self) -> None:  # noqa: B027  (optional hook)
        """Loads some restored rows, for some milliseconds."""

    def forget_all(self) -> None:
        """Removes the state of all keys. For backends of BATCH execution mode, which are never frozen."""
        raise AssertionError(f"{type(self).__name__} cannot remove the state of all keys")

    def close(self) -> None:  # noqa: B027  (optional hook)
        """Releases all resources."""
