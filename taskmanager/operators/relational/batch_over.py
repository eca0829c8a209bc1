"""OVER aggregates of bounded input, computed at its end."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import pyarrow as pa

from tidegate.functions.sql.over_frames import CompiledOver
from tidegate.functions.sql.rows import Row
from tidegate.records.canonical.forms import canonical_keys
from tidegate.taskmanager.operators.relational.final_rows import FinalRows


class BatchOver(FinalRows):
    """Emits the rows of each partition in their order, followed by the results of ``over`` as further columns."""

    def __init__(self, name: str, schema: pa.Schema, over: CompiledOver) -> None:
        super().__init__(name, over.partition, schema, order=over.order)
        self._over = over

    def results(self, rows: Iterator[Row]) -> Iterator[Row]:
        for _partition, found in groupby(rows, self._partition_of):
            yield from self._over.values(list(found))

    def _partition_of(self, row: Row) -> Any:
        (key,) = canonical_keys([tuple([row[position] for position in self._over.partition])])
        return key


__all__ = ["BatchOver"]
