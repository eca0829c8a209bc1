"""The folder of a kept failure: it contains everything that a replay of the failed subtask needs.

    <id>/failure.json       what failed: job, vertex, subtask, exception, and which files belong to it
         deployment         the attempt's deployment, with the state of the checkpoint that the recording follows; without secrets
         program            the pickled program of the vertex, whose signature is in the deployment
         segments/ state/ files/    the recording, the state of that checkpoint, and files of the job

Only its user can read it. A folder appears whole: it is made under another name, and renamed at the end.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import xxhash

from tidegate.model.checkpoint import RestoredOperator, StateHandle, SubtaskSnapshot, TaskRestore
from tidegate.model.deployment import TaskDeployment
from tidegate.model.errors import CorruptData, CorruptFrame, ErrorInfo, InvalidJob, NotPermitted
from tidegate.model.ids import CheckpointId, OperatorId
from tidegate.model.masking import SECRETS, is_sensitive
from tidegate.model.values import JsonObject
from tidegate.taskmanager.recording.recorder import Recorder
from tidegate.taskmanager.recording.segment_files import OTHERS
from tidegate.wire.convert_deployment import deployment_from_bytes, deployment_to_bytes

VERSION = 1
DOCUMENT, DEPLOYMENT, PROGRAM = "failure.json", "deployment", "program"
_UNFINISHED = ".unfinished-"
ReadState = Callable[[str, StateHandle], memoryview]
"""Reads a state file: takes the location of the checkpoint and a handle, and returns the content."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A kept failure. ``folder``: its directory; the other fields are those of ``failure.json``."""

    folder: Path
    failure_id: str
    job_id: str
    job_name: str
    vertex_id: str
    task_name: str
    subtask: int
    parallelism: int
    attempt: int
    failed_ms: int
    checkpoint_id: int
    location: str
    """Location of that checkpoint; empty if there was none."""
    message: str
    details: str
    code: str
    python: str
    hash_seed: str
    segments: tuple[str, ...]
    calls_records: int
    """Records that the attempt had received when it failed."""
    refused: str = ""
    """The reason why it cannot be replayed; empty: it can."""

    @property
    def label(self) -> str:
        """Returns the subtask's name in messages, such as ``map (2/4)``."""
        return f"{self.task_name} ({self.subtask + 1}/{self.parallelism})"

    def to_json(self) -> JsonObject:
        """Returns the fields as ``failure.json`` and ``--json`` contain them."""
        found: JsonObject = {
            "version": VERSION,
            "id": self.failure_id,
            "job_id": self.job_id,
            "job": self.job_name,
            "vertex_id": self.vertex_id,
            "vertex": self.task_name,
            "subtask": self.subtask,
            "parallelism": self.parallelism,
            "attempt": self.attempt,
            "failed_ms": self.failed_ms,
            "checkpoint": self.checkpoint_id,
            "location": self.location,
            "message": self.message,
            "details": self.details,
            "code": self.code,
            "python": self.python,
            "hash_seed": self.hash_seed,
            "segments": list(self.segments),
            "records": self.calls_records,
            "refused": self.refused,
        }
        return found


@dataclass(slots=True)
class FailureKeeper:
    """Keeps a failure of one attempt. ``place``: the directory of all failures. ``most``: the number of failures that are kept there."""

    recorder: Recorder
    deployment: TaskDeployment
    program: bytes
    files: Mapping[str, bytes]
    """Content of the job's files, by blob key."""
    place: Path
    most: int
    python: str
    hash_seed: str
    max_state_bytes: int
    refused: str = ""
    kept: str = field(default="", init=False)
    """The id of the failure that was kept; empty: none was."""

    def keep(self, error: ErrorInfo, failed_ms: int, read_state: ReadState) -> str:
        """Keeps the failure with its recording and state; returns its id. Raises ``OSError`` when it cannot be written, ``TidegateError`` when state cannot be
        read, and ``InvalidJob`` when there is no recording or the state is too large.
        """
        if self.recorder.why_not:
            raise InvalidJob(self.recorder.why_not)
        restore = self._restore()
        failure_id = f"{datetime.fromtimestamp(failed_ms / 1000, UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
        self.place.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = self.place / f"{_UNFINISHED}{failure_id}"
        folder.mkdir(mode=0o700)
        try:
            self._write(folder, failure_id, restore, error, failed_ms, read_state)
            folder.rename(self.place / failure_id)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self.kept = failure_id
        _drop_oldest(self.place, self.most)
        return failure_id

    def _restore(self) -> TaskRestore | None:
        base = self.recorder.base
        if base is None:
            given = self.deployment.restore
            if given is None:
                return None
            operators = {key: replace(found, channels=()) for key, found in given.operators.items()}
            return replace(given, operators=operators)
        return TaskRestore(CheckpointId(base.checkpoint_id), base.location, _restored(base.snapshot))

    def _write(
        self,
        folder: Path,
        failure_id: str,
        restore: TaskRestore | None,
        error: ErrorInfo,
        failed_ms: int,
        read_state: ReadState,
    ) -> None:
        deployment = self.deployment
        for name in ("segments", "state", "files"):
            (folder / name).mkdir(mode=0o700)
        paths = self.recorder.segments
        for path in paths:
            write_own(folder / "segments" / path.name, path.read_bytes())
        self._write_state(folder / "state", restore, read_state)
        for key, content in self.files.items():
            write_own(folder / "files" / key, content)
        write_own(folder / PROGRAM, self.program)
        public = {key: text for key, text in deployment.configuration.items() if not is_sensitive(key)}
        kept = replace(deployment, restore=restore, configuration=public, data_token="")
        write_own(folder / DEPLOYMENT, deployment_to_bytes(kept))
        attempt = deployment.attempt
        failure = Failure(
            folder,
            failure_id,
            str(attempt.job_id),
            deployment.job_name,
            str(attempt.vertex_id),
            deployment.task_name,
            attempt.subtask,
            deployment.parallelism,
            attempt.attempt,
            failed_ms,
            0 if restore is None else int(restore.checkpoint_id),
            "" if restore is None else restore.location,
            SECRETS.masked(error.message),
            SECRETS.masked(error.details),
            error.code,
            self.python,
            self.hash_seed,
            tuple(path.name for path in paths),
            self.recorder.place.records,
            self.refused,
        )
        write_own(folder / DOCUMENT, json.dumps(failure.to_json(), indent=1).encode())

    def _write_state(self, directory: Path, restore: TaskRestore | None, read_state: ReadState) -> None:
        if restore is None:
            return
        handles = {kept_name(handle): handle for handle in handles_of(restore) if handle.data is None}
        size = sum(handle.size_bytes for handle in handles.values())
        if size > self.max_state_bytes:
            raise InvalidJob(
                f"the state of checkpoint {restore.checkpoint_id} has {size} bytes, more than may be kept (tidegate.replay.max-size)"
            )
        for name, handle in handles.items():
            write_own(directory / name, bytes(read_state(restore.location, handle)))


class KeptState:
    """Reads the state that is kept in a failure's folder (a ``SegmentSource``)."""

    def __init__(self, folder: Path) -> None:
        self._directory = folder / "state"

    def read(self, handle: StateHandle) -> memoryview:
        path = self._directory / kept_name(handle)
        if handle.data is not None:
            content = handle.data
        else:
            try:
                content = path.read_bytes()
            except OSError as error:
                raise CorruptData(
                    f"{path}: this state of the recorded failure cannot be read: {error.strerror}; {OTHERS}"
                ) from error
        if xxhash.xxh3_64_hexdigest(content) != handle.checksum:
            raise CorruptData(
                f"{path}: this state of the recorded failure is damaged (its checksum is wrong); {OTHERS}"
            )
        return memoryview(content)


def handles_of(restore: TaskRestore) -> Iterator[StateHandle]:
    """Yields the handles of all state files that a subtask restores."""
    for operator in restore.operators.values():
        for segment in operator.keyed:
            yield segment.handle
        for state in operator.operator:
            yield state.handle


def kept_name(handle: StateHandle) -> str:
    """Returns the file name for the content of a handle."""
    return f"{handle.checksum}-{handle.size_bytes}"


def read_failure(folder: Path) -> Failure:
    """Reads the description of a kept failure. Raises ``InvalidJob`` when there is none, ``NotPermitted`` when other users can write it, ``CorruptData`` when
    it is damaged.
    """
    path = folder / DOCUMENT
    if not path.is_file():
        raise InvalidJob(
            f"{folder}: this folder holds no recorded failure; `tidegate replay` lists those that are kept"
        )
    check_own(folder)
    try:
        said = json.loads(path.read_bytes())
        if said["version"] != VERSION:
            raise InvalidJob(
                f"{folder}: another version of tidegate recorded this failure ({said['version']}); replay it with that"
            )
        return Failure(
            folder, said["id"], said["job_id"], said["job"], said["vertex_id"], said["vertex"], said["subtask"],
            said["parallelism"], said["attempt"], said["failed_ms"], said["checkpoint"], said["location"],
            said["message"], said["details"], said["code"], said["python"], said["hash_seed"],
            tuple(said["segments"]), said["records"], said["refused"],
        )  # fmt: skip
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise CorruptData(
            f"{path}: the description of this failure is damaged ({type(error).__name__}: {error}); {OTHERS}"
        ) from error


def read_deployment(failure: Failure) -> TaskDeployment:
    """Reads the deployment of a kept failure. Raises ``CorruptData``."""
    path = failure.folder / DEPLOYMENT
    try:
        return deployment_from_bytes(path.read_bytes())
    except (OSError, CorruptFrame) as error:
        raise CorruptData(f"{path}: the deployment of this failure cannot be read: {error}; {OTHERS}") from error


def read_content(failure: Failure, *names: str) -> bytes:
    """Returns the content of a file in the failure's folder. Raises ``CorruptData`` when it cannot be read."""
    path = failure.folder.joinpath(*names)
    try:
        return path.read_bytes()
    except OSError as error:
        raise CorruptData(
            f"{path}: this file of the recorded failure cannot be read: {error.strerror}; {OTHERS}"
        ) from error


def check_own(folder: Path) -> None:
    """Raises ``NotPermitted`` for a folder that belongs to another user or that others can write, since a replay runs its content."""
    for path in (folder, *sorted(folder.rglob("*"))):
        found = path.lstat()
        if found.st_uid != os.geteuid() or stat.S_ISLNK(found.st_mode) or stat.S_IMODE(found.st_mode) & 0o022:
            raise NotPermitted(
                f"{path} is not yours alone: a replay runs what is in it, so it opens only folders that no other user can write (chmod -R go= {folder})"
            )


def list_failures(place: Path) -> list[Failure]:
    """Returns the failures in a directory, newest first; unreadable ones are left out."""
    found = []
    for folder in _folders(place):
        with contextlib.suppress(CorruptData, InvalidJob, NotPermitted):
            found.append(read_failure(folder))
    return found


def _folders(place: Path) -> Sequence[Path]:
    try:
        names = [entry.name for entry in os.scandir(place) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return [place / name for name in sorted(names, reverse=True) if not name.startswith(".")]


def _drop_oldest(place: Path, most: int) -> None:
    kept = [folder for folder in _folders(place) if (folder / DOCUMENT).is_file()]
    for folder in kept[most:]:
        shutil.rmtree(folder, ignore_errors=True)


def _restored(snapshot: SubtaskSnapshot) -> dict[OperatorId, RestoredOperator]:
    return {
        operator_id: RestoredOperator(
            found.keyed, found.operator, tuple((0, handle.elements) for handle in found.operator)
        )
        for operator_id, found in snapshot.operators.items()
    }


def write_own(path: Path, content: bytes) -> None:
    """Writes a new file that only its user can read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
