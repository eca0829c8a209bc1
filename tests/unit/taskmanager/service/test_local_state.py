"""Where a TaskManager keeps copies of state, and that they go with their slot."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tidegate.model.configuration import Configuration
from tidegate.model.ids import AllocationId
from tidegate.taskmanager.service.directories import Directories
from tidegate.taskmanager.service.subtasks.processes import SparkSubtasks
from tidegate.taskmanager.service.subtasks.slot_memory import SlotMemory
from tidegate.taskmanager.state.files.local_copies import allocation_directory


async def no_blob(key: str) -> bytes:
    raise AssertionError(key)


def test_copies_are_below_the_working_directory_or_the_configured_ones(tmp_path: Path) -> None:
    plain = Directories.make(Configuration.from_strings({"io.tmp.dirs": str(tmp_path / "tmp")}))
    assert plain.working.parent == tmp_path / "tmp"
    assert (plain.local, plain.blobs) == ([plain.working], plain.working / "blobs")
    settings = {
        "io.tmp.dirs": str(tmp_path / "tmp"),
        "execution.checkpointing.local-backup.dirs": f"{tmp_path}/a,{tmp_path}/b",
        "blob.storage.directory": f"{tmp_path}/c",
    }
    spread = Directories.make(Configuration.from_strings(settings))
    assert [place.parent.name for place in (*spread.local, spread.blobs)] == ["a", "b", "c"]
    plain.remove()
    spread.remove()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "b", "c", "tmp"], "what others may use stays"


def test_the_next_one_removes_what_a_killed_one_has_left(tmp_path: Path) -> None:
    settings = Configuration.from_strings(
        {"io.tmp.dirs": f"{tmp_path}/tmp", "execution.checkpointing.local-backup.dirs": f"{tmp_path}/a"}
    )
    living, killed = Directories.make(settings), Directories.make(settings)
    for directory in killed._owned:
        directory.release()  # as the kernel does
    successor = Directories.make(settings)
    left = sorted(path.parent.name + "/" + path.name for path in tmp_path.glob("*/*"))
    assert left == sorted(
        f"{path.parent.name}/{path.name}" for own in (living, successor) for path in (own.working, *own.local)
    )


def test_a_temporary_directory_is_the_one_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    own = Directories.make(Configuration.from_strings({}))
    assert own.working.parent == tmp_path
    own.remove()


def test_a_freed_slot_takes_its_copies_along(tmp_path: Path) -> None:
    roots = [tmp_path / "a", tmp_path / "b"]
    subtasks = SparkSubtasks(SlotMemory(), tmp_path / "tasks", roots, no_blob)
    kept, freed = AllocationId("0" * 32), AllocationId("1" * 32)
    places = [allocation_directory(roots[0], kept), allocation_directory(roots[1], freed)]
    for place in places:
        (place / "jid_1").mkdir(parents=True)
    subtasks.release(freed)
    subtasks.release(AllocationId("2" * 32))
    for thread in threading.enumerate():
        if thread.name == "local-state-removal":
            thread.join()
    assert [place.exists() for place in places] == [True, False]
