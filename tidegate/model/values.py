"""Names for the values of users, by their role in a job.

A stream, its keys and its state hold whatever the functions of a user take and return: no class stands above them, as in PyFlink.
These names are therefore open to a type checker, and a signature says with them which of those values is meant. What checks them is
the stream's `TypeInformation`, where a value becomes a column.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Record: TypeAlias = Any
"""A record of a stream: a `Row`, a tuple, a number, an object of a user's class."""

FieldValue: TypeAlias = Any
"""The value of a field of a record, or of a cell of a column; its type is that of the field."""

Key: TypeAlias = Any
"""The key that a `KeySelector` returns. Its hash is the same in every process."""

StateValue: TypeAlias = Any
"""A value in a function's state: a value, an element of a list, a value of a map."""

MapKey: TypeAlias = Any
"""A key within a `MapState` or within broadcast state."""

Accumulated: TypeAlias = Any
"""The accumulator of an `AggregateFunction`, which only its own methods access."""

AssignedWindow: TypeAlias = Any
"""A window of a stream's `WindowAssigner`; its class is known to the assigner and its trigger and function."""

Committable: TypeAlias = Any
"""What a sink's writer passes to its committer through a checkpoint; only that sink reads it."""

ReaderPosition: TypeAlias = Any
"""The position of a reader in its split, or the split's description; only that source reads it."""

UserObject: TypeAlias = Any
"""A function, a type, a source or a sink of a program, or a part of one, where it is only stored and pickled."""

Json: TypeAlias = Any
"""A JSON value: objects, lists, texts, numbers. Its reader checks its structure."""

JsonObject: TypeAlias = dict[str, Json]
"""A JSON object, by the names of its members."""
