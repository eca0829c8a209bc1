"""Lets a subtask on an executor of a Spark cluster watch its own memory, which its TaskManager cannot see.

The watching thread needs the interpreter's lock: if a function fills memory in native code without releasing it, only the kernel can end the process
(``limits.end_before_others``).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from tidegate.model.errors import ErrorInfo, NoResourceAvailable
from tidegate.taskmanager.machines.memory.shortage import describe_overrun
from tidegate.taskmanager.machines.memory.slot_bound import describe_excess
from tidegate.taskmanager.spark.memory.limits import WorkerSettings, resident_bytes
from tidegate.taskmanager.spark.memory.machine import MachineMemory, siblings


def watch_own_memory(
    settings: WorkerSettings, name: str, *, is_of_group: bool, fail: Callable[[ErrorInfo], None]
) -> None:
    """Starts a thread that watches the memory of this process and calls ``fail`` once, when the process must end."""
    machine = MachineMemory(settings.machine_bytes, settings.reserve_bytes)

    def watch() -> None:
        while (found := look(settings, machine, name, is_of_group=is_of_group)) is None:
            time.sleep(machine.interval_s)  # nothing wakes it: it goes with its process
        fail(found)

    threading.Thread(target=watch, name="memory", daemon=True).start()


def look(settings: WorkerSettings, machine: MachineMemory, name: str, *, is_of_group: bool) -> ErrorInfo | None:
    """Returns the error with which this process must end; ``None`` if its memory is within the limits."""
    text, slot_bytes = "", settings.slot_memory_bytes
    size = resident_bytes(os.getpid()) if slot_bytes else 0
    if size > slot_bytes:
        text = describe_excess(name, size, slot_bytes, is_of_group=is_of_group)
    elif (overrun := machine.look([os.getpid()], siblings() if settings.machine_bytes else ())) is not None:
        text = describe_overrun(name, overrun)
    return ErrorInfo.of(NoResourceAvailable(text), name) if text else None
