"""The driver that a configuration asks for."""

from __future__ import annotations

from pathlib import Path

from tidegate.coordination.filesystem import FileElection, FileRetrieval
from tidegate.coordination.port import Election, Retrieval
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ConfigurationError
from tidegate.model.options import HighAvailabilityOptions, HighAvailabilityType


def make_election(configuration: Configuration) -> Election:
    """Raises ``ConfigurationError``."""
    return FileElection(Path(storage_directory(configuration)))


def make_retrieval(configuration: Configuration) -> Retrieval:
    """Raises ``ConfigurationError``."""
    return FileRetrieval(Path(storage_directory(configuration)))


def storage_directory(configuration: Configuration) -> str:
    """Where this cluster keeps what is large. Raises ``ConfigurationError``."""
    kind = configuration.get(HighAvailabilityOptions.TYPE)
    directory = configuration.get(HighAvailabilityOptions.STORAGE_DIR)
    if directory is None:
        raise ConfigurationError(
            f"high-availability.type is {kind.value}, and high-availability.storageDir is not set; set it to a directory"
            f"{' on a local disk' if kind is HighAvailabilityType.FILESYSTEM else ' that all JobManagers reach'}"
        )
    return str(_local(directory, kind) / cluster_name(configuration))


def cluster_name(configuration: Configuration) -> str:
    """Flink's ids begin with a slash. Raises ``ConfigurationError``."""
    cluster_id = configuration.get(HighAvailabilityOptions.CLUSTER_ID)
    name = cluster_id.strip("/")
    if not name or name.startswith(".") or "/" in name:
        raise ConfigurationError(f"high-availability.cluster-id {cluster_id!r} cannot be the name of a directory")
    return name


def _local(directory: str, kind: HighAvailabilityType) -> Path:
    scheme, separator, rest = directory.partition("://")
    if separator and scheme != "file":
        raise ConfigurationError(
            f"high-availability.storageDir is {directory}, which is not on a local disk; high-availability.type {kind.value} needs one"
        )
    path = Path(rest if separator else directory.removeprefix("file:"))
    if not path.is_absolute():
        raise ConfigurationError(f"high-availability.storageDir must be an absolute path, not {directory!r}")
    return path
