"""All options, each declared once: Flink's key, type, unit, default, bounds and one line of documentation.

    from tidegate.model.options import CheckpointingOptions
    timeout_ms = configuration.get(CheckpointingOptions.TIMEOUT)

To add one, write it into the class of its group; parsing, checks, environment variable, `docs/configuration.md` and `--help`
follow. The groups have the names of Flink's option classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from tidegate.model.options.autoscaler import (
    AlignmentMode,
    AutoScalerOptions,
    AutoscalerStandaloneOptions,
    MetricAggregator,
)
from tidegate.model.options.checkpointing import (
    CheckpointingOptions,
    CheckpointRetention,
    CheckpointStorageKind,
    ClaimMode,
    StateBackendKind,
    StateOptions,
    StateRecoveryOptions,
)
from tidegate.model.options.cluster import (
    ClusterOptions,
    FailoverStrategy,
    FileOptions,
    HeartbeatOptions,
    JobManagerOptions,
    LogFormat,
    LogLevel,
    RestOptions,
    TaskManagerOptions,
    TaskOptions,
)
from tidegate.model.options.high_availability import HighAvailabilityOptions, HighAvailabilityType
from tidegate.model.options.job import ExecutionOptions, PipelineOptions, RestartStrategyOptions, RestartStrategyType
from tidegate.model.options.option import ConfigOption, DeclaredOption, Kind, ValueType
from tidegate.model.options.own import ReplayOptions, RuntimeOptions, ShownRecord, SparkOptions, WarmClusterOptions
from tidegate.model.options.python import PythonOptions
from tidegate.model.options.queryable_state import QueryableStateOptions
from tidegate.model.options.reporters import MetricOptions, SpanDetail, TraceOptions
from tidegate.model.options.resource_manager import ResourceManagerDriver, ResourceManagerOptions
from tidegate.model.options.rocksdb import RocksDBOptions
from tidegate.model.options.scheduling import (
    AdaptiveSchedulerOptions,
    SchedulerExecutionMode,
    SchedulerType,
    SlotOptions,
)
from tidegate.model.options.security import SecurityOptions
from tidegate.model.options.table import TableOptions
from tidegate.model.options.web import HistoryOptions, WebOptions

__all__ = [
    "GROUPS",
    "AdaptiveSchedulerOptions",
    "AlignmentMode",
    "AutoScalerOptions",
    "AutoscalerStandaloneOptions",
    "CheckpointRetention",
    "CheckpointStorageKind",
    "CheckpointingOptions",
    "ClaimMode",
    "ClusterOptions",
    "ConfigOption",
    "ExecutionOptions",
    "FailoverStrategy",
    "FileOptions",
    "HeartbeatOptions",
    "HighAvailabilityOptions",
    "HighAvailabilityType",
    "HistoryOptions",
    "JobManagerOptions",
    "Kind",
    "LogFormat",
    "LogLevel",
    "MetricAggregator",
    "MetricOptions",
    "PipelineOptions",
    "PythonOptions",
    "QueryableStateOptions",
    "ReplayOptions",
    "ResourceManagerDriver",
    "ResourceManagerOptions",
    "RestOptions",
    "RestartStrategyOptions",
    "RestartStrategyType",
    "RocksDBOptions",
    "RuntimeOptions",
    "SchedulerExecutionMode",
    "SchedulerType",
    "SecurityOptions",
    "ShownRecord",
    "SlotOptions",
    "SpanDetail",
    "SparkOptions",
    "StateBackendKind",
    "StateOptions",
    "StateRecoveryOptions",
    "TableOptions",
    "TaskManagerOptions",
    "TaskOptions",
    "TraceOptions",
    "ValueType",
    "WarmClusterOptions",
    "WebOptions",
    "declared",
    "is_of_a_job",
    "options_of",
]

GROUPS: tuple[type, ...] = (
    CheckpointingOptions,
    StateOptions,
    RocksDBOptions,
    StateRecoveryOptions,
    RestartStrategyOptions,
    PipelineOptions,
    ExecutionOptions,
    PythonOptions,
    TableOptions,
    JobManagerOptions,
    AdaptiveSchedulerOptions,
    RestOptions,
    WebOptions,
    HistoryOptions,
    SecurityOptions,
    TaskManagerOptions,
    HeartbeatOptions,
    HighAvailabilityOptions,
    ResourceManagerOptions,
    ClusterOptions,
    SlotOptions,
    TaskOptions,
    FileOptions,
    QueryableStateOptions,
    MetricOptions,
    TraceOptions,
    AutoScalerOptions,
    AutoscalerStandaloneOptions,
    SparkOptions,
    WarmClusterOptions,
    ReplayOptions,
    RuntimeOptions,
)
"""The option groups, in the order of the reference page."""


_OF_A_JOB: tuple[type, ...] = GROUPS[: GROUPS.index(JobManagerOptions)]


@cache
def options_of(group: type) -> tuple[DeclaredOption, ...]:
    """Returns the options of a group, in the order of their declaration."""
    return tuple(value for value in vars(group).values() if isinstance(value, ConfigOption))


@cache
def declared() -> Mapping[str, DeclaredOption]:
    """Returns all options by key, in the order of the reference page."""
    return MappingProxyType({option.key: option for group in GROUPS for option in options_of(group)})


@cache
def is_of_a_job(key: str) -> bool:
    """Returns whether processes of a cluster read an option from the job's configuration only, which overrides theirs. Some other options apply to jobs
    as well, but processes read those for themselves, too."""
    backups = CheckpointingOptions.LOCAL_BACKUP_DIRS
    return key != backups.key and any(key == option.key for group in _OF_A_JOB for option in options_of(group))
