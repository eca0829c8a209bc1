"""Locates a user's own directory: clusters with their logs and checkpoints, and the key by which their processes authenticate each other."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from tidegate.aio.settings import variable_of
from tidegate.aio.working_directories import temporary_root
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ExternalError
from tidegate.model.options import FileOptions, ReplayOptions


def home_of(configuration: Configuration) -> Path:
    """Returns the directory for a user's clusters: the configured one or ``$TIDEGATE_HOME``, else ``~/.tidegate``; where that is not writable, as for a
    service account, one below the temporary directory. Raises ``ExternalError`` when that belongs to another user."""
    home = Path(configuration.get(FileOptions.HOME))
    if configuration.is_set(FileOptions.HOME):
        return home.expanduser()
    said = os.environ.get(variable_of(FileOptions.HOME.key))  # which a configuration that a program made does not have
    if said:
        return Path(said).expanduser()
    with contextlib.suppress(OSError, RuntimeError):
        home = home.expanduser()
        home.mkdir(parents=True, exist_ok=True)
        own_only(home)
        if os.access(home, os.W_OK):
            return home
    instead = temporary_root(configuration) / f"tidegate-home-{os.geteuid()}"
    with contextlib.suppress(FileExistsError):
        instead.mkdir(mode=0o700)
    if instead.lstat().st_uid != os.geteuid() or not stat.S_ISDIR(instead.lstat().st_mode):
        raise ExternalError(
            f"{instead} is not a directory that belongs to this user; set tidegate.home to one that does"
        )
    return instead


def failures_of(configuration: Configuration) -> Path:
    """Returns the folder of failures that were kept for a replay. Raises as ``home_of``."""
    said = configuration.get(ReplayOptions.DIRECTORY)
    return Path(said).expanduser() if said else home_of(configuration) / "failures"


def classes_of(configuration: Configuration) -> Path | None:
    """Returns the folder of archives of the classes of Spark's JVM; ``None`` where the user has no directory for it."""
    try:
        return home_of(configuration) / "classes"
    except (ExternalError, OSError):
        return None


def own_only(directory: Path) -> None:
    """Makes a directory accessible to this user only, whatever the umask: programs, logs and state in it can hold secrets. Raises ``OSError``."""
    found = directory.stat()
    if found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) != stat.S_IRWXU:
        directory.chmod(stat.S_IRWXU)
