"""Changelogs by a unique key: earlier values are added to them, and rows of several keys of their own are put in their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tidegate.functions.sql.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, adds
from tidegate.functions.sql.rows import Change, Row, batch_of
from tidegate.functions.sql.scalar import CompiledFilter
from tidegate.taskmanager.operators.relational.base import KEEP, RelationalOperator


class ChangelogNormalize(RelationalOperator):
    """State: the row of a key. What comes has no earlier rows, or says the same again. ``condition``: rows for which it does not hold are as
    if they were not there (Flink: ``ProcTimeDeduplicateFilter``)."""

    def __init__(
        self,
        name: str,
        keys: Sequence[int],
        schema: pa.Schema,
        *,
        condition: CompiledFilter | None,
        rows: pa.Schema,
        generates_update_before: bool,
        ttl_ms: int,
    ) -> None:
        super().__init__(name, [keys], schema, ttl_ms)
        self._condition = condition
        self._rows = rows
        self._generates_update_before = generates_update_before

    def change(self, state: Any, kind: int, row: Row, input_index: int, out: list[Change]) -> Any:
        if adds(kind) and not self._holds(row):
            kind = DELETE
        if adds(kind):
            if state is None:
                out.append((INSERT, row))
            elif self._ttl_ms or state != row:
                if self._generates_update_before:
                    out.append((UPDATE_BEFORE, state))
                out.append((UPDATE_AFTER, row))
            return row
        if kind == DELETE and state is not None:
            out.append((DELETE, state))
            return None
        return KEEP

    def _holds(self, row: Row) -> bool:
        if self._condition is None:
            return True
        return bool(self._condition.evaluate(batch_of([(INSERT, row)], self._rows))[0].as_py())


class UpsertMaterialize(RelationalOperator):
    """State: the rows of a key in the order in which they came. The newest is what the table has (Flink: ``SinkUpsertMaterializer.java``).
    ``upsert_key``: the key of the query, of which there is one row at a time."""

    def __init__(
        self, name: str, keys: Sequence[int], schema: pa.Schema, *, upsert_key: Sequence[int], ttl_ms: int
    ) -> None:
        super().__init__(name, [keys], schema, ttl_ms)
        self._upsert_key = upsert_key

    def change(self, state: Any, kind: int, row: Row, input_index: int, out: list[Change]) -> Any:
        rows: list[Row] = state or []
        at = self._place(rows, row)
        if adds(kind):
            out.append((UPDATE_AFTER if rows else INSERT, row))
            if self._upsert_key and at is not None:
                rows[at] = row
            else:
                rows.append(row)
            return rows
        if at is None:
            return KEEP
        del rows[at]
        if not rows:
            out.append((DELETE, row))
            return None
        if at == len(rows):
            out.append((UPDATE_AFTER, rows[-1]))
        return rows

    def _place(self, rows: Sequence[Row], row: Row) -> int | None:
        key = self._upsert_key
        if not key:
            return rows.index(row) if row in rows else None
        wanted = [row[position] for position in key]
        return next((at for at, old in enumerate(rows) if [old[position] for position in key] == wanted), None)
