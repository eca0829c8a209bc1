"""What is said of a subtask that needs more than its slot has. Pure."""

from __future__ import annotations

from tidegate.taskmanager.machines.memory.shortage import USUALLY

_OF_TASK_MANAGER = "taskmanager.memory.process.size / slots", "give the TaskManager more memory or fewer slots"
_OF_GROUP = "by its slot sharing group", "let the group ask for more"


def describe_excess(name: str, size_bytes: int, bound_bytes: int, *, is_of_group: bool, beside_bytes: int = 0) -> str:
    """The message. ``is_of_group``: the slot sharing group says how much it has; ``beside_bytes``: what the others in the slot have."""
    whose, advice = _OF_GROUP if is_of_group else _OF_TASK_MANAGER
    beside = f", and the others in it {beside_bytes >> 20} MiB" if beside_bytes else ""
    return f"{name} needed more than its slot's {bound_bytes >> 20} MiB ({whose}): it has {size_bytes >> 20} MiB{beside}; {advice}; {USUALLY}"
