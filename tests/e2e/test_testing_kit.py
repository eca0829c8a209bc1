"""``tidegate.testing`` as a user has it: jobs on a cluster of the test's own, with faults on purpose, by the pytest plugin."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e

USERS_TEST = """
import pytest
from pathlib import Path
from tidegate.common import Types
from tidegate.common.watermark_strategy import WatermarkStrategy
from tidegate.connectors.file_sink import FileSink
from tidegate.connectors.number_sequence import NumberSequenceSource
from tidegate.connectors.throttle import ThrottledSource
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.testing import assert_exactly_once

COUNT = 6_000


def numbers_to(directory):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.enable_checkpointing(100)
    source = ThrottledSource(NumberSequenceSource(1, COUNT), 3_000)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    sink = FileSink.for_csv(str(directory))
    numbers.key_by(lambda n: n, Types.LONG()).map(lambda n: (n,), Types.ROW_NAMED(["n"], [Types.LONG()])).sink_to(sink)
    return env


def written(directory):
    files = [path for path in Path(directory).rglob("part-*") if not path.name.startswith(".")]
    return [int(line) for path in files for line in path.read_text().split() if line.strip('"').isdigit()]


@pytest.mark.tidegate(taskmanagers=1, slots=1, faults=["kill@3", "delay-edge:5ms"],
                      configuration={"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "0 s"})
def test_a_kill_at_a_barrier(tidegate_cluster, tmp_path):
    client = numbers_to(tmp_path).execute_async("numbers")
    client.get_job_execution_result().result()
    assert tidegate_cluster.restarts(client) >= 1
    assert_exactly_once(range(1, COUNT + 1), written(tmp_path))


def test_kills_on_demand(tidegate_cluster, tmp_path):
    client = numbers_to(tmp_path).execute_async("numbers")
    tidegate_cluster.wait_for_checkpoints(client, 2)
    tidegate_cluster.kill_subtask()
    tidegate_cluster.wait_until(lambda: tidegate_cluster.restarts(client) >= 1, "a restart")
    client.get_job_execution_result().result()
    assert_exactly_once(range(1, COUNT + 1), written(tmp_path))
"""


def test_a_users_tests_pass(pytester: pytest.Pytester) -> None:
    pytester.makeconftest('pytest_plugins = ["tidegate.testing.plugin"]')
    pytester.makepyfile(textwrap.dedent(USERS_TEST))
    result = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider", timeout=240)
    result.assert_outcomes(passed=2)


def test_a_mark_that_says_nothing_known(pytester: pytest.Pytester) -> None:
    pytester.makeconftest('pytest_plugins = ["tidegate.testing.plugin"]')
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.tidegate(workers=3)
        def test_it(tidegate_cluster): ...
        """
    )
    result = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider", timeout=60)
    assert "not ['workers']" in result.stdout.str()
    assert Path(pytester.path).is_dir()
