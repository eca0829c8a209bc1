"""The values of users, each named by what it is in a job.

A stream, its keys and its state hold whatever the functions of a user take and return: no class stands above them, as in PyFlink.
These names are therefore open to a type checker, and a signature says with them which of those values is meant. What checks them is
the stream's `TypeInformation`, where a value becomes a column.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Record: TypeAlias = Any
"""What a stream carries: a `Row`, a tuple, a number, an object of a user's class."""

FieldValue: TypeAlias = Any
"""The value of a field of a record, or of a cell of a column; its type is that of the field."""

Key: TypeAlias = Any
"""What a `KeySelector` returns. Its hash is the same in every process."""

StateValue: TypeAlias = Any
"""What a function keeps in state: a value, an element of a list, a value of a map."""

MapKey: TypeAlias = Any
"""A key within a `MapState` or within broadcast state."""

Accumulated: TypeAlias = Any
"""What an `AggregateFunction` accumulates; only its own methods look into it."""

AssignedWindow: TypeAlias = Any
"""What a stream's `WindowAssigner` makes; its class is known to the assigner, and to the trigger and the function that go with it."""

Committable: TypeAlias = Any
"""What a sink's writer hands to its committer through a checkpoint; only that sink reads it."""

ReaderPosition: TypeAlias = Any
"""Where a reader stands in its split, or what the split is; only that source reads it."""

UserObject: TypeAlias = Any
"""A function, a type, a source or a sink of a program, where it is only kept and pickled; or a part of one."""

Json: TypeAlias = Any
"""What was read from JSON or is written to it: objects, lists, texts, numbers. What one document holds, its reader checks."""

JsonObject: TypeAlias = dict[str, Json]
"""An object of JSON, by the names of its members."""
