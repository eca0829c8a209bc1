"""The message for a subtask that needs more memory than its slot has."""

from __future__ import annotations

from tidegate.taskmanager.machines.memory.shortage import USUALLY

_OF_TASK_MANAGER = "taskmanager.memory.process.size / slots", "give the TaskManager more memory or fewer slots"
_OF_GROUP = "by its slot sharing group", "let the group ask for more"


def describe_excess(name: str, size_bytes: int, bound_bytes: int, *, is_of_group: bool, others_bytes: int = 0) -> str:
    """Returns the message for a subtask that exceeds the memory of its slot. ``is_of_group``: the bound comes from the slot sharing group; ``others_bytes``:
    memory of the other subtasks in the slot.
    """
    whose, advice = _OF_GROUP if is_of_group else _OF_TASK_MANAGER
    others = f", and the others in it {others_bytes >> 20} MiB" if others_bytes else ""
    return f"{name} needed more than its slot's {bound_bytes >> 20} MiB ({whose}): it has {size_bytes >> 20} MiB{others}; {advice}; {USUALLY}"
