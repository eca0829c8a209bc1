"""Options of checkpoints, state and recovery (Flink: `CheckpointingOptions`, `StateRecoveryOptions`)."""

from __future__ import annotations

from enum import Enum

from tidegate.model.graph import CheckpointingMode
from tidegate.model.options.option import (
    BOOL,
    DURATION,
    FLOAT,
    INT,
    LIST,
    MEMORY_SIZE,
    STRING,
    Kind,
    choice,
    option,
    optional,
)

INT_MAX = 2**31 - 1
"""The maximum of Flink's option, a Java int."""
LATER = Kind.WITHOUT_EFFECT
_P = "execution.checkpointing"


class CheckpointRetention(Enum):
    """What is done with the last checkpoints when a job ends (Flink: `ExternalizedCheckpointRetention`)."""

    NONE = "NO_EXTERNALIZED_CHECKPOINTS"
    DELETE_ON_CANCELLATION = "DELETE_ON_CANCELLATION"
    RETAIN_ON_CANCELLATION = "RETAIN_ON_CANCELLATION"


class CheckpointStorageKind(Enum):
    """Where completed checkpoints are stored; derived from the directory unless it is set."""

    JOBMANAGER = "jobmanager"
    FILESYSTEM = "filesystem"


class ClaimMode(Enum):
    """Who owns the files of the checkpoint that a job starts from (Flink: `RecoveryClaimMode`)."""

    CLAIM = "CLAIM"
    NO_CLAIM = "NO_CLAIM"
    LEGACY = "LEGACY"


class StateBackendKind(Enum):
    """The backend of keyed state."""

    HASHMAP = "hashmap"
    ROCKSDB = "rocksdb"
    FORST = "forst"


class CheckpointingOptions:
    """Options of checkpoints: when they start and fail, what they write and where."""

    INTERVAL = optional(
        f"{_P}.interval",
        DURATION,
        "Time between the starts of two checkpoints; not set: no periodic checkpoints.",
        minimum=10,
    )
    INTERVAL_DURING_BACKLOG = optional(
        f"{_P}.interval-during-backlog",
        DURATION,
        "The interval while a source works off a backlog, as a hybrid source does before its last part; 0: none is planned then. "
        "Not shorter than `execution.checkpointing.interval`.",
    )
    TIMEOUT = option(f"{_P}.timeout", DURATION, "10 min", "A checkpoint that takes longer is aborted.", minimum=10)
    MIN_PAUSE = option(
        f"{_P}.min-pause",
        DURATION,
        "0 ms",
        "Least time between the end of a checkpoint and the start of the next; raises a shorter interval.",
        maximum=365 * 86_400_000,
    )
    MAX_CONCURRENT = option(
        f"{_P}.max-concurrent-checkpoints", INT, "1", "Checkpoints that may be in progress at once.", minimum=1
    )
    TOLERABLE_FAILED = option(
        f"{_P}.tolerable-failed-checkpoints",
        INT,
        "0",
        "Consecutive failed checkpoints that the job survives; 2147483647: any number.",
        minimum=0,
        maximum=INT_MAX,
    )
    MODE = option(f"{_P}.mode", choice(CheckpointingMode), "EXACTLY_ONCE", "The guarantee for state after a failure.")
    UNALIGNED = option(
        f"{_P}.unaligned.enabled",
        BOOL,
        "false",
        "Barriers overtake data in flight, which becomes part of the checkpoint; no effect at least once.",
        f"{_P}.unaligned",
    )
    ALIGNED_TIMEOUT = option(
        f"{_P}.aligned-checkpoint-timeout",
        DURATION,
        "0 ms",
        "With unaligned checkpoints: how long a barrier may align first; 0: not at all.",
        f"{_P}.alignment-timeout",
    )
    UNALIGNED_FORCED = option(
        f"{_P}.unaligned.forced", BOOL, "false", "Unaligned also where the order of data cannot be kept.", kind=LATER
    )
    UNALIGNED_SUBTASKS_PER_FILE = option(
        f"{_P}.unaligned.max-subtasks-per-channel-state-file",
        INT,
        "5",
        "Subtasks that share one file of in-flight data.",
        minimum=1,
        kind=LATER,
    )
    UNALIGNED_INTERRUPTIBLE_TIMERS = option(
        f"{_P}.unaligned.interruptible-timers.enabled",
        BOOL,
        "false",
        "A barrier may interrupt firing timers.",
        kind=LATER,
    )
    UNALIGNED_RECOVER_DOWNSTREAM = option(
        f"{_P}.unaligned.recover-output-on-downstream.enabled",
        BOOL,
        "false",
        "Output in flight is restored by the consumer.",
        kind=LATER,
    )
    DURING_RECOVERY = option(
        f"{_P}.during-recovery.enabled",
        BOOL,
        "false",
        "Checkpoints while in-flight data is being restored.",
        kind=LATER,
    )
    AFTER_TASKS_FINISH = option(
        f"{_P}.checkpoints-after-tasks-finish",
        BOOL,
        "true",
        "Checkpoints go on when part of the subtasks has finished, and a final one commits the last records.",
        f"{_P}.checkpoints-after-tasks-finish.enabled",
    )
    DIRECTORY = optional(
        f"{_P}.dir",
        STRING,
        "Directory (or URI) of checkpoints; not set: that of a local cluster, else the JobManager's memory.",
        "state.checkpoints.dir",
        "state.backend.fs.checkpointdir",
    )
    SAVEPOINT_DIRECTORY = optional(
        f"{_P}.savepoint-dir",
        STRING,
        "Directory for savepoints that name no target.",
        "state.savepoints.dir",
        "savepoints.state.backend.fs.dir",
    )
    STORAGE = optional(
        f"{_P}.storage",
        choice(CheckpointStorageKind),
        "Where checkpoints are kept; not set: derived from the directory.",
        "state.checkpoint-storage",
    )
    CREATE_SUBDIR = option(
        f"{_P}.create-subdir",
        BOOL,
        "true",
        "Put a directory per job below the directory.",
        "state.checkpoints.create-subdir",
    )
    NUM_RETAINED = option(
        f"{_P}.num-retained", INT, "1", "Completed checkpoints kept.", "state.checkpoints.num-retained", minimum=1
    )
    RETENTION = option(
        f"{_P}.externalized-checkpoint-retention",
        choice(CheckpointRetention),
        "NO_EXTERNALIZED_CHECKPOINTS",
        "Whether the last checkpoints stay when the job is canceled or fails.",
    )
    INLINE_THRESHOLD = option(
        f"{_P}.data-inline-threshold",
        MEMORY_SIZE,
        "20 kb",
        "A state segment smaller than this travels in the acknowledgement and lives in `_metadata`.",
        "state.storage.fs.memory-threshold",
        "state.backend.fs.memory-threshold",
        maximum=1 << 20,
    )
    WRITE_BUFFER_SIZE = option(
        f"{_P}.write-buffer-size",
        INT,
        "4096",
        "Pieces of a state file that are smaller are gathered until there are so many bytes, and written at once.",
        "state.storage.fs.write-buffer-size",
        "state.backend.fs.write-buffer-size",
        minimum=1,
    )
    INCREMENTAL = option(
        f"{_P}.incremental",
        BOOL,
        "false",
        "Write only what changed since the last confirmed checkpoint; needs a checkpoint directory.",
        "state.backend.incremental",
    )
    SNAPSHOT_COMPRESSION = option(
        f"{_P}.snapshot-compression",
        BOOL,
        "false",
        "Compress state files (LZ4, by Arrow: every reader of Arrow files undoes it); data in flight is not compressed.",
    )
    LOCAL_BACKUP = option(
        f"{_P}.local-backup.enabled",
        BOOL,
        "false",
        "Keep a second copy of state on the TaskManager.",
        "execution.state-recovery.from-local",
        "state.backend.local-recovery",
    )
    LOCAL_BACKUP_DIRS = optional(
        f"{_P}.local-backup.dirs",
        LIST,
        "Directories of these copies, set for a TaskManager; not set: its working directory.",
        "taskmanager.state.local.root-dirs",
    )
    FILE_MERGING = option(f"{_P}.file-merging.enabled", BOOL, "false", "Merge small state files.", kind=LATER)
    FILE_MERGING_ACROSS = option(
        f"{_P}.file-merging.across-checkpoint-boundary", BOOL, "false", "Also across checkpoints.", kind=LATER
    )
    FILE_MERGING_MAX_SIZE = option(
        f"{_P}.file-merging.max-file-size", MEMORY_SIZE, "32 mb", "Size of a merged file.", minimum=1, kind=LATER
    )
    FILE_MERGING_AMPLIFICATION = option(
        f"{_P}.file-merging.max-space-amplification", FLOAT, "2.0", "Garbage allowed in merged files.", kind=LATER
    )
    FILE_MERGING_SUBTASKS = option(
        f"{_P}.file-merging.max-subtasks-per-file",
        INT,
        "4",
        "Subtasks that share a merged file.",
        minimum=1,
        kind=LATER,
    )
    FILE_MERGING_POOL_BLOCKING = option(
        f"{_P}.file-merging.pool-blocking", BOOL, "false", "Wait for a file to become free.", kind=LATER
    )
    CLEANER_PARALLEL = option(
        f"{_P}.cleaner.parallel-mode",
        BOOL,
        "true",
        "Delete the files of checkpoints in parallel; false: one after the other.",
        "state.checkpoint.cleaner.parallel-mode",
    )
    PAUSE_SOURCES = option(
        "pipeline.sources.pause-until-first-checkpoint",
        BOOL,
        "false",
        "Sources emit nothing until a checkpoint is complete, after every start and restart; no effect without periodic checkpoints.",
    )
    HISTORY = option(
        "web.checkpoints.history",
        INT,
        "10",
        "Checkpoints shown in lists and in the REST API.",
        "jobmanager.web.checkpoints.history",
        minimum=0,
    )


class StateOptions:
    """Options of keyed state."""

    BACKEND = option(
        "state.backend.type",
        choice(StateBackendKind),
        "hashmap",
        "Where keyed state lives: `hashmap`, in memory; `rocksdb`, on the local disk (needs `tidegate[rocksdb]`).",
        "state.backend",
    )


class StateRecoveryOptions:
    """Options of restoring a job."""

    PATH = optional(
        "execution.state-recovery.path",
        STRING,
        "Checkpoint or savepoint to start from: its directory or its `_metadata`.",
        "execution.savepoint.path",
    )
    CLAIM_MODE = option(
        "execution.state-recovery.claim-mode",
        choice(ClaimMode),
        "NO_CLAIM",
        "Who owns the files that the job starts from: CLAIM: the job, which deletes them once they are subsumed; NO_CLAIM: "
        "the user, and nothing refers to them after the first checkpoint; LEGACY: the user, who must keep them.",
        "execution.savepoint-restore-mode",
    )
    IGNORE_UNCLAIMED = option(
        "execution.state-recovery.ignore-unclaimed-state",
        BOOL,
        "false",
        "Start although the checkpoint holds state of operators that the job lacks.",
        "execution.savepoint.ignore-unclaimed-state",
    )
    FROM_LOCAL = option(
        "execution.state-recovery.from-local",
        BOOL,
        "false",
        "Restore from these copies in the slot where they were made; what is missing or damaged there comes from the checkpoint.",
        "state.backend.local-recovery",
    )
    OLDER_CHECKPOINTS = option(
        "tidegate.state-recovery.older-checkpoints",
        BOOL,
        "false",
        "When the newest completed checkpoint is gone or damaged, go on from the newest whole one of those that are retained "
        "(`execution.checkpointing.num-retained`). Sinks have published what lies between, and publish it a second "
        "time. Without it the job fails, and the message says "
        "what there is to start it from.",
    )
    WITHOUT_CHANNEL_STATE = option(
        "execution.state-recovery.without-channel-state.checkpoint-id",
        INT,
        "-1",
        "Drop the in-flight data of this checkpoint when restoring it; -1: of none.",
        "execution.checkpointing.recover-without-channel-state.checkpoint-id",
        minimum=-1,
    )
