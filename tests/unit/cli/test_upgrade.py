"""What the last checkpoint of a job is, while the job goes on replacing it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tidegate.cli.upgrade import CHECKPOINTS_TRIED, Upgrade
from tidegate.common.typeinfo import Types
from tidegate.functions.state import ValueStateDescriptor
from tidegate.model.errors import StorageError
from tidegate.pb import jobmanager_pb2 as pb
from tidegate.state_processor import OperatorIdentifier, OperatorTransformation, SavepointWriter
from tidegate.state_reader import Checkpoint
from tidegate.taskmanager.compatibility.operators import Finding


class Statuses:
    """A JobManager that answers with one path after the other, and stays with the last one."""

    def __init__(self, *paths: Path) -> None:
        self._left = list(paths)
        self.requests = 0

    def status(self, job_id: str) -> pb.JobStatus:
        self.requests += 1
        path = self._left.pop(0) if len(self._left) > 1 else self._left[0]
        return pb.JobStatus(job_id=job_id, state="RUNNING", last_completed=pb.CheckpointStatus(path=str(path)))


def upgrade(statuses: Any) -> Upgrade:
    return Upgrade(statuses, "f" * 32, 1.0, lambda line: None)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    state = OperatorTransformation.bootstrap_with(pa.table({"key": [1], "value": [2]})).key_by("key", Types.LONG())
    count = state.transform(ValueStateDescriptor("count", Types.LONG()))
    path = tmp_path / "savepoint-2"
    SavepointWriter.new_savepoint().with_operator(OperatorIdentifier.for_uid("counts"), count).write(str(path))
    return path


def test_a_checkpoint_that_was_replaced_before_it_was_opened_is_given_up_for_the_next(
    checkpoint: Path, tmp_path: Path
) -> None:
    statuses = Statuses(tmp_path / "chk-1", checkpoint)
    found, findings = upgrade(statuses).examined(lambda opened: [])
    assert (found.location, findings, statuses.requests) == (str(checkpoint), [], 2)


def test_one_that_is_not_there_is_an_error_in_the_end(tmp_path: Path) -> None:
    statuses = Statuses(tmp_path / "chk-1")
    with pytest.raises(StorageError, match="no checkpoint at .*chk-1"):
        upgrade(statuses).examined(lambda opened: [])
    assert statuses.requests == CHECKPOINTS_TRIED


def test_one_that_is_there_and_cannot_be_examined_is_an_error_at_once(checkpoint: Path) -> None:
    statuses = Statuses(checkpoint)

    def fails(opened: Checkpoint) -> list[Finding]:
        raise StorageError("no permission")

    with pytest.raises(StorageError, match="no permission"):
        upgrade(statuses).examined(fails)
    assert statuses.requests == 1
