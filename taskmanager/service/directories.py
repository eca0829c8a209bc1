"""The directories of a TaskManager on its machine's disk: its working directory, and directories below configured ones.

Each is owned by this process and by its subtasks, and is removed at its end, or by the next TaskManager when this one is killed
(``tidegate.aio.working_directories``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tidegate.aio.working_directories import OwnedDirectory, make_below, make_working_directory
from tidegate.model.configuration import Configuration
from tidegate.model.options import CheckpointingOptions, FileOptions


@dataclass(frozen=True, slots=True)
class Directories:
    """The directories of one TaskManager. ``local``: where copies of state are kept."""

    working: Path
    local: list[Path]
    blobs: Path
    _owned: Sequence[OwnedDirectory]

    @staticmethod
    def make(configuration: Configuration) -> Directories:
        """Makes the directories. Raises ``ExternalError``."""
        option = configuration.get
        working = make_working_directory("tm", configuration)
        backups = CheckpointingOptions.LOCAL_BACKUP_DIRS
        local = [make_below(Path(place), "local", backups.key) for place in option(backups) or ()]
        shared = option(FileOptions.BLOB_DIRECTORY)
        blobs = [] if shared is None else [make_below(Path(shared), "blobs", FileOptions.BLOB_DIRECTORY.key)]
        return Directories(
            working.directory,
            [owned.directory for owned in local] or [working.directory],
            blobs[0].directory if blobs else working.directory / "blobs",
            [working, *local, *blobs],
        )

    @staticmethod
    def below(working: Path) -> Directories:
        """Returns the directories of one TaskManager of several in a process, below the process's working directory."""
        return Directories(working, [working], working / "blobs", [])

    def remove(self) -> None:
        """Removes the directories with all their files."""
        for directory in self._owned:
            directory.remove()
