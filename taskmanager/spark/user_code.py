"""Loads user code in a subtask's process: the files that the job ships, then the pickled program.

The directory of the files is first on ``sys.path``, as the job file's directory is for ``python job.py``, so that a job may ship a ``cli.py`` or a
``jobmanager.py``. Our own packages are imported before and are found without ``sys.path``.
"""

from __future__ import annotations

import importlib
import pickle
import sys
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath

from tidegate.model.errors import InvalidJob, UserFunctionError
from tidegate.model.ids import BlobKey
from tidegate.model.program import VertexProgram
from tidegate.records.pickling import loads
from tidegate.taskmanager.spark.dependencies import use_archives, use_requirements

FetchBlob = Callable[[str], bytes]
_BROUGHT = ("python-archives/", "python-requirements/")
_ARCHIVES = (".zip", ".whl", ".egg")


def place_files(
    blobs: Mapping[str, BlobKey], directory: Path, fetch: FetchBlob, requirements: Path | None = None
) -> None:
    """Writes the job's files below ``directory``, makes its modules importable, installs its requirements and unpacks its archives.

    ``requirements``: where they are installed; default: beside the files. Raises ``InvalidJob`` for a file name that leads out of ``directory``.
    """
    if not blobs:
        return
    for name in blobs:
        place = PurePosixPath(name)
        if place.is_absolute() or ".." in place.parts or not place.parts:
            raise InvalidJob(f"the job ships a file as {name!r}; names must stay inside the job's directory")
    brought = {name: fetch(key) for name, key in blobs.items() if name.startswith(_BROUGHT)}
    use_requirements(brought, requirements or directory / "requirements")
    use_archives(brought, directory / "archives")
    archives = []
    for name, key in blobs.items():
        if name.startswith(_BROUGHT):
            continue
        place = PurePosixPath(name)
        target = directory.joinpath(*place.parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(fetch(key))
        if target.suffix in _ARCHIVES:
            archives.append(str(target))
    sys.path[:0] = [str(directory), *archives]
    importlib.invalidate_caches()


def load_program(content: bytes, task_name: str) -> VertexProgram:
    """Returns the unpickled program of a vertex. Raises ``InvalidJob`` that names a missing module or a wrong type, ``UserFunctionError`` for any other
    failure.
    """
    try:
        program = loads(content)
    except ModuleNotFoundError as error:
        raise InvalidJob(
            f"{task_name}: module {error.name!r}, which the job uses, cannot be imported where it runs; "
            "install it there, or ship it with env.add_python_file(...)"
        ) from error
    except Exception as error:
        raise UserFunctionError(
            f"{task_name}: its program cannot be unpickled: {type(error).__name__}: {error}",
            details="" if isinstance(error, pickle.UnpicklingError) else repr(error),
        ) from error
    if not isinstance(program, VertexProgram):
        raise InvalidJob(
            f"{task_name}: its program is a {type(program).__name__}, not a VertexProgram; submit the job with the tidegate version of the cluster"
        )
    return program
