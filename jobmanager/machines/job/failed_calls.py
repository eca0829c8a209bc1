"""Decides what it means for an attempt that a call to its TaskManager failed for good."""

from __future__ import annotations

from enum import Enum

from tidegate.jobmanager.machines.command_buffer import CallKind, OpenCall
from tidegate.jobmanager.machines.scheduling.execution import Execution
from tidegate.model.errors import ErrorInfo, UnknownAttempt
from tidegate.model.states import ExecutionState


class CallFailure(Enum):
    """The consequence of a call that failed for good for its attempt."""

    NOTHING = "its TaskManager's heartbeats, or its last word, will tell"
    CANCELED = "it was to be canceled, and its TaskManager does not know it: it is over"
    FAILED = "it has failed"


def judge_failed_call(call: OpenCall, error: ErrorInfo, execution: Execution) -> CallFailure:
    """Decides the consequence of a failed call. ``execution``: the deployed current execution of the attempt."""
    is_gone = error.code == UnknownAttempt.code
    if call.kind is CallKind.CANCEL:
        is_over = is_gone and execution.state is ExecutionState.CANCELING
        return CallFailure.CANCELED if is_over else CallFailure.NOTHING
    if call.kind in (CallKind.CONNECT, CallKind.OPERATOR_EVENT) and is_gone:
        return CallFailure.NOTHING
    return CallFailure.FAILED
