"""Machines keep their state to themselves, and can say what must hold of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.architecture.source import ROOT, tree_of
from tests.invariants import EVENTS

FILES = sorted(path for folder in ("jobmanager", "taskmanager") for path in (ROOT / folder / "machines").rglob("*.py"))
SNAPSHOTS = sorted((ROOT / "taskmanager" / "runtime" / "checkpointing").glob("*.py"))
"""What drives the machines of snapshots keeps to the same rule: a second thread reports to one of them."""

WITHOUT_INVARIANTS = {
    "CheckpointCommands": "builds commands",
    "CheckpointStatistics": "only shown; its count is compared by the coordinator",
    "_Remarkable": "only shown",
    "Deployments": "builds commands; what it holds is computed from the graph",
    "Attempts": "decides by the executions, which check themselves",
    "Restoring": "hands manifests to executions",
    "StateAssignment": "computed from a manifest once",
    "ChannelAssignment": "computed from a manifest once",
    "Regions": "computed from the graph once",
    "SlotSharing": "computed from the graph once",
    "PeriodicSchedule": "one number: when it triggers next",
    "SplitMix64": "every number is a state",
    "WorkRate": "two sums of measurements",
    "Allocation": "a record of the pool",
    "_Record": "a record of the statistics",
    "FailureReason": "a value",
    "_Summary": "a record of the statistics",
}


def _classes(path: Path) -> Iterator[ast.ClassDef]:
    return (node for node in ast.walk(tree_of(path)) if isinstance(node, ast.ClassDef))


def _written(node: ast.AST, *, by_self: bool) -> set[str]:
    return {
        part.attr
        for part in ast.walk(node)
        if isinstance(part, ast.Attribute)
        and isinstance(part.ctx, ast.Store)
        and (isinstance(part.value, ast.Name) and part.value.id == "self") == by_self
    }


def _declared(path: Path) -> set[str]:
    """Fields of the classes of a module."""
    found: set[str] = set()
    for kind in _classes(path):
        found |= _written(kind, by_self=True)
        found |= {n.target.id for n in kind.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}
    return found


PAIRS = {
    "AsyncWaitQueue": "taskmanager/machines/test_async_wait_pairs.py",
    "BarrierHandler": "taskmanager/machines/test_barrier_states.py",
    "Dispatcher": "jobmanager/machines/test_dispatcher_pairs.py",
    "ExactlyOnceBarrierHandler": "taskmanager/machines/test_barrier_states.py",
    "FencedWrites": "jobmanager/machines/test_fenced_write_pairs.py",
    "JobStatusHistory": "jobmanager/machines/job/test_job_life.py",
    "Leadership": "jobmanager/machines/test_leadership.py",
    "Lease": "tidegate/high_availability/test_lease_pairs.py",
    "PendingCheckpoint": "jobmanager/machines/checkpoint/test_pending_checkpoint.py",
    "SlotTable": "taskmanager/machines/test_slots.py",
    "SnapshotCoordinator": "taskmanager/machines/test_snapshot_pairs.py",
    "SnapshotWrite": "taskmanager/machines/test_snapshot_write_pairs.py",
    "SubtaskLifecycle": "taskmanager/machines/test_subtask.py",
    "TaskManagerMachine": "taskmanager/machines/test_task_manager_pairs.py",
    "TaskTable": "taskmanager/machines/test_tasks.py",
    "TrackingHandler": "taskmanager/machines/test_tracker_pairs.py",
    "WatermarkGroups": "jobmanager/machines/job/test_watermark_groups.py",
    "WatermarkValve": "taskmanager/machines/test_watermark_pairs.py",
    "Workers": "jobmanager/machines/resources/test_worker_pairs.py",
}
"""Where every state of a machine meets every event, below ``tests/unit``. Groups of watermarks have one event."""


@pytest.mark.parametrize("path", [*FILES, *SNAPSHOTS], ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_module_writes_only_fields_of_its_own_classes(path: Path) -> None:
    assert _written(tree_of(path), by_self=False) <= _declared(path)


def _machines() -> Iterator[ast.ClassDef]:
    """Classes that change themselves after their construction."""
    for path in FILES:
        for kind in _classes(path):
            methods = [node for node in kind.body if isinstance(node, ast.FunctionDef)]
            if any(method.name == "__init__" for method in methods):
                yield kind


def test_every_machine_checks_its_invariants() -> None:
    without = {
        kind.name
        for kind in _machines()
        if not any(isinstance(n, ast.FunctionDef) and n.name == "check_invariants" for n in kind.body)
    }
    assert without - WITHOUT_INVARIANTS.keys() == set()


def test_every_machine_has_a_test_of_all_pairs() -> None:
    lease = ROOT / "tidegate" / "high_availability" / "object_store" / "lease.py"
    assert set(_with_events([*FILES, lease])) <= PAIRS.keys()
    files = {name: (ROOT / "tests" / "unit" / file).read_text(encoding="utf-8") for name, file in PAIRS.items()}
    without = {
        name for name, text in files.items() if not re.search(r"def test_(every|everything|the_table_has_every)_", text)
    }
    assert without == {"WatermarkGroups"}
    assert [name for name, text in files.items() if name not in text and name != "BarrierHandler"] == []


def test_tests_and_simulators_check_every_machine_that_events_enter() -> None:
    within = {"JobStatusHistory", "WatermarkGroups", "SlotTable", "TaskTable", "BarrierHandler"}
    """Checked by what holds them (the last is the protocol)."""
    assert set(_with_events(FILES)) - within <= {machine.__name__ for machine in EVENTS}


def _with_events(files: Iterable[Path]) -> Iterator[str]:
    for path in files:
        for kind in _classes(path):
            if any(isinstance(n, ast.FunctionDef) and n.name == "on" for n in kind.body):
                yield kind.name
