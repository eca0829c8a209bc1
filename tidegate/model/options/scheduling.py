"""How a job changes its parallelism while it runs: Flink's ``jobmanager.adaptive-scheduler``."""

from __future__ import annotations

from tidegate.model.options.option import INT, option


class AdaptiveSchedulerOptions:
    """How a job changes its parallelism while it runs."""

    MAX_CHECKPOINT_FAILURES = option(
        "jobmanager.adaptive-scheduler.rescale-trigger.max-checkpoint-failures",
        INT,
        "2",
        "After so many failed checkpoints a job that waits for one changes its parallelism from the newest that is complete.",
        minimum=1,
    )
