"""Empty files that mark a directory as complete, such as ``_SUCCESS`` (Flink: ``SuccessFileCommitPolicy``)."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.connectors.files.file_system import is_local, resolve, storage_errors, sync_directory


def write_success_files(path: str, name: str, places: Iterable[str]) -> None:
    """Writes an empty file ``name`` to each of these directories, relative to ``path``; existing ones are written again. Raises ``StorageError``."""
    filesystem, root = resolve(path)
    for place in places:
        directory = f"{root}/{place}" if place else root
        with storage_errors("commit", f"{directory}/{name}"):
            filesystem.create_dir(directory, recursive=True)
            with filesystem.open_output_stream(f"{directory}/{name}"):
                pass
            if is_local(filesystem):
                sync_directory(directory)
