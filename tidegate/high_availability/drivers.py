"""Creates the high-availability drivers that a configuration asks for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.high_availability.filesystem import FileElection, FileRetrieval
from tidegate.high_availability.port import Election, Retrieval
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ConfigurationError
from tidegate.model.masking import SECRETS
from tidegate.model.options import HighAvailabilityOptions, HighAvailabilityType
from tidegate.model.options.high_availability import ZooKeeperAcl

if TYPE_CHECKING:
    from tidegate.high_availability.object_store.election import BucketSettings
    from tidegate.high_availability.zookeeper import ZooKeeperSettings


_NEEDED = {
    HighAvailabilityType.FILESYSTEM: "a directory on a local disk",
    HighAvailabilityType.ZOOKEEPER: "a directory that all JobManagers reach",
    HighAvailabilityType.OBJECT_STORE: "s3://BUCKET/PATH or gs://BUCKET/PATH",
}


def make_election(configuration: Configuration) -> Election:
    """Creates the leader election of a configuration. Raises ``ConfigurationError``."""
    kind = configuration.get(HighAvailabilityOptions.TYPE)
    if kind is HighAvailabilityType.ZOOKEEPER:
        from tidegate.high_availability.zookeeper import ZooKeeperElection

        return ZooKeeperElection(_zookeeper(configuration))
    if kind is HighAvailabilityType.OBJECT_STORE:
        from tidegate.high_availability.object_store.election import BucketElection

        return BucketElection(_bucket(configuration))
    return FileElection(Path(storage_directory(configuration)))


def make_retrieval(configuration: Configuration) -> Retrieval:
    """Creates the leader retrieval of a configuration. Raises ``ConfigurationError``."""
    kind = configuration.get(HighAvailabilityOptions.TYPE)
    if kind is HighAvailabilityType.ZOOKEEPER:
        from tidegate.high_availability.zookeeper import ZooKeeperRetrieval

        return ZooKeeperRetrieval(_zookeeper(configuration))
    if kind is HighAvailabilityType.OBJECT_STORE:
        from tidegate.high_availability.object_store.retrieval import BucketRetrieval

        return BucketRetrieval(_bucket(configuration))
    return FileRetrieval(Path(storage_directory(configuration)))


def looks_up_leader(configuration: Configuration) -> bool:
    """Tells whether clients find the leader in the store from any machine, so that no address is needed."""
    kind = configuration.get(HighAvailabilityOptions.TYPE)
    return kind in (HighAvailabilityType.ZOOKEEPER, HighAvailabilityType.OBJECT_STORE)


def _zookeeper(configuration: Configuration) -> ZooKeeperSettings:
    from tidegate.high_availability.zookeeper import ZooKeeperSettings

    options, get = HighAvailabilityOptions, configuration.get
    quorum = get(options.ZOOKEEPER_QUORUM)
    if quorum is None:
        raise ConfigurationError(
            "high-availability.type is zookeeper, and high-availability.zookeeper.quorum is not set; set it to host:port,host:port"
        )
    authorization = get(options.ZOOKEEPER_AUTHORIZATION)
    digest = None if authorization is None else _digest(authorization)
    is_for_creator = get(options.ZOOKEEPER_ACL) is ZooKeeperAcl.CREATOR
    if is_for_creator and digest is None:
        raise ConfigurationError(
            f"{options.ZOOKEEPER_ACL.key} is creator, and {options.ZOOKEEPER_AUTHORIZATION.key} is not set, without which nodes in ZooKeeper have no "
            "creator; set it to digest:user:password"
        )
    return ZooKeeperSettings(
        quorum,
        f"/{get(options.ZOOKEEPER_ROOT).strip('/')}/{cluster_name(configuration)}",
        f"/{get(options.ZOOKEEPER_EXECUTION_PLANS).strip('/')}",
        get(options.ZOOKEEPER_SESSION_TIMEOUT),
        get(options.ZOOKEEPER_CONNECTION_TIMEOUT),
        digest,
        is_for_creator,
    )


def _digest(authorization: str) -> str:
    """Returns ``user:password`` for ZooKeeper; as in Flink, the value may be in quotes. Raises ``ConfigurationError``."""
    scheme, _, value = authorization.partition(":")
    digest = value.strip().strip("'\"")
    user, _, password = digest.partition(":")
    if scheme.strip() != "digest" or not user or not password:
        raise ConfigurationError(
            f"{HighAvailabilityOptions.ZOOKEEPER_AUTHORIZATION.key} has the scheme {scheme!r} or lacks a part: ZooKeeper is told who asks by "
            "digest:user:password; other schemes, SASL among them, are not supported"
        )
    SECRETS.learn_values([password])
    return digest


def _bucket(configuration: Configuration) -> BucketSettings:
    from tidegate.high_availability.object_store.election import BucketSettings

    options, get = HighAvailabilityOptions, configuration.get
    lease_ms, renew_ms = get(options.LEASE_DURATION), get(options.RENEW_INTERVAL)
    if renew_ms * 3 > lease_ms:
        raise ConfigurationError(
            f"{options.RENEW_INTERVAL.key} is {renew_ms} ms and must be at most a third of {options.LEASE_DURATION.key}, {lease_ms} ms: a single "
            "late write must not end the leadership"
        )
    return BucketSettings(storage_directory(configuration), lease_ms, renew_ms)


def storage_directory(configuration: Configuration) -> str:
    """Returns the path or URI where this cluster keeps large objects. Raises ``ConfigurationError``."""
    kind = configuration.get(HighAvailabilityOptions.TYPE)
    directory = configuration.get(HighAvailabilityOptions.STORAGE_DIR)
    if directory is None:
        raise ConfigurationError(
            f"high-availability.type is {kind.value}, and high-availability.storageDir is not set; set it to {_NEEDED[kind]}"
        )
    if kind is HighAvailabilityType.OBJECT_STORE:
        if not directory.startswith(("s3://", "gs://")):
            raise ConfigurationError(
                f"high-availability.storageDir is {directory}; high-availability.type object-store needs {_NEEDED[kind]}"
            )
        return f"{directory.rstrip('/')}/{cluster_name(configuration)}"
    return str(_local(directory, kind) / cluster_name(configuration))


def cluster_name(configuration: Configuration) -> str:
    """Returns the cluster's id as the name of a directory, without the slash at the beginning of Flink's ids. Raises ``ConfigurationError``."""
    cluster_id = configuration.get(HighAvailabilityOptions.CLUSTER_ID)
    name = cluster_id.strip("/")
    if not name or name.startswith(".") or "/" in name:
        raise ConfigurationError(f"high-availability.cluster-id {cluster_id!r} cannot be the name of a directory")
    return name


def _local(directory: str, kind: HighAvailabilityType) -> Path:
    scheme, separator, rest = directory.partition("://")
    if separator and scheme != "file":
        needed = (
            "is not on a local disk"
            if kind is HighAvailabilityType.FILESYSTEM
            else "is not a directory that all JobManagers mount"
        )
        raise ConfigurationError(
            f"high-availability.storageDir is {directory}, which {needed}; high-availability.type {kind.value} needs one"
        )
    path = Path(rest if separator else directory.removeprefix("file:"))
    if not path.is_absolute():
        raise ConfigurationError(f"high-availability.storageDir must be an absolute path, not {directory!r}")
    return path
