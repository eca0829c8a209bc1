"""Lists, requests and kills the executors of a Spark cluster.

Every call blocks for a round trip to the JVM. The executors are read from Spark's status store (docs/adr/0198), which exists without Spark's web UI too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from tidegate.model.errors import ExternalError
from tidegate.taskmanager.machines.executor_pool import SparkExecutor
from tidegate.taskmanager.spark.jvm import JavaObject

if TYPE_CHECKING:
    from tidegate.taskmanager.spark.session import Session

T = TypeVar("T")
_DRIVER = "driver"
_ENDED = re.compile(r"Executor updated: \S+/(\S+) is now (EXITED|FAILED|LOST)(?: \((.*?)\))?\s*$", re.MULTILINE)
"""Pattern of the log line about an executor that ended (Spark: ``StandaloneAppClient.receive``)."""
_ENDED_MARK = "Application has been killed. Reason: "
"""Start of the log message when the cluster has ended the application (Spark: ``StandaloneSchedulerBackend.dead``)."""


class ExecutorRequests:
    """Requests executors for one Spark context. Methods that call the JVM raise ``ExternalError`` when Spark has ended the context."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._spark: JavaObject = session.context._jsc.sc()
        self._read_bytes = 0
        """Bytes of the log that were read."""

    def look(self) -> Sequence[SparkExecutor]:
        """Returns the executors that are registered, each with its number of running tasks."""
        return self._call_spark(self._look)

    def ended(self) -> Mapping[str, str]:
        """Returns executors whose processes have ended since the last call, with the reason that the cluster gives. Only standalone clusters report it."""
        try:
            with self._session.log_path.open("rb") as file:
                file.seek(self._read_bytes)
                said = file.read()
        except OSError:
            return {}
        whole, _, _ = said.rpartition(b"\n")
        self._read_bytes += len(whole)
        return ended_in(whole.decode("utf-8", "replace"))

    def request_total(self, executors: int) -> None:
        """Sets the number of executors that are wanted. Executors above that number stay until they are killed."""
        jvm: JavaObject = self._session.context._jvm

        def request() -> None:
            self._spark.requestTotalExecutors(executors, 0, jvm.PythonUtils.toScalaMap({}))

        self._call_spark(request)

    def kill(self, executor_ids: Sequence[str]) -> None:
        """Kills executors without changing the number that is wanted. Calls the scheduler's backend, since ``SparkContext.killExecutors`` changes
        that number.
        """
        jvm: JavaObject = self._session.context._jvm

        def kill() -> None:
            names = jvm.PythonUtils.toSeq(list(executor_ids))
            self._spark.schedulerBackend().killExecutors(names, False, False, True)

        self._call_spark(kill)

    def _look(self) -> Sequence[SparkExecutor]:
        listed = self._spark.statusStore().executorList(True)
        found = []
        for index in range(listed.size()):
            one = listed.apply(index)
            if one.id() != _DRIVER and one.totalCores() > 0:
                host = str(one.hostPort()).rsplit(":", 1)[0]
                found.append(SparkExecutor(str(one.id()), host, int(one.totalCores()), int(one.activeTasks())))
        return found

    def _call_spark(self, call: Callable[[], T]) -> T:
        from py4j.protocol import Py4JError

        try:
            if not self._spark.isStopped():
                return call()
        except Py4JError as error:
            if self._session.is_alive() and not self._spark.isStopped():
                raise ExternalError(f"Spark at {self._session.master} answered with an error: {error}") from error
        raise ExternalError(self._why_stopped())

    def _why_stopped(self) -> str:
        try:
            log = self._session.log_path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            log = ""
        return why_stopped(self._session.master, log)


def ended_in(log: str) -> dict[str, str]:
    """Returns the executors that the JVM's log reports as ended without our request: executor id -> reason."""
    return {found[1]: (found[3] or "").strip() or found[2] for found in _ENDED.finditer(log)}


def why_stopped(master: str, log: str) -> str:
    """Returns the error message for a Spark context that has ended, with the reason from the log of its JVM."""
    said = [line.split(_ENDED_MARK, 1)[1].strip() for line in log.splitlines() if _ENDED_MARK in line]
    if not said:
        return f"the Spark application at {master} has ended"
    return (
        f"{master} has ended the Spark application: {said[-1].rstrip('.')}. Its executors ended again and again; the logs of Spark's workers say "
        "why (stderr of the application)"
    )
