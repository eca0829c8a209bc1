"""What a JobManager says when it starts."""

from __future__ import annotations

import logging
import os

from tidegate.aio.settings import warnings_of_environment
from tidegate.model.configuration import Configuration
from tidegate.model.options import CheckpointingOptions
from tidegate.wire.versions import PYTHON_VERSION, VERSION

_log = logging.getLogger("jobmanager")

NOTHING_SURVIVES = (
    "execution.checkpointing.dir is not set: checkpoints of jobs that set none are kept in this process's memory; they do not survive it, "
    "no job can start from them, and they fail when a state of a subtask exceeds 5 MiB"
)


def announce(configuration: Configuration) -> None:
    """Its version; settings without effect, old names, and what will not survive this process."""
    _log.info("JobManager %s on Python %s, pid %d", VERSION, PYTHON_VERSION, os.getpid())
    for warning in (*configuration.warnings(), *warnings_of_environment()):
        _log.warning("configuration: %s", warning)
    if configuration.get(CheckpointingOptions.DIRECTORY) is None:
        _log.warning("%s", NOTHING_SURVIVES)
