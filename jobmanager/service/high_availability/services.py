"""High availability as it is configured: who leads, and where jobs are kept."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tidegate.jobmanager.service.high_availability.job_store import JobStore
from tidegate.jobmanager.service.high_availability.leadership import Leadership
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ConfigurationError
from tidegate.model.ids import Generation
from tidegate.model.options import HighAvailabilityOptions, HighAvailabilityType


@dataclass(frozen=True, slots=True)
class HighAvailability:
    """``store`` is ``None`` when jobs end with their JobManager."""

    type: HighAvailabilityType
    term: int
    generation: Generation
    store: JobStore | None
    release: Callable[[], None]

    @property
    def told(self) -> str:
        """For the log."""
        return f"kept in {self.store.directory}" if self.store is not None else "end with this process"

    @property
    def blobs(self) -> Path | None:
        """Where programs of jobs are kept."""
        return self.store.blobs if self.store is not None else None


def open_high_availability(configuration: Configuration) -> HighAvailability:
    """Take the lead. Raises ``ConfigurationError``, or ``ExternalError`` when another process leads or the directory cannot be used."""
    kind = configuration.get(HighAvailabilityOptions.TYPE)
    if kind is HighAvailabilityType.NONE:
        return HighAvailability(kind, 0, Generation(secrets.token_hex(16)), None, lambda: None)
    directory = configuration.get(HighAvailabilityOptions.STORAGE_DIR)
    if directory is None:
        raise ConfigurationError(
            f"high-availability.type is {kind.value}, and high-availability.storageDir is not set; set it to a directory on a local disk"
        )
    place = _local(directory) / _checked(configuration.get(HighAvailabilityOptions.CLUSTER_ID))
    leadership = Leadership.take(place)
    return HighAvailability(kind, leadership.term, leadership.generation(), JobStore(place), leadership.release)


def _local(directory: str) -> Path:
    scheme, separator, rest = directory.partition("://")
    if separator and scheme != "file":
        raise ConfigurationError(
            f"high-availability.storageDir is {directory}, which is not on a local disk; high-availability.type filesystem needs one"
        )
    path = Path(rest if separator else directory.removeprefix("file:"))
    if not path.is_absolute():
        raise ConfigurationError(f"high-availability.storageDir must be an absolute path, not {directory!r}")
    return path


def _checked(cluster_id: str) -> str:
    """Flink's ids begin with a slash."""
    name = cluster_id.strip("/")
    if not name or name.startswith(".") or "/" in name:
        raise ConfigurationError(f"high-availability.cluster-id {cluster_id!r} cannot be the name of a directory")
    return name
