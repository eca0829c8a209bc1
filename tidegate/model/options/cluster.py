"""Options of processes (Flink: `JobManagerOptions`, `TaskManagerOptions`, `RestOptions`, `HeartbeatManagerOptions`, ...)."""

from __future__ import annotations

from enum import Enum

from tidegate.model.options.option import (
    BOOL,
    DURATION,
    FLOAT,
    INT,
    LIST,
    MEMORY_SIZE,
    PORT_MAX,
    STRING,
    Kind,
    choice,
    option,
    optional,
)

_SHIPPED = "as in the config.yaml that Flink ships; Flink's built-in default is not set"


class FailoverStrategy(Enum):
    """Which subtasks restart when one fails: its pipelined region, or the whole job."""

    REGION = "region"
    FULL = "full"


class LogLevel(Enum):
    """The log levels."""

    DEBUG = "DEBUG"
    INFO = "INFO"
    WARN = "WARN"
    ERROR = "ERROR"


class LogFormat(Enum):
    """The format of log lines."""

    TEXT = "text"
    JSON = "json"


class JobManagerOptions:
    """Options of the JobManager: its address, and scheduling."""

    RPC_ADDRESS = option(
        "jobmanager.rpc.address",
        STRING,
        "localhost",
        "Host at which TaskManagers and clients reach it.",
        deviation=_SHIPPED,
    )
    RPC_PORT = option(
        "jobmanager.rpc.port", INT, "6123", "Port of its gRPC service; 0: any free one.", minimum=0, maximum=PORT_MAX
    )
    RPC_BIND_PORT = optional(
        "jobmanager.rpc.bind-port", INT, "Port that it listens on, when that differs.", minimum=0, maximum=PORT_MAX
    )
    BIND_HOST = option(
        "jobmanager.bind-host", STRING, "localhost", "Interface that it listens on; 0.0.0.0: all.", deviation=_SHIPPED
    )
    CLIENT_DIRECTORIES = optional(
        "tidegate.client-directories",
        LIST,
        "Directories and URIs below which clients may name places: targets of savepoints, what is restored, claimed or removed, and directories of jobs; "
        "`/` is all of this machine. What lies below the cluster's own `execution.checkpointing.dir`, `execution.checkpointing.savepoint-dir` and "
        "`high-availability.storageDir` is always allowed. Not set: everything on this machine and every bucket while `jobmanager.bind-host` and "
        "`rest.bind-address` are loopback, and otherwise nothing more.",
    )
    MAX_MESSAGE_SIZE = option(
        "tidegate.rpc.max-message-size",
        MEMORY_SIZE,
        "64 mb",
        "Longest message that a JobManager or TaskManager takes by gRPC: a job's graph, or an acknowledgement or a task with the state of a subtask where "
        "checkpoints are kept in the JobManager's memory. Requests that carry neither have 1 MiB.",
        minimum=8 << 20,
    )
    FAILOVER_STRATEGY = option(
        "jobmanager.execution.failover-strategy",
        choice(FailoverStrategy),
        "region",
        "What restarts when a subtask fails.",
    )
    ATTEMPTS_HISTORY = option(
        "jobmanager.execution.attempts-history-size",
        INT,
        "16",
        "Earlier execution attempts of a subtask that stay visible.",
        "job-manager.max-attempts-history-size",
        minimum=1,
    )
    RESOURCE_ID = optional("jobmanager.resource-id", STRING, "Name of the process; not set: a random one.")


class RestOptions:
    """Options of the REST port."""

    PORT = option(
        "rest.port", INT, "8081", "Port of the REST API; 0: any free one.", "web.port", minimum=0, maximum=PORT_MAX
    )
    MAX_CONNECTIONS = optional(
        "tidegate.rest.max-connections",
        INT,
        "Connections at once to the REST port; one that is too many takes the place of the oldest that has no request. Not set: a quarter of the "
        "descriptors that the process may open (`ulimit -n`), at most 1024. gRPC takes half of them, and the rest is kept for checkpoints and TaskManagers.",
        minimum=1,
    )
    ADDRESS = optional("rest.address", STRING, "Host at which clients reach it.", "jobmanager.rpc.address")
    BIND_ADDRESS = option(
        "rest.bind-address",
        STRING,
        "localhost",
        "Interface that it listens on; 0.0.0.0: all.",
        "web.address",
        "jobmanager.web.address",
        deviation=_SHIPPED,
    )
    REFRESH_INTERVAL = option("web.refresh-interval", DURATION, "3 s", "How often a web page should ask.", minimum=1)
    FLAMEGRAPH_ENABLED = option(
        "rest.flamegraph.enabled",
        BOOL,
        "true",
        "Sample the stacks of subtasks when somebody asks for the flame graph of a vertex.",
        deviation="Flink's default is false; nothing is sampled before somebody asks",
    )
    FLAMEGRAPH_SAMPLES = option(
        "rest.flamegraph.num-samples", INT, "100", "Samples of each subtask in a flame graph.", minimum=1, maximum=1000
    )
    FLAMEGRAPH_DELAY = option(
        "rest.flamegraph.delay-between-samples", DURATION, "50 ms", "Time between two samples.", minimum=1
    )
    FLAMEGRAPH_REFRESH = option(
        "rest.flamegraph.refresh-interval",
        DURATION,
        "1 min",
        "Age from which a flame graph is sampled anew when it is asked for.",
    )
    FLAMEGRAPH_DEPTH = option(
        "rest.flamegraph.stack-depth", INT, "100", "Innermost frames of a stack that are kept.", minimum=1, maximum=1000
    )
    CANCEL_ENABLED = option("web.cancel.enable", BOOL, "true", "Show the cancel button in a web page.")
    ALLOW_ORIGIN = option(
        "web.access-control-allow-origin",
        STRING,
        "",
        "Origin whose pages may read answers, `*` for all, which is Flink's default; none without it. What changes something is refused to foreign pages "
        "all the same.",
        "jobmanager.web.access-control-allow-origin",
    )
    HOST_NAMES = optional(
        "tidegate.rest.host-names",
        LIST,
        "Names under which the REST endpoint is reached, beside its addresses, `localhost`, `rest.address`, `jobmanager.rpc.address` and the machine's "
        "name: that of a proxy, for example. A request under another name is refused.",
    )
    GRAPH_CACHE_TIMEOUT = option(
        "rest.cache.execution-graph.timeout", DURATION, "3 s", "Age up to which an answer about a job is repeated."
    )
    CHECKPOINT_CACHE_TIMEOUT = option(
        "rest.cache.checkpoint-statistics.timeout",
        DURATION,
        "3 s",
        "Age up to which an answer about checkpoints is repeated.",
    )
    DASHBOARD_DIR = optional(
        "rest.dashboard.dir",
        STRING,
        "Folder with the files of Flink's dashboard, or the flink-dist jar that holds them: served below /flink/.",
    )
    ASYNC_STORE_DURATION = option(
        "rest.async.store-duration", DURATION, "5 min", "How long the result of a triggered operation is kept."
    )


class LoadBalanceMode(Enum):
    """From which TaskManagers slots are taken first (Flink: `TaskManagerLoadBalanceMode`)."""

    NONE = "NONE"
    SLOTS = "SLOTS"
    TASKS = "TASKS"


class TaskManagerOptions:
    """Options of a TaskManager: its address, its slots, and their resources."""

    NUM_SLOTS = option(
        "taskmanager.numberOfTaskSlots",
        INT,
        "1",
        "Slots that it offers; each gets an equal share.",
        minimum=1,
        maximum=1024,
    )
    EXTERNAL_RESOURCES = optional(
        "external-resources",
        LIST,
        "Names of resources, such as `gpu`, of which functions can ask what a TaskManager has. Each has `external-resource.<name>.amount`, "
        "`.driver-factory.class` (`module:callable`, or `GPUDriverFactory`) and `.param.*`.",
    )
    LOAD_BALANCE_MODE = option(
        "taskmanager.load-balance.mode",
        choice(LoadBalanceMode),
        "NONE",
        "SLOTS: slots of the least used TaskManager first; TASKS is taken as NONE.",
    )
    HOST = optional("taskmanager.host", STRING, "Host at which the others reach it; not set: found by connecting.")
    BIND_HOST = option(
        "taskmanager.bind-host", STRING, "localhost", "Interface that it listens on; 0.0.0.0: all.", deviation=_SHIPPED
    )
    RPC_PORT = option(
        "taskmanager.rpc.port", INT, "0", "Port of its gRPC service; 0: any free one.", minimum=0, maximum=PORT_MAX
    )
    RESOURCE_ID = optional("taskmanager.resource-id", STRING, "Name of the process; not set: host:port-<6 hex digits>.")
    REGISTRATION_TIMEOUT = option(
        "taskmanager.registration.timeout",
        DURATION,
        "5 min",
        "It gives up and stops when no JobManager took it for so long.",
        "taskmanager.maxRegistrationDuration",
        minimum=1,
    )
    SLOT_TIMEOUT = option(
        "taskmanager.slot.timeout",
        DURATION,
        "10 s",
        "An allocated slot in which nothing is deployed is freed after this time.",
        "pekko.ask.timeout",
        minimum=1,
    )
    PROCESS_SIZE = optional(
        "taskmanager.memory.process.size",
        MEMORY_SIZE,
        "Memory of its subtasks, in equal parts for each slot; not set: they end when that of the machine runs short "
        "(`tidegate.taskmanager.memory.reserve`).",
        minimum=1 << 20,
    )
    FLINK_SIZE = optional(
        "taskmanager.memory.flink.size",
        MEMORY_SIZE,
        "All memory without the JVM's own; use the process size here.",
        kind=Kind.WITHOUT_EFFECT,
    )
    MANAGED_SIZE = optional(
        "taskmanager.memory.managed.size",
        MEMORY_SIZE,
        "Memory for RocksDB and for windows over columns, shared equally by the slots; not set: the managed fraction of the process size.",
        "taskmanager.memory.size",
    )
    MANAGED_FRACTION = option(
        "taskmanager.memory.managed.fraction",
        FLOAT,
        "0.4",
        "The managed part of the process size, when the managed size is not set.",
        minimum=0,
        maximum=1,
    )
    NETWORK_FRACTION = option(
        "taskmanager.memory.network.fraction",
        FLOAT,
        "0.1",
        "The part of the process size for data in flight.",
        "taskmanager.network.memory.fraction",
        minimum=0,
        maximum=1,
    )
    NETWORK_MIN = option(
        "taskmanager.memory.network.min",
        MEMORY_SIZE,
        "64 mb",
        "Least memory for data in flight.",
        "taskmanager.network.memory.min",
        minimum=1,
    )
    NETWORK_MAX = option(
        "taskmanager.memory.network.max",
        MEMORY_SIZE,
        "9223372036854775807 bytes",
        "Most memory for data in flight.",
        "taskmanager.network.memory.max",
        minimum=1,
    )

    BUFFER_DEBLOAT_ENABLED = option(
        "taskmanager.network.memory.buffer-debloat.enabled",
        BOOL,
        "true",
        "Data in flight is bounded by the time that its consumer needs for it, and not only by its size.",
        deviation="off in Flink",
    )
    BUFFER_DEBLOAT_TARGET = option(
        "taskmanager.network.memory.buffer-debloat.target",
        DURATION,
        "12 ms",
        "Time that the consumer may need for what is in flight to it: half of it waits at the producer.",
        minimum=1,
        deviation="1 s in Flink; a barrier waits behind what is in flight",
    )
    BUFFER_DEBLOAT_PERIOD = option(
        "taskmanager.network.memory.buffer-debloat.period",
        DURATION,
        "10 ms",
        "Time after which the size of what may be in flight is calculated again.",
        minimum=1,
        deviation="200 ms in Flink; in accordance with the shorter target",
    )
    BUFFER_DEBLOAT_SAMPLES = option(
        "taskmanager.network.memory.buffer-debloat.samples",
        INT,
        "10",
        "Periods over which the consumer's speed is averaged.",
        minimum=1,
        deviation="20 in Flink",
    )
    BUFFER_DEBLOAT_THRESHOLD = option(
        "taskmanager.network.memory.buffer-debloat.threshold-percentages",
        INT,
        "25",
        "A calculated size that differs by less from the one in use, in percent, is not taken.",
        minimum=0,
        maximum=100,
    )


class HeartbeatOptions:
    """Options of heartbeats, which detect silent processes. A broken connection is detected at once, whatever these say."""

    INTERVAL = option("heartbeat.interval", DURATION, "10 s", "Time between two heartbeats.", minimum=1)
    TIMEOUT = option("heartbeat.timeout", DURATION, "50 s", "A peer silent for so long is lost.", minimum=1)


class ClusterOptions:
    """Options of registration, and of all processes."""

    REGISTRATION_INITIAL_TIMEOUT = option(
        "cluster.registration.initial-timeout", DURATION, "100 ms", "First wait for an answer; doubles.", minimum=1
    )
    REGISTRATION_MAX_TIMEOUT = option(
        "cluster.registration.max-timeout", DURATION, "30 s", "Longest wait for an answer.", minimum=1
    )
    REGISTRATION_ERROR_DELAY = option(
        "cluster.registration.error-delay", DURATION, "10 s", "Pause after an error.", minimum=0
    )
    REGISTRATION_REFUSED_DELAY = option(
        "cluster.registration.refused-registration-delay", DURATION, "30 s", "Pause after a refusal.", minimum=0
    )
    IO_POOL_SIZE = optional(
        "cluster.io-pool.size",
        INT,
        "Threads for calls that wait for disks and stores: of checkpoint storage in the JobManager, of blobs in a TaskManager; "
        "not set: 4 in each process.",
        minimum=1,
    )


class TaskOptions:
    """Options of cancelling subtasks."""

    CANCELLATION_INTERVAL = option(
        "task.cancellation.interval",
        DURATION,
        "30 s",
        "Time between two attempts to interrupt the function of a subtask that is being cancelled. The first comes after 1 s at most.",
        "task.cancellation-interval",
        minimum=1,
    )
    CANCELLATION_TIMEOUT = option(
        "task.cancellation.timeout",
        DURATION,
        "3 min",
        "A subtask whose cancelled function takes longer to close is killed, and if its process is still there "
        "after as long again, the TaskManager ends; 0: wait for ever.",
        minimum=0,
    )


class FileOptions:
    """Options of the processes' directories and logs."""

    BLOB_DIRECTORY = optional(
        "blob.storage.directory", STRING, "Directory of job files; not set: below the temporary one."
    )
    BLOB_MAX_SIZE = option(
        "tidegate.blob.max-size",
        MEMORY_SIZE,
        "1 gb",
        "Largest file that a client may store for a job: its program, an archive, a package. Files that no job has named yet have four times as much "
        "in all; the oldest go first.",
        minimum=1,
    )
    HOME = option(
        "tidegate.home",
        STRING,
        "~/.tidegate",
        "Where `tidegate cluster` and embedded clusters keep their logs and, by default, their checkpoints: below `clusters/<id>`.",
    )
    TMP_DIRS = optional(
        "io.tmp.dirs",
        LIST,
        "Temporary directories, of which the first is used; not set: `$TMPDIR`, else the system's.",
        "taskmanager.tmp.dirs",
    )
    START_TIMEOUT = option(
        "tidegate.start-timeout",
        DURATION,
        "5 min",
        "Longest wait for a JobManager or TaskManager to be ready, of `tidegate cluster start` and of a program with a cluster of its own; "
        "likewise for the JVM of a TaskManager.",
        minimum=1,
    )
    LOG_DIR = optional("env.log.dir", STRING, "Directory of the log files of `tidegate cluster`.")
    LOG_MAX = option(
        "env.log.max",
        INT,
        "10",
        "How many old log files are kept, of each log and of what functions print, beside the one that is written.",
        minimum=0,
    )
    LOG_MAX_SIZE = option(
        "tidegate.log.max-size",
        MEMORY_SIZE,
        "100 mb",
        "A log file that is larger is renamed, and another one is begun.",
        minimum=1,
    )
    LOG_LEVEL = option("env.log.level", choice(LogLevel), "INFO", "Least level that is logged.")
    LOG_FORMAT = option(
        "tidegate.log.format", choice(LogFormat), "text", "Lines of text, or JSON objects with ids as fields."
    )
    PID_DIR = option("env.pid.dir", STRING, "/tmp", "Directory of the pid files of `tidegate cluster`.")  # noqa: S108  (Flink's)
