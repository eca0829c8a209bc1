"""Loads the program of a kept failure after verifying the signature of the client that built it.

folder is the user's alone ─▶ program and files are those that the deployment names ─▶ signed by a key of this user ─▶ unpickled
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from tidegate.model.errors import CorruptData, InvalidJob
from tidegate.model.ids import BlobKey
from tidegate.model.program import VertexProgram
from tidegate.security.signing import SignedVertex, Signing
from tidegate.taskmanager.recording.failures import (
    PROGRAM,
    Failure,
    list_failures,
    read_content,
    read_deployment,
    read_failure,
)
from tidegate.taskmanager.recording.segment_files import OTHERS
from tidegate.taskmanager.spark.user_code import load_program, place_files


def find_failure(place: Path, said: str) -> Failure:
    """Returns the failure that ``said`` names: the path of its folder, its id in ``place``, or a unique prefix of the id. Raises ``InvalidJob`` when there is
    none or several, and the errors of ``read_failure``.
    """
    if "/" in said or (Path(said) / "failure.json").is_file():
        return read_failure(Path(said).expanduser())
    if (place / said).is_dir():
        return read_failure(place / said)
    found = [failure for failure in list_failures(place) if failure.failure_id.startswith(said)]
    if len(found) == 1:
        return found[0]
    known = "no failure" if not found else f"{len(found)} failures"
    raise InvalidJob(f"{place} holds {known} whose id begins with {said!r}; `tidegate replay` lists them")


def open_program(failure: Failure, signing: Signing | None, directory: Path) -> VertexProgram:
    """Returns the program of a failure, whose files are written below ``directory`` and made importable.

    ``signing``: verifies the signature first; ``None``: programs of this user's clusters are not signed. Raises ``NotSigned``, ``CorruptData``, and the errors
    of ``load_program``.
    """
    deployment = read_deployment(failure)
    content = read_content(failure, PROGRAM)
    _check(failure, PROGRAM, content, deployment.program)
    contents = {}
    for key in deployment.blobs.values():
        contents[key] = read_content(failure, "files", Path(key).name)
        _check(failure, f"files/{key}", contents[key], key)
    if signing is not None:
        attempt = deployment.attempt
        signing.check_vertex(
            deployment.signature,
            SignedVertex(
                attempt.job_id,
                attempt.vertex_id,
                deployment.task_name,
                deployment.program,
                deployment.spark_query,
                deployment.blobs,
            ),
        )
    place_files(deployment.blobs, directory / "files", lambda key: contents[BlobKey(key)])
    return load_program(content, deployment.task_name)


def _check(failure: Failure, name: str, content: bytes, key: str) -> None:
    if hashlib.sha256(content).hexdigest() != key:
        raise CorruptData(
            f"{failure.folder / name}: this is not the file that the failed subtask ran; it was altered or damaged; {OTHERS}"
        )
