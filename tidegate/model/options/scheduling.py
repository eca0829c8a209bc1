"""Options of the parallelism of running jobs: Flink's ``jobmanager.scheduler`` and ``jobmanager.adaptive-scheduler``."""

from __future__ import annotations

from enum import Enum

from tidegate.model.options.option import DURATION, INT, choice, option, optional


class SchedulerType(Enum):
    """Flink's schedulers."""

    DEFAULT = "Default"
    ADAPTIVE = "Adaptive"
    ADAPTIVE_BATCH = "AdaptiveBatch"


class SchedulerExecutionMode(Enum):
    """Flink's modes of the adaptive scheduler."""

    REACTIVE = "REACTIVE"


class AdaptiveSchedulerOptions:
    """Options of the adaptive scheduler: the parallelism of a running job."""

    SCHEDULER = option(
        "jobmanager.scheduler",
        choice(SchedulerType),
        "Default",
        "Default: a job runs with the parallelism that it was submitted with, and waits for slots. Adaptive: it takes fewer slots where "
        "there are no more, and more when they come, between its bounds. AdaptiveBatch: as Default; bounded jobs take what there is anyway.",
    )
    MODE = optional(
        "scheduler-mode",
        choice(SchedulerExecutionMode),
        "REACTIVE: adaptive, and each job takes all slots that there are, up to its max parallelism.",
    )
    RESOURCE_WAIT_TIMEOUT = option(
        "jobmanager.adaptive-scheduler.submission.resource-wait-timeout",
        DURATION,
        "5 min",
        "How long an adaptive job waits for the slots of its lower bounds.",
        "jobmanager.adaptive-scheduler.resource-wait-timeout",
        minimum=1,
    )
    SUBMISSION_STABILIZATION = option(
        "jobmanager.adaptive-scheduler.submission.resource-stabilization-timeout",
        DURATION,
        "10 s",
        "How long an adaptive job that is not running hopes for the slots of its upper bounds, before it begins with fewer; in reactive mode 0 by default.",
        "jobmanager.adaptive-scheduler.resource-stabilization-timeout",
    )
    COOLDOWN = option(
        "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling",
        DURATION,
        "30 s",
        "For so long an adaptive job keeps a new parallelism.",
        "jobmanager.adaptive-scheduler.scaling-interval.min",
    )
    STABILIZATION = option(
        "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout",
        DURATION,
        "1 min",
        "How long an adaptive job that runs hopes for the slots of its upper bounds, before it takes those that came.",
    )
    MAX_DELAY = option(
        "jobmanager.adaptive-scheduler.rescale-trigger.max-delay",
        DURATION,
        "0 s",
        "For so long a job that is to change its parallelism waits for the next checkpoint that is due; then it takes one.",
        deviation="Flink waits for so many checkpoint intervals as checkpoints may fail, and one more, and then changes the parallelism without a "
        "new checkpoint. Here one is taken at once, so there is nothing to wait for.",
    )
    HISTORY_SIZE = option(
        "web.adaptive-scheduler.rescale-history.size",
        INT,
        "5",
        "So many changes of a job's parallelism are remembered, for REST and the page; 0: none.",
        minimum=0,
        deviation="Flink remembers none. A few cost nothing, and say why a job has the parallelism that it has.",
    )
    MAX_CHECKPOINT_FAILURES = option(
        "jobmanager.adaptive-scheduler.rescale-trigger.max-checkpoint-failures",
        INT,
        "2",
        "After so many failed checkpoints a job that waits for one changes its parallelism from the newest that is complete.",
        minimum=1,
    )


class SlotOptions:
    """Options of slots: how long the JobManager waits for them, and keeps unused ones."""

    REQUEST_TIMEOUT = option(
        "slot.request.timeout", DURATION, "5 min", "A job that waits longer fails with NoResourceAvailable.", minimum=1
    )
    IDLE_TIMEOUT = option(
        "slot.idle.timeout", DURATION, "50 s", "A slot that a job does not use is given back.", minimum=1
    )
