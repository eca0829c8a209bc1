"""High availability as it is configured: who leads, and where jobs are kept.

Of several JobManagers with the same directory one leads. The others are standbys: they hold no port, so that the one that takes over can
have those of the leader, where TaskManagers and clients look for it.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tidegate.aio.process import Shutdown
from tidegate.jobmanager.service.high_availability.job_store import JobStore
from tidegate.jobmanager.service.high_availability.leadership import Leadership, LedByAnother
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ConfigurationError
from tidegate.model.ids import Generation
from tidegate.model.options import HighAvailabilityOptions, HighAvailabilityType

STANDBY_LOOK_S = 0.1
"""Between two tries to lead. A try is one system call; what follows, the ports and the jobs, takes longer than this."""

_log = logging.getLogger("jobmanager")


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


class StandbyEnded(Exception):
    """The process was asked to end before it ever led."""


def without_high_availability() -> HighAvailability:
    """Jobs end with this process, which leads alone."""
    return HighAvailability(HighAvailabilityType.NONE, 0, Generation(secrets.token_hex(16)), None, lambda: None)


async def open_high_availability(configuration: Configuration, shutdown: Shutdown) -> HighAvailability:
    """Take the lead, as soon as nobody else has it. Raises ``ConfigurationError``, ``ExternalError`` when the directory cannot be used, or
    ``StandbyEnded``."""
    kind = configuration.get(HighAvailabilityOptions.TYPE)
    if kind is HighAvailabilityType.NONE:
        return without_high_availability()
    directory = configuration.get(HighAvailabilityOptions.STORAGE_DIR)
    if directory is None:
        raise ConfigurationError(
            f"high-availability.type is {kind.value}, and high-availability.storageDir is not set; set it to a directory on a local disk"
        )
    place = _local(directory) / _checked(configuration.get(HighAvailabilityOptions.CLUSTER_ID))
    leadership = await _lead(place, shutdown)
    return HighAvailability(kind, leadership.term, leadership.generation(), JobStore(place), leadership.release)


async def _lead(directory: Path, shutdown: Shutdown) -> Leadership:
    is_standby = False
    while True:
        try:
            return Leadership.take(directory)
        except LedByAnother as error:
            if not is_standby:
                _log.info("standby: %s; this one takes over when that ends", error.message)
            is_standby = True
        if await shutdown.asked_within(STANDBY_LOOK_S):
            raise StandbyEnded


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
