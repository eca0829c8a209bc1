"""Sessions over columns as windows whose number is their end, so that they are kept in buckets, spilled and snapshotted as other windows are (``buckets``).

    window_end · window_start · hash of the key · keys · partial columns

The hashes of keys also determine key groups; they are stored because every watermark needs them.

Every row is a session from its start to its end, until rows of a key that touch are merged. Its end is never later than that of its session, so when event time
has passed the end of the session, all of its rows are taken. The merged rows that are taken are either a complete session, or touch a row that is still held
(``HashFilter`` finds the few candidates). The latter are put back, with their end raised to the known end of their session.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.columnar.aggregates.names import HASH
from tidegate.columnar.keys.hashing import hash_columns
from tidegate.model.errors import SchemaMismatch
from tidegate.taskmanager.state.files.earlier_columns import KEY_PREFIX, VALUE_PREFIX, as_written_now
from tidegate.taskmanager.state.files.segments import Groups, StateDescription, metadata_of
from tidegate.taskmanager.windows.state.files import (
    KIND,
    SESSIONS,
    STATE_NAME,
    WINDOW_COLUMNS,
    WINDOWS,
    check_keys,
)

START, END = WINDOW_COLUMNS
SLOTS_OF_HASH = 32
"""Slots of the filter for each hash. With so many, one in 32 of the other hashes passes the filter."""
LEAST_BITS, MOST_BITS = 10, 22
"""Bounds of the table's size: a kilobyte at least, and at most as much as the third-level cache holds of a processor's share."""
CHUNK_ROWS = 1 << 15
"""Rows that are processed at once, whose intermediate results stay in the second-level cache."""
_FIBONACCI = np.uint32(0x9E3779B1)
"""2**32 divided by the golden ratio (Knuth): the first bits of a product depend on all bits of a hash."""


@dataclass(frozen=True, slots=True)
class SessionFormat:
    """The format of an operator's sessions. ``values``: all columns besides ``keys`` and those of this module that are written now, to which those of earlier
    versions are converted.
    """

    operator: str
    keys: tuple[str, ...]
    gap_ms: int | None = None
    """The gap of the sessions in ms, written into the metadata. Sessions with another gap are restored with their own ends."""
    values: tuple[str, ...] = ()

    @property
    def combine(self) -> Mapping[str, str] | None:
        """``None``: sessions are replaced by key, and not combined across levels."""
        return None

    def hashes(self, rows: pa.RecordBatch) -> Groups:
        return hashes_of(rows)

    def first_ms(self, first: int) -> int | None:
        """Returns ``None``, since sessions may begin at any time before they end."""
        return None

    def rows(self, data: pa.RecordBatch, values: Sequence[str]) -> pa.RecordBatch:
        """Returns partial aggregates of sessions as rows of state, with the columns in the order of the file format, and the hashes of their keys."""
        keys = [data.column(name) for name in self.keys]
        columns = [data.column(END), data.column(START), pa.array(hash_columns(keys)), *keys]
        names = [END, START, HASH, *self.keys, *values]
        return pa.RecordBatch.from_arrays([*columns, *(data.column(name) for name in values)], names=names)

    def stored(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        values = [name for name in rows.schema.names if name not in (END, START, HASH, *self.keys)]
        names = [*(KEY_PREFIX + n for n in self.keys), *WINDOW_COLUMNS, *(VALUE_PREFIX + n for n in values)]
        columns = [rows.column(n) for n in (*self.keys, *WINDOW_COLUMNS, *values)]
        return pa.RecordBatch.from_arrays(columns, names=names)

    def check(self, schema: pa.Schema) -> None:
        stored = metadata_of(schema).get(WINDOWS)
        if stored is not None:
            raise SchemaMismatch(
                f"operator '{self.operator}': the restored windows are {stored[0]} ms long, those of the job are sessions: give the operator another "
                "uid, or restore with the job that wrote them"
            )
        check_keys(self, schema)

    def partials(self, data: pa.RecordBatch) -> pa.RecordBatch:
        self.check(data.schema)
        data = as_written_now(data, self.keys, self.values, self.operator)
        names = [n for n in data.schema.names if n.startswith((KEY_PREFIX, VALUE_PREFIX))]
        plain = [*WINDOW_COLUMNS, *(n.split(".", 1)[1] for n in names)]
        columns = [data.column(n) for n in (*WINDOW_COLUMNS, *names)]
        return self.rows(pa.RecordBatch.from_arrays(columns, names=plain), plain[2 + len(self.keys) :])

    def describe(self, data: pa.RecordBatch, fired: int | None = None) -> StateDescription:
        types = {field.name: str(field.type) for field in data.schema}
        return StateDescription(self.operator, STATE_NAME, KIND, types, {SESSIONS: True, "gap_ms": self.gap_ms})


class HashFilter:
    """Finds rows whose keys may be among given ones: all that are, and one in ``SLOTS_OF_HASH`` of the others."""

    def __init__(self, hashes: Groups) -> None:
        bits = min(max(len(hashes) * SLOTS_OF_HASH, 1).bit_length(), MOST_BITS)
        self._shift = np.uint32(32 - max(bits, LEAST_BITS))
        self._table: npt.NDArray[np.bool_] = np.zeros(1 << (32 - int(self._shift)), np.bool_)
        self._table[self._slots(hashes)] = True

    def find(self, hashes: Groups) -> npt.NDArray[np.intp]:
        """Returns the indices of the rows whose hash passes the filter."""
        found = [
            np.flatnonzero(self._table[self._slots(hashes[at : at + CHUNK_ROWS])]) + at
            for at in range(0, len(hashes), CHUNK_ROWS)
        ]
        return np.concatenate(found) if found else np.zeros(0, np.intp)

    def _slots(self, hashes: Groups) -> npt.NDArray[np.uint32]:
        slots: npt.NDArray[np.uint32] = (hashes.view(np.uint32) * _FIBONACCI) >> self._shift
        return slots


def hashes_of(rows: pa.RecordBatch) -> Groups:
    found: Groups = rows.column(HASH).to_numpy()
    return found
