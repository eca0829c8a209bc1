"""A subtask that looks at its own memory, on an executor that its TaskManager does not see."""

from __future__ import annotations

import sys
import threading

import pytest

from tidegate.model.errors import ErrorInfo
from tidegate.taskmanager.spark.memory.limits import WorkerSettings
from tidegate.taskmanager.spark.memory.machine import MachineMemory
from tidegate.taskmanager.spark.memory.watching import look, watch_own_memory

MIB = 1 << 20
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it is read from /proc")


def test_more_than_its_slot_has_ends_it_and_says_whose_bound_that_is() -> None:
    settings, machine = WorkerSettings("127.0.0.1", slot_memory_bytes=MIB), MachineMemory()
    found = look(settings, machine, "map (1/2)#0", is_of_group=False)
    assert found is not None
    assert found.code == "no-resource-available"
    assert "map (1/2)#0 needed more than its slot's 1 MiB (taskmanager.memory.process.size / slots)" in found.message
    of_group = look(settings, machine, "map", is_of_group=True)
    assert of_group is not None
    assert "(by its slot sharing group)" in of_group.message


def test_within_its_bounds_it_goes_on() -> None:
    assert (
        look(WorkerSettings("127.0.0.1", slot_memory_bytes=1 << 40), MachineMemory(), "map", is_of_group=False) is None
    )
    assert look(WorkerSettings("127.0.0.1"), MachineMemory(reserve_bytes=0), "map", is_of_group=False) is None


def test_the_thread_that_looks_fails_it_once() -> None:
    failed: list[ErrorInfo] = []
    over = threading.Event()

    def fail(error: ErrorInfo) -> None:
        failed.append(error)
        over.set()

    watch_own_memory(WorkerSettings("127.0.0.1", slot_memory_bytes=MIB), "map (1/2)#0", is_of_group=False, fail=fail)
    assert over.wait(60)
    (error,) = failed
    assert "map (1/2)#0 needed more than its slot's 1 MiB" in error.message
