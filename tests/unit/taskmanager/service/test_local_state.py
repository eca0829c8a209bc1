"""Where a TaskManager keeps copies of state, and that they go with their slot."""

from __future__ import annotations

import threading
from pathlib import Path

from tidegate.model.configuration import Configuration
from tidegate.model.ids import AllocationId
from tidegate.taskmanager.service.identity import local_state_roots, remove_all
from tidegate.taskmanager.service.subtasks.processes import SparkSubtasks
from tidegate.taskmanager.service.subtasks.slot_memory import SlotMemory
from tidegate.taskmanager.state.files.local_copies import allocation_directory


async def no_blob(key: str) -> bytes:
    raise AssertionError(key)


def test_copies_are_below_the_working_directory_or_the_configured_ones(tmp_path: Path) -> None:
    working = tmp_path / "tidegate-tm-1"
    assert local_state_roots(Configuration.from_strings({}), working) == [working]
    dirs = {"execution.checkpointing.local-backup.dirs": f"{tmp_path}/a,{tmp_path}/b"}
    found = local_state_roots(Configuration.from_strings(dirs), working)
    assert found == [tmp_path / "a" / "tidegate-tm-1", tmp_path / "b" / "tidegate-tm-1"]
    for root in found:
        root.mkdir(parents=True)
    remove_all(found)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "b"], "what others may use stays"


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
