"""The command line of a TaskManager that the JobManager starts: this interpreter, this package, and a file with this configuration."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from tidegate.model.configuration import Configuration
from tidegate.model.ids import TaskManagerId
from tidegate.model.options import (
    HighAvailabilityOptions,
    HighAvailabilityType,
    JobManagerOptions,
    ResourceManagerOptions,
    RestOptions,
    TaskManagerOptions,
    options_of,
)

_OF_ONE_PROCESS = {
    option.key
    for group in (JobManagerOptions, RestOptions, ResourceManagerOptions)
    for option in options_of(group)
    if option.key.startswith(("jobmanager.", "rest.", "tidegate.resourcemanager.", "resourcemanager.", "slotmanager."))
} | {TaskManagerOptions.RESOURCE_ID.key, TaskManagerOptions.RPC_PORT.key, TaskManagerOptions.NUM_SLOTS.key}
"""Options that concern the JobManager alone, or that two TaskManagers of one machine cannot share."""
_AT_HOME = (HighAvailabilityType.NONE, HighAvailabilityType.FILESYSTEM)
"""Types of high availability with which the JobManager's address is fixed, so that it is passed to TaskManagers."""


class TaskManagerCommandLine:
    """Builds command lines of TaskManagers. Their configuration is in a file that only this user can read, unlike a command line."""

    def __init__(self, configuration: Configuration, directory: Path, files: Mapping[str, Path] | None = None) -> None:
        """Writes the configuration file. ``files``: directories of ``pid`` and ``log`` files; without it there are none. Raises ``OSError``."""
        self.address = ""
        self._files = files or {}
        self._has_address = configuration.get(HighAvailabilityOptions.TYPE) in _AT_HOME
        self._file = directory / "taskmanager.json"
        texts = {key: text for key, text in configuration.to_strings().items() if key not in _OF_ONE_PROCESS}
        descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(texts, file)  # which is YAML

    def __call__(self, worker_id: TaskManagerId, slots: int) -> list[str]:
        """Returns the command line of one TaskManager. ``address`` must be set before."""
        words = [
            sys.executable,
            "-P",
            "-m",
            "tidegate.cli.main",
            "taskmanager",
            f"--config={self._file}",
            f"--slots={slots}",
        ]
        words.append(f"-D{TaskManagerOptions.RESOURCE_ID.key}={worker_id}")
        if self._has_address:
            words.append(f"--jobmanager={self.address}")
        if self._files:
            words.append(f"--log-file={self._files['log'] / f'taskmanager-{worker_id}.log'}")
            words.append(f"--pid-file={self._files['pid'] / f'taskmanager-{worker_id}.pid'}")
        return words
