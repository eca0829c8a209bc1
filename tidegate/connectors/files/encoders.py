"""Encoders of part files: one for each format, which writes batches to an open file.

``open_encoder`` gives the writer of one file; Arrow's own writers do the work where they exist.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from pyarrow import orc

from tidegate.connectors.content import NOT_OF_CONTENT, check_texts, misfit, named
from tidegate.connectors.files.json_text import json_texts
from tidegate.model.errors import SchemaMismatch


class FileEncoder(ABC):
    """Writes the content of one part file."""

    waiting: Sequence[pa.RecordBatch] = ()
    """Batches that were written but are not yet encoded."""

    @abstractmethod
    def write(self, data: pa.RecordBatch) -> None:
        """Appends a batch."""

    @abstractmethod
    def finish(self) -> None:
        """Writes the end of the file, such as a footer. The caller closes the file."""


class EncoderFactory(ABC):
    """Makes the encoders of a sink's part files. Part of the pickled job. ``suffix`` ends the files' names."""

    suffix: str

    @abstractmethod
    def open(self, file: pa.NativeFile, schema: pa.Schema) -> FileEncoder:
        """Starts a part file for a stream with these columns. Raises ``SchemaMismatch`` when the format cannot hold
        them."""


class CheckedEncoder(FileEncoder):
    """Wraps the encoder of a file at ``path`` so that records that its format cannot hold raise ``SchemaMismatch``."""

    def __init__(self, factory: EncoderFactory, file: pa.NativeFile, schema: pa.Schema, path: str) -> None:
        self._factory = factory
        self._path = path
        self._inner = opened(factory, file, schema)

    def write(self, data: pa.RecordBatch) -> None:
        check_texts(data, f"a record for {self._path} has a text that is not UTF-8")
        with self._errors((*self._inner.waiting, data)):
            self._inner.write(data)

    def finish(self) -> None:
        with self._errors(tuple(self._inner.waiting)):
            self._inner.finish()

    @contextmanager
    def _errors(self, batches: Sequence[pa.RecordBatch]) -> Iterator[None]:
        try:
            yield
        except NOT_OF_CONTENT:
            raise
        except Exception as error:
            found = next(filter(None, (misfit(data, self._alone) for data in batches)), "")
            raise SchemaMismatch(
                f"a record cannot be written to {self._path}: {f'{found} (of its batch): ' if found else ''}{named(error)}"
            ) from error

    def _alone(self, data: pa.RecordBatch) -> None:
        inner = self._factory.open(pa.BufferOutputStream(), data.schema)
        inner.write(data)
        inner.finish()


def opened(factory: EncoderFactory, file: pa.NativeFile, schema: pa.Schema) -> FileEncoder:
    """Opens the encoder of a part file. Raises ``SchemaMismatch`` if the format cannot hold the columns."""
    try:
        return factory.open(file, schema)
    except NOT_OF_CONTENT:
        raise
    except Exception as error:
        columns = ", ".join(f"{field.name!r} ({field.type})" for field in schema)
        raise SchemaMismatch(
            f"{factory.suffix} files cannot hold all of the columns {columns}: {named(error)}"
        ) from error


@dataclass(frozen=True)
class TextEncoderFactory(EncoderFactory):
    """Text files: ``str(record)`` and a line end for each record; the stream has one column."""

    suffix: str = ".txt"

    def open(self, file: pa.NativeFile, schema: pa.Schema) -> FileEncoder:
        if len(schema) != 1:
            raise SchemaMismatch(
                f"a text file takes one column, the stream has {', '.join(schema.names)}: select one, or write CSV, JSON lines or Parquet"
            )
        return _TextEncoder(file)


class _TextEncoder(FileEncoder):
    def __init__(self, file: pa.NativeFile) -> None:
        self._file = file

    def write(self, data: pa.RecordBatch) -> None:
        lines = (str(value) for value in data.column(0).to_pylist())
        self._file.write(("\n".join(lines) + "\n").encode())

    def finish(self) -> None:
        pass


@dataclass(frozen=True)
class CsvEncoderFactory(EncoderFactory):
    """CSV files: a header line, then one line a record. Texts are quoted, also empty ones; null is an empty cell."""

    suffix: str = ".csv"
    header: bool = True
    delimiter: str = ","

    def open(self, file: pa.NativeFile, schema: pa.Schema) -> FileEncoder:
        options = pa.csv.WriteOptions(include_header=self.header, delimiter=self.delimiter)
        try:
            return _ArrowEncoder(pa.csv.CSVWriter(file, schema, write_options=options))
        except pa.ArrowInvalid as error:
            names = [f"{f.name!r} ({f.type})" for f in schema if str(error).endswith(f":{f.type}")]
            raise SchemaMismatch(
                f"CSV cannot hold column {', '.join(names) or error}: make it text, or write JSON lines or Parquet"
            ) from error


@dataclass(frozen=True)
class ParquetEncoderFactory(EncoderFactory):
    """Parquet files with row groups of up to a million rows. ``options`` are passed to ``pyarrow.parquet.ParquetWriter``; without any, whole numbers
    and times are delta-encoded (``DELTA_BINARY_PACKED``)."""

    suffix: str = ".parquet"
    options: dict[str, object] = field(default_factory=dict)

    def open(self, file: pa.NativeFile, schema: pa.Schema) -> FileEncoder:
        return _ParquetEncoder(pq.ParquetWriter(file, schema, **self.options or _encodings(schema)))


def _encodings(schema: pa.Schema) -> dict[str, object]:
    """Returns options that delta-encode integers and times: a third of the time that a dictionary takes, and smaller files. Part files are encoded
    between barrier and acknowledgement, so this is latency of every checkpoint."""
    numbers = {f.name: "DELTA_BINARY_PACKED" for f in schema if _is_delta(f.type)}
    if len(set(schema.names)) != len(schema) or any(pa.types.is_nested(f.type) for f in schema) or not numbers:
        return {}
    return {"use_dictionary": [n for n in schema.names if n not in numbers], "column_encoding": numbers}


def _is_delta(kind: pa.DataType) -> bool:
    """Returns whether Parquet stores the type as integers."""
    return bool(pa.types.is_integer(kind) or (pa.types.is_temporal(kind) and not pa.types.is_interval(kind)))


class _ArrowEncoder(FileEncoder):
    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def write(self, data: pa.RecordBatch) -> None:
        self._writer.write_batch(data)

    def finish(self) -> None:
        self._writer.close()


_FIRST_GROUP_ROWS = 1 << 14
_ROW_GROUP_ROWS = 1 << 20
"""Arrow's default row group of a Parquet file."""
_ROW_GROUP_BYTES = 64 << 20
_CHUNK_ROWS = 1 << 10
"""Batches with fewer rows on average are concatenated first, since Arrow does some work for each."""


class _ParquetEncoder(FileEncoder):
    """Buffers batches, since every write to Arrow's writer makes a row group of its own.

    What is gathered when a barrier comes is encoded between the barrier and the acknowledgement. So a row group is closed as
    soon as it has half as many rows as all before it: they grow, are few, and at most a third of a file waits for the barrier.
    """

    def __init__(self, writer: pq.ParquetWriter) -> None:
        self._writer = writer
        self._has_dictionaries = any(map(pa.types.is_dictionary, writer.schema.types))
        """Batches with different ones have to become one, so that the file has one."""
        self.waiting: list[pa.RecordBatch] = []
        self._rows = 0
        self._bytes = 0
        self._written_rows = 0

    def write(self, data: pa.RecordBatch) -> None:
        self.waiting.append(data)
        self._rows += data.num_rows
        self._bytes += data.nbytes
        if self._rows >= self._group_rows() or self._bytes >= _ROW_GROUP_BYTES:
            self._flush()

    def _group_rows(self) -> int:
        return min(max(_FIRST_GROUP_ROWS, self._written_rows // 2), _ROW_GROUP_ROWS)

    def _flush(self) -> None:
        if self.waiting:
            table = pa.Table.from_batches(self.waiting)
            is_cut_small = self._rows < _CHUNK_ROWS * len(self.waiting)
            self._writer.write_table(table.combine_chunks() if is_cut_small or self._has_dictionaries else table)
        self._written_rows += self._rows
        self.waiting, self._rows, self._bytes = [], 0, 0

    def finish(self) -> None:
        self._flush()
        self._writer.close()


@dataclass(frozen=True)
class OrcEncoderFactory(EncoderFactory):
    """ORC files. ``compression``: ``uncompressed``, ``zlib``, ``snappy``, ``lz4`` or ``zstd``."""

    suffix: str = ".orc"
    compression: str = "zlib"

    def open(self, file: pa.NativeFile, schema: pa.Schema) -> FileEncoder:
        return _OrcEncoder(orc.ORCWriter(file, compression=self.compression), schema)


class _OrcEncoder(FileEncoder):
    def __init__(self, writer: orc.ORCWriter, schema: pa.Schema) -> None:
        self._writer = writer
        self._schema = schema

    def write(self, data: pa.RecordBatch) -> None:
        self._writer.write(pa.Table.from_batches([data], self._schema))

    def finish(self) -> None:
        self._writer.close()


@dataclass(frozen=True)
class JsonLinesEncoderFactory(EncoderFactory):
    """Files with one JSON object a line; values that JSON lacks (dates, decimals, ``NaN``) are written as their texts."""

    suffix: str = ".jsonl"

    def open(self, file: pa.NativeFile, schema: pa.Schema) -> FileEncoder:
        return _JsonLinesEncoder(file)


class _JsonLinesEncoder(FileEncoder):
    def __init__(self, file: pa.NativeFile) -> None:
        self._file = file

    def write(self, data: pa.RecordBatch) -> None:
        self._file.write("".join(f"{text}\n" for text in json_texts(data)).encode())

    def finish(self) -> None:
        pass
