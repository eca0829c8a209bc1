"""Checks that this version can read a job store, and that its entries and its files belong to the same cluster.

    store                    entry: the form of the store, and a random name of the cluster
    <storageDir>/cluster     file: that name again, where entries lie elsewhere than files

A leader with the wrong servers or directory would take submissions of another cluster for leftovers. So it refuses before it reads a job. The
entry is written first: a process that dies in between leaves an entry without jobs, and the next one writes the file.
"""

from __future__ import annotations

import secrets

import msgspec

from tidegate.high_availability.port import Entries
from tidegate.jobmanager.service.high_availability.job_store import PLANS
from tidegate.model.errors import CorruptData, ExternalError, StorageError, VersionMismatch
from tidegate.model.storage_errors import reason_of
from tidegate.store.locations import open_files
from tidegate.wire.unreadable import UNREADABLE
from tidegate.wire.versions import VERSION

FORMAT = 1
"""The version of the store's layout, raised by a change that an earlier version would misread."""
ENTRY, FILE = "store", "cluster"


class _Store(msgspec.Struct):
    format: int
    cluster: str = ""
    written_by: str = "an unknown version"


def check_store(entries: Entries, directory: str, *, has_files_elsewhere: bool) -> None:
    """Checks the job store, and initializes an empty one. Blocks. Raises ``VersionMismatch``, ``CorruptData`` or ``ExternalError``; nothing is
    changed then.
    """
    store = _read(entries, directory)
    if not has_files_elsewhere:
        if store is None:
            entries.create(ENTRY, _new())
        return
    cluster = _cluster_of(directory)
    if store is None and cluster is None:
        entries.create(ENTRY, _new())
        store = _read(entries, directory)
    if store is None:
        raise ExternalError(
            f"{directory} holds files of another cluster ({cluster}), which the servers of high-availability.type do not know. Nothing was changed; "
            f"correct high-availability.storageDir, high-availability.cluster-id or the servers, or remove {directory} if that cluster is gone"
        )
    if cluster is None and entries.names(PLANS):
        raise ExternalError(
            f"{directory} does not hold the files of this cluster ({store.cluster}), which has jobs. Nothing was changed; set high-availability.storageDir to "
            "the directory that its JobManagers had before"
        )
    if cluster is None:
        _name(directory, store.cluster)
    elif cluster != store.cluster:
        raise ExternalError(
            f"{directory} holds files of another cluster ({cluster}) than this one ({store.cluster}). Nothing was changed; correct "
            "high-availability.storageDir or high-availability.cluster-id"
        )


def _new() -> bytes:
    return msgspec.json.encode(_Store(FORMAT, secrets.token_hex(8), f"tidegate {VERSION}"))


def _read(entries: Entries, directory: str) -> _Store | None:
    content = entries.get(ENTRY)
    if content is None:
        return None
    try:
        store = msgspec.json.decode(content, type=_Store)
    except UNREADABLE as error:
        raise CorruptData(
            f"the entry {ENTRY!r} of the job store of {directory} is damaged: {error}. Nothing was changed; restore it from a backup, or start with another "
            "high-availability.cluster-id and `tidegate run -s`"
        ) from None
    if store.format != FORMAT:
        raise VersionMismatch(
            f"the job store of {directory} has format {store.format}, written by {store.written_by}; this version, tidegate {VERSION}, knows format "
            f"{FORMAT}. Nothing was changed; start {store.written_by} again"
        )
    return store


def _cluster_of(directory: str) -> str | None:
    place = f"{directory}/{FILE}"
    try:
        files, path = open_files(place)
        return None if files.kind_of(path) == "missing" else files.read(path).decode("ascii", "replace").strip()
    except OSError as error:
        raise StorageError(f"cannot read {place}: {reason_of(error)}; see high-availability.storageDir") from error


def _name(directory: str, cluster: str) -> None:
    place = f"{directory}/{FILE}"
    try:
        files, path = open_files(place)
        files.write(path, [f"{cluster}\n".encode("ascii")])
    except OSError as error:
        raise StorageError(f"cannot write {place}: {reason_of(error)}; see high-availability.storageDir") from error
