"""The directory of a cluster that ends with the process that started it: made, owned, and removed with it.

    begin ─▶ what killed ones have left is removed ─▶ the cluster runs ─▶ end ─┬─ nothing was retained: all of it is removed
                                                                               └─ else all but `checkpoints/`

A checkpoint that is complete when its cluster is gone stays: its job retained it, or was killed and may go on from it.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from pathlib import Path

import click

from tidegate.aio.homes import home_of
from tidegate.aio.working_directories import Claim, claim, remove_all_but, sweep
from tidegate.cli.cluster_files import CHECKPOINTS, ClusterFiles, clusters_of, remove_unfinished
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ExternalError
from tidegate.wire.manifest import METADATA_FILE

KINDS = ("local-", "demo-")


class EmbeddedFiles:
    """Files of one cluster. ``left_by_others``: checkpoints of runs that were killed, found now."""

    def __init__(self, configuration: Configuration, kind: str = "local") -> None:
        """Raises ``ExternalError`` when no directory can be made."""
        clusters = clusters_of(home_of(configuration))
        self.left_by_others = sweep_embedded(clusters)
        directory = clusters / f"{kind}-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"
        self._files = ClusterFiles(directory, directory / "pid", directory / "log")
        self._claim = _claimed(directory)
        self._files.make()

    @property
    def files(self) -> ClusterFiles:
        return self._files

    @property
    def claim(self) -> Claim:
        """Children that inherit its descriptor keep the directory from being swept."""
        return self._claim

    def end(self, *, keep_logs: bool = False) -> list[Path]:
        """Removes the files once no process uses them, and returns the checkpoints that stay. A second call does
        nothing."""
        directory = self._files.directory
        remove_unfinished(self._files.checkpoints)
        kept = completed_in(self._files.checkpoints)
        if directory.exists():
            names = [CHECKPOINTS] if kept else []
            remove_all_but(directory, [*names, "log"] if keep_logs else names)
        self._claim.release()
        return kept


def sweep_embedded(clusters: Path) -> list[Path]:
    """Remove what clusters of dead processes have left. Returns their checkpoints, which stay."""
    kept: list[Path] = []

    def remove(directory: Path) -> None:
        remove_unfinished(directory / CHECKPOINTS)
        found = completed_in(directory / CHECKPOINTS)
        remove_all_but(directory, [CHECKPOINTS] if found else [])
        kept.extend(found)

    sweep(clusters, KINDS, remove)
    return kept


def tell_kept(checkpoints: Sequence[Path]) -> None:
    """What stays when an embedded cluster has ended."""
    for path in checkpoints:
        click.echo(
            f"checkpoint kept: {path}; `tidegate run -s` continues from it, and removing it is up to you", err=True
        )


def tell_left_by_others(checkpoints: Sequence[Path]) -> None:
    """What a run that was killed has left."""
    for path in checkpoints:
        click.echo(
            f"an earlier run was killed and left checkpoint {path}; `tidegate run -s` continues from it, and removing it is up to you",
            err=True,
        )


def completed_in(checkpoints: Path) -> list[Path]:
    """The directories of complete checkpoints, oldest first."""
    found = [path.parent for path in checkpoints.rglob(METADATA_FILE)]
    return sorted(found, key=lambda path: (path / METADATA_FILE).stat().st_mtime_ns)


def _claimed(directory: Path) -> Claim:
    try:
        return claim(directory)
    except OSError as error:
        raise ExternalError(
            f"cannot make {directory}: {error.strerror}; set tidegate.home to another directory"
        ) from None
