"""File systems of sources and sinks: local paths, ``file://`` and the schemes of ``pyarrow.fs`` (``s3://``, ``gs://``, ``hdfs://``)."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs

from tidegate.model.errors import InvalidJob, StorageError
from tidegate.model.storage_errors import kind_of

_MAGIC = re.compile(r"[*?\[]")
_TOKEN = re.compile(r"\*\*/|\*\*|\*|\?|\[[^/\]]+\]|.", re.DOTALL)
"""The tokens of a path pattern: wildcards, sets of characters, and any other character."""


def resolve(path: str) -> tuple[pafs.FileSystem, str]:
    """Returns the file system of a path and the path within it. A plain path is made absolute, since the cluster's processes may have another working
    directory.

    Raises ``InvalidJob`` when the URI's scheme is unknown.
    """
    if "://" not in path:
        return pafs.LocalFileSystem(), str(Path(path).absolute())
    base = base_of(path)  # in a URI a question mark is none of the path's characters
    try:
        filesystem, inner = pafs.FileSystem.from_uri(base)
    except (pa.ArrowInvalid, ValueError) as error:
        raise InvalidJob(f"cannot read the path {path!r}: {error}") from error
    return filesystem, inner + path[len(base) :]


def absolute(path: str) -> str:
    """Returns a path that is valid in processes with another working directory."""
    return path if "://" in path else os.path.abspath(path)


def is_local(filesystem: pafs.FileSystem) -> bool:
    """Returns whether the file system is the machine's own."""
    return isinstance(filesystem, pafs.LocalFileSystem)


def list_files(path: str, may_be_empty: bool = False) -> list[pafs.FileInfo]:
    """Returns all files at ``path`` (a file, a directory read recursively, or a pattern of such), sorted by path. Names that start with
    ``.`` or ``_`` are skipped below the directory, as Spark does: they are not data.

    Raises ``InvalidJob`` when nothing is there. A directory without files is nothing unless it ``may_be_empty``.
    """
    filesystem, inner = resolve(path)
    info = filesystem.get_file_info(inner)
    if info.type == pafs.FileType.File:
        return [info]
    is_pattern = info.type == pafs.FileType.NotFound and base_of(inner) != inner
    if info.type == pafs.FileType.NotFound and not is_pattern:
        raise InvalidJob(f"input path {path} does not exist")
    base = base_of(inner) if is_pattern else inner
    found = filesystem.get_file_info(pafs.FileSelector(base, recursive=True, allow_not_found=is_pattern))
    matches = _pattern(inner) if is_pattern else None
    files = [
        f
        for f in found
        if f.type == pafs.FileType.File and not _is_hidden(f.path, base) and (matches is None or matches(f.path))
    ]
    if not files and not may_be_empty:
        raise InvalidJob(f"input path {path} holds no files")
    return sorted(files, key=lambda f: f.path)


def base_of(inner: str) -> str:
    """Returns the directory that a pattern searches: the part before the first component with ``*``, ``?`` or ``[``; a path without them is returned as
    it is."""
    parts = inner.split("/")
    magic = next((at for at, part in enumerate(parts) if _MAGIC.search(part)), None)
    return inner if magic is None else "/".join(parts[:magic])


def _pattern(inner: str) -> Callable[[str], object]:
    """Compiles a pattern of paths; it also matches files in a matching directory. ``*`` and ``?`` do not match a slash, ``**`` does."""
    text = ""
    for part in _TOKEN.findall(inner.rstrip("/")):
        if part.startswith("["):
            text += "[^" + part[2:] if part[1] == "!" else part
        else:
            text += {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(part, re.escape(part))
    return re.compile(text + r"(/.*)?", re.DOTALL).fullmatch


def directory_entries(filesystem: pafs.FileSystem, root: str) -> list[pafs.FileInfo]:
    """Lists a directory; empty if it does not exist."""
    selector = pafs.FileSelector(root, allow_not_found=True)
    try:
        return list(filesystem.get_file_info(selector))
    except FileNotFoundError:  # made by another subtask between Arrow's two looks at it, so now it is there
        return list(filesystem.get_file_info(selector))


def _is_hidden(path: str, root: str) -> bool:
    return any(part.startswith((".", "_")) for part in os.path.relpath(path, root).split("/"))


@contextlib.contextmanager
def storage_errors(doing: str, path: str) -> Iterator[None]:
    """Converts errors of the operating system or the object store to ``StorageError`` that names the path."""
    try:
        yield
    except (OSError, pa.ArrowInvalid) as error:
        raise storage_failure(doing, path, error) from error


def storage_failure(doing: str, path: str, error: Exception) -> StorageError:
    """Returns the ``StorageError`` to raise in place of ``error``."""
    reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
    return kind_of(error)(f"cannot {doing} {path}: {reason}")


def sync_file(path: str) -> None:
    """Makes a closed local file durable: pyarrow's local file system never syncs."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(path: str) -> None:
    """Makes the names in a local directory durable."""
    sync_file(path)
