"""A subtask that looks at its own memory, because its TaskManager cannot: on an executor of a Spark cluster.

A thread of its process looks, and it needs the interpreter for that: of a function that fills memory in native code without ever releasing it,
the kernel has the last word (``limits.end_before_others``).
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
    """Begin to look, in a thread. ``fail`` is called by it once, when this process must end."""
    machine = MachineMemory(settings.machine_bytes, settings.reserve_bytes)

    def watch() -> None:
        while (found := look(settings, machine, name, is_of_group=is_of_group)) is None:
            time.sleep(machine.interval_s)  # nothing wakes it: it goes with its process
        fail(found)

    threading.Thread(target=watch, name="memory", daemon=True).start()


def look(settings: WorkerSettings, machine: MachineMemory, name: str, *, is_of_group: bool) -> ErrorInfo | None:
    """Why this process must end; ``None``: it may go on."""
    text, slot_bytes = "", settings.slot_memory_bytes
    size = resident_bytes(os.getpid()) if slot_bytes else 0
    if size > slot_bytes:
        text = describe_excess(name, size, slot_bytes, is_of_group=is_of_group)
    elif (overrun := machine.look([os.getpid()], siblings() if settings.machine_bytes else ())) is not None:
        text = describe_overrun(name, overrun)
    return ErrorInfo.of(NoResourceAvailable(text), name) if text else None
