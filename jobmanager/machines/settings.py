"""The options that the JobManager's machines obey, read once: those of the cluster at start, those of a job at submission.

The only file of this package that knows option keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.model.configuration import Configuration
from tidegate.model.graph import CheckpointingMode, blocks_exchanges
from tidegate.model.options import (
    AdaptiveSchedulerOptions,
    CheckpointingOptions,
    CheckpointRetention,
    FailoverStrategy,
    HeartbeatOptions,
    JobManagerOptions,
    ResourceManagerDriver,
    ResourceManagerOptions,
    RestartStrategyOptions,
    RestartStrategyType,
    RuntimeOptions,
    SchedulerExecutionMode,
    SchedulerType,
    SlotOptions,
    StateRecoveryOptions,
    TaskManagerOptions,
)

_EXECUTOR_CORES, _CORES_MAX = "spark.executor.cores", "spark.cores.max"
_LOAD_BALANCE_KEY = "taskmanager.load-balance.mode"


@dataclass(frozen=True, slots=True)
class SupplySettings:
    """How TaskManagers are started and stopped. ``slots``: of each TaskManager; ``family``: the prefix of their ids."""

    slots: int = 1
    min_slots: int = 0
    max_slots: int = 2**31 - 1
    max_slots_reason: str = "slotmanager.number-of-slots.max allows fewer"
    redundant: int = 0
    check_delay_ms: int = 50
    idle_timeout_ms: int = 30_000
    max_failures_per_minute: float = 10.0
    retry_interval_ms: int = 3_000
    registration_timeout_ms: int = 300_000
    recovery_timeout_ms: int = 60_000
    expected_slots: int = 0
    """The number of slots of TaskManagers that are being started by hand."""
    family: str = "worker-"


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """The settings of the cluster that machines read."""

    heartbeat_timeout_ms: int = 50_000
    reconnect_timeout_ms: int = 5_000
    """How long a TaskManager whose connection broke may take to reconnect before it is lost; 0: it is lost at once."""
    spread_out: bool = False
    """``taskmanager.load-balance.mode: SLOTS``: slots of the least used TaskManager are taken first."""
    workers: SupplySettings | None = None
    """How TaskManagers are started; ``None``: they are started by hand."""


@dataclass(frozen=True, slots=True)
class CheckpointSettings:
    """The checkpoint options of a job. ``interval_ms``: ``None`` when there are no periodic checkpoints."""

    interval_ms: int | None = None
    interval_during_backlog_ms: int | None = None
    """The interval while a source processes a backlog; ``None``: ``interval_ms``; 0: no checkpoint is triggered."""
    timeout_ms: int = 600_000
    min_pause_ms: int = 0
    max_concurrent: int = 1
    tolerable_failures: int = 0
    mode: CheckpointingMode = CheckpointingMode.EXACTLY_ONCE
    after_tasks_finish: bool = True
    num_retained: int = 1
    retention: CheckpointRetention = CheckpointRetention.NONE
    history: int = 10
    unaligned: bool = False
    """Whether checkpoints are unaligned. Only with exactly-once: at-least-once never blocks a channel."""
    aligned_timeout_ms: int = 0
    incremental: bool = False
    restores_older: bool = False
    """``tidegate.state-recovery.older-checkpoints``: whether an older checkpoint is restored when the newest completed one is missing or damaged."""
    drop_channels_of: int = -1
    """``execution.state-recovery.without-channel-state.checkpoint-id``: the checkpoint that is restored without in-flight data; -1: none."""


@dataclass(frozen=True, slots=True)
class RestartSettings:
    """The settings of a job's restart strategy."""

    strategy: RestartStrategyType
    fixed_attempts: int = 1
    fixed_delay_ms: int = 1_000
    rate_max_failures: int = 1
    rate_interval_ms: int = 60_000
    rate_delay_ms: int = 1_000
    initial_backoff_ms: int = 1_000
    max_backoff_ms: int = 60_000
    backoff_multiplier: float = 1.5
    reset_threshold_ms: int = 3_600_000
    jitter_factor: float = 0.1
    attempts_before_reset: int = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ElasticSettings:
    """How a job changes its parallelism while it runs. ``is_reactive``: it uses all slots of the cluster."""

    is_adaptive: bool = False
    is_reactive: bool = False
    max_failed_checkpoints: int = 2
    """How many checkpoints may fail before the job rescales without a new one."""
    max_delay_ms: int = 0
    """How long a rescale waits for a checkpoint that is due anyway before it triggers one."""
    submission_stabilization_ms: int = 10_000
    """How long a new job waits for its desired slots before it starts with fewer."""
    stabilization_ms: int = 60_000
    """How long a running job waits for more slots before it uses those that have come."""
    cooldown_ms: int = 30_000
    """The minimum time between two rescales."""
    history_size: int = 5
    """The number of rescales that are kept in the history."""


@dataclass(frozen=True, slots=True)
class JobSettings:
    """The settings of one job that machines read."""

    checkpoints: CheckpointSettings
    restart: RestartSettings
    slot_request_timeout_ms: int = 300_000
    slot_idle_timeout_ms: int = 50_000
    regional_failover: bool = True
    attempts_history: int = 16
    elastic: ElasticSettings = ElasticSettings()
    adoption_timeout_ms: int = 0
    """How long a job of an earlier JobManager waits for reports of its running subtasks; 0: it is restarted at once."""


def cluster_settings(texts: Mapping[str, str]) -> ClusterSettings:
    """Reads the cluster's options. Raises ``ConfigurationError``, which lists every problem."""
    configuration = Configuration.from_strings(texts)
    return ClusterSettings(
        heartbeat_timeout_ms=configuration.get(HeartbeatOptions.TIMEOUT),
        reconnect_timeout_ms=configuration.get(RuntimeOptions.RECONNECT_TIMEOUT),
        spread_out=configuration.to_strings().get(_LOAD_BALANCE_KEY, "NONE").upper() == "SLOTS",
        workers=_worker_settings(configuration),
    )


def _worker_settings(configuration: Configuration) -> SupplySettings | None:
    options = ResourceManagerOptions
    driver = configuration.get(options.DRIVER)
    if driver is ResourceManagerDriver.NONE:
        return None
    slots, max_slots = configuration.get(TaskManagerOptions.NUM_SLOTS), configuration.get(options.MAX_SLOTS)
    reason = f"{options.MAX_SLOTS.key} is {max_slots}"
    processes = configuration.get(options.MAX_TASK_MANAGERS)
    if driver is ResourceManagerDriver.PROCESS and processes is not None and processes * slots < max_slots:
        max_slots = processes * slots
        reason = (
            f"this machine runs at most {processes} TaskManagers ({options.MAX_TASK_MANAGERS.key}) of {slots} slots "
            f"({TaskManagerOptions.NUM_SLOTS.key})"
        )
    spark = configuration.spark_properties()
    cores, most = spark.get(_EXECUTOR_CORES, ""), spark.get(_CORES_MAX, "")
    if driver is ResourceManagerDriver.SPARK and cores.isdigit() and most.isdigit() and int(cores) > 0:
        executors = int(most) // int(cores)
        if executors * slots < max_slots:
            max_slots = executors * slots
            reason = (
                f"{_CORES_MAX} is {most}: at most {executors} executors of {cores} cores ({_EXECUTOR_CORES}), each with {slots} slots "
                f"({TaskManagerOptions.NUM_SLOTS.key})"
            )
    return SupplySettings(
        slots=slots,
        min_slots=configuration.get(options.MIN_SLOTS),
        max_slots=max_slots,
        max_slots_reason=reason,
        redundant=configuration.get(options.REDUNDANT),
        check_delay_ms=configuration.get(options.CHECK_DELAY),
        idle_timeout_ms=configuration.get(options.IDLE_TIMEOUT),
        max_failures_per_minute=configuration.get(options.MAX_FAILURE_RATE),
        retry_interval_ms=configuration.get(options.RETRY_INTERVAL),
        registration_timeout_ms=configuration.get(options.REGISTRATION_TIMEOUT),
        recovery_timeout_ms=configuration.get(options.RECOVERY_TIMEOUT),
        expected_slots=configuration.get(options.EXPECTED_SLOTS),
    )


def job_settings(texts: Mapping[str, str]) -> JobSettings:
    """Reads a job's options. Raises ``ConfigurationError``, which lists every problem."""
    configuration = Configuration.from_strings(texts)
    checkpoints = _checkpoint_settings(configuration)
    is_adopted = configuration.get(RuntimeOptions.LOSS_GRACE) > 0 and not blocks_exchanges(texts)
    elastic = _elastic_settings(configuration, blocks=blocks_exchanges(texts))
    slot_timeout = (
        AdaptiveSchedulerOptions.RESOURCE_WAIT_TIMEOUT if elastic.is_adaptive else SlotOptions.REQUEST_TIMEOUT
    )
    return JobSettings(
        checkpoints=checkpoints,
        restart=_restart_settings(configuration, checkpoints.interval_ms is not None),
        slot_request_timeout_ms=configuration.get(slot_timeout),
        slot_idle_timeout_ms=configuration.get(SlotOptions.IDLE_TIMEOUT),
        regional_failover=configuration.get(JobManagerOptions.FAILOVER_STRATEGY) is FailoverStrategy.REGION,
        attempts_history=configuration.get(JobManagerOptions.ATTEMPTS_HISTORY),
        elastic=elastic,
        adoption_timeout_ms=configuration.get(RuntimeOptions.ADOPTION_TIMEOUT) if is_adopted else 0,
    )


def _elastic_settings(configuration: Configuration, *, blocks: bool) -> ElasticSettings:
    """Reads the options of the adaptive scheduler. A job with blocking exchanges (``blocks``) is never adaptive: it uses the available slots
    anyway.
    """
    options = AdaptiveSchedulerOptions
    is_reactive = configuration.get(options.MODE) is SchedulerExecutionMode.REACTIVE and not blocks
    is_adaptive = configuration.get(options.SCHEDULER) is SchedulerType.ADAPTIVE and not blocks
    says = configuration.is_set(options.SUBMISSION_STABILIZATION)
    return ElasticSettings(
        is_adaptive=is_adaptive or is_reactive,
        is_reactive=is_reactive,
        max_failed_checkpoints=configuration.get(options.MAX_CHECKPOINT_FAILURES),
        max_delay_ms=configuration.get(options.MAX_DELAY),
        submission_stabilization_ms=configuration.get(options.SUBMISSION_STABILIZATION)
        if says or not is_reactive
        else 0,
        stabilization_ms=configuration.get(options.STABILIZATION),
        cooldown_ms=configuration.get(options.COOLDOWN),
        history_size=configuration.get(options.HISTORY_SIZE),
    )


def _checkpoint_settings(configuration: Configuration) -> CheckpointSettings:
    interval_ms = configuration.get(CheckpointingOptions.INTERVAL)
    min_pause_ms = configuration.get(CheckpointingOptions.MIN_PAUSE)
    mode = configuration.get(CheckpointingOptions.MODE)
    return CheckpointSettings(
        interval_ms=None if interval_ms is None else max(interval_ms, min_pause_ms),
        interval_during_backlog_ms=configuration.get(CheckpointingOptions.INTERVAL_DURING_BACKLOG),
        timeout_ms=configuration.get(CheckpointingOptions.TIMEOUT),
        min_pause_ms=min_pause_ms,
        max_concurrent=configuration.get(CheckpointingOptions.MAX_CONCURRENT),
        tolerable_failures=configuration.get(CheckpointingOptions.TOLERABLE_FAILED),
        mode=mode,
        after_tasks_finish=configuration.get(CheckpointingOptions.AFTER_TASKS_FINISH),
        num_retained=configuration.get(CheckpointingOptions.NUM_RETAINED),
        retention=configuration.get(CheckpointingOptions.RETENTION),
        history=configuration.get(CheckpointingOptions.HISTORY),
        unaligned=configuration.get(CheckpointingOptions.UNALIGNED) and mode is CheckpointingMode.EXACTLY_ONCE,
        aligned_timeout_ms=configuration.get(CheckpointingOptions.ALIGNED_TIMEOUT),
        incremental=configuration.get(CheckpointingOptions.INCREMENTAL),
        restores_older=configuration.get(StateRecoveryOptions.OLDER_CHECKPOINTS),
        drop_channels_of=configuration.get(StateRecoveryOptions.WITHOUT_CHANNEL_STATE),
    )


def _restart_settings(configuration: Configuration, checkpointing: bool) -> RestartSettings:
    options = RestartStrategyOptions
    default = RestartStrategyType.EXPONENTIAL_DELAY if checkpointing else RestartStrategyType.NONE
    return RestartSettings(
        strategy=configuration.get(options.TYPE) or default,
        fixed_attempts=configuration.get(options.FIXED_ATTEMPTS),
        fixed_delay_ms=configuration.get(options.FIXED_DELAY),
        rate_max_failures=configuration.get(options.RATE_MAX_FAILURES),
        rate_interval_ms=configuration.get(options.RATE_INTERVAL),
        rate_delay_ms=configuration.get(options.RATE_DELAY),
        initial_backoff_ms=configuration.get(options.EXPONENTIAL_INITIAL),
        max_backoff_ms=configuration.get(options.EXPONENTIAL_MAX),
        backoff_multiplier=configuration.get(options.EXPONENTIAL_MULTIPLIER),
        reset_threshold_ms=configuration.get(options.EXPONENTIAL_RESET),
        jitter_factor=configuration.get(options.EXPONENTIAL_JITTER),
        attempts_before_reset=configuration.get(options.EXPONENTIAL_ATTEMPTS),
    )
