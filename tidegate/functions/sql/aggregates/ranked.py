"""Ranks of values, so that the best one is found among whole numbers, whatever the values are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.functions.sql.rows import array_of_values
from tidegate.plan.logical_types import TypeRoot

PLAIN: Final = frozenset(
    {
        TypeRoot.BOOLEAN,
        TypeRoot.TINYINT,
        TypeRoot.SMALLINT,
        TypeRoot.INTEGER,
        TypeRoot.BIGINT,
        TypeRoot.DECIMAL,
        TypeRoot.CHAR,
        TypeRoot.VARCHAR,
        TypeRoot.DATE,
        TypeRoot.TIME,
        TypeRoot.TIMESTAMP,
        TypeRoot.TIMESTAMP_LTZ,
    }
)
"""Types whose values are equal and ordered in Arrow as they are in Python. Fractions are not: NaN, and zeros with signs."""


@dataclass(frozen=True, slots=True)
class RankedValues:
    """``values``: different values, from the worst to the best; the ranks of rows and of held values are places in them, -1 for null."""

    values: pa.Array
    rows: npt.NDArray[np.int64]
    held: npt.NDArray[np.int64]


def rank_values(column: pa.Array, held: Sequence[Any], *, ascending: bool) -> RankedValues:
    """Ranks the values of a column and those that are held. ``ascending``: the largest is the best one, otherwise the least."""
    encoded = pa.concat_arrays([column, array_of_values(held, column.type)]).dictionary_encode()
    order = pc.sort_indices(encoded.dictionary, sort_keys=[("", "ascending" if ascending else "descending")])
    rank_of = np.empty(len(order) + 1, np.int64)
    rank_of[np.asarray(order)] = np.arange(len(order))
    rank_of[-1] = -1
    ranks = rank_of[np.asarray(encoded.indices.fill_null(-1))]
    return RankedValues(encoded.dictionary.take(order), ranks[: len(column)], ranks[len(column) :])


__all__ = ["PLAIN", "RankedValues", "rank_values"]
