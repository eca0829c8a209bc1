"""The Spark session that runs the subtasks: a JVM with a Spark context, embedded (``local[n]``) or as the driver of a cluster.

Laws:
1. Properties that the runtime depends on are fixed (``session_settings``): Spark retries nothing, and every attempt is a fresh process. ``spark.*`` keys of the
   configuration override other defaults.
2. The JVM's output goes to a file, never to the user's terminal.
3. The JVM ends when its standard input is closed, so it does not outlive this process.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.model.errors import ConfigurationError, ExternalError
from tidegate.taskmanager.spark.class_archive import ClassArchive, archive_of, has_crashed
from tidegate.taskmanager.spark.cluster.resources import Available, embedded_resources, executor_resources
from tidegate.taskmanager.spark.cluster.session_settings import (
    JVM_OPTIONS,
    REHEARSAL,
    SessionSettings,
    hint_of,
    in_given_jvm,
    is_embedded,
    log4j_properties,
    session_properties,
)
from tidegate.taskmanager.spark.java import check_java, find_java
from tidegate.taskmanager.spark.jvm import (
    STOP_TIMEOUT_S,
    Began,
    JavaObject,
    Jvm,
    ParentJvm,
    placed_rdd,
    spark_home,
    start_jvm,
)
from tidegate.taskmanager.spark.partitions import WAIT_S, die, read_all, wait, warm
from tidegate.taskmanager.spark.worker_exits import take_exit

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext
    from pyspark.sql import SparkSession

_LOGGERS_OF_A_LOSS = ("org.apache.spark.executor.Executor", "org.apache.spark.scheduler.TaskSetManager")
_log = logging.getLogger(__name__)


class Session:
    """A running Spark context, made by ``start_session``. Thread-safe."""

    def __init__(self, settings: SessionSettings, jvm: Jvm, gateway: JavaObject, context: SparkContext) -> None:
        self._settings = settings
        self._jvm = jvm
        self._gateway = gateway
        self.context = context
        self.external_resources = "{}"
        """External resources of this machine as JSON, as in ``WorkerSettings``."""
        self._lock = threading.Lock()
        self._sql: SparkSession | None = None
        self._place: tuple[str, int] | None = None
        self._fixed_cores = self._cores_of_spark() if self.is_embedded else None
        conf: JavaObject = context._conf
        self.has_parallelism = bool(conf.contains("spark.default.parallelism"))
        """Whether ``spark.default.parallelism`` is set. Spark then reports that number in place of its cores."""

    def placed(self, executor_id: str, host: str, cores: int) -> Session:
        """Returns a copy of the session whose subtasks all run on the given executor."""
        placed = copy.copy(self)
        placed._place = (f"executor_{host}_{executor_id}", cores)
        return placed

    def is_of(self, executor_id: str) -> bool:
        """Whether subtasks of this session may run on the executor."""
        return self._place is None or self._place[0].endswith(f"_{executor_id}")

    def empty_rdd(self, partitions: int) -> RDD[object]:
        """Returns an RDD of empty partitions; they run on this session's executor if it has one."""
        if self._place is None:
            return self.context.parallelize([], partitions)
        return placed_rdd(self.context, partitions, self._place[0])

    @property
    def is_embedded(self) -> bool:
        """Whether subtasks run on this machine, as children of this process's JVM."""
        return is_embedded(self._settings.master)

    @property
    def directory(self) -> Path:
        """Private directory, removed with the TaskManager."""
        return self._settings.directory

    @property
    def jvm_pid(self) -> int:
        return self._jvm.pid

    def is_alive(self) -> bool:
        return self._jvm.is_alive()

    def take_exit(self, pid: int, limit_s: float) -> int | None:
        """Returns the exit code of a worker if the daemon notes it within ``limit_s`` seconds, and removes the note; else ``None``."""
        return take_exit(self._settings.exits, pid, limit_s)

    def cores(self) -> int:
        """Returns the number of cores that Spark has now, on all executors, or on this session's executor. It is constant for an embedded Spark."""
        if self._place is not None:
            return self._place[1]
        return self._cores_of_spark() if self._fixed_cores is None else self._fixed_cores

    def _cores_of_spark(self) -> int:
        return int(self.context._jsc.sc().defaultParallelism())

    @property
    def master(self) -> str:
        """Value of ``spark.master``."""
        return self._settings.master

    def available(self, slot_bytes: int) -> Available:
        """Returns the resources that slots can have now. ``slot_bytes``: memory of a slot, 0 if not bounded."""
        if self.is_embedded:
            return embedded_resources(self.external_resources, slot_bytes)
        return executor_resources(dict(self.context.getConf().getAll()), self._cores_of_executor(), slot_bytes)

    def _cores_of_executor(self) -> int:
        """Returns the number of cores of the largest executor now, or of this session's executor."""
        if self._place is not None:
            return self._place[1]
        summaries = self.context._jsc.sc().statusStore().executorList(True)
        found = [summaries.apply(index) for index in range(int(summaries.size()))]
        executors = [each for each in found if str(each.id()) != "driver"]
        return max((int(each.totalCores()) for each in executors), default=0)

    def executors(self) -> int:
        """Returns the number of executors now without the driver, at least 1, since an embedded Spark's executor is the driver; 1 for a session with its own
        executor.
        """
        if self._place is not None:
            return 1
        return max(1, int(self.context._jsc.sc().getExecutorMemoryStatus().size()) - 1)

    @property
    def log_path(self) -> Path:
        """Log file of the JVM."""
        return self._settings.log_path

    def sql(self) -> SparkSession:
        """Returns the ``SparkSession`` over the context; makes it at the first call."""
        from pyspark.sql import SparkSession

        with self._lock:
            if self._sql is None:
                self._sql = SparkSession(self.context)
            return self._sql

    def warm_up(self, workers: int) -> None:
        """Starts the Python daemon and forks ``workers`` workers. Raises ``ExternalError`` when they do not start."""
        from py4j.protocol import Py4JError

        try:
            self.context.parallelize([], workers).mapPartitionsWithIndex(warm).count()
        except Py4JError as error:
            raise no_workers(str(error)) from error

    def rehearse(self) -> None:
        """Loses a worker and cancels a job on purpose, so that the JVM has run that code before a real loss: it would notice the first one after more than a
        second, later ones after 10 to 100 ms. Takes about a second.
        """
        from py4j.protocol import Py4JError

        self.context.setJobGroup(REHEARSAL, "rehearsal of a loss", True)
        partitions: RDD[object] = self.context.parallelize([], 1)
        with contextlib.suppress(Py4JError), self._telling_no_loss():
            partitions.mapPartitionsWithIndex(die).count()

        def cancel() -> None:
            with contextlib.suppress(Py4JError, OSError):  # this process may be ending meanwhile
                self.context.cancelJobGroup(REHEARSAL)

        cancelling = threading.Timer(WAIT_S / 2, cancel)
        cancelling.start()
        with contextlib.suppress(Py4JError):
            partitions.mapPartitionsWithIndex(wait).count()
        cancelling.join()

    @contextlib.contextmanager
    def _telling_no_loss(self) -> Iterator[None]:
        """Keeps what Spark says of a lost worker out of its log meanwhile."""
        jvm: JavaObject = self.context._jvm
        log4j = jvm.org.apache.logging.log4j
        levels = [(name, log4j.LogManager.getLogger(name).getLevel()) for name in _LOGGERS_OF_A_LOSS]
        for name in _LOGGERS_OF_A_LOSS:
            log4j.core.config.Configurator.setLevel(name, log4j.Level.OFF)
        try:
            yield
        finally:
            for name, level in levels:
                log4j.core.config.Configurator.setLevel(name, level)

    def rehearse_sql(self) -> None:
        """Reads a small file with a query, as ``from_spark`` does, since the first query of a JVM takes many seconds."""
        import pyarrow as pa
        import pyarrow.parquet as pq
        from py4j.protocol import Py4JError

        file = self._settings.directory / "rehearsal.parquet"
        pq.write_table(pa.table({"number": [1]}), file)
        with contextlib.suppress(Py4JError):  # this process is ending
            self.sql().read.parquet(str(file)).mapInArrow(read_all, "number long").rdd._jrdd.collect()

    def close(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Ends the JVM, and with it the Python daemon and all workers; returns when it is gone. It is killed after ``timeout_s``. Idempotent."""
        _silence(self.context)
        if not self._jvm.stop(timeout_s):
            _log.warning("the JVM (pid %d) did not end by itself and was killed", self._jvm.pid)
        _forget_context()
        with contextlib.suppress(OSError):
            self._gateway.close()


def start_session(settings: SessionSettings, began: Began = lambda process: None) -> Session:
    """Starts a JVM with a Spark context, or the context in the JVM that started this process. ``began`` receives the new process. Raises ``ExternalError`` when
    Java or Spark does not start, also if that process was ended, and ``ConfigurationError``.
    """
    settings.exits.mkdir(parents=True, exist_ok=True)
    if ParentJvm.is_there():
        return _start_session(settings, lambda: ParentJvm())
    archive = archive_of_classes(settings)
    if archive is None or not archive.is_usable():
        return _start_session(settings, lambda: _start_jvm(settings, "", began))
    processes: list[subprocess.Popen[bytes]] = []

    def begins(process: subprocess.Popen[bytes]) -> None:
        processes.append(process)
        began(process)

    try:
        return _start_session(settings, lambda: _start_jvm(settings, archive.options(), begins))
    except ExternalError as error:
        if not processes or not has_crashed(processes[0].poll()):
            raise
        _log.warning("the JVM crashed with the archive %s of its classes, which is removed: %s", archive.file, error)
        archive.remove()
        return _start_session(settings, lambda: _start_jvm(settings, "", began))


def archive_of_classes(settings: SessionSettings) -> ClassArchive | None:
    """Returns the archive of classes for the JVM of a session, which may have to be made; ``None`` where there can be none."""
    if settings.archives is None or ParentJvm.is_there():
        return None
    try:
        return archive_of(settings.archives, find_java(), spark_home(), settings.properties)
    except ExternalError:  # there is no Java, as the start says
        return None


def _start_jvm(settings: SessionSettings, options: str, began: Began) -> Jvm:
    """Starts a JVM with ``options`` besides those of the session."""
    check_java(find_java())
    properties = session_properties(settings)
    properties[JVM_OPTIONS] = f"{options} {properties[JVM_OPTIONS]}".strip()
    (settings.directory / "log4j2.properties").write_text(log4j_properties(settings), encoding="utf-8")
    return start_jvm(properties, settings.directory, settings.log_path, began, settings.start_timeout_s)


def _start_session(settings: SessionSettings, start: Callable[[], Jvm]) -> Session:
    """Makes the session in the JVM that ``start`` returns. Raises as ``start_session``."""
    started = time.monotonic()
    log_file = settings.log_path
    jvm: Jvm | None = None
    try:
        jvm = start()
        gateway = jvm.connect()
        if isinstance(jvm, ParentJvm):
            settings = in_given_jvm(settings, _given_to(gateway))
            properties = session_properties(settings)
        else:
            properties = session_properties(settings) | _given_to(gateway)
        # Read by PySpark from the environment only, by the driver for the workers' interpreter.
        os.environ["PYSPARK_PYTHON"] = settings.properties.get("spark.pyspark.python", sys.executable)
        os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        context = _context(gateway, properties)
    except ConfigurationError:
        raise
    except Exception as error:
        if jvm is not None:
            jvm.kill()
        words = _words_of(error)
        said = last_lines(_tail(log_file), 5) or words
        raise ExternalError(
            f"Spark did not start (spark.master {settings.master}): {said}{hint_of(settings, said)}", details=words
        ) from error
    _log.info("Spark %s at %s is up after %.1f s", context.version, settings.master, time.monotonic() - started)
    return Session(settings, jvm, gateway, context)


def last_lines(text: str, count: int) -> str:
    """Returns the last ``count`` lines with content, without stack frames, joined into one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    return " | ".join(lines[-count:])


def no_workers(text: str) -> ExternalError:
    """Returns the error for a Spark job that only starts workers and failed with ``text``."""
    why = why_no_workers(text)
    if "No module named" in why:
        why += "; executors need this package and those that it needs: give them with `tidegate package` and spark.archives, or install them"
    return ExternalError(f"Spark's Python workers do not start: {why}", details=text)


def why_no_workers(text: str) -> str:
    """Returns the relevant line of Spark's message about a Python daemon that ended: the last line of the daemon's own output if there is any, else the last
    lines. Spark appends the daemon's Python path and a stack trace.
    """
    _, found, words = text.partition("Error from python worker:")
    words = words.partition("PYTHONPATH was:")[0]
    return last_lines(words, 1) if found and words.strip() else last_lines(text, 3)


def _words_of(error: Exception) -> str:
    """Returns the message of an error. An error of the JVM has to be read from it, which fails when the JVM has ended."""
    try:
        return str(error)
    except Exception as gone:  # noqa: BLE001  (py4j's and the socket's)
        return f"{type(error).__name__}, and the JVM is gone ({gone})"


def _given_to(gateway: JavaObject) -> dict[str, str]:
    """Returns the properties that `spark-submit` made of those it was given: jars for packages, and the cluster's own property for archives."""
    from pyspark import SparkConf

    return dict(SparkConf(loadDefaults=True, _jvm=gateway.jvm).getAll())


def _context(gateway: JavaObject, properties: Mapping[str, str]) -> SparkContext:
    from pyspark import SparkConf, SparkContext

    conf = SparkConf(loadDefaults=False, _jvm=gateway.jvm)
    for key, value in properties.items():
        conf.set(key, value)
    try:
        return SparkContext(conf=conf, gateway=gateway)
    except BaseException:
        _forget_context()
        raise


def _forget_context() -> None:
    """Clears PySpark's global state, so that another session can start in this process. PySpark would otherwise return the ``SparkSession`` of the JVM that is
    gone.
    """
    from pyspark import SparkContext

    with SparkContext._lock:
        SparkContext._active_spark_context = None
        SparkContext._gateway = None
        SparkContext._jvm = None
    if "pyspark.sql" in sys.modules:
        from pyspark.sql import SparkSession, SQLContext

        SparkSession._instantiatedSession = SparkSession._activeSession = None
        SQLContext._instantiatedContext = None


def silence_calls() -> None:
    """Suppresses the tracebacks of Py4J calls that the end of the JVM breaks off, which Py4J logs on the root logger."""
    logging.getLogger().addFilter(lambda record: not str(record.msg).startswith("Exception while sending command"))


def _silence(context: SparkContext) -> None:
    """Suppresses the tracebacks of everything that is connected to the JVM when that ends, and ends the accumulator server."""
    silence_calls()
    server = getattr(context, "_accumulatorServer", None)
    if server is not None:
        server.server_shutdown = True
        server.handle_error = lambda request, address: None
        threading.Thread(target=server.shutdown, name="accumulators end", daemon=True).start()


def _tail(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")[-20_000:]
    except OSError:
        return ""
