"""Checkpoint storage that can be made slow or full on purpose, for the JobManager's own writes: directories of checkpoints and ``_metadata``."""

from __future__ import annotations

import time

from tidegate.aio.listening import is_loopback
from tidegate.aio.signing import signing_of_manifests
from tidegate.model.checkpoint import CheckpointManifest, SnapshotType
from tidegate.model.configuration import Configuration
from tidegate.model.errors import StorageError
from tidegate.model.ids import CheckpointId, JobId
from tidegate.model.options import (
    CheckpointingOptions,
    HighAvailabilityOptions,
    JobManagerOptions,
    RestOptions,
    RuntimeOptions,
)
from tidegate.security.signing import SigningNow
from tidegate.store.checkpoints import CheckpointStorage, ManifestWrite
from tidegate.store.client_places import ClientPlaces, with_roots


def make_storage(configuration: Configuration) -> CheckpointStorage:
    """Creates the checkpoint storage, one that injects faults if the configuration allows faults. Raises ``ConfigurationError``."""
    places, signing = client_places(configuration), signing_of_manifests(configuration)
    if configuration.get(RuntimeOptions.ALLOW_FAULTS):
        return FaultyStorage(places, signing)
    return CheckpointStorage(client_places=places, signing=signing)


def client_places(configuration: Configuration) -> ClientPlaces:
    """Returns the directories in which clients may name files: those of the cluster's configuration.

    A JobManager that only its own machine can reach also allows any path on this machine and any bucket, unless the
    configuration lists directories.
    """
    option = configuration.get
    listed = option(JobManagerOptions.CLIENT_DIRECTORIES)
    own = (
        CheckpointingOptions.DIRECTORY,
        CheckpointingOptions.SAVEPOINT_DIRECTORY,
        HighAvailabilityOptions.STORAGE_DIR,
    )
    is_alone = is_loopback(option(JobManagerOptions.BIND_HOST)) and is_loopback(option(RestOptions.BIND_ADDRESS))
    return with_roots([*map(option, own), *(listed or ())], any_here=listed is None and is_alone)


class FaultyStorage(CheckpointStorage):
    """Checkpoint storage with injected faults. Its methods run in threads of the storage pool, ``slow`` and ``fill`` in the loop."""

    def __init__(self, places: ClientPlaces | None = None, signing: SigningNow | None = None) -> None:
        super().__init__(client_places=places, signing=signing)
        self._delay_s = self._slow_until_s = self._full_until_s = 0.0

    def slow(self, delay_ms: int, for_ms: int) -> None:
        self._delay_s, self._slow_until_s = delay_ms / 1000, time.monotonic() + for_ms / 1000

    def fill(self, for_ms: int) -> None:
        self._full_until_s = time.monotonic() + for_ms / 1000

    def create_location(
        self,
        directory: str | None,
        job_id: JobId,
        checkpoint_id: CheckpointId,
        snapshot_type: SnapshotType = SnapshotType.CHECKPOINT,
        *,
        create_subdir: bool = True,
    ) -> str:
        if error := self._suffer():
            raise error
        return super().create_location(directory, job_id, checkpoint_id, snapshot_type, create_subdir=create_subdir)

    def write_manifest(self, location: str, manifest: CheckpointManifest) -> ManifestWrite:
        error = self._suffer()
        return super().write_manifest(location, manifest) if error is None else ManifestWrite(0, error)

    def _suffer(self) -> StorageError | None:
        if time.monotonic() < self._slow_until_s:
            time.sleep(self._delay_s)  # the fault that was asked for
        if time.monotonic() < self._full_until_s:
            return StorageError("no space left on device (an injected fault)")
        return None
