"""Describes why the process of a subtask is gone that reported no final state, from what the operating system and Spark know of its end.

On the TaskManager's machine the exit status is known: our Python daemon is the parent of the process and notes it. For a process on another machine Spark
reports that a worker ended, or the exit code of its executor.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from tidegate.model.errors import ErrorInfo, NoResourceAvailable, OutputLost, StorageError, SubtaskLost
from tidegate.model.states import ExecutionState
from tidegate.taskmanager.machines.task_events import Outcome, SparkJobEnded

LOST = Outcome(ExecutionState.FAILED, ErrorInfo.of(SubtaskLost("its process is gone")))
"""The outcome of an attempt until it is known how its process ended."""

_SIGNALS = {
    4: ("SIGILL", "native code was made for another processor"),
    6: ("SIGABRT", "native code gave up; what it printed stands in the TaskManager's output"),
    7: ("SIGBUS", "native code crashed, or a file that was mapped to memory became shorter"),
    8: ("SIGFPE", "native code divided by zero"),
    9: (
        "SIGKILL",
        "no process of this cluster sent it; the kernel does when memory runs out (its log says so: dmesg), a person may",
    ),
    11: ("SIGSEGV", "native code crashed: a library of the function, or one that was used wrongly"),
    15: ("SIGTERM", "another process or a person sent it"),
}
"""Linux's signal numbers, with names and likely causes of an end that this cluster did not ask for."""


class Ended(Protocol):
    """A task whose process is gone. ``pid``: 0 if it never connected."""

    @property
    def name(self) -> str: ...
    @property
    def pid(self) -> int: ...
    @property
    def host(self) -> str: ...
    @property
    def stack(self) -> str: ...
    @property
    def stopping(self) -> Outcome | None: ...
    @property
    def outcome(self) -> Outcome | None: ...


def outcome_of(task: Ended, ended: SparkJobEnded) -> Outcome:
    """Returns the outcome of a task whose process is gone: the final state that it reported, or what its end without one means."""
    outcome = task.outcome or task.stopping or LOST
    code = "" if ended.error is None else ended.error.code
    has_finished = outcome.state is ExecutionState.FINISHED
    if (code == OutputLost.code and (has_finished or outcome is LOST)) or (code == StorageError.code and has_finished):
        return Outcome(ExecutionState.FAILED, ended.error)  # what it read, or what it wrote, is not there
    if outcome is LOST:
        why = describe_loss(task.name, task.pid, task.host, ended.error, ended.exit_status)
        return Outcome(ExecutionState.FAILED, why)
    if not task.pid and task.stopping is None and outcome.error is not None:
        return replace(outcome, error=with_words_of_spark(outcome.error, ended.error))
    return outcome


def outcome_of_late_start(name: str, timeout_ms: int, *, is_plain: bool, has_executors: bool) -> Outcome:
    """Returns the outcome of an attempt whose process did not connect in time. ``is_plain``: it does not begin with a Spark query; ``has_executors``: it was to
    run in an executor of a cluster.
    """
    late = f"{name}: its process did not connect within {timeout_ms / 1000:g} s of the beginning of its start"
    if has_executors:
        advice = "is there a free core in Spark, and can its executors reach this TaskManager?"
    elif is_plain:
        advice = "this machine is too busy to start a process in that time; give it longer, or run less on this machine"
    else:
        advice = "its query takes longer, or this machine is too busy; give it longer, or run less on this machine"
    why = f"{late} (tidegate.{'subtask' if is_plain else 'spark-query'}.start-timeout); {advice}"
    return Outcome(ExecutionState.FAILED, ErrorInfo.of(SubtaskLost(why)))


def describe_loss(name: str, pid: int, host: str, of_spark: ErrorInfo | None, exit_status: int | None) -> ErrorInfo:
    """Returns the error of an attempt whose process is gone. ``pid``: 0 if it never connected; ``of_spark``: why its Spark job failed, if it did."""
    if of_spark is not None and not pid:
        return of_spark
    process = f"the process of {name}" + (f" (pid {pid} on {host})" if pid else "")
    if exit_status is not None:  # Spark knows no more, in a hundred lines of Java
        details = of_spark.message if of_spark else ""
        return ErrorInfo.of(SubtaskLost(f"{process} {describe_exit(exit_status)}", details=details))
    details = f"{of_spark.message}\n{of_spark.details}".strip() if of_spark else ""
    said = f"; {of_spark.message}" if of_spark else ""
    return ErrorInfo.of(SubtaskLost(f"{process} is gone, and its exit code is not known here{said}", details=details))


def with_words_of_spark(late: ErrorInfo, of_spark: ErrorInfo | None) -> ErrorInfo:
    """Returns the error of a process that did not start in time, with Spark's reason if Spark lacked resources."""
    if of_spark is None or of_spark.code != NoResourceAvailable.code:
        return late
    return replace(late, message=f"{late.message} {of_spark.message}")


def outcome_of_obstinacy(task: Ended) -> tuple[Outcome | None, str]:
    """Returns the outcome of a task that is killed because it does not stop, and the warning to log. A failure for which it was stopped stays its reason."""
    why = _describe_obstinacy(task.name, task.pid)
    if task.stopping is None or task.stopping.error is not None:
        return task.stopping, why
    details = f"its function stood at\n{task.stack}" if task.stack else ""
    return replace(task.stopping, error=ErrorInfo.of(SubtaskLost(why, details=details))), why


def _describe_obstinacy(name: str, pid: int) -> str:
    return (
        f"{name} does not stop: its function (process {pid}) goes on although it was interrupted, since it swallows every exception, works "
        "in native code without a pause, or is closed slowly; its process is killed "
        "(tidegate.task.unresponsive-timeout, task.cancellation.timeout), and close() is not called"
    )


def describe_exit(status: int) -> str:
    """Describes how a process ended, as the end of a sentence. ``status``: exit code, or the negative number of a signal."""
    if status >= 0:
        return f"ended with exit code {status} before its function did" + (
            ": something in it called exit" if status else ": something in it ended it as if all were well"
        )
    name, advice = _SIGNALS.get(-status, ("", ""))
    return f"was ended by {name} (signal {-status}): {advice}" if name else f"was ended by signal {-status}"
