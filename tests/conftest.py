"""What holds for all tests: the folder decides the marker and the time limit, hypothesis has no deadline."""

from __future__ import annotations

import faulthandler
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.servers import class_archive
from tests.servers.class_archive import QUICK_JVM
from tests.servers.versitygw import BUILD_LIMIT_S
from tests.unit.taskmanager.runtime import collecting

pytest_plugins = ["pytester", "tests.accounting", "tests.lanes", "tests.browser.chromium", "tests.servers.fixtures"]

TESTS = Path(__file__).parent
E2E_TIMEOUT_S = 600
SIM_TIMEOUT_S = 3000
"""Against hanging only: it runs at a low priority beside tests that start processes. On a machine with a load of 24 a
schedule of 13 s took more than 1,200 s."""
EXIT_TIMEOUT_S = 60
PROCESSES = ("e2e", "browser", "conformance", "lakehouse")
"""The folders of tests with the mark `e2e`: `.ci/test` looks for them nowhere else, and `.ci/versions` runs the last."""
LONGEST = (
    "e2e/test_commands.py",
    "e2e/test_task_manager_process.py",
    "e2e/test_kills.py",
    "e2e/test_process_life.py",
    "e2e/pages/test_tutorial.py",
    "e2e/test_aimed_kills.py",
    "e2e/test_high_availability.py",
    "e2e/test_kafka.py",
    "e2e/failover/test_struck_leaders.py",
    "e2e/test_kafka_source.py",
    "e2e/test_spark_stream_sources.py",
    "conformance/test_kafka_open_transactions.py",
    "conformance/test_kafka_sink.py",
    "conformance/test_postgres_sink.py",
    "e2e/test_workers.py",
    "e2e/test_savepoints.py",
    "e2e/test_rocksdb.py",
    "e2e/checkpoints/test_ends_of_jobs.py",
    "e2e/test_testing_kit.py",
    "e2e/test_one_cluster.py",
    "browser/test_own_page.py",
    "e2e/test_pyflink_examples.py",
    "e2e/test_enumerated_source.py",
    "e2e/test_spark_cluster.py",
    "e2e/test_spark_streams.py",
    "e2e/test_hybrid_source.py",
    "e2e/test_windows.py",
    "e2e/pages/test_guides.py",
    "e2e/test_spark_reads.py",
    "e2e/test_shared_files.py",
    "e2e/test_flink_cli.py",
)
"""Files that begin, so that no worker is alone with one of them in the end. Behind them comes the simulator: a worker that has run everything
else has a heap of a gigabyte, which its garbage collector walks through while worlds come and go, and takes half as long again."""

# CI repeats the same examples, so that a change is judged by what it changed; `make soak` looks for new ones.
settings.register_profile("tidegate", deadline=None, print_blob=True, derandomize=True)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.load_profile("tidegate")


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell lets what it runs in the background ignore Ctrl-C, and children would inherit that; some tests press it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what lies in `e2e/` and `sim/`, and give it the time it needs unless it asks for its own."""
    ranks: dict[pytest.Item, int] = {}
    for item in items:
        name = item.path.relative_to(TESTS).as_posix() if item.path.is_relative_to(TESTS) else ""
        folder = name.partition("/")[0]
        if "gateway" in getattr(item, "fixturenames", ()) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(E2E_TIMEOUT_S + BUILD_LIMIT_S))  # the first one builds the server
        ranks[item] = LONGEST.index(name) if name in LONGEST else len(LONGEST) + (folder != "sim")
        if item.get_closest_marker("e2e") and folder not in PROCESSES:
            raise pytest.UsageError(f"{item.nodeid} is an e2e test: CI looks for these in {', '.join(PROCESSES)}")
        if folder not in ("e2e", "sim"):
            continue
        item.add_marker(folder)
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(E2E_TIMEOUT_S if folder == "e2e" else SIM_TIMEOUT_S))
    items.sort(key=ranks.__getitem__)


@pytest.fixture(scope="session", autouse=True)
def _home_of_clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Embedded clusters of tests keep their files where pytest removes them, not in the home of who runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDEGATE_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(autouse=True)
def _what_jobs_collected() -> Iterator[None]:
    yield
    collecting.forget_all()


@pytest.fixture(scope="session", autouse=True)
def _quick_jvms() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(
            "SPARK_SUBMIT_OPTS", f"{class_archive.options()} {os.environ.get('SPARK_SUBMIT_OPTS', '')}".strip()
        )
        patch.setenv("TIDEGATE_SPARK_CLASS_ARCHIVE", "false")  # they have the archive of the environment
        # With -Xshare, even as it is by default, no TaskManager has an archive made after its test.
        patch.setenv("JDK_JAVA_OPTIONS", f"{QUICK_JVM} -Xshare:auto {os.environ.get('JDK_JAVA_OPTIONS', '')}".strip())
        yield


def pytest_unconfigure(config: pytest.Config) -> None:
    """A run that is done but does not end says where its threads are, and fails: a gRPC server that a test forgot keeps the
    interpreter from ending, and who waits for the run would learn nothing. A worker that is done waits for the others, and is ended then."""
    if not hasattr(config, "workerinput"):
        faulthandler.dump_traceback_later(EXIT_TIMEOUT_S, exit=True)
