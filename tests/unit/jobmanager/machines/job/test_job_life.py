"""The table of a job's states: every event in every state."""

from __future__ import annotations

import pytest

from tidegate.jobmanager.machines.command_buffer import CommandBuffer
from tidegate.jobmanager.machines.commands import JobChanged, Log
from tidegate.jobmanager.machines.job.job_status import JOB_TRANSITIONS, JobEvent, JobStatusHistory
from tidegate.model.ids import JobId
from tidegate.model.states import JobState


def path_to(state: JobState) -> list[JobEvent]:
    """The shortest way there."""
    paths: dict[JobState, list[JobEvent]] = {JobState.INITIALIZING: []}
    for reached in (open_states := [JobState.INITIALIZING]):
        for event, target in JOB_TRANSITIONS[reached].items():
            if target not in paths:
                paths[target] = [*paths[reached], event]
                open_states.append(target)
    return paths[state]


def history_in(state: JobState) -> tuple[JobStatusHistory, CommandBuffer]:
    buffer = CommandBuffer()
    history = JobStatusHistory(JobId("a" * 32), "job", buffer)
    for event in path_to(state):
        history.on(event)
    buffer.take()
    buffer.begin(7)
    return history, buffer


REACHED = [state for state in JobState if state is not JobState.SUSPENDED]


@pytest.mark.parametrize("event", JobEvent)
@pytest.mark.parametrize("state", REACHED)
def test_every_event_in_every_state(state: JobState, event: JobEvent) -> None:
    history, buffer = history_in(state)
    entered = dict(history.timestamps_ms)
    target = JOB_TRANSITIONS[state].get(event)
    assert history.may(event) == (target is not None)
    assert history.on(event) == (target is not None)
    history.check_invariants()
    commands = buffer.take()
    if target in (None, state):
        assert history.state is state
        assert history.timestamps_ms == entered
        assert not commands
        return
    assert history.state is target
    assert history.timestamps_ms[target] == 7
    assert [type(command) for command in commands] == [Log, JobChanged]


def test_a_job_can_always_end_and_never_leaves_its_end() -> None:
    for state in REACHED:
        assert state.is_terminal == (not JOB_TRANSITIONS[state])
        left: list[JobState] = [state]
        seen: set[JobState] = {state}
        while left:
            nexts = set(JOB_TRANSITIONS[left.pop()].values()) - seen
            seen |= nexts
            left.extend(nexts)
        assert any(reached.is_terminal for reached in seen)


def test_nothing_leads_to_suspended_yet() -> None:
    assert all(JobState.SUSPENDED not in exits.values() for exits in JOB_TRANSITIONS.values())
