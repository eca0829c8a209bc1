"""The state of a job, when it entered each state, and the failures on its way (``tidegate.model.states`` has the table)."""

from __future__ import annotations

from collections import deque

from tidegate.jobmanager.machines.command_buffer import CommandBuffer
from tidegate.jobmanager.machines.views import FailureView
from tidegate.model.errors import ErrorInfo, IllegalTransition
from tidegate.model.ids import AttemptId, JobId
from tidegate.model.states import JOB_TRANSITIONS, JobState

FAILURES_REMEMBERED = 16


class JobStatusHistory:
    def __init__(self, job_id: JobId, name: str, effects: CommandBuffer) -> None:
        self._job_id = job_id
        self._name = name
        self._fx = effects
        self.state = JobState.INITIALIZING
        self.timestamps_ms = {JobState.INITIALIZING: effects.now_ms}
        self.failures: deque[FailureView] = deque(maxlen=FAILURES_REMEMBERED)
        self.restarts = 0

    def move(self, state: JobState) -> None:
        """Raises ``IllegalTransition``."""
        if state not in JOB_TRANSITIONS[self.state]:
            story = ", ".join(f"{s.value} at {at}" for s, at in self.timestamps_ms.items())
            raise IllegalTransition(
                f"job {self._job_id} cannot go from {self.state.value} to {state.value} at {self._fx.now_ms} "
                f"(so far: {story}); this is a bug in the JobManager"
            )
        self._fx.log("INFO", f"job {self._name!r} is {state.value}", job=self._job_id)
        self.state = state
        self.timestamps_ms[state] = self._fx.now_ms
        self._fx.changed(self._job_id)

    def remember(self, failure: ErrorInfo, attempt: AttemptId | None) -> None:
        self.failures.append(FailureView(self._fx.now_ms, failure, attempt))

    def amend(self, failure: ErrorInfo) -> None:
        """The last failure, told with its consequence."""
        last = self.failures.pop()
        self.failures.append(FailureView(last.at_ms, failure, last.attempt))
