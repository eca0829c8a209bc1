"""Where a JobManager keeps its jobs, so that the next one goes on with them."""

from __future__ import annotations

from enum import Enum

from tidegate.model.options.option import DURATION, STRING, choice, option, optional


class HighAvailabilityType(Enum):
    """``filesystem``: one directory of one machine. The types that Flink has and tidegate has not are refused by name."""

    NONE = "NONE"
    FILESYSTEM = "filesystem"
    ZOOKEEPER = "zookeeper"


class HighAvailabilityOptions:
    """Flink's keys; ``filesystem`` is a type of ours."""

    TYPE = option(
        "high-availability.type",
        choice(HighAvailabilityType),
        "NONE",
        "NONE: jobs end with their JobManager. filesystem: jobs are kept in a directory of this machine, and the next JobManager that "
        "is started with it goes on with them; the default of `tidegate cluster start`. zookeeper: JobManagers of several machines, of which "
        "ZooKeeper elects the leader.",
        "high-availability",
    )
    STORAGE_DIR = optional(
        "high-availability.storageDir",
        STRING,
        "Directory in which the JobManager keeps its jobs and their programs, below `<cluster-id>`; on a local disk, or mounted on all machines "
        "with `zookeeper`.",
    )
    CLUSTER_ID = option(
        "high-availability.cluster-id",
        STRING,
        "/default",
        "Name of the cluster: JobManagers of one name and store take the same jobs over, one after the other.",
    )
    ZOOKEEPER_QUORUM = optional(
        "high-availability.zookeeper.quorum",
        STRING,
        "ZooKeeper's servers, `host:port,host:port`.",
    )
    ZOOKEEPER_ROOT = option(
        "high-availability.zookeeper.path.root",
        STRING,
        "/flink",
        "Node below which each cluster has one of its own.",
    )
    ZOOKEEPER_EXECUTION_PLANS = option(
        "high-availability.zookeeper.path.execution-plans",
        STRING,
        "/execution-plans",
        "Node of a cluster below which its jobs are.",
        "high-availability.zookeeper.path.jobgraphs",
    )
    ZOOKEEPER_SESSION_TIMEOUT = option(
        "high-availability.zookeeper.client.session-timeout",
        DURATION,
        "5 s",
        "After this time without a sign of life a JobManager leads no more.",
        deviation="Flink's is 60 s: it ends leadership when a connection is suspended, so that it needs no short session. Here that pauses, and a "
        "dead leader is replaced after this time.",
        minimum=1_000,
    )
    ZOOKEEPER_CONNECTION_TIMEOUT = option(
        "high-availability.zookeeper.client.connection-timeout",
        DURATION,
        "15 s",
        "How long a JobManager that starts waits for a server of the quorum.",
        minimum=100,
    )
