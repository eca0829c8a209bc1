"""Locates and checks the files that a manifest names.

Files of one checkpoint are named relative to it, so its directory may be moved. Shared ones are named with their whole
path: where the path is empty because the job's directory was moved as a whole, they are found beside the checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from tidegate.model.checkpoint import CheckpointManifest, OperatorState, StateHandle
from tidegate.model.errors import ON_DAMAGE, CorruptData
from tidegate.model.handles.mapped_handles import map_handles

SHARED_DIRECTORY = "shared"

Sizes = Callable[[str], Mapping[str, int]]
"""Returns the names and sizes of the files in a directory; none when it is missing. Raises ``StorageError``."""


def handles_of(manifest: CheckpointManifest) -> Iterator[tuple[OperatorState, StateHandle]]:
    for operator in manifest.operators:
        for snapshot in operator.subtasks.values():
            for handle in snapshot.handles:
                yield operator, handle


def place_of(handle: StateHandle, location: str) -> str:
    """Returns the path or URI of a handle's file."""
    is_whole = "://" in handle.path or handle.path.startswith("/")
    return handle.path if is_whole else f"{location}/{handle.path}"


def with_moved_files(manifest: CheckpointManifest, location: str, sizes: Sizes) -> CheckpointManifest:
    """Returns the manifest with the current paths of its shared files."""
    shared_directory = f"{location.rpartition('/')[0]}/{SHARED_DIRECTORY}"
    named = {handle.path.rpartition("/")[0] for _, handle in handles_of(manifest) if handle.is_shared}
    if not named - {shared_directory}:
        return manifest
    here, there = sizes(shared_directory), {directory: sizes(directory) for directory in named}

    def found(handle: StateHandle) -> StateHandle:
        directory, _, name = handle.path.rpartition("/")
        if not handle.is_shared or name in there[directory] or (there[directory] and name not in here):
            return handle
        return replace(handle, path=f"{shared_directory}/{name}")

    return map_handles(manifest, found) if here else manifest


def check_sizes(manifest: CheckpointManifest, location: str, sizes: Sizes, kind_of: Callable[[str], str]) -> None:
    """Checks that each file of a manifest exists with its size. Lists each directory once, also that of shared files. Raises ``CorruptData``."""
    listed: dict[str, Mapping[str, int]] = {}
    for operator, handle in handles_of(manifest):
        if not handle.path:
            continue  # inline
        place = place_of(handle, location)
        directory, _, name = place.rpartition("/")
        if directory not in listed:
            listed[directory] = sizes(directory)
        found = listed[directory].get(name)
        if found != handle.size_bytes:
            raise CorruptData(
                f"state file {place} of operator {operator.name!r} is {_wrong(found, handle, kind_of(place))}; "
                f"{ON_DAMAGE}"
            )


def _wrong(size_bytes: int | None, handle: StateHandle, kind: str) -> str:
    if size_bytes is not None:
        what = "cut off: it ends at byte" if size_bytes < handle.size_bytes else "too long: it has bytes up to"
        return f"{what} {size_bytes}, expected {handle.size_bytes} bytes"
    if kind == "missing":
        return f"missing, expected {handle.size_bytes} bytes"
    return f"a {kind}, expected a file of {handle.size_bytes} bytes"
