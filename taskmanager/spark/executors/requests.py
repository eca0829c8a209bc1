"""Executors of a Spark cluster: which there are, how many are wanted, and which are given back.

Every call blocks, for a round trip to the JVM. What there is is asked (docs/adr/0198): Spark's own book of its executors, which it
keeps without its pages too.
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
"""What Spark logs of each (Spark: ``StandaloneAppClient.receive``)."""
_ENDED_MARK = "Application has been killed. Reason: "
"""What Spark logs when the cluster has given up the application (Spark: ``StandaloneSchedulerBackend.dead``)."""


class ExecutorRequests:
    """For one Spark context. Every method raises ``ExternalError`` when Spark has ended it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._spark: JavaObject = session.context._jsc.sc()
        self._read_bytes = 0
        """How much of the log."""

    def look(self) -> Sequence[SparkExecutor]:
        """Those that are there, each with its number of running tasks."""
        return self._asked(self._look)

    def ended(self) -> Mapping[str, str]:
        """Executors whose processes have ended since the last call, with what the cluster says of it. Known of standalone clusters only."""
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
        """So many are wanted from now on; those above that number stay until they are killed."""
        jvm: JavaObject = self._session.context._jvm

        def request() -> None:
            self._spark.requestTotalExecutors(executors, 0, jvm.PythonUtils.toScalaMap({}))

        self._asked(request)

    def kill(self, executor_ids: Sequence[str]) -> None:
        """Give them back. The number that is wanted stays. By the scheduler's backend: ``SparkContext.killExecutors`` changes that number."""
        jvm: JavaObject = self._session.context._jvm

        def kill() -> None:
            names = jvm.PythonUtils.toSeq(list(executor_ids))
            self._spark.schedulerBackend().killExecutors(names, False, False, True)

        self._asked(kill)

    def _look(self) -> Sequence[SparkExecutor]:
        listed = self._spark.statusStore().executorList(True)
        found = []
        for index in range(listed.size()):
            one = listed.apply(index)
            if one.id() != _DRIVER and one.totalCores() > 0:
                host = str(one.hostPort()).rsplit(":", 1)[0]
                found.append(SparkExecutor(str(one.id()), host, int(one.totalCores()), int(one.activeTasks())))
        return found

    def _asked(self, call: Callable[[], T]) -> T:
        from py4j.protocol import Py4JError

        try:
            if not self._spark.isStopped():
                return call()
        except Py4JError as error:
            if self._session.is_alive() and not self._spark.isStopped():
                raise ExternalError(f"Spark at {self._session.master} answers with an error: {error}") from error
        raise ExternalError(self._why_stopped())

    def _why_stopped(self) -> str:
        try:
            log = self._session.log_path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            log = ""
        return why_stopped(self._session.master, log)


def ended_in(log: str) -> dict[str, str]:
    """Executors that the log of the JVM tells the end of, other than by our wish."""
    return {found[1]: (found[3] or "").strip() or found[2] for found in _ENDED.finditer(log)}


def why_stopped(master: str, log: str) -> str:
    """What the end of a context means, by the log of its JVM."""
    said = [line.split(_ENDED_MARK, 1)[1].strip() for line in log.splitlines() if _ENDED_MARK in line]
    if not said:
        return f"the Spark application at {master} has ended"
    return (
        f"{master} has ended the Spark application: {said[-1].rstrip('.')}. Its executors ended again and again; the logs of Spark's workers say "
        "why (stderr of the application)"
    )
