"""The full lookup cache: a table that is read as a whole and kept in memory (Flink: ``LookupFullCache.java``, ``CacheLoader.java``)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.columnar.keys.hashing import hash_columns
from tidegate.functions.base import RuntimeContext
from tidegate.model.errors import TidegateError
from tidegate.table._lookup.port import FoundRows
from tidegate.table._lookup.reloads import Reloads


class IndexedRows:
    """Rows indexed by the values of some columns: their positions are sorted by hash."""

    def __init__(self, rows: pa.RecordBatch, key_columns: Sequence[int]) -> None:
        known = np.ones(rows.num_rows, bool)
        for column in key_columns:
            known &= rows.column(column).is_valid().to_numpy(zero_copy_only=False)
        self._rows = rows if known.all() else rows.filter(pa.array(known))
        self._keys = [self._rows.column(column) for column in key_columns]
        hashes = hash_columns(self._keys) if self._rows.num_rows else np.empty(0, np.int32)
        self._order = np.argsort(hashes, kind="stable")
        self._hashes = hashes[self._order]

    def look_up(self, keys: pa.RecordBatch) -> FoundRows:
        """Returns the rows of each key, in the order of the table."""
        hashes = hash_columns(keys.columns)
        first = np.searchsorted(self._hashes, hashes, "left")
        counts = np.searchsorted(self._hashes, hashes, "right") - first
        parents = np.repeat(np.arange(len(hashes), dtype=np.int64), counts)
        within = np.arange(len(parents)) - np.repeat(np.cumsum(counts) - counts, counts)
        places = self._order[np.repeat(first, counts) + within]
        same = np.ones(len(parents), bool)
        for held, wanted in zip(self._keys, keys.columns, strict=True):
            equal = pc.equal(held.take(pa.array(places)), wanted.take(pa.array(parents)))
            same &= equal.fill_null(False).to_numpy(zero_copy_only=False)
        return FoundRows(parents[same], self._rows.take(pa.array(places[same])))


class Readable(Protocol):
    """A table that can be read as a whole."""

    @property
    def name(self) -> str:
        """Returns the name of the table, for messages."""

    @property
    def schema(self) -> pa.Schema:
        """Returns the schema of the rows."""

    def read(self) -> pa.RecordBatch:
        """Reads all rows."""


class WholeTable:
    """A lookup table that is read as a whole when it is opened, and reloaded as ``reloads`` says by a background thread; lookups use the previous rows
    until then. A reload that fails makes the next lookup fail, as in Flink."""

    def __init__(self, table: Readable, key_columns: Sequence[int], reloads: Reloads | None) -> None:
        self._table, self._key_columns, self._reloads = table, tuple(key_columns), reloads
        self._held: IndexedRows | None = None
        self._failed: BaseException | None = None
        self._closed: threading.Event | None = None
        self._thread: threading.Thread | None = None

    @property
    def schema(self) -> pa.Schema:
        """Returns the schema of the rows that are found."""
        return self._table.schema

    def open(self, context: RuntimeContext) -> None:
        self._held = self._read()
        if self._reloads is not None:
            self._closed = threading.Event()
            self._thread = threading.Thread(
                target=self._reload, args=(self._reloads.waits(), self._closed.wait), name="lookup-reload", daemon=True
            )
            self._thread.start()

    def look_up(self, keys: pa.RecordBatch) -> FoundRows:
        """Returns the rows of some keys, as of the last reload."""
        if self._failed is not None:
            raise self._failed
        assert self._held is not None
        return self._held.look_up(keys)

    def close(self) -> None:
        """Stops the background thread."""
        if self._closed is not None and self._thread is not None:
            self._closed.set()
            self._thread.join()

    def _read(self) -> IndexedRows:
        return IndexedRows(self._table.read(), self._key_columns)

    def _reload(self, wait_s: Callable[[], float], closed: Callable[[float], bool]) -> None:
        while not closed(wait_s()):
            try:
                self._held = self._read()
            except Exception as error:  # noqa: BLE001 - whatever it is, the next question raises it
                what = error.message if isinstance(error, TidegateError) else repr(error)
                kind = type(error) if isinstance(error, TidegateError) else TidegateError
                self._failed = kind(f"the table {self._table.name} cannot be read again for its lookup join: {what}")
                return


__all__ = ["IndexedRows", "Readable", "WholeTable"]
