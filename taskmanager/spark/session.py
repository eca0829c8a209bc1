"""The Spark that hosts the subtasks: a JVM of ours with a Spark context, embedded (``local[n]``) or driving a cluster.

Laws:
1. What the runtime depends on is not negotiable (``cluster.settings``): Spark retries nothing, every attempt is a fresh process.
   What is only sensible can be overridden by ``spark.*`` keys of the configuration.
2. Nothing of the JVM reaches the user's terminal: its output goes to a file.
3. The JVM ends when its standard input closes, so it does not outlive this process, however that ends.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import os
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.model.errors import ConfigurationError, ExternalError
from tidegate.taskmanager.spark.cluster.resources import Available, embedded_resources, executor_resources
from tidegate.taskmanager.spark.cluster.settings import (
    SessionSettings,
    hint_of,
    in_given_jvm,
    is_embedded,
    log4j_properties,
    session_properties,
)
from tidegate.taskmanager.spark.java import check_java, find_java
from tidegate.taskmanager.spark.jvm import Began, JavaObject, Jvm, ParentJvm, placed_rdd, start_jvm
from tidegate.taskmanager.spark.partitions import WAIT_S, die, read_all, wait, warm
from tidegate.taskmanager.spark.worker_exits import take_exit

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)


class Session:
    """A running Spark context. Made by ``start_session``; thread-safe."""

    def __init__(self, settings: SessionSettings, jvm: Jvm, gateway: JavaObject, context: SparkContext) -> None:
        self._settings = settings
        self._jvm = jvm
        self._gateway = gateway
        self.context = context
        self.external_resources = "{}"
        """Properties of what this machine has, as ``WorkerSettings`` take them."""
        self._lock = threading.Lock()
        self._sql: SparkSession | None = None
        self._place: tuple[str, int] | None = None
        self._fixed_cores = self._cores_of_spark() if self.is_embedded else None
        conf: JavaObject = context._conf
        self.has_parallelism = bool(conf.contains("spark.default.parallelism"))
        """Whether ``spark.default.parallelism`` is set: Spark says that number then, whatever cores it has."""

    def placed(self, executor_id: str, host: str, cores: int) -> Session:
        """The same Spark, for subtasks that all run on this one executor."""
        placed = copy.copy(self)
        placed._place = (f"executor_{host}_{executor_id}", cores)
        return placed

    def is_of(self, executor_id: str) -> bool:
        """Whether subtasks of this session may run on the executor."""
        return self._place is None or self._place[0].endswith(f"_{executor_id}")

    def empty_rdd(self, partitions: int) -> RDD[object]:
        """Nothing in so many partitions; where they run is the place of this session."""
        if self._place is None:
            return self.context.parallelize([], partitions)
        return placed_rdd(self.context, partitions, self._place[0])

    @property
    def is_embedded(self) -> bool:
        """Whether subtasks run on this machine, as children of this process's JVM."""
        return is_embedded(self._settings.master)

    @property
    def directory(self) -> Path:
        """Private, and removed with the TaskManager."""
        return self._settings.directory

    @property
    def jvm_pid(self) -> int:
        return self._jvm.pid

    def is_alive(self) -> bool:
        return self._jvm.is_alive()

    def take_exit(self, pid: int) -> int | None:
        """How the worker of that pid ended, if the daemon has noted it."""
        return take_exit(self._settings.exits, pid)

    def cores(self) -> int:
        """Cores that Spark has at this moment, on all its executors, or on the one of this session's place. An embedded one has the same ever."""
        if self._place is not None:
            return self._place[1]
        return self._cores_of_spark() if self._fixed_cores is None else self._fixed_cores

    def _cores_of_spark(self) -> int:
        return int(self.context._jsc.sc().defaultParallelism())

    @property
    def master(self) -> str:
        """``spark.master``"""
        return self._settings.master

    def available(self, slot_bytes: int) -> Available:
        """What slots can have at this moment. ``slot_bytes``: memory of one; 0: not bounded."""
        if self.is_embedded:
            return embedded_resources(self.external_resources, slot_bytes)
        return executor_resources(dict(self.context.getConf().getAll()), self._cores_of_executor(), slot_bytes)

    def _cores_of_executor(self) -> int:
        """How many the largest one has at this moment, or the one of this session's place."""
        if self._place is not None:
            return self._place[1]
        summaries = self.context._jsc.sc().statusStore().executorList(True)
        found = [summaries.apply(index) for index in range(int(summaries.size()))]
        executors = [each for each in found if str(each.id()) != "driver"]
        return max((int(each.totalCores()) for each in executors), default=0)

    def executors(self) -> int:
        """How many there are at this moment, the driver not counted; at least 1, as an embedded one is the driver itself.
        With a place, it alone counts."""
        if self._place is not None:
            return 1
        return max(1, int(self.context._jsc.sc().getExecutorMemoryStatus().size()) - 1)

    @property
    def log_path(self) -> Path:
        """What the JVM logs."""
        return self._settings.log_path

    def sql(self) -> SparkSession:
        """The ``SparkSession`` over the context, made when it is first needed."""
        from pyspark.sql import SparkSession

        with self._lock:
            if self._sql is None:
                self._sql = SparkSession(self.context)
            return self._sql

    def warm_up(self, workers: int) -> None:
        """Start the Python daemon and fork some workers. Raises ``ExternalError`` when they do not start."""
        from py4j.protocol import Py4JError

        try:
            self.context.parallelize([], workers).mapPartitionsWithIndex(warm).count()
        except Py4JError as error:
            raise no_workers(str(error)) from error

    def rehearse(self) -> None:
        """Lose a worker and cancel a job, once, on purpose. What the JVM does for the first time it does slowly: the first real
        loss would be seen after more than a second, later ones after 10 to 100 ms. Takes about a second."""
        from py4j.protocol import Py4JError

        group = "rehearsal"
        self.context.setJobGroup(group, "rehearsal of a loss", True)
        partitions: RDD[object] = self.context.parallelize([], 1)
        with contextlib.suppress(Py4JError):
            partitions.mapPartitionsWithIndex(die).count()

        def cancel() -> None:
            with contextlib.suppress(Py4JError, OSError):  # this process may be ending meanwhile
                self.context.cancelJobGroup(group)

        cancelling = threading.Timer(WAIT_S / 2, cancel)
        cancelling.start()
        with contextlib.suppress(Py4JError):
            partitions.mapPartitionsWithIndex(wait).count()
        cancelling.join()

    def rehearse_sql(self) -> None:
        """Read a small file with a query, as ``from_spark`` does. The first query of a JVM takes many seconds."""
        import pyarrow as pa
        import pyarrow.parquet as pq
        from py4j.protocol import Py4JError

        file = self._settings.directory / "rehearsal.parquet"
        pq.write_table(pa.table({"number": [1]}), file)
        with contextlib.suppress(Py4JError):  # this process is ending
            self.sql().read.parquet(str(file)).mapInArrow(read_all, "number long").rdd._jrdd.collect()

    def close(self) -> None:
        """End the JVM, and with it the Python daemon and all workers. Idempotent; returns when it is gone."""
        _silence(self.context)
        if not self._jvm.stop():
            _log.warning("the JVM (pid %d) did not end by itself and was killed", self._jvm.pid)
        _forget_context()
        with contextlib.suppress(OSError):
            self._gateway.close()


def start_session(settings: SessionSettings, began: Began = lambda process: None) -> Session:
    """Starts a JVM and a Spark context in it, or the context in the JVM that started this process. Raises ``ExternalError`` when Java or
    Spark cannot be had, also because the process that ``began`` received was ended."""
    started = time.monotonic()
    directory = settings.directory
    settings.exits.mkdir(parents=True, exist_ok=True)
    log_file = settings.log_path
    jvm: Jvm | None = None
    try:
        if ParentJvm.is_there():
            jvm = ParentJvm()
            gateway = jvm.connect()
            settings = in_given_jvm(settings, _given_to(gateway))
            properties = session_properties(settings)
        else:
            check_java(find_java())
            properties = session_properties(settings)
            (directory / "log4j2.properties").write_text(log4j_properties(settings), encoding="utf-8")
            jvm = start_jvm(properties, directory, log_file, began, settings.start_timeout_s)
            gateway = jvm.connect()
            properties |= _given_to(gateway)
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
    """The last lines that say something, in one."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    return " | ".join(lines[-count:])


def no_workers(text: str) -> ExternalError:
    """What to raise when a job of Spark's that only starts workers failed with these words."""
    why = why_no_workers(text)
    if "No module named" in why:
        why += "; executors need this package and those that it needs: give them with `tidegate package` and spark.archives, or install them"
    return ExternalError(f"Spark's Python workers do not start: {why}", details=text)


def why_no_workers(text: str) -> str:
    """The line that matters of what Spark says when its Python daemon ended: the last one of the daemon's own words, if there
    are any (Spark puts the daemon's Python path and a trace of its own behind them)."""
    _, found, words = text.partition("Error from python worker:")
    words = words.partition("PYTHONPATH was:")[0]
    return last_lines(words, 1) if found and words.strip() else last_lines(text, 3)


def _words_of(error: Exception) -> str:
    """An error of the JVM's is asked for its words, which a JVM that has ended does not say."""
    try:
        return str(error)
    except Exception as gone:  # noqa: BLE001  (py4j's and the socket's)
        return f"{type(error).__name__}, and the JVM is gone ({gone})"


def _given_to(gateway: JavaObject) -> dict[str, str]:
    """What `spark-submit` has made of the properties that it was given: of packages their jars, of archives what the cluster's own way of shipping
    them is called."""
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
    """Let another session be started in this process. PySpark would otherwise answer with the ``SparkSession`` of the JVM that is gone."""
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
    """Let calls of Py4J that the end of the JVM breaks off end without tracebacks: it logs them on the root logger."""
    logging.getLogger().addFilter(lambda record: not str(record.msg).startswith("Exception while sending command"))


def _silence(context: SparkContext) -> None:
    """Let what is connected to the JVM end without tracebacks when that goes: the accumulator server too."""
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
