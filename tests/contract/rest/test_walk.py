"""Every recorded answer of a real Flink cluster, beside ours to the same request: the same keys, the same types.

The recordings are of Flink 2.3.0, each with its request in the first line. Ids are exchanged for those of a machine that was
driven to the same point: a running job with two vertices, some checkpoints completed.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.contract.rest.asking import Client
from tests.unit.jobmanager.machines.cluster_kit import JOB, vertex_id

RECORDINGS = sorted((Path(__file__).parent / "recordings").glob("*.json"))
FIRST_LINE = re.compile(r"// (\S+) (\S+) -> (\d+)")
JOB_IN_RECORDINGS = "64635b5871a6759f4ff72d9ab2bd2ee5"
VERTICES = {"cbc357ccb763df2852fee8c4fc7d55f2": "source", "90bea66de1c231edf33913ecd54406c1": "sink"}
TASK_MANAGER = "localhost:37113-b453b4"
CHECKPOINT = re.compile(r"/checkpoints/details/18\b")

MAY_BE_NULL = re.compile(r"\.(hardware|memoryConfiguration)\.\w+$")
"""Sizes that the JobManager does not know; Flink's client takes ``null`` there."""


def recording(path: Path) -> tuple[str, str, int, Any]:
    first, _, body = path.read_text(encoding="utf-8").partition("\n")
    found = FIRST_LINE.match(first)
    assert found is not None, first
    return found[1], found[2], int(found[3]), json.loads(body)


def ours(path: str) -> str:
    path = CHECKPOINT.sub("/checkpoints/details/2", path.replace(JOB_IN_RECORDINGS, JOB).replace(TASK_MANAGER, "tm-1"))
    for recorded, name in VERTICES.items():
        path = path.replace(recorded, vertex_id(name))
    return path


@pytest.mark.parametrize("prefix", ["", "/v1"])
@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in RECORDINGS])
async def test_same_keys_and_types(path: Path, prefix: str, client: Client) -> None:
    method, url, status, expected = recording(path)
    answer = await client.request(method, prefix + ours(url))
    assert answer.headers["content-type"] == "application/json; charset=UTF-8"
    assert "access-control-allow-origin" not in answer.headers
    body = json.loads(await answer.read(), parse_constant=_refused)
    assert answer.status == status, body
    assert differences(expected, body) == []


def test_a_difference_is_seen() -> None:
    expected = {"a": 1, "b": {"c": 1.5, "d": None}, "e": [{"f": "x"}]}
    assert differences(expected, {"a": 2, "b": {"c": "NaN", "d": 3}, "e": []}) == []
    assert differences(expected, {"a": 2.0, "b": {"c": 1, "d": 3}, "e": [{"f": None}]}) == [
        ".a: int, not float",
        ".b.c: float, not int",
        ".e[].f: str, not null",
    ]
    assert differences(expected, {"a": True, "b": {"c": 1.0, "d": 0, "x": 1}, "e": [{}]}) == [
        ".a: int, not bool",
        ".b: has x",
        ".e[]: lacks f",
    ]


def differences(expected: Any, found: Any, where: str = "") -> list[str]:
    """Where the shape of ``found`` is not that of ``expected``. ``null`` in a recording says nothing about the type."""
    if expected is None or (found is None and MAY_BE_NULL.search(where)):
        return []
    if isinstance(expected, dict) and isinstance(found, dict):
        return _of_objects(expected, found, where)
    if isinstance(expected, list) and isinstance(found, list):
        shapes = {_discriminator(item): item for item in expected}
        return [
            difference
            for item in found
            if shapes
            for difference in differences(shapes.get(_discriminator(item), expected[0]), item, f"{where}[]")
        ]
    if _kind(expected) == _kind(found):
        return []
    return [f"{where}: {_kind(expected)}, not {_kind(found)}"]


def _of_objects(expected: dict[str, Any], found: dict[str, Any], where: str) -> list[str]:
    if _is_keyed_by_id(expected):
        return differences(list(expected.values()), list(found.values()), where)
    lacking = sorted(expected.keys() - found.keys())
    more = sorted(found.keys() - expected.keys())
    told = [f"{where}: lacks {', '.join(lacking)}"] if lacking else []
    told += [f"{where}: has {', '.join(more)}"] if more else []
    for key in expected.keys() & found.keys():
        told += differences(expected[key], found[key], f"{where}.{key}")
    return sorted(told)


def _is_keyed_by_id(value: dict[str, Any]) -> bool:
    return bool(value) and all(re.fullmatch(r"[0-9a-f]{32}", key) for key in value)


def _discriminator(item: Any) -> Any:
    """Items of one list may have several shapes, told apart by ``className``, or by having inputs or a value."""
    if not isinstance(item, dict):
        return None
    return (item.get("className"), "inputs" in item)


def _kind(value: Any) -> str:
    """``NaN`` as a text is a float: Flink's mapper writes it so."""
    if value in ("NaN", "Infinity"):
        return "float"
    return "null" if value is None else type(value).__name__


def _refused(constant: str) -> Any:
    raise AssertionError(f"{constant} is no JSON")
