"""Operator state of user functions, read without the job's classes: typed elements, entries, pickled objects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.unit.cli.test_commands import tidegate
from tidegate.common import Row, Types
from tidegate.functions.state import ListStateDescriptor, MapStateDescriptor
from tidegate.model.checkpoint import CheckpointManifest, OperatorState, SnapshotType
from tidegate.model.ids import CheckpointId, JobId, OperatorId
from tidegate.state_reader import compare, open_checkpoint
from tidegate.store.checkpoints import CheckpointStorage
from tidegate.store.segments import InlineSegmentStore
from tidegate.taskmanager.state.function_state import FunctionStateBackend


class Secret:
    """A class that readers do not have."""


def savepoint(directory: Path, numbers: list[int], rules: dict[str, float]) -> str:
    backend = FunctionStateBackend("gather", 0)
    backend.get_list_state(ListStateDescriptor("numbers", Types.LONG())).update(numbers)
    rows = ListStateDescriptor("rows", Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()]))
    backend.get_union_list_state(rows).add(Row(a=1, b="x"))
    backend.get_list_state(ListStateDescriptor("objects", Types.PICKLED_BYTE_ARRAY())).update([Secret(), [1, 2]])
    backend.get_broadcast_state(MapStateDescriptor("rules", Types.STRING(), Types.DOUBLE())).put_all(rules)
    frozen = backend.freeze()
    assert frozen is not None
    operator = OperatorId("a" * 32)
    state = OperatorState(operator, "gather", "Gather", 1, 128, {0: frozen.write(InlineSegmentStore())})
    manifest = CheckpointManifest(JobId("f" * 32), "job", CheckpointId(3), 0, SnapshotType.SAVEPOINT, (state,))
    directory.mkdir()
    assert CheckpointStorage().write_manifest(str(directory), manifest).error is None
    return str(directory)


def shown(path: str, name: str) -> list[Any]:
    result = tidegate("state", "show", path, "--operator", "gather", "--name", name, "--format", "json")
    assert result.exit_code == 0, result.output
    return [json.loads(line)["element"] for line in result.stdout.splitlines()]


def test_elements_are_read_in_their_type(tmp_path: Path) -> None:
    path = savepoint(tmp_path / "sp", [3, 4], {"low": 0.5})
    checkpoint = open_checkpoint(path)
    assert checkpoint.table("gather", "numbers").column("element").type == pa.int64()
    assert checkpoint.table("gather", "rules").column("element").to_pylist() == [{"key": "low", "value": 0.5}]
    assert shown(path, "numbers") == [3, 4]
    assert shown(path, "rows") == [{"a": 1, "b": "x"}]
    assert shown(path, "rules") == [{"key": "low", "value": 0.5}]
    secret, plain = shown(path, "objects")
    assert secret["type"].endswith("test_function_state.Secret")
    assert plain == [1, 2]
    listed = tidegate("state", "list", path).stdout
    rows = [line.split()[:4] for line in listed.splitlines()]
    assert ["numbers", "list", "SPLIT", "2"] in rows
    assert ["rows", "union", "UNION", "1"] in rows
    assert ["rules", "broadcast", "BROADCAST", "1"] in rows
    table = tidegate("state", "show", path, "--operator", "gather", "--name", "rules").stdout
    assert '{"key": "low", "value": 0.5}' in table


def test_elements_are_compared_by_value(tmp_path: Path) -> None:
    first = savepoint(tmp_path / "a", [3, 4, 4], {"low": 0.5})
    second = savepoint(tmp_path / "b", [4, 5], {"low": 0.75})
    found = {d.state: d for d in compare(open_checkpoint(first), open_checkpoint(second))}
    assert (found["numbers"].added, found["numbers"].removed) == (1, 2)
    assert found["numbers"].added_examples == [{"element": 5}]
    assert found["rules"].removed_examples == [{"element": {"key": "low", "value": 0.5}}]
    assert found["rows"].is_same
