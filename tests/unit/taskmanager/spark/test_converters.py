"""What PySpark asks of each argument of a call into the JVM: it imports neither pandas nor PySpark's helpers of tests."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from tidegate.taskmanager.spark.jvm import OfNumpy

ASK_ALL = """
import sys
from py4j import protocol
from tidegate.taskmanager.spark.jvm import guard_converters_of_numpy
guard_converters_of_numpy()
def first(value):
    return next((type(found).__name__ for found in protocol.INPUT_CONVERTER if found.can_convert(value)), None)
print(first("text"), "pandas" in sys.modules)
import numpy as np
print(first(np.arange(3)), first(np.int64(3)))
"""


class Willing:
    """Converts everything, and notes what it was asked."""

    def __init__(self) -> None:
        self.requests: list[object] = []

    def can_convert(self, value: object) -> bool:
        self.requests.append(value)
        return True

    def convert(self, value: object, client: object) -> object:
        return value, client


class Measured(np.ndarray):
    """A user's own kind of array."""


def test_only_values_of_numpy_reach_the_converter() -> None:
    inner = Willing()
    converter = OfNumpy(inner)
    assert not any(converter.can_convert(value) for value in ("text", 1, 2.5, None, [1], {"a": 1}, object()))
    assert inner.requests == []
    own = np.arange(2).view(Measured)
    assert converter.can_convert(np.float32(1))
    assert converter.can_convert(np.arange(2))
    assert converter.can_convert(own)
    given, client = converter.convert(own, "client")
    assert given is own
    assert client == "client"
    assert len(inner.requests) == 3


def test_pyspark_s_own_are_asked_without_importing_pandas() -> None:
    done = subprocess.run([sys.executable, "-c", ASK_ALL], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == ["None False", "OfNumpy OfNumpy"]
