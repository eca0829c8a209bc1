"""Queryable state: clients read it by key while the job runs (Flink: ``InternalKvState.getSerializedValue``).

    keys in the type of the stream's keys ─▶ key groups, at once ─▶ entries ─▶ values in the state's type

Laws: a lookup changes nothing, not even the current key, and returns a copy. Keys of streams without a declared key type are pickled. A client's bytes are
decoded without running code, so such keys may only be numbers, texts, bytes, and tuples, lists and dicts of them.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from tidegate.columnar.keys.hashing import key_groups
from tidegate.common.typeinfo import PickledBytesTypeInfo, TypeInformation
from tidegate.model.errors import InvalidJob, Misuse, NotSerializable, SchemaMismatch, StateNotServed
from tidegate.model.ids import OperatorId
from tidegate.model.keygroups import KeyGroupRange
from tidegate.model.values import Key, StateValue
from tidegate.records.canonical.forms import canonical_keys
from tidegate.records.keys import hash_keys
from tidegate.records.record_codec import decode_column, encode_column
from tidegate.records.type_document import types_to_json
from tidegate.wire.kv_state_columns import keys_of, write_values

_PICKLED = b"tidegate.pickled"

ReadKey: TypeAlias = Callable[[int, Key], StateValue]
"""Reads the value of a canonical key in a key group; ``None`` if there is none. The caller must not change it."""


@dataclass(frozen=True, slots=True)
class QueryableState:
    """A state that clients can query. ``name``: its name for clients; ``state_name``: its name in checkpoints."""

    name: str
    state_name: str
    key_type: TypeInformation
    value_type: TypeInformation
    owned: KeyGroupRange
    read: ReadKey

    def types(self) -> bytes:
        """Returns the types of keys and values, for clients. Raises ``Misuse`` for a type of a user's own class."""
        return types_to_json((self.key_type, self.value_type))

    def answer(self, keys: bytes, max_parallelism: int) -> bytes:
        """Returns the values of keys, both as Arrow IPC streams. Raises ``SchemaMismatch`` or ``Misuse`` for keys that do not fit this state, and
        ``StateNotServed`` for keys of another subtask.
        """
        column = keys_of(keys)
        wanted = self.key_type.arrow_field("key")
        if column.type != wanted.type:
            raise SchemaMismatch(f"keys of state '{self.name}' are of type {self.key_type!r}, not {column.type}")
        if isinstance(self.key_type, PickledBytesTypeInfo):
            found = [_plain(content, self.name) for content in column.to_pylist()]
        elif _holds_pickles(wanted):
            raise Misuse(
                f"keys of state '{self.name}' have parts without a declared type, so no client can ask for them"
            )
        else:
            found = decode_column(self.key_type, column)
        forms = _forms(found, self.name)
        groups = key_groups(hash_keys(found), max_parallelism)
        if len(groups) and (groups.min() < self.owned.start or groups.max() > self.owned.end):
            raise StateNotServed(
                f"this subtask serves key groups {self.owned.start} to {self.owned.end} of state '{self.name}', and not all "
                "that the request names: ask the JobManager where they are now"
            )
        rows, values = [], []
        for row, (group, key) in enumerate(zip(groups.tolist(), forms, strict=True)):
            value = self.read(group, key)
            if value is not None:
                rows.append(row)
                values.append(value)
        field = self.value_type.arrow_field("value")
        return write_values(rows, encode_column(self.value_type, values, f"state '{self.name}'"), field)


PublishState: TypeAlias = Callable[[OperatorId, str, QueryableState], None]
"""Makes a state queryable: takes the operator's id, its name for messages, and the state."""


class _PlainUnpickler(pickle.Unpickler):
    """Unpickles values that need no class and no function."""

    def find_class(self, module: str, name: str) -> object:
        raise pickle.UnpicklingError(f"{module}.{name}")


def _holds_pickles(field: pa.Field) -> bool:
    kind = field.type
    is_nested = pa.types.is_nested(kind)
    return bool(field.metadata and _PICKLED in field.metadata) or (
        is_nested and any(_holds_pickles(kind.field(i)) for i in range(kind.num_fields))
    )


def _forms(keys: list[Key], name: str) -> list[Key]:
    try:
        return canonical_keys(keys)
    except (InvalidJob, NotSerializable) as error:
        raise Misuse(f"state '{name}': {error.message}") from error


def _plain(content: bytes, name: str) -> Key:
    try:
        return _PlainUnpickler(io.BytesIO(content)).load()
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, AttributeError, IndexError, KeyError) as error:
        raise Misuse(
            f"the keys of state '{name}' have no declared type, so a client may ask for numbers, texts, bytes, and tuples or "
            f"lists of them, and not for this one ({error}): give key_by a key_type"
        ) from error
