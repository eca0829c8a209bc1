"""Paths and URIs of files, for sources and sinks: local paths, ``file://`` and whatever ``pyarrow.fs`` knows
(``s3://``, ``gs://``, ``hdfs://``)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs

from tidegate.model.errors import InvalidJob
from tidegate.store.locations import kind_of


def resolve(path: str) -> tuple[pafs.FileSystem, str]:
    """File system and path within it. A plain path is made absolute: the cluster's processes may run elsewhere.

    Raises ``InvalidJob`` when the URI's scheme is unknown.
    """
    if "://" not in path:
        return pafs.LocalFileSystem(), str(Path(path).absolute())
    try:
        filesystem, inner = pafs.FileSystem.from_uri(path)
    except (pa.ArrowInvalid, ValueError) as error:
        raise InvalidJob(f"cannot read the path {path!r}: {error}") from error
    return filesystem, inner


def is_local(filesystem: pafs.FileSystem) -> bool:
    """Tells whether paths of this file system are on the machine itself."""
    return isinstance(filesystem, pafs.LocalFileSystem)


def list_files(path: str, may_be_empty: bool = False) -> list[pafs.FileInfo]:
    """Returns all files at ``path`` (a file, or a directory read recursively), sorted by path. Names that start with
    ``.`` or ``_`` are skipped below the directory, as Spark does: they are not data.

    Raises ``InvalidJob`` when nothing is there. A directory without files is nothing unless it ``may_be_empty``.
    """
    filesystem, inner = resolve(path)
    info = filesystem.get_file_info(inner)
    if info.type == pafs.FileType.File:
        return [info]
    if info.type == pafs.FileType.NotFound:
        raise InvalidJob(f"input path {path} does not exist")
    found = filesystem.get_file_info(pafs.FileSelector(inner, recursive=True))
    files = [f for f in found if f.type == pafs.FileType.File and not _is_hidden(f.path, inner)]
    if not files and not may_be_empty:
        raise InvalidJob(f"input path {path} holds no files")
    return sorted(files, key=lambda f: f.path)


def directory_entries(filesystem: pafs.FileSystem, root: str) -> list[pafs.FileInfo]:
    """What lies in a directory: nothing when it is not there."""
    selector = pafs.FileSelector(root, allow_not_found=True)
    try:
        return list(filesystem.get_file_info(selector))
    except FileNotFoundError:  # made by another subtask between Arrow's two looks at it, so now it is there
        return list(filesystem.get_file_info(selector))


def _is_hidden(path: str, root: str) -> bool:
    return any(part.startswith((".", "_")) for part in os.path.relpath(path, root).split("/"))


@contextlib.contextmanager
def storage_errors(doing: str, path: str) -> Iterator[None]:
    """Turns what the operating system or the object store says into one ``StorageError`` that names the path."""
    try:
        yield
    except (OSError, pa.ArrowInvalid) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        raise kind_of(error)(f"cannot {doing} {path}: {reason}") from error


def sync_file(path: str) -> None:
    """Make a closed local file durable: pyarrow's local file system never syncs."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(path: str) -> None:
    """Make the names in a local directory durable."""
    sync_file(path)
