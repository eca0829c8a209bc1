"""What the JobManager tells about a job, as it tells it: the stream of ``WatchJob``, each status with its moment.

Times are measured here, by the clock of the test: a detection counts from the kill to the arrival of the status.
"""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import grpc

from tests.e2e.waiting import HANG_LIMIT_S
from tidegate.pb import jobmanager_pb2 as pb
from tidegate.pb import jobmanager_pb2_grpc as rpc

CALL_LIMIT_S = 60
TERMINAL = ("FINISHED", "FAILED", "CANCELED")


def exceptions_of(rest_port: int, job_id: str) -> list[dict[str, Any]]:
    """What has failed, was killed or was made to fail, newest first, by REST."""
    with urllib.request.urlopen(
        f"http://127.0.0.1:{rest_port}/jobs/{job_id}/exceptions", timeout=CALL_LIMIT_S
    ) as answer:
        return list(json.load(answer)["exceptionHistory"]["entries"])


@dataclass(frozen=True)
class Moment:
    """A status and when it arrived (monotonic seconds)."""

    at: float
    status: Any

    @property
    def is_running(self) -> bool:
        """The job and every subtask of it."""
        states = [subtask.state for vertex in self.status.vertices for subtask in vertex.subtasks]
        return self.status.state == "RUNNING" and bool(states) and all(s in ("RUNNING", "FINISHED") for s in states)


class JobWatch:
    """Reads the stream in a thread of its own, from ``WatchJob`` to its end or ``close``."""

    def __init__(self, stub: rpc.JobManagerClientServiceStub, job_id: str) -> None:
        self.job_id = job_id
        self.moments: list[Moment] = []
        self._changed = threading.Condition()
        self._call = stub.WatchJob(pb.JobRequest(job_id=job_id))
        self._ended = ""
        self._thread = threading.Thread(target=self._read, name=f"watch {job_id}", daemon=True)
        self._thread.start()

    @property
    def last(self) -> Moment | None:
        with self._changed:
            return self.moments[-1] if self.moments else None

    def wait_for(self, condition: Callable[[Moment], bool], limit_s: float, what: str, since: float = 0.0) -> Moment:
        """The first moment after ``since`` that meets the condition."""
        deadline = time.monotonic() + limit_s
        looked = 0
        with self._changed:
            while True:
                for moment in self.moments[looked:]:
                    if moment.at >= since and condition(moment):
                        return moment
                looked = len(self.moments)
                left = deadline - time.monotonic()
                if left <= 0 or self._ended:
                    why = f"the stream ended: {self._ended}" if self._ended else f"not within {limit_s:g} s"
                    raise AssertionError(f"{why}: {what}; the job is {self.summary()}")
                self._changed.wait(left)

    def wait_finished(self, limit_s: float) -> Moment:
        moment = self.wait_for(lambda m: m.status.state in TERMINAL, limit_s, "the job is over")
        assert moment.status.state == "FINISHED", self.summary()
        return moment

    def wait_running(self, limit_s: float = HANG_LIMIT_S, since: float = 0.0) -> Moment:
        return self.wait_for(lambda m: m.is_running, limit_s, "every subtask is RUNNING", since)

    def wait_running_again(self, restarts: int, since: float, limit_s: float = HANG_LIMIT_S) -> Moment:
        """After one more restart than ``restarts``."""

        def again(moment: Moment) -> bool:
            return moment.is_running and moment.status.restarts > restarts

        return self.wait_for(again, limit_s, "every subtask runs again", since)

    def wait_checkpoints(self, count: int, limit_s: float = HANG_LIMIT_S, since: float = 0.0) -> Moment:
        def reached(moment: Moment) -> bool:
            return bool(moment.status.checkpoints_completed >= count)

        return self.wait_for(reached, limit_s, f"{count} checkpoints are completed", since)

    def longest_pause(self) -> float:
        """The longest time between two completed checkpoints without a restart between them, in seconds."""
        longest = 0.0
        last: Moment | None = None
        for moment in self.moments:
            if last is None or moment.status.restarts != last.status.restarts:
                last = moment
            elif moment.status.checkpoints_completed > last.status.checkpoints_completed:
                longest, last = max(longest, moment.at - last.at), moment
        return longest

    def summary(self) -> str:
        """For failure messages."""
        if not self.moments:
            return "unknown: no status arrived"
        status = self.moments[-1].status
        states: dict[str, int] = {}
        for vertex in status.vertices:
            for subtask in vertex.subtasks:
                states[subtask.state] = states.get(subtask.state, 0) + 1
        failure = f", last failure: {status.failure.message} {status.failure.details}" if status.failure.message else ""
        return (
            f"{status.state} (subtasks {states}, restarts {status.restarts}, checkpoints {status.checkpoints_completed} "
            f"completed and {status.checkpoints_failed} failed, waiting for {status.waiting_for!r}{failure})"
        )

    def close(self) -> None:
        self._call.cancel()
        self._thread.join(CALL_LIMIT_S)

    def _read(self) -> None:
        reason = "the JobManager closed it"
        try:
            for status in self._statuses():
                with self._changed:
                    self.moments.append(Moment(time.monotonic(), status))
                    self._changed.notify_all()
        except grpc.RpcError as error:
            reason = str(error.code())
        with self._changed:
            self._ended = reason
            self._changed.notify_all()

    def _statuses(self) -> Iterator[Any]:
        yield from self._call
