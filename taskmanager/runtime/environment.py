"""What a subtask is given besides its deployment: everything of the world that it may touch, as parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from taskmanager.operators.base import Clock
from taskmanager.runtime.clock import SystemClock
from tidegate.model.configuration import Configuration
from tidegate.model.options import CheckpointingOptions, ExecutionOptions

Probe = Callable[[str, dict[str, Any]], None]
"""Called at named points of the protocol, with what is known there. Tests aim kills with it; it is absent in production.

    listening · initialized · barrier-received · before-barrier · barrier-sent · frozen · before-ack · after-ack
    before-commit · during-commit · after-commit · end-of-data
"""


@dataclass(frozen=True, slots=True)
class SubtaskEnvironment:
    """``listen``: ``unix:<directory>`` or the host to bind, for consumers of this subtask's data."""

    listen: str
    temp_dir: str = ""
    managed_memory_bytes: int = 0
    spark_rows: Any = None
    """For ``from_spark``: the iterator of Arrow batches of this subtask's Spark partition."""
    clock: Clock = field(default_factory=SystemClock)
    probe: Probe | None = None


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    """The options that the runtime itself obeys."""

    checkpointing: bool
    exactly_once: bool
    checkpoints_after_tasks_finish: bool
    inline_threshold_bytes: int
    flush_ms: int | None
    """``None``: only full batches leave; 0: after every step."""

    @staticmethod
    def of(texts: Mapping[str, str]) -> RuntimeSettings:
        """Raises ``ConfigurationError``, though the client checked the same texts before."""
        configuration = Configuration.from_strings(texts)
        timed = configuration.get(ExecutionOptions.BUFFER_TIMEOUT_ENABLED)
        return RuntimeSettings(
            checkpointing=configuration.get(CheckpointingOptions.INTERVAL) is not None,
            exactly_once=configuration.get(CheckpointingOptions.MODE).value == "EXACTLY_ONCE",
            checkpoints_after_tasks_finish=configuration.get(CheckpointingOptions.AFTER_TASKS_FINISH),
            inline_threshold_bytes=configuration.get(CheckpointingOptions.INLINE_THRESHOLD),
            flush_ms=configuration.get(ExecutionOptions.BUFFER_TIMEOUT) if timed else None,
        )
