"""Starts and ends the JVM of a Spark driver, in place of PySpark, which would fork this process with all its threads.

PySpark forks to make the JVM ignore Ctrl-C, and a fork runs gRPC's handlers while its threads are busy. A new process session has the same effect without a
fork. The JVM ends when its standard input is closed (Spark's ``PythonGatewayServer``), which works only once it is up; on Linux the kernel also ends it with
the thread that started it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from tidegate.aio.parents import dying_with_this
from tidegate.model.errors import ExternalError

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

JavaObject: TypeAlias = Any
"""An object of the JVM as Py4J shows it; methods are looked up when they are called."""

STOP_TIMEOUT_S = 3.0
"""Seconds that the JVM gets to end by itself before it is killed. Chosen, not measured."""
_POLL_S = 0.02
"""Seconds between two looks for the gateway: short compared with the seconds in which a JVM starts. Chosen, not measured."""
_GATEWAY_PORT, _GATEWAY_SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
"""Environment variables in which PySpark looks for a running gateway."""
_QUICK = "-XX:-UsePerfData -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Flags of the small JVM that only puts together the command line of the driver's JVM."""


class Jvm(Protocol):
    """A JVM with a Py4J gateway."""

    @property
    def pid(self) -> int: ...
    def is_alive(self) -> bool: ...
    def connect(self) -> JavaObject:
        """Returns a Py4J gateway to the JVM, with PySpark's imports."""

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> bool:
        """Ends the JVM and waits until it is gone, or kills it after ``timeout_s``; returns whether it ended without being killed."""

    def kill(self) -> None: ...


class OwnJvm:
    """A JVM that is a child of this process."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, secret: str) -> None:
        self._process = process
        self._port = port
        self._secret = secret

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def connect(self) -> JavaObject:
        return _connected(str(self._port), self._secret)

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> bool:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        return True

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class ParentJvm:
    """The JVM that started this process: with `spark-submit` in cluster mode, the driver's JVM runs in a container of the cluster and starts Python.

    It passes the address of its gateway in the environment (Spark: ``PythonRunner.scala``), and ends after this process has ended.
    """

    def __init__(self) -> None:
        self._parent = os.getppid()
        self._port, self._secret = os.environ.pop(_GATEWAY_PORT), os.environ.pop(_GATEWAY_SECRET)

    @staticmethod
    def is_there() -> bool:
        return _GATEWAY_PORT in os.environ and _GATEWAY_SECRET in os.environ

    @property
    def pid(self) -> int:
        return self._parent

    def is_alive(self) -> bool:
        return os.getppid() == self._parent

    def connect(self) -> JavaObject:
        return _connected(self._port, self._secret)

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> bool:
        return True

    def kill(self) -> None:
        """Does nothing: the JVM notices the end of this process, and the cluster decides whether to start another one."""


Began = Callable[["subprocess.Popen[bytes]"], None]
"""Callback with the process as soon as it is started, long before the JVM is up; from then on it can be ended."""


def start_jvm(properties: Mapping[str, str], directory: Path, log_file: Path, began: Began, timeout_s: float) -> OwnJvm:
    """Starts a JVM in ``directory`` with its output in ``log_file``. Raises ``ExternalError`` when it ends early or is not up after ``timeout_s``.

    On Linux the JVM ends with the thread that calls this, so that thread must live as long as the JVM is needed.
    """
    file = directory / "spark.properties"
    write_properties(properties, file)
    # Besides spark-defaults.conf, as `--conf` would be read.
    command = [str(spark_home() / "bin" / "spark-submit"), "--load-spark-defaults", "--properties-file", str(file)]
    gateway_file = directory / "gateway"
    environment = {**os.environ, "SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(gateway_file)}
    environment.setdefault("SPARK_LAUNCHER_OPTS", _QUICK)
    with log_file.open("ab") as log:
        process = subprocess.Popen(
            dying_with_this([*command, "pyspark-shell"]),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            # Not the user's directory: `python -m` would put the modules in it first in every worker.
            cwd=directory,
            env=environment,
            start_new_session=True,
        )
    assert process.stdin is not None
    began(process)
    try:
        port, secret = _wait_for_gateway(process, gateway_file, timeout_s)
    except ExternalError:
        process.stdin.close()
        raise
    return OwnJvm(process, port, secret)


def spark_home() -> Path:
    """Returns the directory of Spark: ``$SPARK_HOME``, or that of the PySpark package."""
    from pyspark.find_spark_home import _find_spark_home

    find: Any = _find_spark_home
    return Path(find())


def write_properties(properties: Mapping[str, str], file: Path) -> None:
    """Writes a file of Java properties that only this user can read; a command line is visible to all users of the machine."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="ascii") as target:
        for key, value in properties.items():
            target.write(f"{_escaped(key)}={_escaped(value)}\n")


def _escaped(text: str) -> str:
    """Returns the text escaped for ``java.util.Properties.load``."""
    units = text.encode("utf-16-be")
    letters = (int.from_bytes(units[i : i + 2], "big") for i in range(0, len(units), 2))
    return "".join(chr(c) if (chr(c).isalnum() and c < 128) or chr(c) in "._-/" else f"\\u{c:04x}" for c in letters)


def discard(served: JavaObject) -> None:
    """Reads the empty result of a Spark job, so that the JVM's thread that serves it ends."""
    from pyspark.serializers import NoOpSerializer
    from pyspark.util import _load_from_socket

    with _load_from_socket(served, NoOpSerializer()) as rows:
        for _ in rows:
            pass


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kills a JVM and its process group, which also holds the scripts that start it."""
    with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
        os.killpg(process.pid, signal.SIGKILL)


def placed_rdd(context: SparkContext, partitions: int, location: str) -> RDD[object]:
    """Returns an RDD whose partitions Spark runs on one executor, as long as that is there and has a core free within ``spark.locality.wait.process``.

    ``location``: ``executor_<host>_<executor id>`` (Spark: ``TaskLocation.scala``). Each partition has one meaningless element, since ``SparkContext.makeRDD``
    takes locations of elements only.
    """
    from pyspark import RDD
    from pyspark.serializers import NoOpSerializer

    jvm: JavaObject = context._jvm
    bytes_tag = jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("[B"))
    place = jvm.PythonUtils.toSeq([location])
    elements = jvm.PythonUtils.toSeq([jvm.scala.Tuple2(b"", place) for _ in range(partitions)])
    rdd = context._jsc.sc().makeRDD(elements, bytes_tag)
    serializer: JavaObject = NoOpSerializer()
    return RDD(jvm.org.apache.spark.api.java.JavaRDD(rdd, bytes_tag), context, serializer)


def _connected(port: str, secret: str) -> JavaObject:
    from pyspark import java_gateway

    launch: Any = java_gateway.launch_gateway  # which only connects when these are set
    os.environ[_GATEWAY_PORT], os.environ[_GATEWAY_SECRET] = port, secret
    try:
        gateway: JavaObject = launch()
    finally:
        del os.environ[_GATEWAY_PORT], os.environ[_GATEWAY_SECRET]
    guard_converters_of_numpy()
    return gateway


class OfNumpy:
    """Wraps a converter of PySpark so that it is asked about numpy values only.

    Asked about another value, such as an argument of the first call into the JVM, the converter imports PySpark's test helpers to find out whether numpy is
    there, and these import pandas: 0.4 s of each start (``pyspark/sql/types.py``).
    """

    def __init__(self, converter: Any) -> None:
        self._converter = converter

    def can_convert(self, value: object) -> bool:
        kinds = type(value).__mro__
        return any(kind.__module__.partition(".")[0] == "numpy" for kind in kinds) and self._converter.can_convert(
            value
        )

    def convert(self, value: object, client: object) -> JavaObject:
        return self._converter.convert(value, client)


def guard_converters_of_numpy() -> None:
    """Wraps the numpy converters that PySpark has registered at Py4J in ``OfNumpy``."""
    from py4j import protocol
    from pyspark.sql.types import NumpyArrayConverter, NumpyScalarConverter

    converters: list[Any] = protocol.INPUT_CONVERTER
    for place, converter in enumerate(converters):
        if isinstance(converter, NumpyArrayConverter | NumpyScalarConverter):
            converters[place] = OfNumpy(converter)


def _wait_for_gateway(process: subprocess.Popen[bytes], gateway_file: Path, timeout_s: float) -> tuple[int, str]:
    """Waits for the file that the gateway moves into place when it listens; returns its port and secret."""
    gives_up_at = time.monotonic() + timeout_s
    while not gateway_file.exists():
        code = process.poll()
        if code is not None:
            raise ExternalError(f"the JVM ended with exit code {code} before Spark was up")
        if time.monotonic() > gives_up_at:
            process.kill()
            process.wait()
            raise ExternalError(f"the JVM was not up after {timeout_s:g} s (tidegate.start-timeout)")
        time.sleep(_POLL_S)
    content = gateway_file.read_bytes()
    gateway_file.unlink()
    port, length = struct.unpack_from("!ii", content)
    return port, content[8 : 8 + length].decode()
