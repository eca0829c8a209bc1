"""Hashes keys that key selectors return, as ``tidegate.columnar.keys.hashing`` hashes columns, and also keys of types that columns do not have.

Laws: equal to what ``hash_columns`` gives for the same value, bit for bit; keys of one canonical form
(``tidegate.records.canonical.forms``) have one hash. Checkpoints hold key groups, so no hash may change.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tidegate.columnar.keys.hashing import Hashes, Unsigned, combine, fold, hash_array, hash_floats
from tidegate.columnar.keys.values import ValueHashes, hash_bytes, hash_timedelta
from tidegate.model.values import Key
from tidegate.records.canonical.forms import EncodedKey
from tidegate.records.canonical.pickling import hashed_bytes
from tidegate.records.time import Instant


def hash_key(key: Key) -> int:
    """Hashes one key, to -2**31 to 2**31 - 1. Raises ``NotSerializable`` for a key that cannot be pickled by value."""
    return _KEYS.of(key)


def hash_keys(keys: Sequence[Key]) -> Hashes:
    """Hashes each Python key into an int32 array. Keys of one common type are hashed as a column."""
    return _hash_list(keys).view(np.int32)


def _hash_list(keys: Sequence[Key]) -> Unsigned:
    kinds = set(map(type, keys))
    kind = kinds.pop() if len(kinds) == 1 else None
    try:
        if kind is int:
            return fold(np.array(keys, np.int64))
        if kind is float:
            return hash_floats(np.array(keys, np.float64))
        if kind is str or kind is bytes:
            return hash_array(pa.array(keys, pa.large_string() if kind is str else pa.large_binary()))
    except (OverflowError, UnicodeEncodeError, pa.ArrowInvalid):
        pass  # beyond 64 bits, or a lone surrogate: key by key
    if kind is tuple and keys[0] and len(set(map(len, keys))) == 1:
        return combine([_hash_list(column) for column in zip(*keys, strict=True)])
    return np.fromiter(map(hash_key, keys), np.int32, len(keys)).view(np.uint32)


def _hash_instant(key: Instant) -> int:
    """Hashes an ``Instant`` like the value of its column, so that its hash is the same before and after an exchange."""
    return hash_timedelta(dt.timedelta(seconds=key.seconds, microseconds=key.nanos // 1000))


_KEYS: ValueHashes = ValueHashes(
    {Instant: _hash_instant, EncodedKey: lambda key: _KEYS.unsigned(key.key)},
    lambda key: hash_bytes(hashed_bytes(key)),
)
