"""Runs each subtask attempt as one Spark job over one partition, from a thread of its own.

    submit ──thread──▶ RDD of the attempt ──PythonRDD.runJob(rdd, [i])──▶ ... for as long as the subtask lives ...
                                                                  on_end(attempt, None | error) ◀── returned or raised
    cancel ──thread──▶ cancelJobGroup, and SIGKILL when the process is on this machine

A failed subtask does not fail its siblings, since its Spark job has no other partition. There are two ways to make the RDD: an empty one with ``parallelism``
partitions, and for ``from_spark`` the user's DataFrame through ``mapInArrow``.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tidegate.connectors.spark.source import SparkSource
from tidegate.model.errors import ConfigurationError, ErrorInfo, ExternalError, NoResourceAvailable, SubtaskLost
from tidegate.model.ids import AttemptId, JobId
from tidegate.model.options import SecurityOptions
from tidegate.taskmanager.exchange.addresses import is_unix, ports_of
from tidegate.taskmanager.machines.task_events import StoredEdges
from tidegate.taskmanager.spark.cluster.leaving import attempts_on, leaving_executors
from tidegate.taskmanager.spark.cluster.resources import check_resources, profile_of
from tidegate.taskmanager.spark.entry import SubtaskEntry
from tidegate.taskmanager.spark.jvm import JavaObject, discard
from tidegate.taskmanager.spark.partitions import StoringPartition, SubtaskPartition
from tidegate.taskmanager.spark.query import query_partitions, spark_operators
from tidegate.taskmanager.spark.session import Session, last_lines
from tidegate.taskmanager.spark.shuffle.stored_outputs import StoredOutputs
from tidegate.taskmanager.spark.streams.service import SparkDoor
from tidegate.taskmanager.spark.submission import SparkSubmission

if TYPE_CHECKING:
    from pyspark import RDD

_log = logging.getLogger(__name__)

CANCEL_AFTER_KILL_S = 0.5
"""Seconds between the SIGKILL of a worker and the cancellation of its Spark job: Spark sees a killed worker after 0.2 s and then needs no cancellation. Chosen,
not measured.
"""
CORES_POLL_S = 0.2
"""Seconds between two looks at Spark's number of cores: short compared with the seconds in which Spark starts an executor. Chosen, not measured."""
OnEnd = Callable[[AttemptId, ErrorInfo | None], None]


class SparkDeployer:
    """Starts and cancels the Spark jobs of subtask attempts. ``submit`` and ``cancel`` return at once, from any thread; ``on_end`` is called by the attempt's
    thread.
    """

    def __init__(self, session: Session, control_address: str) -> None:
        self._session = session
        self._control_address = control_address
        self._lock = threading.Lock()
        self._outputs = StoredOutputs(session.context)
        self._empty_rdds: dict[int, RDD[object]] = {}
        self._running: dict[AttemptId, threading.Thread] = {}
        self._granted: dict[AttemptId, int] = {}
        """Cores of each attempt whose resources were checked and that declares them; others count as one."""
        self._cancelled: set[AttemptId] = set()
        self._served: set[AttemptId] = set()
        """Attempts for which Spark runs jobs of sources or sinks besides their subtask."""
        self._most_cores = 0
        """Largest number of cores that Spark had when an attempt started."""
        self._leaving: dict[str, int] = {}
        """Executors that are being decommissioned, with their cores."""

    def submit(self, submission: SparkSubmission, on_end: OnEnd) -> None:
        """Starts the attempt's Spark job in a thread. ``on_end`` is called exactly once, with ``None`` or the error."""
        thread = threading.Thread(
            target=self._run, args=(submission, on_end), name=f"spark job {submission.attempt}", daemon=True
        )
        with self._lock:
            self._running[submission.attempt] = thread
        thread.start()

    def cancel(self, attempt: AttemptId, pid: int = 0, host: str = "") -> None:
        """Kills the attempt: its process with SIGKILL if it is on this machine, which ends its Spark job sooner than a cancellation; then, or if it is
        elsewhere, cancels its Spark job.
        """
        delay_s = 0.0
        if pid and host == socket.gethostname():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
                delay_s = CANCEL_AFTER_KILL_S
        with self._lock:
            if attempt in self._running:
                self._cancelled.add(attempt)
        cancelling = threading.Timer(delay_s, self._cancel_group, [attempt])
        cancelling.daemon = True
        cancelling.start()

    def running(self) -> int:
        with self._lock:
            return len(self._running)

    def _occupied(self) -> int:
        """Returns the number of cores that the attempts hold or wait for."""
        with self._lock:
            return sum(self._granted.get(attempt, 1) for attempt in self._running)

    def leaving(self) -> frozenset[AttemptId]:
        """Returns the attempts on executors that Spark decommissions. Blocks for calls into the JVM; raises the errors of py4j."""
        found = {
            executor: cores
            for executor, cores in leaving_executors(self._session.context).items()
            if self._session.is_of(executor)
        }
        for executor in found.keys() - self._leaving.keys():
            _log.warning("Spark decommissions executor %s: its subtasks leave it", executor)
        with self._lock:
            self._leaving, running = found, list(self._running)
        return frozenset(attempts_on(self._session.context, found, running) if found else ())

    def _run(self, submission: SparkSubmission, on_end: OnEnd) -> None:
        error: ErrorInfo | None = None
        try:
            self._run_job(submission)
        except Exception as failure:  # noqa: BLE001  (whatever Spark, py4j or the user's query throw)
            error = error_of_job(failure, submission, self._session.is_alive())
        finally:
            with self._lock:
                self._running.pop(submission.attempt, None)
                self._granted.pop(submission.attempt, None)
                self._cancelled.discard(submission.attempt)
                self._served.discard(submission.attempt)
            on_end(submission.attempt, error)

    def _run_job(self, submission: SparkSubmission) -> None:
        if submission.resources is not None:
            check_resources(submission.resources, self._session.available(submission.slot_bytes))
            with self._lock:
                self._granted[submission.attempt] = submission.resources.cpus_of_subtask
        self._wait_for_cores(submission)
        context = self._session.context
        attempt = submission.attempt
        context.setJobGroup(
            str(attempt), f"{submission.task_name} ({attempt.subtask + 1}/{submission.parallelism})", True
        )
        with contextlib.ExitStack() as closing:
            operators = {} if submission.query is None else spark_operators(submission.query)
            entry = self._entry(submission, operators, closing)
            if submission.stored is not None:
                self._run_storing(submission, submission.stored, operators, entry)
                return
            partitions = self._partitions(submission, operators, entry)
            if attempt in self._cancelled:
                return
            jvm: JavaObject = context._jvm
            discard(jvm.PythonRDD.runJob(context._jsc.sc(), partitions, [attempt.subtask]))

    def _run_storing(
        self, submission: SparkSubmission, edges: StoredEdges, operators: Mapping[str, object], entry: SubtaskEntry
    ) -> None:
        """Runs an attempt of a BATCH job: its producers have finished, and its consumers start after it has stored its output."""
        inputs = self._outputs.inputs(edges, submission.attempt)
        if operators:  # writes its result, where it is a query that is materialized
            query_partitions(
                self._session.sql(), submission, operators, SubtaskPartition(entry), self._wants(submission)
            )
        if submission.attempt not in self._cancelled:
            self._outputs.run(submission.attempt, edges, inputs, StoringPartition(entry).over_blocks)

    def drop_outputs(self, job_id: JobId) -> None:
        """Removes all outputs that the job's subtasks have stored."""
        self._outputs.drop(job_id)

    def _wants(self, submission: SparkSubmission) -> Callable[[], bool]:
        return lambda: submission.attempt not in self._cancelled

    def _entry(
        self, submission: SparkSubmission, operators: Mapping[str, object], closing: contextlib.ExitStack
    ) -> SubtaskEntry:
        """Returns the entry that the worker gets. Opens a ``SparkDoor`` if the attempt needs one; ``closing`` closes it."""
        attempt, settings = submission.attempt, dict(submission.settings)
        if any(not isinstance(found, SparkSource) for found in operators.values()):
            if settings["tls_identity"]:
                raise ConfigurationError(
                    f"{submission.task_name}: streams of Spark and sinks that write by Spark have no TLS on a Spark cluster; leave them out, or set "
                    f"{SecurityOptions.DATA_ENABLED.key}: false on the TaskManagers, and connections of subtasks are plain"
                )
            service = SparkDoor(
                self._session,
                self._host(),
                str(attempt),
                submission.task_name,
                operators,
                ports_of(settings["listen"]),
            )
            closing.callback(service.close)
            with self._lock:
                self._served.add(attempt)
            self._wait_for_cores(submission)
            settings["spark_service"] = service.address
        return SubtaskEntry(self._control_address, str(attempt), submission.token, settings)

    def _partitions(
        self, submission: SparkSubmission, operators: Mapping[str, object], entry: SubtaskEntry
    ) -> JavaObject:
        """Returns the Java RDD whose partition runs the attempt."""
        run = SubtaskPartition(entry)
        found = (
            query_partitions(self._session.sql(), submission, operators, run, self._wants(submission))
            if operators
            else None
        )
        if found is not None:
            return found
        partitions = self._empty_rdd(submission.parallelism).mapPartitionsWithIndex(run.over_partition)
        if submission.resources is not None and not self._session.is_embedded:
            partitions = partitions.withResources(profile_of(submission.resources))
        return partitions._jrdd

    def _host(self) -> str:
        """Returns the host at which executors reach this process."""
        return "127.0.0.1" if is_unix(self._control_address) else self._control_address.rsplit(":", 1)[0].strip("[]")

    def _wait_for_cores(self, submission: SparkSubmission) -> None:
        """Waits until Spark has a core for the attempt. Raises ``NoResourceAvailable`` at once if Spark never had as many cores as are needed. If it had, an
        executor is missing: the wait then ends with the attempt's start timeout, which cancels it.
        """
        if self._session.has_parallelism:
            return
        is_logged = False
        while submission.attempt not in self._cancelled:
            cores, running, is_serving = self._session.cores(), self._occupied(), bool(self._served)
            self._most_cores = max(self._most_cores, cores)
            cores -= sum(self._leaving.values())
            if running + is_serving <= cores:
                return
            if running + is_serving > self._most_cores:
                more = ", and one more for what Spark reads and writes for them" if is_serving else ""
                raise NoResourceAvailable(
                    f"{submission.task_name}: Spark has {cores} cores, and the subtasks of this TaskManager need at least {running}, "
                    f"each one for life{more}; give spark.master more cores, or lower the parallelism"
                )
            if not is_logged:
                is_logged = True
                _log.warning(
                    "%s waits for a core: Spark has %d of the %d that it had before; an executor is away, and Spark starts another",
                    submission.task_name,
                    cores,
                    self._most_cores,
                )
            time.sleep(CORES_POLL_S)
        raise NoResourceAvailable(
            f"{submission.task_name} had no core: Spark has {self._session.cores()}, and had {self._most_cores} before an executor "
            "went away"
        )

    def _empty_rdd(self, parallelism: int) -> RDD[object]:
        with self._lock:
            if parallelism not in self._empty_rdds:
                self._empty_rdds[parallelism] = self._session.empty_rdd(parallelism)
            return self._empty_rdds[parallelism]

    def _cancel_group(self, attempt: AttemptId) -> None:
        with self._lock:
            if attempt not in self._running:
                return
        try:
            self._session.context.cancelJobGroup(str(attempt))
        except Exception as failure:  # noqa: BLE001  (the JVM may be gone, and the job with it)
            _log.debug("cannot cancel the Spark job of %s: %s", attempt, failure)


def error_of_job(failure: Exception, submission: SparkSubmission, jvm_is_alive: bool) -> ErrorInfo:
    """Returns the error of an attempt for the exception that its Spark job raised."""
    attempt = submission.attempt
    origin = f"{submission.task_name} ({attempt.subtask + 1}/{submission.parallelism})#{attempt.attempt}"
    if isinstance(failure, ExternalError) or hasattr(failure, "code"):
        return ErrorInfo.of(failure, origin)
    if not jvm_is_alive:
        return ErrorInfo.of(SubtaskLost(f"the JVM of this TaskManager ended under {origin}"), origin)
    text = str(failure)
    return ErrorInfo.of(SubtaskLost(f"the Spark job of {origin} failed: {_cause(text)}", details=text), origin)


def _cause(text: str) -> str:
    causes = [line for line in text.splitlines() if "Exception: " in line and not line.lstrip().startswith("at ")]
    return last_lines("\n".join(causes) or text, 1)
