"""The requested keys of a query in the type of the stream's keys, with their key groups."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidegate.columnar.keys.hashing import key_groups
from tidegate.common.typeinfo import PickledBytesTypeInfo, TypeInformation
from tidegate.model.errors import Misuse, SchemaMismatch, TidegateError
from tidegate.model.values import Json, Key
from tidegate.records.keys import hash_keys
from tidegate.records.record_codec import decode_column, encode_column

__all__ = ["RequestedKeys", "key_of_text"]


@dataclass(frozen=True, slots=True)
class RequestedKeys:
    """The keys that a client asks queryable state for. ``column``: a row for each key; ``keys``: the keys as values; ``groups``: their key groups."""

    field: pa.Field
    column: pa.Array
    keys: tuple[Key, ...]
    groups: tuple[int, ...]

    @staticmethod
    def of(keys: Sequence[Key], key_type: TypeInformation, max_parallelism: int, name: str) -> RequestedKeys:
        """Converts keys to the type of the stream's keys. Raises ``SchemaMismatch`` for a key that does not fit."""
        try:
            column = encode_column(key_type, list(keys), f"key of state '{name}'")
        except SchemaMismatch as error:
            raise SchemaMismatch(f"{error.message}; keys of this state are of type {key_type!r}") from None
        found = list(keys) if isinstance(key_type, PickledBytesTypeInfo) else decode_column(key_type, column)
        try:
            groups = key_groups(hash_keys(found), max_parallelism)
        except TypeError as error:
            raise SchemaMismatch(f"state '{name}' has no such key: {error}") from None
        return RequestedKeys(key_type.arrow_field("key"), column, tuple(found), tuple(groups.tolist()))


def key_of_text(text: str, key_type: TypeInformation, name: str) -> Key:
    """Parses a key on a command line: text as it is, other types as JSON: ``["UA", 7]``. Without a declared type as JSON too: ``42`` is a number,
    ``"42"`` a text. Raises ``Misuse``."""
    field = key_type.arrow_field("key")
    if isinstance(key_type, PickledBytesTypeInfo) or pa.types.is_nested(field.type):
        return _tuples(_parsed(text))
    try:
        column = pa.array([text]).cast(field.type)
        return decode_column(key_type, column)[0]
    except (pa.ArrowException, TidegateError, ValueError):
        raise Misuse(f"no key of state '{name}' can be {text!r}: its keys are of type {key_type!r}") from None


def _parsed(text: str) -> Json:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _tuples(value: Json) -> Key:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
