"""The autoscaler of the Flink Kubernetes operator: keys, units and defaults (Flink: ``AutoScalerOptions``, ``AutoscalerStandaloneOptions``)."""

from __future__ import annotations

from enum import Enum

from tidegate.model.options.option import (
    BOOL,
    DURATION,
    FLOAT,
    INT,
    LIST,
    PORT_MAX,
    STRING,
    choice,
    option,
    optional,
)

_OLD = "kubernetes.operator."
"""The prefix of keys of earlier operators."""


class MetricAggregator(Enum):
    """How the busy times of a vertex's subtasks are aggregated."""

    AVG = "AVG"
    MAX = "MAX"
    MIN = "MIN"


class AlignmentMode(Enum):
    """Flink's ``BuiltInAlignmentMode``."""

    BALANCED = "BALANCED"
    EVENLY_SPREAD = "EVENLY_SPREAD"
    OFF = "OFF"


class AutoScalerOptions:
    """Options of `tidegate autoscale`: the target parallelism, and when it changes. A job's own configuration overrides the command's."""

    ENABLED = option(
        "job.autoscaler.enabled",
        BOOL,
        "false",
        "Whether `tidegate autoscale` looks after a job.",
        f"{_OLD}job.autoscaler.enabled",
    )
    SCALING_ENABLED = option(
        "job.autoscaler.scaling.enabled",
        BOOL,
        "true",
        "false: only say which parallelism would be right.",
        f"{_OLD}job.autoscaler.scaling.enabled",
    )
    METRICS_WINDOW = option(
        "job.autoscaler.metrics.window",
        DURATION,
        "15 min",
        "Metrics are averaged over this time; nothing is decided before it is full.",
        f"{_OLD}job.autoscaler.metrics.window",
        minimum=1,
    )
    STABILIZATION_INTERVAL = option(
        "job.autoscaler.stabilization.interval",
        DURATION,
        "5 min",
        "Metrics of the time after a start do not count.",
        f"{_OLD}job.autoscaler.stabilization.interval",
    )
    UTILIZATION_TARGET = option(
        "job.autoscaler.utilization.target",
        FLOAT,
        "0.7",
        "The part of the time that a subtask is to be busy.",
        "job.autoscaler.target.utilization",
        f"{_OLD}job.autoscaler.utilization.target",
        f"{_OLD}job.autoscaler.target.utilization",
        minimum=0,
        maximum=1,
    )
    UTILIZATION_BOUNDARY = option(
        "job.autoscaler.target.utilization.boundary",
        FLOAT,
        "0.3",
        "So far from the target the utilization may be before anything is changed.",
        f"{_OLD}job.autoscaler.target.utilization.boundary",
        minimum=0,
        maximum=1,
    )
    UTILIZATION_MAX = optional(
        "job.autoscaler.utilization.max",
        FLOAT,
        "Above it there are to be more subtasks; not set: target and boundary.",
        f"{_OLD}job.autoscaler.utilization.max",
        minimum=0,
        maximum=1,
    )
    UTILIZATION_MIN = optional(
        "job.autoscaler.utilization.min",
        FLOAT,
        "Below it there are to be fewer subtasks; not set: target without the boundary.",
        f"{_OLD}job.autoscaler.utilization.min",
        minimum=0,
        maximum=1,
    )
    SCALE_DOWN_INTERVAL = option(
        "job.autoscaler.scale-down.interval",
        DURATION,
        "1 h",
        "There are fewer subtasks only when fewer were right for so long, and then as many as were ever right in that time; 0: at once.",
        "job.autoscaler.scale-up.grace-period",
        f"{_OLD}job.autoscaler.scale-up.grace-period",
        f"{_OLD}job.autoscaler.scale-down.interval",
    )
    MIN_PARALLELISM = option(
        "job.autoscaler.vertex.min-parallelism",
        INT,
        "1",
        "No vertex gets fewer subtasks.",
        f"{_OLD}job.autoscaler.vertex.min-parallelism",
        minimum=1,
    )
    MAX_PARALLELISM = option(
        "job.autoscaler.vertex.max-parallelism",
        INT,
        "200",
        "No vertex gets more subtasks, nor more than its max parallelism.",
        f"{_OLD}job.autoscaler.vertex.max-parallelism",
        minimum=1,
    )
    MAX_SCALE_DOWN_FACTOR = option(
        "job.autoscaler.scale-down.max-factor",
        FLOAT,
        "0.6",
        "The greatest part of the subtasks that is taken away at once; 1: no limit.",
        f"{_OLD}job.autoscaler.scale-down.max-factor",
        minimum=0,
        maximum=1,
    )
    MAX_SCALE_UP_FACTOR = option(
        "job.autoscaler.scale-up.max-factor",
        FLOAT,
        "100000",
        "2: at most three times as many subtasks as before are there after one change.",
        f"{_OLD}job.autoscaler.scale-up.max-factor",
        minimum=0,
    )
    CATCH_UP_DURATION = option(
        "job.autoscaler.catch-up.duration",
        DURATION,
        "30 min",
        "In so long a backlog is to be worked off after a change; 0: backlogs do not count.",
        f"{_OLD}job.autoscaler.catch-up.duration",
    )
    RESTART_TIME = option(
        "job.autoscaler.restart.time",
        DURATION,
        "5 min",
        "How long a change is expected to take, as long as none was seen.",
        f"{_OLD}job.autoscaler.restart.time",
    )
    TRACKS_RESTART_TIME = option(
        "job.autoscaler.restart.time-tracking.enabled",
        BOOL,
        "false",
        "Take the longest change that was seen for the time that the next one takes.",
        f"{_OLD}job.autoscaler.restart.time-tracking.enabled",
    )
    RESTART_TIME_LIMIT = option(
        "job.autoscaler.restart.time-tracking.limit",
        DURATION,
        "15 min",
        "No change counts as longer.",
        f"{_OLD}job.autoscaler.restart.time-tracking.limit",
    )
    BACKLOG_LAG_THRESHOLD = option(
        "job.autoscaler.backlog-processing.lag-threshold",
        DURATION,
        "5 min",
        "A source that is further behind works off a backlog: meanwhile subtasks may be busy all the time, and none are taken away.",
        f"{_OLD}job.autoscaler.backlog-processing.lag-threshold",
    )
    OBSERVED_LAG_THRESHOLD = option(
        "job.autoscaler.observed-true-processing-rate.lag-threshold",
        DURATION,
        "30 s",
        "A source that is further behind reads as fast as it can: that rate is noted.",
        f"{_OLD}job.autoscaler.observed-true-processing-rate.lag-threshold",
    )
    OBSERVED_SWITCH_THRESHOLD = option(
        "job.autoscaler.observed-true-processing-rate.switch-threshold",
        FLOAT,
        "0.15",
        "The rate by busy time gives way to the one that was noted when it is higher by this part.",
        f"{_OLD}job.autoscaler.observed-true-processing-rate.switch-threshold",
        minimum=0,
    )
    OBSERVED_MIN_OBSERVATIONS = option(
        "job.autoscaler.observed-true-processing-rate.min-observations",
        INT,
        "2",
        "So many notes are needed for that.",
        f"{_OLD}job.autoscaler.observed-true-processing-rate.min-observations",
        minimum=1,
    )
    EFFECTIVENESS_DETECTION = option(
        "job.autoscaler.scaling.effectiveness.detection.enabled",
        BOOL,
        "false",
        "Add no more subtasks to a vertex that got no faster with the last ones.",
        f"{_OLD}job.autoscaler.scaling.effectiveness.detection.enabled",
    )
    EFFECTIVENESS_THRESHOLD = option(
        "job.autoscaler.scaling.effectiveness.threshold",
        FLOAT,
        "0.1",
        "The least part of the expected increase with which a vertex did get faster.",
        f"{_OLD}job.autoscaler.scaling.effectiveness.threshold",
    )
    GC_PRESSURE_THRESHOLD = option(
        "job.autoscaler.memory.gc-pressure.threshold",
        FLOAT,
        "1",
        "Nothing is changed while a TaskManager collects garbage for a greater part of the time.",
        f"{_OLD}job.autoscaler.memory.gc-pressure.threshold",
    )
    HEAP_USAGE_THRESHOLD = option(
        "job.autoscaler.memory.heap-usage.threshold",
        FLOAT,
        "1",
        "Nothing is changed while a TaskManager uses a greater part of its heap.",
        f"{_OLD}job.autoscaler.memory.heap-usage.threshold",
    )
    HISTORY_COUNT = option(
        "job.autoscaler.history.max.count",
        INT,
        "3",
        "So many changes of each vertex are remembered.",
        f"{_OLD}job.autoscaler.history.max.count",
        minimum=1,
    )
    HISTORY_AGE = option(
        "job.autoscaler.history.max.age",
        DURATION,
        "24 h",
        "For so long a change is remembered.",
        f"{_OLD}job.autoscaler.history.max.age",
    )
    BUSY_TIME_AGGREGATOR = option(
        "job.autoscaler.metrics.busy-time.aggregator",
        choice(MetricAggregator),
        "MAX",
        "Which of the busy times of a vertex's subtasks counts. MAX: the busiest, as with skewed keys; AVG: all of them; MIN: the least busy.",
        f"{_OLD}job.autoscaler.metrics.busy-time.aggregator",
    )
    EXCLUDED_VERTICES = option(
        "job.autoscaler.vertex.exclude.ids",
        LIST,
        "",
        "Ids of vertices that keep their parallelism.",
        f"{_OLD}job.autoscaler.vertex.exclude.ids",
    )
    EVENT_INTERVAL = option(
        "job.autoscaler.scaling.event.interval",
        DURATION,
        "30 min",
        "The same remark is logged again after so long.",
        f"{_OLD}job.autoscaler.scaling.event.interval",
    )
    CLIENT_TIMEOUT = option(
        "job.autoscaler.flink.rest-client.timeout",
        DURATION,
        "10 s",
        "How long the REST API may take to answer.",
        f"{_OLD}job.autoscaler.flink.rest-client.timeout",
        minimum=1,
    )
    OBSERVED_SCALABILITY = option(
        "job.autoscaler.observed-scalability.enabled",
        BOOL,
        "false",
        "Expect of more subtasks what earlier changes have brought, and not that twice as many are twice as fast.",
        f"{_OLD}job.autoscaler.observed-scalability.enabled",
    )
    SCALABILITY_OBSERVATIONS = option(
        "job.autoscaler.observed-scalability.min-observations",
        INT,
        "3",
        "So many changes have to be remembered for that.",
        f"{_OLD}job.autoscaler.observed-scalability.min-observations",
        minimum=1,
    )
    SCALABILITY_LEAST = option(
        "job.autoscaler.observed-scalability.coefficient-min",
        FLOAT,
        "0.5",
        "The least that is expected, as a part of what as many times the subtasks would bring.",
        f"{_OLD}job.autoscaler.observed-scalability.coefficient-min",
        minimum=0.01,
        maximum=1,
    )
    ALIGNMENT_MODE = option(
        "job.autoscaler.scaling.parallelism-alignment.mode",
        choice(AlignmentMode),
        "BALANCED",
        "Which numbers of subtasks suit key groups and partitions. BALANCED: those with which the busiest subtask has fewer of them; EVENLY_SPREAD: "
        "divisors; OFF: all.",
        f"{_OLD}job.autoscaler.scaling.parallelism-alignment.mode",
    )


class AutoscalerStandaloneOptions:
    """Options of the process that `tidegate autoscale` runs."""

    CONTROL_LOOP_INTERVAL = option(
        "autoscaler.standalone.control-loop.interval",
        DURATION,
        "10 s",
        "How often it looks at the jobs.",
        "scalingInterval",
        minimum=1,
    )
    HOST = optional(
        "autoscaler.standalone.fetcher.flink-cluster.host",
        STRING,
        "The host of the REST API; not set: `rest.address`, or localhost.",
        "flinkClusterHost",
    )
    PORT = optional(
        "autoscaler.standalone.fetcher.flink-cluster.port",
        INT,
        "The port of the REST API; not set: `rest.port`.",
        "flinkClusterPort",
        minimum=1,
        maximum=PORT_MAX,
    )
