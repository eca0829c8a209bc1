"""A YARN on this machine: one JVM with a ResourceManager and NodeManagers, whose containers are processes of their own.

Its jars come from Maven once (``tests.servers.jars``), those for logging from PySpark.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import psutil
import pyspark

from tests.e2e.cluster import START_LIMIT_S, Proc
from tests.e2e.waiting import wait_until
from tests.servers.jars import fetched, java

_HERE = Path(__file__).parent / "yarn"
_OF_PYSPARK = ("slf4j-api-*", "log4j-*", "javax.servlet-api-*")
SPARK = Path(pyspark.__file__).parent
EXECUTOR = "YarnCoarseGrainedExecutorBackend"
LAUNCHER = "org.apache.spark.deploy.yarn.ExecutorLauncher"
"""What asks for executors, where the driver is a client."""
MASTER = "org.apache.spark.deploy.yarn.ApplicationMaster"
"""What asks for executors in cluster mode, with the driver in it."""


class YarnCluster:
    """``end`` ends it with all containers. ``configuration`` is what clients need as ``HADOOP_CONF_DIR``."""

    def __init__(self, directory: Path, nodes: int = 2) -> None:
        self.directory = directory
        self.configuration = directory / "conf"
        self.staging = directory / "staging"
        tmp = directory / "tmp"
        for place in (self.configuration, self.staging, tmp):
            place.mkdir(parents=True)
        own = [jar for jar in fetched(_HERE / "pom.xml", "yarn").glob("*.jar") if not jar.name.startswith("slf4j")]
        shared = [jar for pattern in _OF_PYSPARK for jar in (SPARK / "jars").glob(f"{pattern}.jar")]
        classpath = ":".join(map(str, own + shared))
        command = [java(), "-Xmx512m", "-XX:+UseSerialGC", "-cp", classpath, str(_HERE / "Yarn.java")]
        self.process = Proc("yarn", [*command, str(self.configuration), str(nodes)], directory, tmp, java_home())
        wait_until(self._is_up, START_LIMIT_S, f"YARN is up:\n{self.process.tail()}")

    def containers(self, kind: str) -> list[psutil.Process]:
        """JVMs whose command line has this class, without the shells that start them."""
        found = []
        for process in self.process.family():
            try:
                command = process.cmdline()
            except psutil.Error:
                continue
            if command and command[0].endswith("java") and any(word.endswith(kind) for word in command):
                found.append(process)
        return found

    def logs(self) -> str:
        """What containers wrote."""
        found = sorted(self.directory.rglob("yarn-logDir-*/**/std*"))
        return "\n".join(f"===== {path}\n{path.read_text(errors='replace')[-4000:]}" for path in found)

    def end(self) -> None:
        for member in self.process.family():
            member.kill()
        self.process.popen.wait(START_LIMIT_S)

    def _is_up(self) -> bool:
        assert self.process.is_alive(), self.process.tail()
        return (self.configuration / "yarn-site.xml").exists()


def java_home() -> dict[str, str]:
    """Containers start `$JAVA_HOME/bin/java`."""
    program = shutil.which(java())
    assert program is not None, "no Java"
    return {"JAVA_HOME": os.environ.get("JAVA_HOME") or str(Path(program).resolve().parent.parent)}
