"""Options of a job (Flink: `PipelineOptions`, `ExecutionOptions`, `RestartStrategyOptions`)."""

from __future__ import annotations

from enum import Enum

from tidegate.model.keygroups import UPPER_BOUND_MAX_PARALLELISM
from tidegate.model.options.option import BOOL, DURATION, FLOAT, INT, MEMORY_SIZE, STRING, choice, option, optional

INT_MAX = 2**31 - 1
"""The maximum of Flink's options, Java ints."""
_R = "restart-strategy"


class RestartStrategyType(Enum):
    """What the JobManager does after a failure."""

    NONE = "none"
    FIXED_DELAY = "fixed-delay"
    FAILURE_RATE = "failure-rate"
    EXPONENTIAL_DELAY = "exponential-delay"


class RuntimeMode(Enum):
    """How results are emitted; `AUTOMATIC` is `BATCH` when all sources are bounded."""

    STREAMING = "STREAMING"
    BATCH = "BATCH"
    AUTOMATIC = "AUTOMATIC"


class BatchShuffleMode(Enum):
    """How the subtasks of a BATCH job exchange records."""

    ALL_EXCHANGES_BLOCKING = "ALL_EXCHANGES_BLOCKING"
    """A subtask starts when its producers have finished; their output is in Spark's shuffle until then."""
    ALL_EXCHANGES_PIPELINED = "ALL_EXCHANGES_PIPELINED"
    """All subtasks run at the same time, as in STREAMING mode."""


class PipelineOptions:
    """Options of the job's name, parallelism and shape."""

    PARALLELISM = option(
        "parallelism.default",
        INT,
        "1",
        "Parallelism of operators that set none.",
        minimum=1,
        maximum=INT_MAX,
        except_for=(-1,),
    )
    NAME = optional("pipeline.name", STRING, "Name of the job.")
    MAX_PARALLELISM = option(
        "pipeline.max-parallelism",
        INT,
        "-1",
        "Number of key groups, the limit of every later rescale; -1: derived from the parallelism.",
        minimum=1,
        maximum=UPPER_BOUND_MAX_PARALLELISM,
        except_for=(-1,),
    )
    OPERATOR_CHAINING = option(
        "pipeline.operator-chaining.enabled",
        BOOL,
        "true",
        "Run operators that follow one another in one subtask.",
        "pipeline.operator-chaining",
    )
    OBJECT_REUSE = option(
        "pipeline.object-reuse",
        BOOL,
        "false",
        "Hand records from one function to the next, and to all consumers of a stream, as the objects that they are: nothing is copied, and what "
        "a function changes later is changed for the others too.",
    )
    AUTO_WATERMARK_INTERVAL = option(
        "pipeline.auto-watermark-interval", DURATION, "200 ms", "Time between two periodic watermarks; 0: none."
    )
    GLOBAL_JOB_PARAMETERS = optional(
        "pipeline.global-job-parameters", STRING, "Parameters that functions can read: `key:value,key:value`."
    )


class ExecutionOptions:
    """Options of how records are exchanged."""

    RUNTIME_MODE = option(
        "execution.runtime-mode",
        choice(RuntimeMode),
        "STREAMING",
        "`BATCH`, for bounded sources: keyed operators see their input sorted by key, and give their results at its end.",
    )
    BATCH_SHUFFLE_MODE = option(
        "execution.batch-shuffle-mode",
        choice(BatchShuffleMode),
        "ALL_EXCHANGES_BLOCKING",
        "In BATCH mode: whether a subtask waits until those that it reads from have finished, or runs beside them.",
    )
    SHUTDOWN_ON_ATTACHED_EXIT = option(
        "execution.shutdown-on-attached-exit",
        BOOL,
        "false",
        "Ctrl-C at an attached `tidegate run` cancels the job; else it goes on.",
    )
    SORTED_INPUTS_MEMORY = option(
        "execution.sorted-inputs.memory",
        MEMORY_SIZE,
        "128 mb",
        "In BATCH mode: memory in which a keyed operator sorts its input; what exceeds it goes to temporary files.",
        minimum=1,
    )
    BUFFER_TIMEOUT_ENABLED = option(
        "execution.buffer-timeout.enabled", BOOL, "true", "Flush unfilled batches by time; otherwise only when full."
    )
    BUFFER_TIMEOUT = option(
        "execution.buffer-timeout.interval",
        DURATION,
        "5 ms",
        "Longest time that a record waits for its batch to fill; 0: every record at once.",
        "execution.buffer-timeout",
        minimum=0,
        deviation="Flink: 100 ms; a batch here is cheap to flush",
    )
    SINK_COMMITTER_RETRIES = option(
        "sink.committer.retries", INT, "10", "Retries of a failed commit before the task fails.", minimum=0
    )


class RestartStrategyOptions:
    """Options of restarts after a failure."""

    TYPE = optional(
        f"{_R}.type",
        choice(
            RestartStrategyType,
            off=RestartStrategyType.NONE,
            disable=RestartStrategyType.NONE,
        ),
        "The strategy; not set: exponential-delay with checkpointing, none without.",
        _R,
    )
    FIXED_ATTEMPTS = option(
        f"{_R}.fixed-delay.attempts", INT, "1", "Restarts before the job fails.", minimum=0, maximum=INT_MAX
    )
    FIXED_DELAY = option(f"{_R}.fixed-delay.delay", DURATION, "1 s", "Pause before each restart.")
    RATE_MAX_FAILURES = option(
        f"{_R}.failure-rate.max-failures-per-interval",
        INT,
        "1",
        "Failures within the interval that the job survives.",
        minimum=0,
        maximum=INT_MAX,
    )
    RATE_INTERVAL = option(
        f"{_R}.failure-rate.failure-rate-interval",
        DURATION,
        "1 min",
        "The interval in which failures count.",
        minimum=1,
    )
    RATE_DELAY = option(f"{_R}.failure-rate.delay", DURATION, "1 s", "Pause before each restart.")
    EXPONENTIAL_INITIAL = option(
        f"{_R}.exponential-delay.initial-backoff", DURATION, "1 s", "Pause before the first restart.", minimum=1
    )
    EXPONENTIAL_MAX = option(
        f"{_R}.exponential-delay.max-backoff", DURATION, "1 min", "Longest pause before a restart.", minimum=1
    )
    EXPONENTIAL_MULTIPLIER = option(
        f"{_R}.exponential-delay.backoff-multiplier", FLOAT, "1.5", "Growth of the pause with each restart.", minimum=1
    )
    EXPONENTIAL_RESET = option(
        f"{_R}.exponential-delay.reset-backoff-threshold",
        DURATION,
        "1 h",
        "Time without a failure after which the pause is the initial one again.",
        minimum=1,
    )
    EXPONENTIAL_JITTER = option(
        f"{_R}.exponential-delay.jitter-factor",
        FLOAT,
        "0.1",
        "Random part of the pause, in both directions.",
        minimum=0,
        maximum=1,
    )
    EXPONENTIAL_ATTEMPTS = option(
        f"{_R}.exponential-delay.attempts-before-reset-backoff",
        INT,
        str(INT_MAX),
        "Restarts before the job fails, when the pause was not reset in between.",
        minimum=1,
        maximum=INT_MAX,
    )
