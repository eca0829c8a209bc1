"""How a Spark context is configured, from what the configuration and the kind of cluster say.

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
"""Begin without executors on every kind of cluster, and let Spark decide nothing about their number: only with dynamic allocation a context
asks for none at its start. A subtask waits for its own executor for so long; then another one is better than none."""
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
"""Other users of the machine do not get in; Spark makes the secret for ``local`` masters itself."""
_ENCRYPTED = {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}
_SHARED = "spark.authenticate.secret"
_UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"
_LONGEST_PLACE = 60
"""Bytes of a directory with Unix sockets of Spark: their names have 42, and a path has at most 107."""
_JVM_OPTIONS = "-XX:-UsePerfData -XX:+UseSerialGC -Djava.io.tmpdir={tmp} -Dlog4j2.configurationFile={log4j}"
_COMPILED_LATER = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
    "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
"""Ten times HotSpot's defaults. A start makes so many methods warm, none of them hot, that the optimizing compiler took 1.7 of the 5.3 s of processor time of
the JVM. What queries run for long passes these numbers in a moment: an aggregation over 20 million rows took 4.9 to 7.6 s, and 5.9 to 7.6 s without."""
_LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yyyy-MM-dd HH:mm:ss,SSS} %-5p %c{1} - %m%n%ex{8}
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
logger.conf.name = org.apache.spark.SparkConf
logger.conf.level = error
"""
_LOG4J_ON_DEMAND = """\
logger.executors.name = org.apache.spark.deploy.client.StandaloneAppClient$ClientEndpoint
logger.executors.level = info
"""
"""How executors of a standalone cluster end that never registered: nothing else in Spark says so (``ExecutorRequests.ended``)."""


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """``properties`` are the ``spark.*`` keys of the configuration. ``directory`` is private and removed by its owner."""

    directory: Path
    master: str = "local[1024]"
    properties: Mapping[str, str] = field(default_factory=dict)
    host: str = "127.0.0.1"
    """Where executors of a cluster reach this process."""
    log_file: Path | None = None
    """The log of the JVM; ``spark.log`` in ``directory`` when not given."""
    start_timeout_s: float = 300.0
    """``tidegate.start-timeout``"""
    on_demand: bool = False
    """Whether it begins without executors, and asks for them later (``ExecutorRequests``)."""
    is_encrypted: bool = False
    """Whether Spark's connections between machines have to be encrypted: they carry the keys of subtasks."""

    @property
    def log_path(self) -> Path:
        return self.log_file or self.directory / "spark.log"

    @property
    def exits(self) -> Path:
        """Where the Python daemon notes how workers ended."""
        return self.directory / "exits"


def log4j_properties(settings: SessionSettings) -> str:
    """What the JVM logs, and how."""
    return _LOG4J + (_LOG4J_ON_DEMAND if settings.on_demand else "")


def session_properties(settings: SessionSettings) -> dict[str, str]:
    """All properties of the context. Raises ``ConfigurationError`` for one that the runtime cannot live with."""
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
    users = settings.properties.get("spark.driver.extraJavaOptions", "")
    found["spark.driver.extraJavaOptions"] = f"{options} {users}".strip()
    return found


def _said(properties: Mapping[str, str]) -> str:
    return " and ".join(f"{key}={value}" for key, value in properties.items())


def hint_of(settings: SessionSettings, said: str) -> str:
    """Returns what may be wrong where Spark said that it did not start; empty where nothing is known."""
    if settings.is_encrypted and "masters are unresponsive" in said:
        return f"; is it there, and do it and its workers have {_said(_ENCRYPTED)} and the same {_SHARED}?"
    return ""


def _path_of_executors(settings: SessionSettings, own: Path) -> str:
    """Where they find this package: in what was packed for them, or where this process, whose is ``own``, has it. In a container that YARN
    started, this process is packed itself, and Spark says no more what it ships. What was there before, as `spark-submit` puts PySpark's own archives
    there, comes behind."""
    place = own.parent.parent
    shipped = (settings.properties.get(key, "") for key in ("spark.archives", yarn.ARCHIVES))
    is_packed = place.name == PACKED or any(has_packages(archives) for archives in shipped)
    found = [PACKED if is_packed else str(place), settings.properties.get(_PATH, "")]
    return (yarn.PATH_SEPARATOR if settings.master == yarn.MASTER else ":").join(filter(None, found))


def in_given_jvm(settings: SessionSettings, given: Mapping[str, str]) -> SessionSettings:
    """With what the JVM that started this process was given, where the configuration says nothing else. Raises ``ConfigurationError`` when the two are
    not about the same cluster."""
    master = given.get("spark.master", "")
    if master != settings.master:
        raise ConfigurationError(
            f"bad configuration: spark.master is {settings.master}, and Spark started this TaskManager for {master}; say -D spark.master={master}"
        )
    return replace(settings, properties={**given, **settings.properties})


def is_embedded(master: str) -> bool:
    return master == "local" or master.startswith("local[")
