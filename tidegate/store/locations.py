"""Maps the text of a location to its file system: ``/path`` and ``file:`` to the local disk, ``memory:`` to the JobManager's memory, every other scheme
(``s3://``, ``gs://``, ``hdfs://``) to ``pyarrow.fs``."""

from __future__ import annotations

import os
import re
from urllib.parse import unquote, urlsplit

from tidegate.model.errors import ON_DAMAGE, StorageError
from tidegate.model.storage_errors import kind_of, reason_of
from tidegate.store.files import Files, LocalFiles, MemoryFiles

MEMORY_SCHEME = "memory:"

_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:")


def normalized(location: str) -> str:
    """Normalizes a location: local ones are absolute paths, none has a slash at the end."""
    scheme = _SCHEME.match(location)
    if scheme is not None and scheme[0].lower() == "file:":
        location, scheme = unquote(urlsplit(location).path), None
    if scheme is not None:
        return f"{scheme[0].lower()}{location[scheme.end() :]}".rstrip("/")
    return os.path.abspath(os.path.expanduser(location))


def has_scheme(location: str) -> bool:
    """Tells whether a location is a URI, and not a path."""
    return _SCHEME.match(location) is not None


def is_memory(location: str) -> bool:
    return location.startswith(MEMORY_SCHEME)


def is_local(location: str) -> bool:
    return not _SCHEME.match(normalized(location))


def open_files(location: str, local: LocalFiles | None = None, memory: MemoryFiles | None = None) -> tuple[Files, str]:
    """Returns the file system of a location and the path in it.

    Raises ``StorageError`` for a scheme that nothing here serves.
    """
    place = normalized(location)
    if is_memory(place):
        if memory is None:
            raise StorageError(
                f"{place} is in a JobManager's memory and cannot be read here; set execution.checkpointing.dir"
            )
        return memory, place
    if is_local(place):
        return local or LocalFiles(), place
    from pyarrow import fs

    from tidegate.store.object_files import ObjectFiles

    try:
        filesystem, path = fs.FileSystem.from_uri(place)
    except (OSError, ValueError) as error:
        raise StorageError(f"cannot open {place}: {error}; known are paths, file:, s3:, gs: and hdfs:") from None
    return ObjectFiles(filesystem), path.rstrip("/")


def unreadable(what: str, place: str, error: OSError) -> StorageError:
    """Returns the error of a file that could not be read; it may be intact, and restorable after a repair of the storage."""
    return kind_of(error)(f"cannot read {what} {place}: {reason_of(error)}; make it readable again, or {ON_DAMAGE}")


def storage_error(what: str, place: str, error: OSError) -> StorageError:
    return kind_of(error)(f"cannot {what} {place}: {reason_of(error)}")
