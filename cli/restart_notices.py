"""Decides what an attached run prints about restarts. Pure: fed with statuses of the JobManager.

    another cause ─▶ one line                 the same again, without a completed checkpoint in between ─▶ nothing
                                              ... for the third time, and it lasts ─▶ said loudly, once, with what to do

A lasting cause is one that does not go away by itself: the job's code, its configuration, the disk (``ErrorInfo.is_lasting``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidegate.model.errors import ErrorInfo

REPETITIONS = 3
"""After how many failures with the same lasting cause the loud notice is printed. Chosen, not measured."""
LINE_CHARACTERS = 400
_VARYING = re.compile(r"[0-9a-f]{8,}|\d+")
"""Ids and counters, which differ each time for the same cause."""

_WHAT_TO_DO = {
    "state-too-large": "set execution.checkpointing.dir to a directory that all processes of the cluster can write, "
    "for the job (-D at `tidegate run`) or for the JobManager",
    "storage-unusable": "make room or give the right to write there, or set execution.checkpointing.dir to another directory",
    "user-function": "correct the function; `tidegate cancel` ends the job, and -D restart-strategy.type=none makes the first failure final",
}
_ELSE = "correct what the message names; `tidegate cancel` ends the job"


@dataclass(frozen=True, slots=True)
class Notice:
    """A text to print. ``is_loud``: printed conspicuously."""

    text: str
    is_loud: bool = False


class RestartNotices:
    """Decides on the notices of one job's restarts."""

    def __init__(self) -> None:
        self._restarts = 0
        self._completed = 0
        self._cause: tuple[str, str] | None = None
        self._times = 0
        self._was_loud = False

    def on_status(self, restarts: int, completed: int, failure: ErrorInfo | None) -> list[Notice]:
        """Returns the notices to print now. ``completed``: the number of completed checkpoints. ``failure``: the last one."""
        if completed > self._completed:
            self._completed = completed
            self._times, self._was_loud = 0, False
        again = restarts - self._restarts
        if again <= 0 or failure is None:
            return []
        self._restarts = restarts
        cause = (failure.code, _VARYING.sub("#", failure.message))
        is_new = cause != self._cause
        if is_new:
            self._cause, self._times, self._was_loud = cause, 0, False
        self._times += 1 if is_new else again  # the causes of skipped restarts are not known
        notices = [Notice(f"restart {restarts}: {_one_line(failure)}")] if is_new else []
        if failure.is_lasting and self._times >= REPETITIONS and not self._was_loud:
            self._was_loud = True
            notices.append(Notice(_loud(failure, self._times), is_loud=True))
        return notices


def _loud(failure: ErrorInfo, times: int) -> str:
    return (
        f"WARNING: the job has restarted {times} times for the same cause, without a completed checkpoint in between. "
        f"It will not go away by itself:\n  {_one_line(failure)}\n  {_WHAT_TO_DO.get(failure.code, _ELSE)}"
    )


def _one_line(failure: ErrorInfo) -> str:
    place = f" ({failure.origin})" if failure.origin and failure.origin not in failure.message else ""
    text = " ".join(failure.message.split()) + place
    return text if len(text) <= LINE_CHARACTERS else f"{text[: LINE_CHARACTERS - 4]} ..."
