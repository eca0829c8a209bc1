"""Tools for testing a job: single operators, whole jobs on a cluster that loses processes, and exactly-once results.

    OperatorHarness       a piece of a job in the test's thread: push records and watermarks, fire timers, snapshot, restore
    MiniCluster           a cluster of processes for a test; kills on demand, or at a barrier (``faults``)
    assert_exactly_once   what came out against what had to
    replay                a kept failure of a subtask, run again
    plugin                pytest fixtures: ``pytest_plugins = ["tidegate.testing.plugin"]``

Those that run the real runtime, which this package must not import by itself, are found by name when asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.common.names.finding import ModuleMember
from tidegate.testing.exactly_once import assert_exactly_once

if TYPE_CHECKING:
    from tidegate.cli.embedded.mini_cluster import MiniCluster
    from tidegate.taskmanager.harness.operators import HarnessSnapshot, OperatorHarness
    from tidegate.taskmanager.replaying.for_tests import replay

__all__ = ["HarnessSnapshot", "MiniCluster", "OperatorHarness", "assert_exactly_once", "replay"]

_ELSEWHERE = {
    "HarnessSnapshot": "tidegate.taskmanager.harness.operators:HarnessSnapshot",
    "MiniCluster": "tidegate.cli.embedded.mini_cluster:MiniCluster",
    "OperatorHarness": "tidegate.taskmanager.harness.operators:OperatorHarness",
    "replay": "tidegate.taskmanager.replaying.for_tests:replay",
}


def __getattr__(name: str) -> ModuleMember:
    from tidegate.datastream._graph.executor import own_object

    if name in _ELSEWHERE:
        return own_object(_ELSEWHERE[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
