"""The JobManager's storage of checkpoints and savepoints: their directories, manifests and removal.

    <directory>/<job id>/chk-<n>/_metadata ...      exclusive files, and the manifest that makes them a checkpoint
    <directory>/<job id>/shared/  taskowned/        what is in them stays until it is removed; empty ones go with the job
    <target>/savepoint-<6 of job id>-<12 hex>/      savepoints

All methods block and belong into a pool. ``_metadata`` is written last and deleted first. Without a directory the
location is ``memory:``: state travels inline and manifests live in this object.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tidegate.model.checkpoint import CheckpointManifest, SnapshotType
from tidegate.model.errors import ON_DAMAGE, CheckpointFilesMissing, CorruptData, Misuse, StorageError, TidegateError
from tidegate.model.ids import CheckpointId, JobId
from tidegate.model.storage_errors import reason_of
from tidegate.security.signing import SigningNow
from tidegate.store.client_places import ClientPlace, ClientPlaces
from tidegate.store.files import Files, LocalFiles, MemoryFiles, NotAFile, OutcomeUnknown
from tidegate.store.locations import (
    MEMORY_SCHEME,
    is_local,
    normalized,
    open_files,
    storage_error,
    unreadable,
)
from tidegate.store.segments import is_shared_name, written_by
from tidegate.store.state_files import SHARED_DIRECTORY, check_sizes, handles_of, with_moved_files
from tidegate.wire.manifest import METADATA_FILE, manifest_from_bytes, manifest_to_parts, signed_parts

TASK_OWNED = "taskowned"
_NUMBERED = re.compile(r"chk-(\d+)")
_REMOVED = "it, or its directory, was removed while the checkpoint was taken; the next checkpoint does without it"
_DISCARDABLE = re.compile(r"(chk-\d+|savepoint-[0-9a-f]{6}-[0-9a-f]{12})")


@dataclass(frozen=True, slots=True)
class ManifestWrite:
    """The result of writing ``_metadata``. ``error``: ``None`` when it is durable. ``outcome_unknown``: only reading it back can tell whether it was
    written."""

    size_bytes: int
    error: StorageError | None = None
    outcome_unknown: bool = False


class CheckpointStorage:
    """Creates, reads and removes checkpoints and savepoints. Thread-safe for different checkpoints. ``client_places``: the locations that clients may
    name. ``signing``: manifests are signed, and reading any other raises ``NotSigned``."""

    def __init__(
        self,
        local: LocalFiles | None = None,
        client_places: ClientPlaces | None = None,
        signing: SigningNow | None = None,
    ) -> None:
        self._local = local or LocalFiles()
        self._client_places = client_places or ClientPlaces()
        self._memory = MemoryFiles()
        self._signing = signing

    def place_of_client(self, location: str) -> ClientPlace:
        """Returns the place for a location that a client named. Raises ``Misuse`` for a location that clients may not name."""
        return self._client_places.place_of(location)

    def create_location_of_client(
        self, directory: str, job_id: JobId, checkpoint_id: CheckpointId, kind: SnapshotType
    ) -> str:
        """Creates the directory of a savepoint whose target a client named, like ``create_location``. The target is checked before and after the
        directory is created, since links may change meanwhile. Raises ``Misuse`` too."""
        place = self.place_of_client(directory)
        location = self.create_location(place, job_id, checkpoint_id, kind)
        if not self._is_where_it_says(location):
            files, path = self._open(location)
            files.delete_empty(path)
            raise Misuse(
                f"{directory} was replaced by a link while a savepoint was begun there; name another directory"
            )
        return location

    def check_writable(self, directory: str) -> None:
        """Checks that a directory is writable. Raises ``StorageError`` with path and reason."""
        place = normalized(directory)
        files, path = self._open(place)
        probe = f"{path}/.tidegate-writable-{secrets.token_hex(6)}"
        try:
            files.make_directory(path)
            files.write(probe, [b"?"])
            files.delete(probe)
        except OSError as error:
            raise StorageError(
                f"checkpoint directory {place} is not writable: {reason_of(error)}; "
                "set execution.checkpointing.dir to one that is"
            ) from error

    def create_location(
        self,
        directory: str | None,
        job_id: JobId,
        checkpoint_id: CheckpointId,
        snapshot_type: SnapshotType = SnapshotType.CHECKPOINT,
        *,
        create_subdir: bool = True,
    ) -> str:
        """Creates the directory of a new snapshot and returns its location. ``directory``: the checkpoint directory, or the target of a savepoint;
        ``None`` for the JobManager's memory. Raises ``StorageError``."""
        if snapshot_type.is_savepoint:
            if directory is None:
                raise StorageError(
                    "a savepoint needs a directory; give one, or set execution.checkpointing.savepoint-dir"
                )
            return self._make(f"{normalized(directory)}/savepoint-{job_id[:6]}-{secrets.token_hex(6)}")
        if directory is None:
            return f"{MEMORY_SCHEME}{job_id}/chk-{checkpoint_id}"
        base = f"{normalized(directory)}/{job_id}" if create_subdir else normalized(directory)
        for shared in (SHARED_DIRECTORY, TASK_OWNED):
            self._make(f"{base}/{shared}")
        location = f"{base}/chk-{checkpoint_id}"
        files, path = self._open(location)
        if files.kind_of(f"{path}/{METADATA_FILE}") != "missing":
            raise StorageError(f"{location} already holds a checkpoint of another run; use another directory")
        return self._make(location)

    def numbered(self, directory: str, job_id: JobId, *, create_subdir: bool = True) -> list[tuple[CheckpointId, str]]:
        """Returns ids and locations of a job's existing checkpoint directories, complete or not; of any job without ``create_subdir``. Raises
        ``StorageError``."""
        base = f"{normalized(directory)}/{job_id}" if create_subdir else normalized(directory)
        try:
            files, path = self._open(base)
            names = files.directories(path)
        except OSError as error:
            raise storage_error("list", base, error) from error
        found = ((_NUMBERED.fullmatch(name), name) for name in names)
        return sorted((CheckpointId(int(match[1])), f"{base}/{name}") for match, name in found if match is not None)

    def is_complete(self, location: str) -> bool:
        """Tells whether a snapshot has a ``_metadata``, intact or damaged. Raises ``StorageError``."""
        place = f"{location}/{METADATA_FILE}"
        try:
            files, path = self._open(place)
            return files.kind_of(path) != "missing"
        except OSError as error:
            raise storage_error("look at", place, error) from error

    def shared_location(self, location: str, snapshot_type: SnapshotType) -> str:
        """Returns the directory beside a checkpoint's for files that several checkpoints share. Empty for savepoints, which are self-contained, and for
        the JobManager's memory, which has no files."""
        if snapshot_type.is_savepoint or location.startswith(MEMORY_SCHEME):
            return ""
        return f"{location.rpartition('/')[0]}/{SHARED_DIRECTORY}"

    def discard_shared(self, paths: Iterable[str]) -> None:
        """Removes shared files of checkpoints or files of a snapshot's directory. Missing files are ignored; all are tried. A manifest can name
        anything, so a path is refused unless its folder and its name are those of a checkpoint's file. Raises the first ``StorageError``."""
        first: StorageError | None = None
        for place in paths:
            if not _is_of_a_snapshot(place):
                raise StorageError(
                    f"refused to remove {place}: by its name it is no file of a checkpoint or savepoint, nor of {SHARED_DIRECTORY}/"
                )
            try:
                files, path = self._open(place)
                files.delete(path)
            except OSError as error:
                first = first or storage_error("remove", place, error)
        if first is not None:
            raise first

    def write_manifest(self, location: str, manifest: CheckpointManifest) -> ManifestWrite:
        """Completes a checkpoint: syncs the names of the files below ``location``, then writes ``_metadata``."""
        parts = manifest_to_parts(manifest, None if self._signing is None else self._signing().code_of_manifest)
        size_bytes = sum(map(len, parts))
        place = f"{location}/{METADATA_FILE}"
        try:
            self._sync_names(location, manifest)
            files, path = self._open(place)
            files.write(path, parts)
        except OutcomeUnknown as error:
            return ManifestWrite(size_bytes, storage_error("write", place, error), outcome_unknown=True)
        except (FileNotFoundError, NotADirectoryError):
            return ManifestWrite(size_bytes, CheckpointFilesMissing(f"cannot write {place}: {_REMOVED}"))
        except OSError as error:
            return ManifestWrite(size_bytes, storage_error("write", place, error))
        except StorageError as error:
            return ManifestWrite(size_bytes, error)
        return ManifestWrite(size_bytes)

    def check_files(self, location: str, manifest: CheckpointManifest) -> None:
        """Checks that every file of a manifest exists with its size, also those in ``shared/`` of earlier checkpoints, which subtasks name without a
        check. Lists each directory once. Raises ``CheckpointFilesMissing``, or ``StorageError`` where a directory cannot be listed."""
        try:
            check_sizes(manifest, location, self._sizes, self._kind_of)
        except CorruptData as error:
            raise CheckpointFilesMissing(f"{error.message.removesuffix(f'; {ON_DAMAGE}')}: {_REMOVED}") from None

    def read_back(self, location: str) -> ManifestWrite:
        """Reads ``_metadata`` back after a write with unknown outcome; call it only when that write has ended. ``outcome_unknown``: the read failed
        too, try later."""
        place = f"{location}/{METADATA_FILE}"
        try:
            content = self._read(place)
            manifest_from_bytes(content, place)
        except (FileNotFoundError, CorruptData) as error:
            if is_local(location) and self._kind_of(location) != "directory":
                return ManifestWrite(0, CheckpointFilesMissing(f"{place} was not written: {_REMOVED}"))
            return ManifestWrite(0, StorageError(f"{place} was not written: {error}"))
        except OSError as error:
            return ManifestWrite(0, storage_error("read", place, error), outcome_unknown=True)
        return ManifestWrite(len(content))

    def read_checkpoint(self, path: str) -> tuple[str, CheckpointManifest]:
        """Reads the location and manifest of a checkpoint or savepoint from its directory or the path of its ``_metadata``. Checks that its files exist
        with their sizes; their readers verify the checksums.

        Raises ``StorageError`` (not there, not readable), ``CorruptData`` or ``VersionMismatch``.
        """
        return self._whole(*self._manifest_at(path))

    def read_checkpoint_of_client(self, path: str) -> tuple[str, CheckpointManifest]:
        """Reads a checkpoint whose path came from another process, like ``read_checkpoint``: the path and all files of its manifest must be where
        clients may name files. Raises ``Misuse`` too."""
        return self._whole(*self._manifest_of_client(path))

    def read_manifest(self, location: str) -> CheckpointManifest:
        """Reads the manifest of a completed checkpoint, which is damaged when ``_metadata`` is missing. Raises ``StorageError``, ``CorruptData`` or
        ``VersionMismatch``."""
        place = f"{location}/{METADATA_FILE}"
        try:
            return self._manifest_in(self._content(place), place)
        except (FileNotFoundError, NotADirectoryError):
            raise CorruptData(f"{place} of a completed checkpoint is missing; {ON_DAMAGE}") from None

    def location_of_client(self, path: str) -> str:
        """Returns the directory of a path that a client named, which must hold a checkpoint or savepoint, intact or damaged. Raises as
        ``read_checkpoint_of_client`` does."""
        return self._manifest_of_client(path)[0]

    def is_same(self, one: str, other: str) -> bool:
        """Tells whether two locations are the same directory, with symbolic links resolved."""
        return one == other or (is_local(one) and is_local(other) and os.path.realpath(one) == os.path.realpath(other))

    def shared_by_nobody_else(self, location: str) -> list[str]:
        """Returns the shared files of the job (``../shared``) that only this checkpoint references; none when another checkpoint cannot be read. Raises
        as ``read_checkpoint`` does."""
        base, _, name = location.rpartition("/")
        shared = f"{base}/{SHARED_DIRECTORY}/"
        named = _shared_of(self._moved(location, self._manifest_at(location)[1]))
        own = {path for path in named if path.startswith(shared)}
        if not own:
            return []
        files, path = self._open(base)
        for other in files.directories(path):
            if other == name or files.kind_of(f"{path}/{other}/{METADATA_FILE}") == "missing":
                continue
            try:
                own.difference_update(
                    _shared_of(self._moved(f"{base}/{other}", self._manifest_at(f"{base}/{other}")[1]))
                )
            except TidegateError:
                return []  # it may name any of them
        return sorted(own)

    def discard_written_by(self, shared_location: str, job_id: JobId, checkpoint_id: CheckpointId) -> None:
        """Removes the shared files that an aborted checkpoint wrote, also those that no acknowledgement named. Raises ``StorageError``."""
        try:
            files, path = self._open(shared_location)
            names = written_by(files.sizes(path), job_id, checkpoint_id)
        except OSError as error:
            raise storage_error("list", shared_location, error) from error
        self.discard_shared(f"{shared_location}/{name}" for name in names)

    def discard(self, location: str) -> None:
        """Removes a snapshot's directory, ``_metadata`` first; of a directory with another name, only the files of the snapshot. Missing files are
        ignored. Raises ``StorageError``."""
        if _DISCARDABLE.fullmatch(location.rsplit("/", 1)[-1]) is None:
            self._discard_named(location)
            return
        try:
            files, path = self._open(location)
            files.delete(f"{path}/{METADATA_FILE}")
            files.delete_tree(path)
        except OSError as error:
            raise storage_error("remove", location, error) from error

    def remove_empty(self, directory: str, job_id: JobId) -> None:
        """Removes the directories of a job that has ended as far as they are empty. Raises ``StorageError``."""
        base = f"{normalized(directory)}/{job_id}"
        for place in (f"{base}/{SHARED_DIRECTORY}", f"{base}/{TASK_OWNED}", base):
            try:
                files, path = self._open(place)
                files.delete_empty(path)
            except OSError as error:
                raise storage_error("remove", place, error) from error

    def _discard_named(self, location: str) -> None:
        """Removes the files of a snapshot that was moved to a directory with another name; other files in it stay."""
        files, path = self._open(location)
        if files.kind_of(f"{path}/{METADATA_FILE}") == "missing":
            raise StorageError(
                f"refused to remove {location}: it has no {METADATA_FILE}, so it is not the directory of a checkpoint or savepoint"
            )
        _, manifest = self._manifest_at(location)
        try:
            files.delete(f"{path}/{METADATA_FILE}")
            for _, handle in handles_of(manifest):
                if handle.path and "/" not in handle.path:
                    files.delete(f"{path}/{handle.path}")
            if not files.sizes(path) and not files.directories(path):
                files.delete_tree(path)
        except OSError as error:
            raise storage_error("remove", location, error) from error

    def _is_where_it_says(self, location: str) -> bool:
        try:
            return self.place_of_client(location) == location
        except Misuse:
            return False

    def _whole(self, location: str, manifest: CheckpointManifest) -> tuple[str, CheckpointManifest]:
        manifest = self._moved(location, manifest)
        check_sizes(manifest, location, self._sizes, self._kind_of)
        return location, manifest

    def _manifest_of_client(self, path: str) -> tuple[str, CheckpointManifest]:
        """Reads the manifest of a path that a client named. Checks the path of the file and not only of its directory, since the file may be a link
        itself."""
        place = self.place_of_client(path).removesuffix(f"/{METADATA_FILE}")
        location, manifest = self._manifest_at(self.place_of_client(f"{place}/{METADATA_FILE}"))
        self._client_places.check_manifest(manifest, location)
        return location, manifest

    def _manifest_at(self, path: str) -> tuple[str, CheckpointManifest]:
        location = normalized(path).removesuffix(f"/{METADATA_FILE}")
        place = f"{location}/{METADATA_FILE}"
        try:
            manifest = self._manifest_in(self._content(place), place)
        except (FileNotFoundError, NotADirectoryError):
            raise StorageError(self._why_missing(location)) from None
        named = _NUMBERED.fullmatch(location.rpartition("/")[2])
        if named is not None and int(named[1]) != manifest.checkpoint_id:
            raise CorruptData(
                f"{place} belongs to checkpoint {manifest.checkpoint_id}: it was copied there, or its directory was "
                f"renamed; give a directory back the name that it had, or {ON_DAMAGE}"
            )
        return location, manifest

    def _open(self, location: str) -> tuple[Files, str]:
        return open_files(location, self._local, self._memory)

    def _make(self, location: str) -> str:
        try:
            files, path = self._open(location)
            files.make_directory(path)
        except NotADirectoryError as error:
            raise CheckpointFilesMissing(
                f"cannot make the directory {location}: {error.filename or location} is a file; move it away, or set "
                "execution.checkpointing.dir to another place"
            ) from error
        except OSError as error:
            raise storage_error("make directory", location, error) from error
        return location

    def _sync_names(self, location: str, manifest: CheckpointManifest) -> None:
        """Syncs to disk the directories whose entries make up a checkpoint: the one that contains ``location``, and those of all state files. Raises
        ``OSError``.
        """
        if location.startswith(MEMORY_SCHEME):
            return
        named = [handle.path for _, handle in handles_of(manifest) if handle.path]
        places = {location.rpartition("/")[0], *(place.rpartition("/")[0] or location for place in named)}
        for place in sorted(places):
            files, path = self._open(place)
            files.sync(path)

    def _read(self, place: str) -> bytes:
        files, path = self._open(place)
        return files.read(path)

    def _content(self, place: str) -> bytes:
        """Reads ``_metadata``. Raises ``FileNotFoundError``, ``NotADirectoryError``, and tidegate's errors."""
        try:
            return self._read(place)
        except (FileNotFoundError, NotADirectoryError):
            raise
        except NotAFile as error:
            raise CorruptData(f"{place} cannot be read: {error.strerror}; {ON_DAMAGE}") from None
        except OSError as error:
            raise unreadable("the manifest", place, error) from error

    def _manifest_in(self, content: bytes, place: str) -> CheckpointManifest:
        manifest = manifest_from_bytes(content, place)
        if self._signing is not None:
            self._signing().check_manifest(*signed_parts(content), place)
        return manifest

    def _moved(self, location: str, manifest: CheckpointManifest) -> CheckpointManifest:
        return with_moved_files(manifest, location, self._sizes)

    def _sizes(self, directory: str) -> dict[str, int]:
        files, path = self._open(directory)
        try:
            return files.sizes(path)
        except OSError as error:
            raise unreadable("the directory", directory, error) from error

    def _kind_of(self, place: str) -> str:
        files, path = self._open(place)
        return files.kind_of(path)

    def _why_missing(self, location: str) -> str:
        files, path = self._open(location)
        if files.kind_of(path) == "missing":
            return f"no checkpoint at {location}: there is no such directory"
        if files.kind_of(path) != "directory":
            return f"no checkpoint at {location}: it is a {files.kind_of(path)}; give a checkpoint's directory"
        inside = [name for name in files.directories(path) if name.startswith(("chk-", "savepoint-"))]
        if inside:
            return f"no checkpoint at {location}: there is no {METADATA_FILE}; it holds {', '.join(inside[-3:])}: give one of these"
        return (
            f"no checkpoint at {location}: there is no {location}/{METADATA_FILE}; it was never completed, or that is gone; "
            f"{ON_DAMAGE}"
        )


def _is_of_a_snapshot(path: str) -> bool:
    *folders, folder, name = path.split("/")
    if ".." in (*folders, folder, name) or name in ("", "."):
        return False
    return is_shared_name(name) if folder == SHARED_DIRECTORY else _DISCARDABLE.fullmatch(folder) is not None


def _shared_of(manifest: CheckpointManifest) -> Iterator[str]:
    return (handle.path for _, handle in handles_of(manifest) if handle.is_shared)
