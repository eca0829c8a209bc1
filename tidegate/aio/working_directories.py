"""Temporary directories of the processes of this machine.

A process has one directory below the first of ``io.tmp.dirs`` (else ``$TMPDIR``), which it owns and removes at its end. Directories of
killed processes are removed by the next process that starts there (``tidegate.aio.ownership``).
"""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path

from tidegate.aio.ownership import OWNER_FILE, OwnedDirectory, if_dead, make_owned, own, remove_all_but, sweep
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ExternalError
from tidegate.model.options import FileOptions

__all__ = [
    "OWNER_FILE",
    "OwnedDirectory",
    "if_dead",
    "make_below",
    "make_working_directory",
    "own",
    "remove_all_but",
    "sweep",
    "sweep_dead",
    "temporary_root",
]

PREFIX = "tidegate-"
_log = logging.getLogger(__name__)


def temporary_root(configuration: Configuration) -> Path:
    """Returns the first of the configured temporary directories."""
    configured = configuration.get(FileOptions.TMP_DIRS)
    return Path(configured[0]) if configured else Path(tempfile.gettempdir())


def make_working_directory(kind: str, configuration: Configuration) -> OwnedDirectory:
    """Creates the working directory ``tidegate-<kind>-...`` of this process. Raises ``ExternalError``."""
    return make_below(temporary_root(configuration), kind, "io.tmp.dirs, or $TMPDIR")


def make_below(parent: Path, kind: str, option: str) -> OwnedDirectory:
    """Creates a directory below ``parent``, which ``option`` configures; removes those of ended processes first. Raises ``ExternalError``."""
    sweep_dead(parent)
    try:
        parent.mkdir(parents=True, exist_ok=True)
        return make_owned(f"{PREFIX}{kind}-", parent)
    except OSError as error:
        raise ExternalError(f"cannot make a working directory in {parent} ({option}): {error.strerror}") from error


def sweep_dead(parent: Path) -> None:
    """Removes the directories that ended processes have left."""
    for path in sweep(parent, (PREFIX,)):
        _log.info("removed %s, which a process that was killed has left", path)
