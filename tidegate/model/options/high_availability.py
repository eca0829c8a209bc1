"""Options of high availability: where a JobManager stores its jobs, so that the next one continues them."""

from __future__ import annotations

from enum import Enum

from tidegate.model.options.option import DURATION, STRING, choice, option, optional


class HighAvailabilityType(Enum):
    """The kinds of high availability. ``filesystem``: a directory of one machine; ``object-store``: a bucket alone. Flink's other types are refused by
    name."""

    NONE = "NONE"
    FILESYSTEM = "filesystem"
    ZOOKEEPER = "zookeeper"
    OBJECT_STORE = "object-store"


class ZooKeeperAcl(Enum):
    """The access control of ZooKeeper nodes, with Flink's names."""

    OPEN = "open"
    CREATOR = "creator"


class HighAvailabilityOptions:
    """Options of high availability with Flink's keys; the types ``filesystem`` and ``object-store`` are tidegate's own."""

    TYPE = option(
        "high-availability.type",
        choice(HighAvailabilityType),
        "NONE",
        "NONE: jobs end with their JobManager. filesystem: jobs are kept in a directory of this machine, and the next JobManager that "
        "is started with it goes on with them; the default of `tidegate cluster start`. zookeeper: JobManagers of several machines, of which "
        "ZooKeeper elects the leader. object-store: likewise, with nothing but a bucket whose conditional writes are atomic (`tidegate ha check`).",
        "high-availability",
    )
    STORAGE_DIR = optional(
        "high-availability.storageDir",
        STRING,
        "Directory in which the JobManager keeps its jobs and their programs, below `<cluster-id>`; on a local disk, or mounted on all machines "
        "with `zookeeper`; `s3://bucket/path` or `gs://bucket/path` with `object-store`.",
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
    ZOOKEEPER_AUTHORIZATION = optional(
        "high-availability.zookeeper.client.authorization",
        STRING,
        "How JobManagers, TaskManagers and commands prove to ZooKeeper who they are, `digest:user:password`.",
    )
    ZOOKEEPER_ACL = option(
        "high-availability.zookeeper.client.acl",
        choice(ZooKeeperAcl),
        "open",
        "Who may read and change the nodes that JobManagers make in ZooKeeper. open: who reaches it. creator: who proves to be the same, by "
        "`high-availability.zookeeper.client.authorization`.",
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
    LEASE_DURATION = option(
        "tidegate.high-availability.object-store.lease-duration",
        DURATION,
        "5 s",
        "Another JobManager may lead when the leader has not written to the bucket for this time. It decides only how long a dead leader is waited "
        "for: what two leaders must not do at once, the bucket's conditional writes prevent.",
        minimum=1_000,
    )
    RENEW_INTERVAL = option(
        "tidegate.high-availability.object-store.renew-interval",
        DURATION,
        "1 s",
        "How often a leader writes to the bucket when it has nothing else to write, and how often a standby looks. At most a third of the lease.",
        minimum=100,
    )
