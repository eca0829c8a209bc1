"""A test suite written with PyFlink's test cases runs after its imports are replaced; here its jobs run in this process."""

from __future__ import annotations

import unittest
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.unit.docs.test_guides import InThisProcess
from tidegate.common import Configuration, Row, Types
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream._graph.executor import installed
from tidegate.datastream.tests.test_util import DataStreamTestSinkFunction, SecondColumnTimestampAssigner
from tidegate.testing import test_case_utils
from tidegate.testing.test_case_utils import PyFlinkBatchTestCase, PyFlinkStreamingTestCase, PyFlinkUTTestCase
from tidegate.util.java_utils import get_j_env_configuration

PAIR = Types.ROW([Types.STRING(), Types.INT()])


class Suite(PyFlinkStreamingTestCase):
    __test__ = False  # by the tests below

    def test_sums(self) -> None:
        sink = DataStreamTestSinkFunction()
        pairs = self.env.from_collection([("a", 1), ("b", 2), ("a", 3)], PAIR)
        pairs.key_by(lambda pair: pair[0], Types.STRING()).sum(1).add_sink(sink)
        self.env.execute("sums")
        self.assert_equals(sink.get_results(), ["+I[a, 1]", "+I[a, 4]", "+I[b, 2]"])
        assert sink.get_results() == []

    def test_objects(self) -> None:
        sink = DataStreamTestSinkFunction()
        self.env.from_collection([("a", 1)], PAIR).add_sink(sink)
        self.env.execute("objects")
        assert sink.get_results(is_python_object=True, stringify=False) == [Row("a", 1)]
        assert self.env.get_parallelism() == 2
        assert Path(self.tempdir).is_dir()


class BatchSuite(PyFlinkBatchTestCase):
    __test__ = False

    def test_one_result_for_each_key(self) -> None:
        sink = DataStreamTestSinkFunction()
        pairs = self.env.from_collection([("a", 1), ("b", 2), ("a", 3)], PAIR)
        pairs.key_by(lambda pair: pair[0], Types.STRING()).sum(1).add_sink(sink)
        self.env.execute("sums")
        self.assert_equals(sink.get_results(), ["+I[a, 4]", "+I[b, 2]"])


class PlanSuite(PyFlinkUTTestCase):
    __test__ = False

    def test_a_plan_needs_no_cluster(self) -> None:
        self.env.from_collection([1, 2]).print()
        assert "Collection Source" in self.env.get_execution_plan()
        assert SecondColumnTimestampAssigner().extract_timestamp(("a", "7"), 0) == 7


class FakeCluster:
    """Each job has a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.jobs = 0

    @contextmanager
    def installed(self) -> Iterator[None]:
        self.jobs += 1
        own = self._directory / str(self.jobs)
        own.mkdir()
        executor: Any = InThisProcess(own)
        with installed(executor):
            yield


@pytest.mark.parametrize(("suite", "jobs"), [(Suite, 2), (BatchSuite, 1), (PlanSuite, 0)])
def test_a_suite_runs(
    suite: type[unittest.TestCase], jobs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = FakeCluster(tmp_path)
    monkeypatch.setattr(test_case_utils, "_shared_cluster", lambda: cluster)
    monkeypatch.setenv("FLINK_TESTING", "0")
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(suite).run(result)
    assert result.testsRun > 0
    assert result.errors + result.failures == []
    assert cluster.jobs == jobs


def test_settings_of_an_environment_have_javas_names() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    java = get_j_env_configuration(env._j_stream_execution_environment)
    java.setString("pipeline.name", "orders")
    java.setInteger("parallelism.default", 3)
    assert env.get_parallelism() == 3
    assert Configuration(j_configuration=java).get_string("pipeline.name", "") == "orders"
    assert java.containsKey("pipeline.name")
    with pytest.raises(AttributeError, match="no configuration of Java"):
        java.getOptional("pipeline.name")
