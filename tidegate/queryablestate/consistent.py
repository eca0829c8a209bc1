"""Reads values of queryable state from the files of the last completed checkpoint, without load on the job.

All keys of one question have the values of the same checkpoint. Only segments that hold their key groups are read, and verified as they are.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.common.typeinfo import TypeInformation
from tidegate.model.errors import Misuse, StateNotServed
from tidegate.model.kv_state import KvStateInfo
from tidegate.queryablestate.keys import RequestedKeys
from tidegate.records.record_codec import decode_column
from tidegate.state_reader import Checkpoint, open_checkpoint
from tidegate.store.levels import stacks
from tidegate.wire.state_columns import KEY_GROUP

__all__ = ["CheckpointedValues"]

KEY, VALUE = "key", "value"


class CheckpointedValues:
    """Looks up keys in checkpoints; keeps the last one open."""

    def __init__(self) -> None:
        self._open: tuple[str, Checkpoint] | None = None

    def look_up(self, path: str, info: KvStateInfo, requested: RequestedKeys, key_type: TypeInformation) -> pa.Table:
        """Returns the columns ``row``, of each key with a value, and ``value``. Raises ``StorageError``, ``CorruptData``."""
        checkpoint = self._checkpoint(path)
        try:
            state = checkpoint.operator(info.operator_id).state(info.state_name)
        except Misuse:  # an operator whose keys have no state yet is not in a checkpoint
            return _nothing(requested)
        wanted = set(requested.groups)
        places = {key: row for row, key in enumerate(requested.keys)}
        mine = [s for s in state.segments if any(s.key_groups.start <= group <= s.key_groups.end for group in wanted)]
        tables = (table for stack in stacks(mine) for table in checkpoint.merged(stack))
        parts = (_rows_of(table, wanted, places, key_type, info) for table in tables)
        found = [table for table in parts if table.num_rows]
        return pa.concat_tables(found, promote_options="default") if found else _nothing(requested)

    def _checkpoint(self, path: str) -> Checkpoint:
        if self._open is None or self._open[0] != path:
            self._open = (path, open_checkpoint(path))
        return self._open[1]


def _rows_of(
    table: pa.Table, groups: set[int], places: dict[object, int], key_type: TypeInformation, info: KvStateInfo
) -> pa.Table:
    if VALUE not in table.schema.names or KEY not in table.schema.names:
        raise StateNotServed(
            f"state '{info.state_name}' of '{info.operator}' has no columns of keys and values in this checkpoint, so it cannot be queried there"
        )
    table = table.filter(pc.is_in(table.column(KEY_GROUP), pa.array(sorted(groups), pa.int32()))).combine_chunks()
    keys = [decode_column(key_type, chunk) for chunk in table.column(KEY).chunks]
    at = [places.get(_hashable(key), -1) for chunk in keys for key in chunk]
    rows = pa.table([pa.array(at, pa.int32()), table.column(VALUE)], schema=_schema(table.schema.field(VALUE)))
    return rows.filter(pc.greater_equal(rows.column("row"), 0))


def _hashable(key: object) -> object:
    return tuple(map(_hashable, key)) if isinstance(key, list) else key


def _schema(value: pa.Field) -> pa.Schema:
    return pa.schema([pa.field("row", pa.int32()), value])


def _nothing(requested: RequestedKeys) -> pa.Table:
    return _schema(pa.field(VALUE, pa.null())).empty_table()
