"""The JVM of a Spark driver, started by us rather than by PySpark, which would fork this process with all its threads.

``PySpark`` forks to let the JVM ignore Ctrl-C, and a fork runs gRPC's handlers while its threads are busy. A session of its own does
the same without a fork. The JVM ends when its standard input closes (Spark's ``PythonGatewayServer``), which it looks at only when it is up;
on Linux the kernel ends it, at any moment, with the thread that has started it.
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
"""An object of the JVM as Py4J shows it: a method is looked for when it is called."""

STOP_TIMEOUT_S = 3.0
"""Chosen, not measured: afterwards it is killed."""
_POLL_S = 0.02
"""Chosen, not measured: small beside the seconds in which a JVM starts."""
_GATEWAY_PORT, _GATEWAY_SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
"""Where PySpark looks for a gateway that runs."""
_QUICK = "-XX:-UsePerfData -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Flags of the small JVM that only puts together the command line of the real one."""


class Jvm(Protocol):
    """One JVM with a Py4J gateway in it."""

    @property
    def pid(self) -> int: ...
    def is_alive(self) -> bool: ...
    def connect(self) -> JavaObject:
        """A Py4J gateway, with PySpark's imports."""

    def stop(self) -> bool:
        """End it; whether it ended by itself. Returns when it is gone."""

    def kill(self) -> None: ...


class OwnJvm:
    """A child of this process."""

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

    def stop(self) -> bool:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        return True

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class ParentJvm:
    """The one that started this process: `spark-submit` in cluster mode runs the driver's JVM in a container of the cluster, and that runs Python. It says
    in the environment where its gateway is (Spark: ``PythonRunner.scala``), and ends when this process has."""

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

    def stop(self) -> bool:
        return True

    def kill(self) -> None:
        """It notices how this process ends, and lets the cluster start another one, or not."""


Began = Callable[["subprocess.Popen[bytes]"], None]
"""Told of the process as soon as there is one, long before the JVM is up: it can be ended from then on."""


def start_jvm(properties: Mapping[str, str], directory: Path, log_file: Path, began: Began, timeout_s: float) -> OwnJvm:
    """Start it in ``directory`` with its output in ``log_file``, from a thread that lives as long as it shall. Raises ``ExternalError``
    when it ends or hangs."""
    from pyspark.find_spark_home import _find_spark_home

    find_home: Any = _find_spark_home
    file = directory / "spark.properties"
    write_properties(properties, file)
    # Besides spark-defaults.conf, as `--conf` would be read.
    command = [str(Path(find_home(), "bin", "spark-submit")), "--load-spark-defaults", "--properties-file", str(file)]
    told = directory / "gateway"
    environment = {**os.environ, "SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(told)}
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
    began(process)
    port, secret = _wait_for_gateway(process, told, timeout_s)
    return OwnJvm(process, port, secret)


def write_properties(properties: Mapping[str, str], file: Path) -> None:
    """Writes a file of Java properties that this user alone can read: a command line is visible to everybody on the machine."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="ascii") as target:
        for key, value in properties.items():
            target.write(f"{_escaped(key)}={_escaped(value)}\n")


def _escaped(text: str) -> str:
    """As ``java.util.Properties.load`` reads it."""
    units = text.encode("utf-16-be")
    letters = (int.from_bytes(units[i : i + 2], "big") for i in range(0, len(units), 2))
    return "".join(chr(c) if (chr(c).isalnum() and c < 128) or chr(c) in "._-/" else f"\\u{c:04x}" for c in letters)


def discard(served: JavaObject) -> None:
    """Read the (empty) result, so that the JVM's serving thread ends too."""
    from pyspark.serializers import NoOpSerializer
    from pyspark.util import _load_from_socket

    with _load_from_socket(served, NoOpSerializer()) as rows:
        for _ in rows:
            pass


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a JVM that may still be the scripts that start it, at once, with all that these run."""
    with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
        os.killpg(process.pid, signal.SIGKILL)


def placed_rdd(context: SparkContext, partitions: int, location: str) -> RDD[object]:
    """Partitions with a place: Spark runs them on the executor that is named, as long as that is there and has a core free within
    ``spark.locality.wait.process``. Each partition has one element that means nothing: ``SparkContext.makeRDD`` gives a place to elements only. ``location``:
    ``executor_<host>_<executor id>`` (Spark: ``TaskLocation.scala``)."""
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
    """A converter of PySpark's that is asked for values of numpy only. Asked for any other, as for each argument of the first call into the JVM, it imports
    PySpark's helpers of tests to find out whether there is a numpy, and they import pandas: 0.4 s of each start (``pyspark/sql/types.py``)."""

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
    """Put ``OfNumpy`` around those that PySpark has registered at Py4J."""
    from py4j import protocol
    from pyspark.sql.types import NumpyArrayConverter, NumpyScalarConverter

    converters: list[Any] = protocol.INPUT_CONVERTER
    for place, converter in enumerate(converters):
        if isinstance(converter, NumpyArrayConverter | NumpyScalarConverter):
            converters[place] = OfNumpy(converter)


def _wait_for_gateway(process: subprocess.Popen[bytes], told: Path, timeout_s: float) -> tuple[int, str]:
    """Port and secret of the gateway, from the file that it moves into place when it listens."""
    gives_up_at = time.monotonic() + timeout_s
    while not told.exists():
        code = process.poll()
        if code is not None:
            raise ExternalError(f"the JVM ended with exit code {code} before Spark was up")
        if time.monotonic() > gives_up_at:
            process.kill()
            process.wait()
            raise ExternalError(f"the JVM was not up after {timeout_s:g} s (tidegate.start-timeout)")
        time.sleep(_POLL_S)
    content = told.read_bytes()
    told.unlink()
    port, length = struct.unpack_from("!ii", content)
    return port, content[8 : 8 + length].decode()
