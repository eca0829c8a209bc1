"""Converts stored partial aggregates of earlier versions: to the internal column names of ``aggregates.names``, and with the upper halves of averages of 64-bit
integers.

value.x__sum of the user's sum x__sum   ─▶ value.x__sum__value
value.x__sum, value.x__count            ─▶ and value.x__high: what is above 32 bits of the sum, which did not leave 64 then
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.columnar.aggregates.names import average_of_high, earlier_name, internal_name, sum_of
from tidegate.model.errors import SchemaMismatch

KEY_PREFIX = "key."
VALUE_PREFIX = "value."


def are_keys(stored: Sequence[str], keys: Sequence[str]) -> bool:
    """Tells whether stored key columns are the job's key columns, under their present or their earlier names."""
    return list(stored) == list(keys) or [internal_name(name) for name in stored] == list(keys)


def as_written_now(data: pa.RecordBatch, keys: Sequence[str], values: Sequence[str], operator: str) -> pa.RecordBatch:
    """Returns stored partial aggregates in the present format. Unknown columns stay, after the others, for the caller to judge.

    ``data``: the columns of a state file. Raises ``SchemaMismatch`` where a column occurs twice.
    """
    there = data.schema.names
    twice = next((name for name in there if there.count(name) > 1), None)
    if twice is not None:
        raise SchemaMismatch(
            f"operator '{operator}': its state has the column {twice!r} twice: an earlier version confused an aggregate of this name with a part of "
            "an average, whose values are wrong. Give the operator another uid, and it begins anew"
        )
    renamed = {**_renamed(KEY_PREFIX, keys, there), **_renamed(VALUE_PREFIX, values, there)}
    if renamed:
        data = data.rename_columns([renamed.get(name, name) for name in there])
    wanted = [VALUE_PREFIX + name for name in values]
    missing = [name for name in values if VALUE_PREFIX + name not in data.schema.names]
    for name in missing:
        average = average_of_high(name)
        total = None if average is None else VALUE_PREFIX + sum_of(average)
        if total in data.schema.names:
            column = data.column(total)
            upper = pc.shift_right(column, pa.scalar(32, column.type)).cast(pa.int64())
            data = data.append_column(VALUE_PREFIX + name, upper)
    if not missing:
        return data
    others = [name for name in data.schema.names if name not in wanted]
    return data.select([*others, *(name for name in wanted if name in data.schema.names)])


def _renamed(prefix: str, names: Sequence[str], there: Sequence[str]) -> dict[str, str]:
    found = {}
    for name in names:
        earlier = earlier_name(name, names)
        if earlier is not None and prefix + name not in there and prefix + earlier in there:
            found[prefix + earlier] = prefix + name
    return found
