"""Invariants between the state of a job and those of its tasks, checked between events."""

from __future__ import annotations

from tidegate.jobmanager.machines.scheduling.execution_graph import ExecutionGraph
from tidegate.model.states import ExecutionState, JobState


def check_tasks(state: JobState, graph: ExecutionGraph) -> None:
    """Raises ``AssertionError`` when the job cannot be in this state with these tasks."""
    assert state not in (JobState.INITIALIZING, JobState.CREATED), f"stays {state.value}"
    over = graph.count(ExecutionState.CANCELED, ExecutionState.FAILED)
    assert state is not JobState.RUNNING or not over, f"RUNNING, and {over} tasks are over and nobody restarts them"
    assert not state.is_terminal or graph.all_terminal, f"{state.value}, and some tasks live"
