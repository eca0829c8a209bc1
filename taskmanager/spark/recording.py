"""Sets up the recording of a subtask for replays, if its job enables that."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from pathlib import Path

from tidegate.model.configuration import Configuration
from tidegate.model.deployment import TaskDeployment
from tidegate.model.options import ReplayOptions
from tidegate.taskmanager.recording.failures import FailureKeeper
from tidegate.taskmanager.recording.recorder import Recorder


def open_failures(
    deployment: TaskDeployment,
    program: bytes,
    fetch: Callable[[str], bytes],
    directory: Path,
    failures: str,
    *,
    is_stored: bool,
) -> FailureKeeper | None:
    """Returns the keeper of the attempt's failures; ``None`` if the job does not enable it, or there is no directory for failures.

    ``directory``: of the subtask. ``failures``: directory of kept failures if the job sets none. ``is_stored``: the job runs in BATCH mode, which is not
    recorded.
    """
    configuration = Configuration.from_strings(deployment.configuration)
    if is_stored or not configuration.get(ReplayOptions.ENABLED):
        return None
    place = configuration.get(ReplayOptions.DIRECTORY) or failures
    if not place:
        return None
    most_bytes = configuration.get(ReplayOptions.MAX_SIZE)
    return FailureKeeper(
        Recorder(directory / "recording", most_bytes),
        deployment,
        program,
        {key: fetch(key) for key in deployment.blobs.values()},
        Path(place).expanduser(),
        configuration.get(ReplayOptions.RETAINED),
        platform.python_version(),
        os.environ.get("PYTHONHASHSEED", "random"),
        most_bytes,
    )
