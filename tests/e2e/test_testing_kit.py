"""``tidegate.testing`` as a user has it: jobs on a cluster of the test's own, with faults on purpose, by the pytest plugin."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from tests.e2e.waiting import HANG_LIMIT_S, wait_until
from tidegate.aio.working_directories import sweep_dead

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
    result = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider", timeout=HANG_LIMIT_S)
    assert "not ['workers']" in result.stdout.str()
    assert Path(pytester.path).is_dir()


def test_nothing_is_left_of_a_test_that_is_killed(tmp_path: Path) -> None:
    script = """
import signal
from tidegate.testing import MiniCluster
with MiniCluster() as cluster:
    print(cluster.directory, flush=True)
    signal.pause()
"""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=environment) as test:
        assert test.stdout is not None
        directory = Path(test.stdout.readline().strip())
        assert directory.parent == tmp_path
        family = psutil.Process(test.pid).children(recursive=True)
        test.kill()
    wait_until(lambda: not any(is_alive(process) for process in family), HANG_LIMIT_S, lambda: f"{family} end")

    def is_swept() -> bool:
        sweep_dead(tmp_path)  # as every process that starts does
        return not list(tmp_path.iterdir())

    wait_until(is_swept, HANG_LIMIT_S, "its directories go")


def is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
