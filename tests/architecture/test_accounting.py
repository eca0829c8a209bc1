"""A run of tests on several workers that ended early is no run that failed: CI repeats what failed, and the rest would never have run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.accounting import Gatherer


def ended(ran: list[str], exitstatus: pytest.ExitCode) -> int:
    """With which status a run of the tests a, b and c ends."""
    gatherer = Gatherer(cast(Any, None))
    gatherer.pytest_xdist_node_collection_finished(["a", "b", "c"])
    for name in ran:
        gatherer.pytest_runtest_logreport(cast(Any, SimpleNamespace(nodeid=name, when="call", user_properties=[])))
    session = SimpleNamespace(exitstatus=exitstatus)
    gatherer.pytest_sessionfinish(cast(Any, session))
    return int(session.exitstatus)


@pytest.mark.parametrize(
    ("ran", "exitstatus", "found"),
    [
        (["a", "b", "c"], pytest.ExitCode.OK, pytest.ExitCode.OK),
        (["a", "b", "c"], pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.TESTS_FAILED),
        (["a", "c"], pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED),
        ([], pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.USAGE_ERROR),
    ],
)
def test_a_run_that_left_tests_out_is_interrupted(
    ran: list[str], exitstatus: pytest.ExitCode, found: pytest.ExitCode
) -> None:
    assert ended(ran, exitstatus) == found
