"""The shell of the TaskManager knows what to do for every command of its machine."""

from __future__ import annotations

from typing import get_args

from tidegate.taskmanager.machines.task_manager import TaskManagerCommand
from tidegate.taskmanager.service.task_executor import ACTIONS


def test_each_command_has_its_action() -> None:
    assert ACTIONS.keys() == set(get_args(TaskManagerCommand))
