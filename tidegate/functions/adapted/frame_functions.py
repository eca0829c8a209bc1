"""Functions of pandas or polars data frames behind ``map_batches``, adapted to Arrow record batches.

    record batch ─▶ data frame ─▶ the user's function ─▶ data frame (or series of columns) ─▶ record batch of the schema

A column that the schema does not name is refused, as in ``map_batches``; one whose type differs is converted when no value
changes by that, else refused.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeAlias

import pyarrow as pa

from tidegate.model.errors import InvalidJob, SchemaMismatch

Frame: TypeAlias = Any
"""A data frame of pandas or of polars, depending on the function; neither library is loaded before it is used."""


class PandasFunction:
    """Calls a function of pandas data frames with Arrow record batches. Frames have pyarrow's usual pandas types: integers with nulls are floats."""

    def __init__(self, func: Callable[[Frame], Frame], schema: pa.Schema) -> None:
        self.func = func
        self.schema = schema

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        import pandas as pd

        found = self.func(batch.to_pandas())
        if not isinstance(found, pd.DataFrame):
            raise SchemaMismatch(f"the function returned {type(found).__name__}, not a pandas.DataFrame")
        return _conforming(pa.Table.from_pandas(found, preserve_index=False), self.schema)


class PolarsFunction:
    """Calls a function of polars data frames with Arrow record batches: each batch becomes a frame, and the frame that
    comes back is cast to ``schema``."""

    def __init__(self, func: Callable[[Frame], Frame], schema: pa.Schema) -> None:
        self.func = func
        self.schema = schema

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        polars = polars_module()
        found = self.func(polars.from_arrow(batch))
        if isinstance(found, polars.LazyFrame):
            found = found.collect()
        if not isinstance(found, polars.DataFrame):
            raise SchemaMismatch(f"the function returned {type(found).__name__}, not a polars.DataFrame")
        return _conforming(found.to_arrow(), self.schema)


def polars_module() -> ModuleType:
    """Imports polars. Raises ``InvalidJob`` when it is not installed."""
    try:
        import polars
    except ImportError as error:
        raise InvalidJob("map_polars needs polars: pip install polars") from error
    return polars


def _conforming(table: pa.Table, schema: pa.Schema) -> pa.RecordBatch:
    """Casts columns to the types of a schema; names are checked by the operator."""
    if table.schema.names == schema.names:
        try:
            table = table.cast(schema)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            columns = ", ".join(f"{field.name}: {field.type}" for field in schema)
            raise SchemaMismatch(
                f"the frame that the function returned does not fit the schema that was given with it, {columns}: {error}"
            ) from error
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
