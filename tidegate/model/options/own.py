"""Options that Flink does not have: `spark.master`, `tidegate.*` for what only this runtime needs, and a range where Flink has one port.

Every other `spark.*` key goes to Spark as it is.
"""

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
    PORTS,
    STRING,
    choice,
    option,
    optional,
)


class ShownRecord(Enum):
    """What an error shows of the record for which a user function failed."""

    VALUE = "VALUE"
    SHAPE = "SHAPE"
    NONE = "NONE"


class SparkOptions:
    """Options of the Spark that hosts the subtasks."""

    MASTER = option(
        "spark.master",
        STRING,
        "local[1024]",
        "The Spark master; embedded by default, with one core per possible subtask (a local core is a thread).",
    )
    WHOLE_JOBS = option(
        "tidegate.spark.whole-jobs",
        BOOL,
        "true",
        "A job in BATCH mode that only passes from `from_spark` through `select`, `filter` and `agg` to `to_spark` runs in Spark as one "
        "DataFrame, where that gives the same rows.",
    )
    CLASS_ARCHIVE = option(
        "tidegate.spark.class-archive",
        BOOL,
        "true",
        "A TaskManager's JVM maps an archive of Spark's classes, below `tidegate.home`, so that it starts sooner. The first TaskManager has it made as it "
        "ends, by a process in the background that takes some 20 s of a processor at the lowest priority; not where the variable `CI` is set.",
    )
    REHEARSE_SQL = option(
        "tidegate.spark.rehearse-sql",
        BOOL,
        "false",
        "Run a small Spark SQL query after the start of a TaskManager, so that it takes over subtasks of `from_spark` "
        "within seconds. Costs some seconds of processor time.",
    )


class WarmClusterOptions:
    """Options of the cluster that `tidegate cluster keep` keeps for the programs of a user."""

    ENABLED = option(
        "tidegate.warm-cluster.enabled",
        BOOL,
        "true",
        "A program that would start a cluster of its own runs on the one that `tidegate cluster keep` has started, if there is one, if it is free, and if its "
        "own would be the same. Without effect where the variable `CI` is set: programs start their own there.",
    )
    IDLE_TIMEOUT = option(
        "tidegate.warm-cluster.idle-timeout",
        DURATION,
        "30 min",
        "How long `tidegate cluster keep` keeps a cluster that no program uses.",
        minimum=1,
    )


class ReplayOptions:
    """Options of recordings for `tidegate replay`: the data that is kept of a failure."""

    ENABLED = option(
        "tidegate.replay.enabled",
        BOOL,
        "false",
        "Each subtask keeps on its disk what came in since its last completed checkpoint. When a function fails, this is kept with the checkpoint's state and "
        "the program, and `tidegate replay` runs the subtask again with the same records.",
    )
    MAX_SIZE = option(
        "tidegate.replay.max-size",
        MEMORY_SIZE,
        "256 mb",
        "How much of its input a subtask keeps, and how much state is kept with a failure; of a failure with more of either nothing is kept.",
        minimum=1,
    )
    RETAINED = option(
        "tidegate.replay.num-retained",
        INT,
        "10",
        "How many failures are kept in a folder; the oldest are removed.",
        minimum=1,
    )
    DIRECTORY = optional(
        "tidegate.replay.directory",
        STRING,
        "The folder of kept failures, which hold records and state; not set: `failures` below `tidegate.home` of the machine where the subtask ran. Only "
        "the user of the subtask can read what is in it.",
    )


class RuntimeOptions:
    """Options of a subtask's batches, slices and queues, and limits between a TaskManager and its subtasks."""

    EXECUTOR_HOST = optional(
        "tidegate.taskmanager.executor-host",
        STRING,
        "A file into which this TaskManager writes where it can be asked for executors of its Spark cluster; each of them then is a "
        "TaskManager. The JobManager sets it, with `tidegate.resourcemanager.driver: spark`.",
    )
    RECONNECT_TIMEOUT = option(
        "tidegate.taskmanager.reconnect-timeout",
        DURATION,
        "5 s",
        "For so long a TaskManager whose connection to the JobManager broke may come back before what runs there counts as lost. One whose "
        "process is known to be gone is lost at once. 0: every broken connection is a loss.",
    )
    MEMORY_RESERVE = optional(
        "tidegate.taskmanager.memory.reserve",
        MEMORY_SIZE,
        "Memory that has to stay free on the machine of a subtask, or in its control group: where less is left, the largest subtask fails. "
        "Not set: a twentieth of it, at least 128 mb and at most 1 gb; 0: no subtask fails for this.",
    )
    MACHINE_SIZE = optional(
        "tidegate.taskmanager.memory.machine-size",
        MEMORY_SIZE,
        "Memory that the subtasks of a TaskManager (on a Spark cluster: of an executor) may fill together, whichever slots they are in; "
        "not set: what the machine or its control group has.",
        minimum=1 << 20,
    )
    BATCH_ROWS = option("tidegate.exchange.batch-rows", INT, "65536", "Rows after which a batch is flushed.", minimum=1)
    BATCH_SIZE = option(
        "tidegate.exchange.batch-size", MEMORY_SIZE, "2 mb", "Bytes after which a batch is flushed.", minimum=1
    )
    CHANNEL_CREDIT = option(
        "tidegate.exchange.channel-credit",
        MEMORY_SIZE,
        "4 mb",
        "Bytes that a producer may have in flight to one consumer.",
        minimum=1,
    )
    CONNECT_TIMEOUT = option(
        "tidegate.exchange.connect-timeout", DURATION, "30 s", "Longest wait for a producer's data port.", minimum=1
    )
    SLICE = option(
        "tidegate.mailbox.slice",
        DURATION,
        "5 ms",
        "Longest run of a row function before mails are looked at.",
        minimum=1,
    )
    PROFILE = option(
        "tidegate.profile",
        BOOL,
        "false",
        "Look at each subtask every 5 ms and count what its time goes into (metrics `profile.*`; `tidegate run --profile`).",
    )
    SHOW_RECORD = option(
        "tidegate.failure.show-record",
        choice(ShownRecord),
        "VALUE",
        "What the exception of a failed function shows of the record that it was called with: `VALUE` its beginning (500 characters), "
        "`SHAPE` only the types of its fields, `NONE` nothing. With either of these the web page shows no values of "
        "state. The text of the function's own exception stays as it is.",
    )
    SOURCE_NICE = option(
        "tidegate.source.nice",
        INT,
        "5",
        "By how much the priority of a source's thread is below that of the subtasks behind it (`nice`, Linux only).",
        minimum=0,
        maximum=19,
    )
    SOURCE_REST = option(
        "tidegate.source.rest",
        FLOAT,
        "0.05",
        "Part of the time for which a source that is behind may rest behind its barriers, until the checkpoint is complete; 0: none.",
        minimum=0,
        maximum=1,
    )
    CONTROL_PORT = option(
        "tidegate.subtask.control-port",
        INT,
        "0",
        "Port of a TaskManager that its subtasks on other machines (`spark.master`) dial; 0: any free one.",
        minimum=0,
        maximum=PORT_MAX,
    )
    DATA_PORT = option(
        "taskmanager.data.port",
        PORTS,
        "0",
        "Port or range of ports, such as `50100-50200`, on which subtasks listen, and what Spark does for them, where they are not all on "
        "this machine: one for each subtask on a machine, and two for one that reads or writes by Spark. 0: any free ones.",
    )
    SUBTASK_START_TIMEOUT = option(
        "tidegate.subtask.start-timeout",
        DURATION,
        "30 s",
        "A subtask whose process connects later has failed. It counts from the beginning of its own start: of many subtasks a few start at once, "
        "and the others wait for their turn.",
        minimum=1,
    )
    UNRESPONSIVE_TIMEOUT = option(
        "tidegate.task.unresponsive-timeout",
        DURATION,
        "5 s",
        "A subtask that is asked to stop and does not react for so long, although its function was interrupted, is killed: the function "
        "swallows every exception, or works in native code. One that reacts has `task.cancellation.timeout` to be closed.",
        minimum=1,
    )
    SPARK_QUERY_TIMEOUT = option(
        "tidegate.spark-query.start-timeout",
        DURATION,
        "10 min",
        "The same for a subtask of `from_spark`: its query is planned, and perhaps written as Parquet, before it starts.",
        minimum=1,
    )
    METADATA_TIMEOUT = option(
        "tidegate.checkpoint.metadata-timeout",
        DURATION,
        "30 s",
        "Longest write of a checkpoint's `_metadata`.",
        minimum=1,
    )
    LOSS_GRACE = option(
        "tidegate.jobmanager.loss-grace",
        DURATION,
        "60 s",
        "For so long subtasks go on when the JobManager is lost, where jobs outlive it (`high-availability.type`); one that takes the lead "
        "in this time adopts them. 0: they are stopped at once, and restarted.",
    )
    ADOPTION_TIMEOUT = option(
        "tidegate.jobmanager.adoption-timeout",
        DURATION,
        "5 s",
        "For so long a JobManager that has taken the lead waits for TaskManagers to report subtasks, before it restarts those of which "
        "nothing is known.",
        minimum=1,
    )
    CONFIRM_RETRY_INTERVAL = option(
        "tidegate.checkpoint.confirm-retry-interval",
        DURATION,
        "1 s",
        "Time between two confirms of a checkpoint to a TaskManager that has not answered.",
        minimum=1,
    )
    ALLOW_FAULTS = option(
        "tidegate.testing.allow-faults",
        BOOL,
        "false",
        "Of the JobManager, also as `--allow-faults`: `tidegate fault`, REST and the page may make faults on purpose. Channels between subtasks then "
        "pass through their TaskManagers, which costs throughput.",
    )
    FAULTS = optional(
        "tidegate.testing.faults",
        LIST,
        "Faults on purpose in one TaskManager, for tests: `kill@3`, `drop-acknowledgement@2`, `delay-edge:50ms`.",
    )
