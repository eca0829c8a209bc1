"""An archive of the classes that Spark's JVM loads, which the JVMs of tests map instead of reading and verifying 12,000 classes from jars.

python -m tests.servers.class_archive

Made once for a Java, a Spark and a place of its jars, since a JVM takes an archive only with the class path that it was written with; with
another one, and without the archive, it starts as ever. About half of the processor time of a start goes with it (docs/internals/performance.md).
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

from tests.servers.jars import java

QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For the JVMs of tests, which live for seconds: one that compiles with the quick compiler alone starts with half the work."""
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""A JVM with another class path leaves the archive alone, and would say so between the lines that a test reads."""
_LIMIT_S = 300
_TRAINING = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.parallelize(range(2), 2).map(str).collect()
spark.createDataFrame([(1, "a")], "a int, b string").mapInArrow(lambda batches: batches, "a int, b string").collect()
spark.stop()
"""


def archive() -> Path:
    """Where it lies once it was made: in the environment whose jars it belongs to."""
    plain = {key: value for key, value in os.environ.items() if key != "JDK_JAVA_OPTIONS"}  # the version names them
    said = subprocess.run([java(), "-version"], env=plain, capture_output=True, text=True, timeout=_LIMIT_S, check=True)
    made_with = "\n".join([said.stderr, pyspark.__version__, QUICK_JVM, _TRAINING])
    return Path(sys.prefix) / f"spark-{hashlib.sha256(made_with.encode()).hexdigest()[:12]}.jsa"


def options() -> str:
    """What Spark's JVMs get besides, for `SPARK_SUBMIT_OPTS`: nothing without an archive."""
    found = archive()
    return f"-XX:SharedArchiveFile={found} {_QUIET}" if found.exists() else ""


def main() -> None:
    """Make it, where there is none. A Java that cannot write one is no failure: its JVMs start as ever."""
    target = archive()
    if target.exists():
        return
    with tempfile.TemporaryDirectory(dir=target.parent) as directory:
        fresh = Path(directory) / target.name
        environment = {
            **os.environ,
            "JDK_JAVA_OPTIONS": QUICK_JVM,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_SUBMIT_OPTS": f"-XX:ArchiveClassesAtExit={fresh} {_QUIET}",
        }
        subprocess.run(
            [sys.executable, "-c", _TRAINING], env=environment, capture_output=True, timeout=_LIMIT_S, check=True
        )
        if fresh.exists():
            fresh.rename(target)


if __name__ == "__main__":
    main()
