"""Determines the properties of a Spark context from the configuration and the kind of cluster.

fixed, since the runtime depends on it  >  spark.* of the configuration  >  sensible on this kind of cluster  >  Spark's own
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import tidegate
from tidegate.model.errors import ConfigurationError
from tidegate.model.options import SecurityOptions
from tidegate.model.shipped_files import PACKED, has_packages
from tidegate.taskmanager.spark.cluster import yarn
from tidegate.taskmanager.spark.worker_exits import ENVIRONMENT_KEY

_FIXED = {
    "spark.python.use.daemon": "true",
    "spark.python.daemon.module": "tidegate.taskmanager.spark.daemon",
    "spark.python.worker.reuse": "false",
    "spark.task.maxFailures": "1",
    "spark.stage.maxConsecutiveAttempts": "1",
    "spark.job.interruptOnCancel": "true",
    "spark.speculation": "false",
    "spark.dynamicAllocation.enabled": "false",
    "spark.scheduler.mode": "FIFO",
}
_ON_DEMAND = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.initialExecutors": "0",
    "spark.dynamicAllocation.schedulerBacklogTimeout": "100000000s",
    "spark.dynamicAllocation.executorIdleTimeout": "100000000s",
    "spark.dynamicAllocation.cachedExecutorIdleTimeout": "100000000s",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.timeout": "100000000s",
    "spark.locality.wait.process": "10s",
}
"""Properties that make a context start without executors on every kind of cluster, and keep Spark from changing their number. Only with dynamic allocation does
a context request no executors at its start. A subtask waits for its own executor for ``spark.locality.wait.process``; after that Spark may place it on another
one.
"""
_DEFAULTS = {
    "spark.app.name": "tidegate",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.rpc.netty.dispatcher.numThreads": "4",  # else one for each of the 1024 "cores"
    "spark.python.task.killTimeout": "1s",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
}
_CLUSTER_DEFAULTS = {
    "spark.decommission.enabled": "true",  # else an executor whose machine is asked to go just goes
}
_PATH = "spark.executorEnv.PYTHONPATH"
_EMBEDDED_DEFAULTS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
}
"""Defaults of an embedded Spark that keep other users of the machine out; Spark makes the secret itself for ``local`` masters."""
_ENCRYPTED = {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}
_SHARED = "spark.authenticate.secret"
_UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"
_LONGEST_PLACE = 60
"""Longest path, in bytes, of a directory for Spark's Unix sockets: their names have 42 bytes, and a path has at most 107."""
JVM_OPTIONS = "spark.driver.extraJavaOptions"
"""The property with the options of the driver's JVM."""
_JVM_OPTIONS = "-XX:-UsePerfData -XX:+UseSerialGC -Djava.io.tmpdir={tmp} -Dlog4j2.configurationFile={log4j}"
_COMPILED_LATER = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
    "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
"""JIT thresholds of the driver's JVM, ten times HotSpot's defaults. A start runs many methods a few times each, and compiling them with the optimizing compiler
took 1.7 of 5.3 s of processor time. Long queries pass these numbers at once: an aggregation over 20 million rows took 4.9 to 7.6 s, and 5.9 to 7.6 s without
them.
"""
_LOST_WORKER = r"(?s):?\\s*(?:org\\.apache\\.spark\\.SparkException: )?Python worker exited unexpectedly.*"
_SAID_OF_IT = r": its Python worker has ended; the TaskManager's log says how\n"
REHEARSAL = "rehearsal"
"""Spark's job group of a rehearsed loss (``Session.rehearse``), whose end its log does not tell."""
_LOG4J = f"""\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.alwaysWriteExceptions = false
appender.stderr.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss,SSS}} %-5p %c{{1}} - %replace{{%m%n%ex{{8}}}}{{{_LOST_WORKER}}}{{{_SAID_OF_IT}}}
appender.stderr.filter.rehearsal.type = RegexFilter
appender.stderr.filter.rehearsal.regex = (?s).*job group {REHEARSAL}.*
appender.stderr.filter.rehearsal.onMatch = deny
appender.stderr.filter.rehearsal.onMismatch = neutral
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
logger.conf.name = org.apache.spark.SparkConf
logger.conf.level = error
"""
"""Log4j settings of the JVM. A lost Python worker takes a line, without the frames of the JVM's thread that read from it."""
_LOG4J_ON_DEMAND = """\
logger.executors.name = org.apache.spark.deploy.client.StandaloneAppClient$ClientEndpoint
logger.executors.level = info
"""
"""Log4j settings that log how executors of a standalone cluster ended that never registered; Spark reports it nowhere else (``ExecutorRequests.ended``)."""


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """Settings from which a Spark context is started. ``directory``: private to this process, removed by its owner. ``properties``: the ``spark.*`` keys of the
    configuration.
    """

    directory: Path
    master: str = "local[1024]"
    properties: Mapping[str, str] = field(default_factory=dict)
    host: str = "127.0.0.1"
    """Host at which executors of a cluster reach this process."""
    log_file: Path | None = None
    """Log file of the JVM; ``None``: ``spark.log`` in ``directory``."""
    start_timeout_s: float = 300.0
    """Value of ``tidegate.start-timeout`` in seconds."""
    on_demand: bool = False
    """Whether the context starts without executors and requests them later (``ExecutorRequests``)."""
    archives: Path | None = None
    """Folder of the archives of the JVM's classes (``class_archive``); ``None``: none is used or made."""
    is_encrypted: bool = False
    """Whether Spark's connections between machines must be encrypted, since they carry the keys of subtasks."""

    @property
    def log_path(self) -> Path:
        return self.log_file or self.directory / "spark.log"

    @property
    def exits(self) -> Path:
        """Directory in which the Python daemon notes the exit codes of workers."""
        return self.directory / "exits"


def log4j_properties(settings: SessionSettings) -> str:
    """Returns the content of the JVM's log4j2.properties."""
    return _LOG4J + (_LOG4J_ON_DEMAND if settings.on_demand else "")


def session_properties(settings: SessionSettings) -> dict[str, str]:
    """Returns all properties of the Spark context. Raises ``ConfigurationError`` if the configuration sets a property that the runtime depends on to another
    value.
    """
    fixed = _FIXED | (_ENCRYPTED if settings.is_encrypted else {})
    wrong = [key for key, value in fixed.items() if settings.properties.get(key, value) != value]
    if wrong:
        said = ", ".join(f"{key} must be {fixed[key]}" for key in wrong)
        raise ConfigurationError(f"bad configuration: {said}; leave it out")
    if settings.is_encrypted and settings.master.startswith("spark://") and _SHARED not in settings.properties:
        raise ConfigurationError(
            f"bad configuration: {SecurityOptions.INTERNAL_ENABLED.key} is true, and {settings.master} has to encrypt what executors get: set "
            f"{_SHARED} to the secret of its master and workers, which have {_said(_ENCRYPTED)}"
        )
    found = dict(_DEFAULTS)
    if is_embedded(settings.master):
        found |= _EMBEDDED_DEFAULTS
        # Those of Python workers lie in the JVM's java.io.tmpdir, which is private.
        found[_UNIX_SOCKETS] = str(len(bytes(settings.directory)) <= _LONGEST_PLACE).lower()
    else:
        found |= _CLUSTER_DEFAULTS
        found["spark.driver.host"] = settings.host
        found |= yarn.DEFAULTS if settings.master == yarn.MASTER else {}
    found[f"spark.executorEnv.{ENVIRONMENT_KEY}"] = str(settings.exits)
    found["spark.local.dir"] = str(settings.directory / "local")
    found["spark.sql.warehouse.dir"] = str(settings.directory / "warehouse")
    found |= settings.properties
    if not is_embedded(settings.master):
        found[_PATH] = _path_of_executors(settings, Path(tidegate.__file__))
    found |= fixed | (_ON_DEMAND if settings.on_demand else {})
    found["spark.master"] = settings.master
    log4j = settings.directory / "log4j2.properties"
    options = f"{_COMPILED_LATER} {_JVM_OPTIONS.format(tmp=settings.directory, log4j=log4j.as_uri())}"
    users = settings.properties.get(JVM_OPTIONS, "")
    found[JVM_OPTIONS] = f"{options} {users}".strip()
    return found


def _said(properties: Mapping[str, str]) -> str:
    return " and ".join(f"{key}={value}" for key, value in properties.items())


def hint_of(settings: SessionSettings, said: str) -> str:
    """Returns a hint on the cause of a failed start, to append to its error message ``said``; empty if there is none."""
    if settings.is_encrypted and "masters are unresponsive" in said:
        return f"; check that it runs, and that it and its workers have {_said(_ENCRYPTED)} and the same {_SHARED}"
    return ""


def _path_of_executors(settings: SessionSettings, own: Path) -> str:
    """Returns the PYTHONPATH of executors: the archive with this package if one is shipped to them, else the directory in which this process has the package
    (``own``: the file of the package).

    In a container that YARN started, this process runs from the archive itself, and Spark does not report what it ships. An existing PYTHONPATH, such as the
    entries that `spark-submit` adds for PySpark's archives, follows.
    """
    place = own.parent.parent
    shipped = (settings.properties.get(key, "") for key in ("spark.archives", yarn.ARCHIVES))
    is_packed = place.name == PACKED or any(has_packages(archives) for archives in shipped)
    found = [PACKED if is_packed else str(place), settings.properties.get(_PATH, "")]
    return (yarn.PATH_SEPARATOR if settings.master == yarn.MASTER else ":").join(filter(None, found))


def in_given_jvm(settings: SessionSettings, given: Mapping[str, str]) -> SessionSettings:
    """Returns the settings completed with the properties of the JVM that started this process (``given``); those of the configuration win. Raises
    ``ConfigurationError`` when the two name different masters.
    """
    master = given.get("spark.master", "")
    if master != settings.master:
        raise ConfigurationError(
            f"bad configuration: spark.master is {settings.master}, and Spark started this TaskManager for {master}; say -D spark.master={master}"
        )
    return replace(settings, properties={**given, **settings.properties})


def is_embedded(master: str) -> bool:
    return master == "local" or master.startswith("local[")
