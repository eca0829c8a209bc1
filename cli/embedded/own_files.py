"""The directory of an embedded cluster: created, owned, and removed with the process that started it.

    begin ─▶ what killed ones have left is removed ─▶ the cluster runs ─▶ end ─┬─ nothing was retained: all of it is removed
                                                                               └─ else all but `checkpoints/`

A checkpoint that is complete when its cluster is gone stays: its job retained it, or was killed and may go on from it.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import click

from tidegate.aio.homes import home_of
from tidegate.aio.working_directories import OwnedDirectory, own, remove_all_but, sweep
from tidegate.cli.cluster_files import CHECKPOINTS, ClusterFiles, clusters_of, remove_unfinished
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ExternalError
from tidegate.wire.manifest import METADATA_FILE

KINDS = ("local-", "demo-")


class EmbeddedFiles:
    """The files of one embedded cluster. ``left_by_others``: checkpoints of killed runs, found at start."""

    def __init__(self, configuration: Configuration, kind: str = "local") -> None:
        """Removes what killed runs have left, and creates the directory. Raises ``ExternalError`` when it cannot."""
        clusters = clusters_of(home_of(configuration))
        self.left_by_others = sweep_embedded(clusters)
        directory = clusters / f"{kind}-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"
        self._files = ClusterFiles(directory, directory / "pid", directory / "log")
        self._owned = _owned(directory)
        self._files.make()

    @property
    def files(self) -> ClusterFiles:
        return self._files

    @property
    def owned(self) -> OwnedDirectory:
        """Returns the directory as one that this process owns; children that inherit its descriptor keep it from being removed."""
        return self._owned

    def end(self, *, keep_logs: bool = False) -> list[Path]:
        """Removes the files once no process uses them; returns the checkpoints that stay. Idempotent."""
        directory = self._files.directory
        remove_unfinished(self._files.checkpoints)
        kept = completed_in(self._files.checkpoints)
        if directory.exists():
            names = [CHECKPOINTS] if kept else []
            remove_all_but(directory, [*names, "log"] if keep_logs else names)
        self._owned.release()
        return kept


def sweep_embedded(clusters: Path) -> list[Path]:
    """Removes what clusters of dead processes have left; returns their complete checkpoints, which stay."""
    kept: list[Path] = []

    def remove(directory: Path) -> None:
        remove_unfinished(directory / CHECKPOINTS)
        found = completed_in(directory / CHECKPOINTS)
        remove_all_but(directory, [CHECKPOINTS] if found else [])
        kept.extend(found)

    sweep(clusters, KINDS, remove)
    return kept


def tell_kept(checkpoints: Sequence[Path]) -> None:
    """Prints which checkpoints stay when an embedded cluster has ended."""
    for path in checkpoints:
        click.echo(
            f"checkpoint kept: {path}; `tidegate run -s` continues from it, and removing it is up to you", err=True
        )


def tell_left_by_others(checkpoints: Sequence[Path]) -> None:
    """Prints which checkpoints killed runs have left."""
    for path in checkpoints:
        click.echo(
            f"an earlier run was killed and left checkpoint {path}; `tidegate run -s` continues from it, and removing it is up to you",
            err=True,
        )


def completed_in(checkpoints: Path) -> list[Path]:
    """Returns the directories of complete checkpoints, oldest first. Those that are removed meanwhile are left out."""
    found = []
    for folder, _, names in os.walk(checkpoints):
        if METADATA_FILE in names:
            with suppress(FileNotFoundError):
                found.append((os.stat(os.path.join(folder, METADATA_FILE)).st_mtime_ns, Path(folder)))
    return [path for _, path in sorted(found)]


def _owned(directory: Path) -> OwnedDirectory:
    try:
        return own(directory)
    except OSError as error:
        raise ExternalError(
            f"cannot make {directory}: {error.strerror}; set tidegate.home to another directory"
        ) from None
