"""Reading of file splits: the rows of the format, the columns of directories, and one error for whatever a file causes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from tidegate.connectors.content import check_content, content_errors
from tidegate.connectors.files import hive
from tidegate.connectors.files.block import Block
from tidegate.connectors.files.file_range import FileRange
from tidegate.connectors.files.file_system import storage_failure
from tidegate.connectors.files.formats import FileFormat


def blocks(
    file_format: FileFormat, part: FileRange, values: hive.Values, start: int | None, skip: int
) -> Iterator[Block]:
    """Reads the rows of a file split (``part``) and yields them as blocks, with the columns of its partition directories (``values``)
    added.

    ``start``: the position of the first block, ``None``: that of the split; ``skip``: how many of its rows are left out. Raises
    ``SchemaMismatch`` and ``CorruptData`` for what is in the file, ``StorageError`` when it cannot be read.
    """
    found = hive.blocks(file_format, part, values, start, skip)
    while True:
        with read_errors(part.path, f"the part from {part.start} to {part.end}"):
            block = next(found, None)
        if block is None:
            return
        if not block.side:
            check_content(
                block.data, f"{part.path}, in what begins at {block.start}, behind the first {block.skip} rows"
            )
        yield block


def first_record(
    file_format: FileFormat, part: FileRange, values: hive.Values, start: int | None, skip: int
) -> pa.RecordBatch | None:
    """Returns the first row of a file range from a position on, as ``blocks`` would yield it; ``None`` when there is none.

    ``start``: the offset of the block to read; ``None``: the beginning of ``part``. ``skip``: the number of rows of that block to leave out. Raises
    ``SchemaMismatch``, ``CorruptData`` and ``StorageError``, as ``blocks`` does.
    """
    with read_errors(part.path, f"the part from {part.start} to {part.end}"):
        return hive.first_record(file_format, part, values, start, skip)


@contextmanager
def read_errors(path: str, where: str) -> Iterator[None]:
    """Raises ``SchemaMismatch`` for whatever the content of a file causes, and ``StorageError`` for errors of the operating system."""
    try:
        with content_errors(f"{path}, {where}"):
            yield
    except OSError as error:
        raise storage_failure("read", path, error) from error
