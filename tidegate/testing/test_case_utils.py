"""Test cases under PyFlink's names (``pyflink.testing.test_case_utils``), so that test suites for PyFlink run here.

    class OrderTests(PyFlinkStreamingTestCase):
        def test_orders(self):
            with self.env.from_collection([1, 2]).execute_and_collect() as results: ...

All test cases of a process share one ``MiniCluster``, which starts with the first job and ends with the process; in PyFlink
each class has a mini cluster of its own.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import sys
import tempfile
import unittest
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

import cloudpickle

from tidegate.common.job_client import JobControl
from tidegate.common.job_execution_result import JobExecutionResult
from tidegate.common.names.java_only import refusing
from tidegate.datastream._graph.executor import Executor, current_executor, installed
from tidegate.datastream.execution_mode import RuntimeExecutionMode
from tidegate.datastream.stream_execution_environment import StreamExecutionEnvironment
from tidegate.model.graph import JobGraph
from tidegate.model.ids import BlobKey
from tidegate.model.values import Record

if TYPE_CHECKING:
    from tidegate.testing import MiniCluster

__all__ = [
    "PyFlinkBatchTestCase",
    "PyFlinkITTestCase",
    "PyFlinkStreamingTestCase",
    "PyFlinkTestCase",
    "PyFlinkUTTestCase",
]

_SLOTS = 16
"""The slots of the shared cluster; unused ones cost nothing."""
_PARALLELISM = 2
"""The parallelism of tests: the least one with an exchange between subtasks."""

__getattr__ = refusing(
    __name__,
    "PyFlinkStreamTableTestCase PyFlinkBatchTableTestCase PythonAPICompletenessTestCase exec_insert_table "
    "invoke_java_object_method to_java_data_structure",
    "it has DataStream programs, not the Table API: use PyFlinkStreamingTestCase, PyFlinkBatchTestCase or PyFlinkUTTestCase",
)


@functools.cache
def _shared_cluster() -> MiniCluster:
    from tidegate.testing import MiniCluster

    cluster = MiniCluster(slots=_SLOTS)
    atexit.register(cluster.close)
    return cluster


class _OnSharedCluster:
    """An ``Executor`` whose cluster starts with its first job, since most tests of an API run none."""

    def execute(self, graph: JobGraph, blobs: Mapping[BlobKey, bytes]) -> JobExecutionResult:
        with self._cluster() as executor:
            return executor.execute(graph, blobs)

    def execute_async(self, graph: JobGraph, blobs: Mapping[BlobKey, bytes]) -> JobControl:
        with self._cluster() as executor:
            return executor.execute_async(graph, blobs)

    @contextmanager
    def _cluster(self) -> Iterator[Executor]:
        with _shared_cluster().installed():
            yield current_executor()


class PyFlinkTestCase(unittest.TestCase):
    """A test case on the shared cluster. ``tempdir``: a directory that is removed with the class."""

    tempdir: ClassVar[str]
    env: StreamExecutionEnvironment

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.tempdir = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.tempdir, ignore_errors=True)
        os.environ["FLINK_TESTING"] = "1"
        module = sys.modules[cls.__module__]  # its functions travel with the job: the cluster need not find the test
        if module.__name__ not in cloudpickle.list_registry_pickle_by_value():
            cloudpickle.register_pickle_by_value(module)
            cls.addClassCleanup(cloudpickle.unregister_pickle_by_value, module)

    def run(self, result: unittest.TestResult | None = None) -> unittest.TestResult | None:
        """Runs the test with the shared cluster as the executor of its programs."""
        with installed(_OnSharedCluster()):
            return super().run(result)

    @classmethod
    def assert_equals(cls, actual: Iterable[Record], expected: Iterable[Record]) -> None:
        """Asserts that both have the same elements, in any order."""
        found, wanted = sorted(actual), sorted(expected)
        assert found == wanted, f"{found} is not {wanted}"


class PyFlinkUTTestCase(PyFlinkTestCase):
    """A test case with a new ``env`` for each test."""

    def setUp(self) -> None:
        super().setUp()
        self.env = _environment(RuntimeExecutionMode.STREAMING)


class PyFlinkITTestCase(PyFlinkTestCase):
    """A test case with one ``env`` for all tests of the class."""

    mode: ClassVar[RuntimeExecutionMode] = RuntimeExecutionMode.STREAMING

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        with installed(_OnSharedCluster()):
            cls.env = _environment(cls.mode)


class PyFlinkStreamingTestCase(PyFlinkITTestCase):
    """A test case whose environment runs in streaming mode."""

    mode = RuntimeExecutionMode.STREAMING


class PyFlinkBatchTestCase(PyFlinkITTestCase):
    """A test case whose environment runs in batch mode."""

    mode = RuntimeExecutionMode.BATCH


def _environment(mode: RuntimeExecutionMode) -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(_PARALLELISM)
    return env.set_runtime_mode(mode)
