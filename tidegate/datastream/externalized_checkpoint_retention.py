"""`ExternalizedCheckpointRetention`: what is kept when a job ends (PyFlink: its module of the same name)."""

from __future__ import annotations

from enum import Enum

__all__ = ["ExternalizedCheckpointRetention"]


class ExternalizedCheckpointRetention(Enum):
    """What is done with a job's latest checkpoint when the job is cancelled (PyFlink: ``ExternalizedCheckpointRetention``). After a failure it is
    always kept."""

    DELETE_ON_CANCELLATION = 0
    RETAIN_ON_CANCELLATION = 1
    NO_EXTERNALIZED_CHECKPOINTS = 2
